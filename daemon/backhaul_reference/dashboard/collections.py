"""Collections: products grouped by hand or by tag."""

from aiohttp import web

from backhaul_reference.control.shop_resource_bodies import (
    ChangedCollection,
    NewCollection,
)
from backhaul_reference.dashboard import forms, page_context
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state import collections

WORDS = ("title", "handle", "description", "imageUrl")
RELATIONS = ("EQUALS", "NOT_EQUALS")
SHOWN = 200
SPARE = 3
"""Empty rows under the rules, and how many products can be added at once."""


async def show_collections(visit: PageContext) -> web.Response:
    window = visit.window()
    listing = visit.read(lambda rows: collections.page(rows, visit.store, window))
    return visit.render("collections.html", listing=listing, window=window)


async def new_collection(visit: PageContext) -> web.Response:
    return _page(visit, None)


async def show_collection(visit: PageContext) -> web.Response:
    return _page(visit, _found(visit))


def _found(visit: PageContext) -> Document:
    return visit.read(
        lambda rows: collections.view(rows, visit.store, visit.path("id"))
    )


def _page(visit: PageContext, collection: Document | None) -> web.Response:
    held = _held(collection)
    return visit.render(
        "collections_one.html",
        collection=collection,
        relations=RELATIONS,
        held=visit.read(
            lambda rows: page_context.titled(rows, visit.store.id, held[:SHOWN])
        ),
        unseen=len(held[SHOWN:]),
        offered={
            one: title
            for one, title in page_context.goods(visit, _added(visit)).items()
            if one not in held
        },
        spare=SPARE,
        most=page_context.OFFERED.limit,
    )


def _held(collection: Document | None) -> list[str]:
    held: list[str] = collection["productIds"] if collection else []
    return held


async def add_collection(visit: PageContext) -> web.Response:
    kept = _kept_rules(visit)
    document = _document(visit, kept, clearing=False)
    if forms.text(visit.form, "type") == "AUTOMATIC":
        forms.require(visit.form, *(f"condition{n}" for n in kept or [0]))
        document |= {"type": "AUTOMATIC", "rules": _rules(visit, kept)}
    else:
        document["productIds"] = _added(visit)
    try:
        values = visit.body(NewCollection, document).values()
    except Problem as problem:
        raise forms.renumbered(problem, "rules", kept) from None
    made = await visit.change(lambda tx: collections.create(tx, visit.store, values))
    return visit.go("collections", made["id"], notice="The collection is created.")


async def save_collection(visit: PageContext) -> web.Response:
    before, kept, store = _found(visit), _kept_rules(visit), visit.store
    forms.require(visit.form, "handle")
    document = _document(visit, kept, clearing=True)
    if before["type"] == "AUTOMATIC":
        forms.require(visit.form, *(f"condition{n}" for n in kept or [0]))
        document["rules"] = _rules(visit, kept)
    else:
        ticked = forms.texts(visit.form, "productIds")
        unseen = before["productIds"][SHOWN:]
        document["productIds"] = [*ticked, *unseen, *_added(visit)]
    try:
        values = visit.body(ChangedCollection, document).values()
    except Problem as problem:
        raise forms.renumbered(problem, "rules", kept) from None
    await visit.change(lambda tx: collections.change(tx, store, before["id"], values))
    return visit.go("collections", before["id"], notice="The collection is saved.")


def _document(visit: PageContext, kept: list[int], *, clearing: bool) -> Document:
    form = visit.form
    forms.require(form, "title")
    document = forms.document(
        form, words=WORDS, flags=("published",), clearing=clearing
    )
    if kept:
        document["match"] = forms.text(form, "match") or "ALL"
    return document


def _kept_rules(visit: PageContext) -> list[int]:
    return forms.rows(visit.form, "condition")


def _rules(visit: PageContext, kept: list[int]) -> list[Document]:
    return [forms.row(visit.form, n, "relation", "condition") for n in kept]


def _added(visit: PageContext) -> list[str]:
    chosen = (forms.text(visit.form, f"add{n}") for n in range(SPARE))
    return list(dict.fromkeys(one for one in chosen if one))


async def delete_collection(visit: PageContext) -> web.Response:
    collection_id = visit.path("id")
    await visit.change(lambda tx: collections.delete(tx, visit.store, collection_id))
    return visit.go("collections", notice="The collection is deleted.")


COLLECTIONS, NEW = STORE + "/collections", STORE + "/new-collection"
ROUTES = (
    Route("GET", COLLECTIONS, show_collections),
    Route("GET", NEW, new_collection),
    Route("POST", NEW, add_collection, new_collection),
    Route("GET", COLLECTIONS + "/{id}", show_collection),
    Route("POST", COLLECTIONS + "/{id}", save_collection, show_collection),
    Route("POST", COLLECTIONS + "/{id}/delete", delete_collection, show_collection),
)
