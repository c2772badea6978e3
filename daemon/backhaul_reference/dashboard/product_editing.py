"""Editing a product: its words, pictures, options and variants."""

from aiohttp import web

from backhaul_reference.admin_v1.product_bodies import ChangedProduct, values_of
from backhaul_reference.dashboard import forms, offering
from backhaul_reference.dashboard.products import ONE, STATUSES
from backhaul_reference.dashboard.visit import Route, Visit
from backhaul_reference.documents import Document
from backhaul_reference.problems import Problem
from backhaul_reference.state import products, stock

WORDS = ("title", "handle", "description", "status", "vendor", "productType")
MORE_WORDS = ("externalId", "seoTitle", "seoDescription")
VARIANT = ("title", "sku", "barcode", "price", "compareAtPrice", "inventoryPolicy")
POLICIES = ("DENY", "CONTINUE")
OFFERED = "choosesCollections"
"""The field that tells which collections the form had boxes for."""
SPARE = 2
"""Empty rows under the variants, the options and the pictures."""


async def show_form(visit: Visit) -> web.Response:
    store, product_id = visit.store, visit.path("id")
    product = visit.read(lambda rows: products.view(rows, store, product_id))
    return visit.render(
        "products_edit.html",
        product=product,
        statuses=STATUSES,
        policies=POLICIES,
        manual=_manual_collections(visit, product),
        spare=SPARE,
        most=offering.OFFERED.limit,
    )


def _manual_collections(visit: Visit, product: Document) -> dict[str, str]:
    also = {*product["collectionIds"], *forms.texts(visit.form, OFFERED)}
    return offering.shelves(visit, also, "MANUAL")


async def save(visit: Visit) -> web.Response:
    store, product_id, form = visit.store, visit.path("id"), visit.form
    before = visit.read(lambda rows: products.view(rows, store, product_id))
    kept = _kept_variants(visit)
    forms.require(form, "title", "handle", *(f"price{n}" for n in kept))
    try:
        body = visit.body(ChangedProduct, _document(visit, before, kept))
        values = values_of(body)
        await visit.change(
            lambda tx: products.update(tx, store, stock.DASHBOARD, product_id, values)
        )
    except Problem as problem:
        raise forms.renumbered(problem, "variants", kept) from None
    return visit.go("products", product_id, notice="The product is saved.")


def _kept_variants(visit: Visit) -> list[int]:
    listed = forms.rows(visit.form, "id", *VARIANT[:5])
    return [n for n in listed if f"remove{n}" not in visit.form]


def _document(visit: Visit, before: Document, kept: list[int]) -> Document:
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


def _values(visit: Visit, n: int) -> list[str]:
    return forms.lines(visit.form, f"values{n}")


def _collections(visit: Visit, before: Document) -> list[str]:
    """Those that were ticked, and those that the form did not offer."""
    offered = forms.texts(visit.form, OFFERED)
    unseen = [one for one in before["collectionIds"] if one not in offered]
    return unseen + forms.texts(visit.form, "collectionIds")


def _variant(visit: Visit, before: Document, n: int) -> Document:
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


ROUTES = (
    Route("GET", ONE + "/edit", show_form),
    Route("POST", ONE + "/edit", save, show_form),
)
