"""Customers: who buys, and what they bought."""

from aiohttp import web

from backhaul_reference.dashboard.visit import STORE, Route, Visit
from backhaul_reference.state import customers, order_views
from backhaul_reference.state.paging import Window

RECENT = Window(1, 20)


async def show_customers(visit: Visit) -> web.Response:
    email = visit.query.get("email", "").strip().casefold() or None
    window = visit.window()
    filters = {"email_key": email}
    listing = visit.read(
        lambda rows: customers.page(rows, visit.store, filters, window)
    )
    return visit.render("customers.html", listing=listing, window=window)


async def show_customer(visit: Visit) -> web.Response:
    store, customer_id = visit.store, visit.path("id")
    customer = visit.read(lambda rows: customers.view(rows, store, customer_id))
    filters: dict[str, str | None] = {"customer_id": customer_id}
    orders = visit.read(lambda rows: order_views.page(rows, store, filters, RECENT))
    return visit.render("customers_one.html", customer=customer, orders=orders)


ROUTES = (
    Route("GET", STORE + "/customers", show_customers),
    Route("GET", STORE + "/customers/{id}", show_customer),
)
