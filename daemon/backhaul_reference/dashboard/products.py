"""Products and stock: list, create, edit, stock changes and history."""

from typing import Any

from aiohttp import web

from backhaul_reference.dashboard import forms, page_context
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state import inventory, products, stock_ledger
from backhaul_reference.platform.state.pagination import Window
from backhaul_reference.platform.v1.inventory import Adjust, SetStock
from backhaul_reference.platform.v1.products import (
    ChangedProduct,
    NewProduct,
    values_of,
)

STATUSES = ("active", "draft", "archived")
RECENT = Window(1, 20)


async def show_products(visit: PageContext) -> web.Response:
    filters: dict[str, Any] = {
        "status": query_params.choice(visit.query, "status", STATUSES),
        "search": query_params.search(visit.query),
    }
    window = visit.window()
    listing = visit.read(lambda rows: products.page(rows, visit.store, filters, window))
    return visit.render(
        "products.html", listing=listing, window=window, statuses=STATUSES
    )


async def new_product(visit: PageContext) -> web.Response:
    return visit.render("products_new.html", statuses=STATUSES)


async def create_product(visit: PageContext) -> web.Response:
    words = ("title", "description", "price", "sku", "status")
    document = forms.document(visit.form, words=words, numbers=("stock",))
    document["tags"] = forms.lines(visit.form, "tags")
    forms.require(visit.form, "title", "price")
    values = values_of(visit.body(NewProduct, document))
    made = await visit.change(
        lambda tx: products.create(tx, visit.store, stock_ledger.DASHBOARD, values)
    )
    return visit.go("products", made["id"], notice="The product is created.")


async def show_product(visit: PageContext) -> web.Response:
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


async def delete_product(visit: PageContext) -> web.Response:
    product_id = visit.path("id")
    await visit.change(
        lambda tx: products.delete(tx, visit.store, stock_ledger.DASHBOARD, product_id)
    )
    return visit.go("products", notice="The product is deleted.")


async def change_stock(visit: PageContext) -> web.Response:
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
        lambda tx: inventory.adjust(tx, visit.store, stock_ledger.DASHBOARD, wanted)
    )
    return visit.go("products", product_id, notice="The stock is changed.")


async def show_stock(visit: PageContext) -> web.Response:
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


WORDS = ("title", "handle", "description", "status", "vendor", "productType")
MORE_WORDS = ("externalId", "seoTitle", "seoDescription")
VARIANT = ("title", "sku", "barcode", "price", "compareAtPrice", "inventoryPolicy")
POLICIES = ("DENY", "CONTINUE")
OFFERED = "choosesCollections"
"""The field that tells which collections the form had boxes for."""
SPARE = 2
"""Empty rows under the variants, the options and the pictures."""


async def show_form(visit: PageContext) -> web.Response:
    store, product_id = visit.store, visit.path("id")
    product = visit.read(lambda rows: products.view(rows, store, product_id))
    return visit.render(
        "products_edit.html",
        product=product,
        statuses=STATUSES,
        policies=POLICIES,
        manual=_manual_collections(visit, product),
        spare=SPARE,
        most=page_context.OFFERED.limit,
    )


def _manual_collections(visit: PageContext, product: Document) -> dict[str, str]:
    also = {*product["collectionIds"], *forms.texts(visit.form, OFFERED)}
    return page_context.shelves(visit, also, "MANUAL")


async def save(visit: PageContext) -> web.Response:
    store, product_id, form = visit.store, visit.path("id"), visit.form
    before = visit.read(lambda rows: products.view(rows, store, product_id))
    kept = _kept_variants(visit)
    forms.require(form, "title", "handle", *(f"price{n}" for n in kept))
    try:
        body = visit.body(ChangedProduct, _document(visit, before, kept))
        values = values_of(body)
        await visit.change(
            lambda tx: products.update(
                tx, store, stock_ledger.DASHBOARD, product_id, values
            )
        )
    except Problem as problem:
        raise forms.renumbered(problem, "variants", kept) from None
    return visit.go("products", product_id, notice="The product is saved.")


def _kept_variants(visit: PageContext) -> list[int]:
    listed = forms.rows(visit.form, "id", *VARIANT[:5])
    return [n for n in listed if f"remove{n}" not in visit.form]


def _document(visit: PageContext, before: Document, kept: list[int]) -> Document:
    form = visit.form
    document = forms.document(form, words=WORDS + MORE_WORDS, clearing=True)
    document["tags"] = forms.lines(form, "tags")
    document["images"] = [
        forms.row(form, n, "url", "alt") for n in forms.rows(form, "url", "alt")
    ]
    document["options"] = [
        {"name": forms.text(form, f"name{n}") or "", "values": _values(visit, n)}
        for n in forms.rows(form, "name", "values")
    ]
    document["variants"] = [_variant(visit, before, n) for n in kept]
    if OFFERED in form:
        document["collectionIds"] = _collections(visit, before)
    return document


def _values(visit: PageContext, n: int) -> list[str]:
    return forms.lines(visit.form, f"values{n}")


def _collections(visit: PageContext, before: Document) -> list[str]:
    """Those that were ticked, and those that the form did not offer."""
    offered = forms.texts(visit.form, OFFERED)
    unseen = [one for one in before["collectionIds"] if one not in offered]
    return unseen + forms.texts(visit.form, "collectionIds")


def _variant(visit: PageContext, before: Document, n: int) -> Document:
    """One row; a variant without a title is named by its choices."""
    form = visit.form
    choices = {
        option["name"]: chosen
        for k, option in enumerate(before["options"])
        if (chosen := forms.text(form, f"choice{k}-{n}"))
    }
    found = forms.row(form, n, *VARIANT, clearing=True)
    found["options"] = choices
    found["trackInventory"] = f"trackInventory{n}" in form
    found["weightGrams"] = forms.number(form, f"weightGrams{n}")
    known = forms.text(form, f"id{n}")
    return {**found, "id": known} if known else found


EDIT_ROUTES = (
    Route("GET", ONE + "/edit", show_form),
    Route("POST", ONE + "/edit", save, show_form),
)
