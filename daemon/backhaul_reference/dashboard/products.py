"""Products and stock: list, create, edit, stock changes and history."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from backhaul_reference.dashboard import forms, page_context
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.platform import models
from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state import inventory, products
from backhaul_reference.platform.state.database import Window
from backhaul_reference.platform.v1.inventory import Adjust, SetStock
from backhaul_reference.platform.v1.products import (
    ChangedProduct,
    NewProduct,
    values_of,
)

STATUSES = ("active", "draft", "archived")
RECENT = Window(1, 20)


async def show_products(context: PageContext) -> web.Response:
    filters: dict[str, Any] = {
        "status": query_params.choice(context.query, "status", STATUSES),
        "search": query_params.search(context.query),
    }
    window = context.window()
    listing = context.read(
        lambda rows: products.page(rows, context.store, filters, window)
    )
    return context.render(
        "products.html", listing=listing, window=window, statuses=STATUSES
    )


async def new_product(context: PageContext) -> web.Response:
    return context.render("products_new.html", statuses=STATUSES)


async def create_product(context: PageContext) -> web.Response:
    words = ("title", "description", "price", "sku", "status")
    document = forms.document(context.form, words=words, numbers=("stock",))
    document["tags"] = forms.lines(context.form, "tags")
    forms.require(context.form, "title", "price")
    values = values_of(context.body(NewProduct, document))
    made = await context.change(
        lambda tx: products.create(tx, context.store, inventory.DASHBOARD, values)
    )
    return context.go("products", made["id"], notice="The product is created.")


async def show_product(context: PageContext) -> web.Response:
    store, product_id = context.store, context.path("id")
    product = context.read(lambda rows: products.view(rows, store, product_id))
    filters = {"product_id": product_id}
    history = context.read(
        lambda rows: inventory.history(rows, store.id, filters, RECENT)
    )
    return context.render(
        "products_one.html",
        product=product,
        history=history,
        reasons=inventory.CLIENT_REASONS,
    )


async def delete_product(context: PageContext) -> web.Response:
    product_id = context.path("id")
    await context.change(
        lambda tx: products.delete(tx, context.store, inventory.DASHBOARD, product_id)
    )
    return context.go("products", notice="The product is deleted.")


async def change_stock(context: PageContext) -> web.Response:
    """Adjust one variant's stock by an amount, or set it."""
    product_id, form = context.path("id"), context.form
    document = forms.document(form, words=("variantId", "reason", "note"))
    document["productId"] = product_id
    forms.require(form, "amount")
    amount = forms.number(form, "amount")
    try:
        if forms.text(form, "how") == "set":
            counted = context.body(SetStock, {**document, "stock": amount})
            wanted = counted.wanted(counted.stock, absolute=True)
        else:
            moved = context.body(Adjust, {**document, "adjustment": amount})
            wanted = moved.wanted(moved.adjustment, absolute=False)
    except Problem as problem:
        raise forms.renamed(problem, stock="amount", adjustment="amount") from None
    await context.change(
        lambda tx: inventory.adjust(tx, context.store, inventory.DASHBOARD, wanted)
    )
    return context.go("products", product_id, notice="The stock is changed.")


async def show_stock(context: PageContext) -> web.Response:
    window, store_id = context.window(), context.store.id
    levels = context.read(lambda rows: inventory.levels(rows, store_id, window))
    recent = context.read(lambda rows: inventory.history(rows, store_id, {}, RECENT))
    return context.render("stock.html", levels=levels, window=window, history=recent)


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
"""The field that lists the collections for which the form had checkboxes."""
SPARE = 2
"""Empty rows under the variants, the options and the pictures."""


async def show_form(context: PageContext) -> web.Response:
    store, product_id = context.store, context.path("id")
    product = context.read(lambda rows: products.view(rows, store, product_id))
    return context.render(
        "products_edit.html",
        product=product,
        statuses=STATUSES,
        policies=POLICIES,
        manual=_manual_collections(context, product),
        spare=SPARE,
        most=page_context.OFFERED.limit,
    )


def _manual_collections(
    context: PageContext, product: models.CatalogueProduct
) -> dict[str, str]:
    also = {*product["collectionIds"], *forms.texts(context.form, OFFERED)}
    return page_context.collection_choices(context, also, "MANUAL")


async def save(context: PageContext) -> web.Response:
    store, product_id, form = context.store, context.path("id"), context.form
    before = context.read(lambda rows: products.view(rows, store, product_id))
    kept = _kept_variants(context)
    forms.require(form, "title", "handle", *(f"price{n}" for n in kept))
    try:
        body = context.body(ChangedProduct, _document(context, before, kept))
        values = values_of(body)
        await context.change(
            lambda tx: products.update(
                tx, store, inventory.DASHBOARD, product_id, values
            )
        )
    except Problem as problem:
        raise forms.renumbered(problem, "variants", kept) from None
    return context.go("products", product_id, notice="The product is saved.")


def _kept_variants(context: PageContext) -> list[int]:
    listed = forms.rows(context.form, "id", *VARIANT[:5])
    return [n for n in listed if f"remove{n}" not in context.form]


def _document(
    context: PageContext, before: models.CatalogueProduct, kept: list[int]
) -> Document:
    form = context.form
    document = forms.document(form, words=WORDS + MORE_WORDS, clearing=True)
    document["tags"] = forms.lines(form, "tags")
    document["images"] = [
        forms.row(form, n, "url", "alt") for n in forms.rows(form, "url", "alt")
    ]
    document["options"] = [
        {"name": forms.text(form, f"name{n}") or "", "values": _values(context, n)}
        for n in forms.rows(form, "name", "values")
    ]
    document["variants"] = [_variant(context, before, n) for n in kept]
    if OFFERED in form:
        document["collectionIds"] = _collections(context, before)
    return document


def _values(context: PageContext, n: int) -> list[str]:
    return forms.lines(context.form, f"values{n}")


def _collections(context: PageContext, before: models.CatalogueProduct) -> list[str]:
    """Return the ticked collections, and those that the form did not offer."""
    offered = forms.texts(context.form, OFFERED)
    unseen = [one for one in before["collectionIds"] if one not in offered]
    return unseen + forms.texts(context.form, "collectionIds")


def _variant(context: PageContext, before: Mapping[str, Any], n: int) -> Document:
    """Return the variant of one row; its options name a variant without title."""
    form = context.form
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
