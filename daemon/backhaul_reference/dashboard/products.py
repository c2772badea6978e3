"""Products and stock: what is sold, how much is left, and why it changed."""

from typing import Any

from aiohttp import web

from backhaul_reference.admin_v1.inventory import Adjust, SetStock
from backhaul_reference.admin_v1.product_bodies import NewProduct, values_of
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.visit import STORE, Route, Visit
from backhaul_reference.problems import Problem
from backhaul_reference.state import inventory, products, stock
from backhaul_reference.state.paging import Window
from backhaul_reference.web import queries

STATUSES = ("active", "draft", "archived")
RECENT = Window(1, 20)


async def show_products(visit: Visit) -> web.Response:
    filters: dict[str, Any] = {
        "status": queries.choice(visit.query, "status", STATUSES),
        "search": queries.search(visit.query),
    }
    window = visit.window()
    listing = visit.read(lambda rows: products.page(rows, visit.store, filters, window))
    return visit.render(
        "products.html", listing=listing, window=window, statuses=STATUSES
    )


async def new_product(visit: Visit) -> web.Response:
    return visit.render("products_new.html", statuses=STATUSES)


async def create_product(visit: Visit) -> web.Response:
    words = ("title", "description", "price", "sku", "status")
    document = forms.document(visit.form, words=words, numbers=("stock",))
    document["tags"] = forms.lines(visit.form, "tags")
    forms.require(visit.form, "title", "price")
    values = values_of(visit.body(NewProduct, document))
    made = await visit.change(
        lambda tx: products.create(tx, visit.store, stock.DASHBOARD, values)
    )
    return visit.go("products", made["id"], notice="The product is created.")


async def show_product(visit: Visit) -> web.Response:
    store, product_id = visit.store, visit.path("id")
    product = visit.read(lambda rows: products.view(rows, store, product_id))
    filters = {"product_id": product_id}
    history = visit.read(
        lambda rows: inventory.history(rows, store.id, filters, RECENT)
    )
    return visit.render(
        "products_one.html",
        product=product,
        history=history,
        reasons=inventory.CLIENT_REASONS,
    )


async def delete_product(visit: Visit) -> web.Response:
    product_id = visit.path("id")
    await visit.change(
        lambda tx: products.delete(tx, visit.store, stock.DASHBOARD, product_id)
    )
    return visit.go("products", notice="The product is deleted.")


async def change_stock(visit: Visit) -> web.Response:
    """Add to one variant's stock, or count it anew."""
    product_id, form = visit.path("id"), visit.form
    document = forms.document(form, words=("variantId", "reason", "note"))
    document["productId"] = product_id
    forms.require(form, "amount")
    amount = forms.number(form, "amount")
    try:
        if forms.text(form, "how") == "set":
            counted = visit.body(SetStock, {**document, "stock": amount})
            wanted = counted.wanted(counted.stock, absolute=True)
        else:
            moved = visit.body(Adjust, {**document, "adjustment": amount})
            wanted = moved.wanted(moved.adjustment, absolute=False)
    except Problem as problem:
        raise forms.renamed(problem, stock="amount", adjustment="amount") from None
    await visit.change(
        lambda tx: inventory.adjust(tx, visit.store, stock.DASHBOARD, wanted)
    )
    return visit.go("products", product_id, notice="The stock is changed.")


async def show_stock(visit: Visit) -> web.Response:
    window, store_id = visit.window(), visit.store.id
    levels = visit.read(lambda rows: inventory.levels(rows, store_id, window))
    recent = visit.read(lambda rows: inventory.history(rows, store_id, {}, RECENT))
    return visit.render("stock.html", levels=levels, window=window, history=recent)


ONE = STORE + "/products/{id}"
NEW = STORE + "/new-product"
ROUTES = (
    Route("GET", STORE + "/products", show_products),
    Route("GET", NEW, new_product),
    Route("POST", NEW, create_product, new_product),
    Route("GET", ONE, show_product),
    Route("POST", ONE + "/stock", change_stock, show_product),
    Route("POST", ONE + "/delete", delete_product, show_product),
    Route("GET", STORE + "/stock", show_stock),
)
