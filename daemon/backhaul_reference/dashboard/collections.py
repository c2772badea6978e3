"""Collections: products grouped manually or by tag."""

from aiohttp import web

from backhaul_reference.control.shop_resources import (
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


async def show_collections(context: PageContext) -> web.Response:
    window = context.window()
    listing = context.read(lambda rows: collections.page(rows, context.store, window))
    return context.render("collections.html", listing=listing, window=window)


async def new_collection(context: PageContext) -> web.Response:
    return _page(context, None)


async def show_collection(context: PageContext) -> web.Response:
    return _page(context, _found(context))


def _found(context: PageContext) -> Document:
    return context.read(
        lambda rows: collections.view(rows, context.store, context.path("id"))
    )


def _page(context: PageContext, collection: Document | None) -> web.Response:
    held = _held(collection)
    return context.render(
        "collections_one.html",
        collection=collection,
        relations=RELATIONS,
        held=context.read(
            lambda rows: page_context.product_titles(
                rows, context.store.id, held[:SHOWN]
            )
        ),
        unseen=len(held[SHOWN:]),
        offered={
            one: title
            for one, title in page_context.product_choices(
                context, _added(context)
            ).items()
            if one not in held
        },
        spare=SPARE,
        most=page_context.OFFERED.limit,
    )


def _held(collection: Document | None) -> list[str]:
    held: list[str] = collection["productIds"] if collection else []
    return held


async def add_collection(context: PageContext) -> web.Response:
    kept = _kept_rules(context)
    document = _document(context, kept, clearing=False)
    if forms.text(context.form, "type") == "AUTOMATIC":
        forms.require(context.form, *(f"condition{n}" for n in kept or [0]))
        document |= {"type": "AUTOMATIC", "rules": _rules(context, kept)}
    else:
        document["productIds"] = _added(context)
    try:
        values = context.body(NewCollection, document).values()
    except Problem as problem:
        raise forms.renumbered(problem, "rules", kept) from None
    made = await context.change(
        lambda tx: collections.create(tx, context.store, values)
    )
    return context.go("collections", made["id"], notice="The collection is created.")


async def save_collection(context: PageContext) -> web.Response:
    before, kept, store = _found(context), _kept_rules(context), context.store
    forms.require(context.form, "handle")
    document = _document(context, kept, clearing=True)
    if before["type"] == "AUTOMATIC":
        forms.require(context.form, *(f"condition{n}" for n in kept or [0]))
        document["rules"] = _rules(context, kept)
    else:
        ticked = forms.texts(context.form, "productIds")
        unseen = before["productIds"][SHOWN:]
        document["productIds"] = [*ticked, *unseen, *_added(context)]
    try:
        values = context.body(ChangedCollection, document).values()
    except Problem as problem:
        raise forms.renumbered(problem, "rules", kept) from None
    await context.change(lambda tx: collections.change(tx, store, before["id"], values))
    return context.go("collections", before["id"], notice="The collection is saved.")


def _document(context: PageContext, kept: list[int], *, clearing: bool) -> Document:
    form = context.form
    forms.require(form, "title")
    document = forms.document(
        form, words=WORDS, flags=("published",), clearing=clearing
    )
    if kept:
        document["match"] = forms.text(form, "match") or "ALL"
    return document


def _kept_rules(context: PageContext) -> list[int]:
    return forms.rows(context.form, "condition")


def _rules(context: PageContext, kept: list[int]) -> list[Document]:
    return [forms.row(context.form, n, "relation", "condition") for n in kept]


def _added(context: PageContext) -> list[str]:
    chosen = (forms.text(context.form, f"add{n}") for n in range(SPARE))
    return list(dict.fromkeys(one for one in chosen if one))


async def delete_collection(context: PageContext) -> web.Response:
    collection_id = context.path("id")
    await context.change(
        lambda tx: collections.delete(tx, context.store, collection_id)
    )
    return context.go("collections", notice="The collection is deleted.")


COLLECTIONS, NEW = STORE + "/collections", STORE + "/new-collection"
ROUTES = (
    Route("GET", COLLECTIONS, show_collections),
    Route("GET", NEW, new_collection),
    Route("POST", NEW, add_collection, new_collection),
    Route("GET", COLLECTIONS + "/{id}", show_collection),
    Route("POST", COLLECTIONS + "/{id}", save_collection, show_collection),
    Route("POST", COLLECTIONS + "/{id}/delete", delete_collection, show_collection),
)
