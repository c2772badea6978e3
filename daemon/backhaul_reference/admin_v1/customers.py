"""/api/v1/customers."""

from aiohttp import web

from backhaul_reference.admin_v1.customer_bodies import ChangedCustomer, NewCustomer
from backhaul_reference.state import customer_changes, customers
from backhaul_reference.state.writer import Tx
from backhaul_reference.web import queries
from backhaul_reference.web.answers import data_answer, page_answer
from backhaul_reference.web.endpoint import Answer, Call, Endpoint


async def list_customers(call: Call) -> web.Response:
    window = queries.window(call.query, sortable=True)
    filters = {"external_id": queries.text(call.query, "externalId")}
    listing = call.read(lambda rows: customers.page(rows, call.store, filters, window))
    return page_answer(call.request, listing, window)


async def get_customer(call: Call) -> web.Response:
    found = call.read(lambda rows: customers.view(rows, call.store, call.path("id")))
    return data_answer(found)


async def create_customer(call: Call) -> web.Response:
    values = call.body.values()

    def create(tx: Tx) -> Answer:
        made = customer_changes.create(tx, call.store, values)
        return Answer(made, 201, location=f"{PATH}/{made['id']}")

    return await call.mutate(create)


async def update_customer(call: Call) -> web.Response:
    store, customer_id, values = call.store, call.path("id"), call.body.values()
    return await call.mutate(
        lambda tx: Answer(customer_changes.update(tx, store, customer_id, values))
    )


async def delete_customer(call: Call) -> web.Response:
    store, customer_id = call.store, call.path("id")
    return await call.mutate(
        lambda tx: Answer(customer_changes.delete(tx, store, customer_id))
    )


PATH = "/api/v1/customers"
ONE = PATH + "/{id}"
READ, WRITE = "customers:read", "customers:write"
ENDPOINTS = (
    Endpoint("GET", PATH, list_customers, READ),
    Endpoint("POST", PATH, create_customer, WRITE, body=NewCustomer),
    Endpoint("GET", ONE, get_customer, READ),
    Endpoint("PUT", ONE, update_customer, WRITE, body=ChangedCustomer),
    Endpoint("DELETE", ONE, delete_customer, WRITE),
)
