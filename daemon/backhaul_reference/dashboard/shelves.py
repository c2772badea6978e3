"""How the shop is arranged: collections and their rules, and navigation."""

from typing import Any

from aiohttp import web

from backhaul_reference.control.shop_bodies import (
    ChangedCollection,
    Menu,
    NewCollection,
)
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.visit import STORE, Route, Visit
from backhaul_reference.documents import Document
from backhaul_reference.problems import Flaw, invalid, not_found
from backhaul_reference.state import collections, menus

WORDS = ("title", "handle", "description", "imageUrl", "match")
RELATIONS = {"=": "EQUALS", "≠": "NOT_EQUALS", "!=": "NOT_EQUALS"}


async def show_collections(visit: Visit) -> web.Response:
    window = visit.window()
    listing = visit.read(lambda rows: collections.page(rows, visit.store, window))
    return visit.render("collections.html", listing=listing, window=window)


async def show_collection(visit: Visit) -> web.Response:
    found = visit.read(
        lambda rows: collections.view(rows, visit.store, visit.path("id"))
    )
    return visit.render("collections_one.html", collection=found)


def _rules(visit: Visit) -> list[Document]:
    """One rule a line: `= summer` has the tag, `!= sale` does not."""
    found = []
    for line in forms.lines(visit.form, "rules"):
        sign = next((one for one in RELATIONS if line.startswith(one)), "=")
        tag = line.removeprefix(sign).strip()
        found.append({"relation": RELATIONS[sign], "condition": tag})
    return found


async def add_collection(visit: Visit) -> web.Response:
    document = forms.document(visit.form, words=WORDS, flags=("published",))
    rules = _rules(visit)
    if rules:
        document |= {"type": "AUTOMATIC", "rules": rules}
    else:
        document["productIds"] = forms.lines(visit.form, "productIds")
    values = visit.body(NewCollection, document).values()
    made = await visit.change(lambda tx: collections.create(tx, visit.store, values))
    return visit.go("collections", made["id"], notice="The collection is created.")


async def save_collection(visit: Visit) -> web.Response:
    collection_id, store = visit.path("id"), visit.store
    before = visit.read(lambda rows: collections.view(rows, store, collection_id))
    document = forms.document(visit.form, words=WORDS, flags=("published",))
    if before["type"] == "AUTOMATIC":
        document["rules"] = _rules(visit)
    else:
        document["productIds"] = forms.lines(visit.form, "productIds")
    values = visit.body(ChangedCollection, document).values()
    await visit.change(lambda tx: collections.change(tx, store, collection_id, values))
    return visit.go("collections", collection_id, notice="The collection is saved.")


async def delete_collection(visit: Visit) -> web.Response:
    collection_id = visit.path("id")
    await visit.change(lambda tx: collections.delete(tx, visit.store, collection_id))
    return visit.go("collections", notice="The collection is deleted.")


async def show_menus(visit: Visit) -> web.Response:
    found = visit.read(lambda rows: menus.control_views(rows, visit.store.id))
    outlines = {menu["handle"]: outline(menu["items"]) for menu in found}
    return visit.render("navigation.html", menus=found, outlines=outlines)


def outline(items: list[Document], depth: int = 0) -> str:
    """A menu as text: a line for each item, indented under its parent."""
    return "".join(
        f"{'  ' * depth}{item['label']} | {item['type']} | {item['target']}\n"
        + outline(item["children"], depth + 1)
        for item in items
    )


def parse_outline(text: str) -> list[Document]:
    """The menu that an outline describes; two spaces lead one level down."""
    top: list[Document] = []
    levels: list[list[Document]] = [top]
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        parts = [part.strip() for part in line.split("|")]
        depth = (len(line) - len(line.lstrip())) // 2
        if len(parts) != 3 or depth >= len(levels):
            detail = f"line {number} must read: label | TYPE | target"
            raise invalid([Flaw("/items", "BAD_FORMAT", detail)])
        item: dict[str, Any] = dict(
            zip(("label", "type", "target"), parts, strict=True)
        )
        item["children"] = []
        levels[depth].append(item)
        del levels[depth + 1 :]
        levels.append(item["children"])
    return top


async def save_menu(visit: Visit) -> web.Response:
    handle, sent = visit.path("handle"), visit.form.get("items")
    if not menus.HANDLE.fullmatch(handle):
        raise not_found("MENU")
    document = forms.document(visit.form, words=("title",))
    document["items"] = parse_outline(sent if isinstance(sent, str) else "")
    body = visit.body(Menu, document)
    items = [item.model_dump() for item in body.items]
    store_id = visit.store.id
    await visit.change(lambda tx: menus.put(tx, store_id, handle, body.title, items))
    return visit.go("navigation", notice="The menu is saved.")


COLLECTIONS, MENUS = STORE + "/collections", STORE + "/navigation"
ROUTES = (
    Route("GET", COLLECTIONS, show_collections),
    Route("POST", COLLECTIONS, add_collection, show_collections),
    Route("GET", COLLECTIONS + "/{id}", show_collection),
    Route("POST", COLLECTIONS + "/{id}", save_collection, show_collection),
    Route("POST", COLLECTIONS + "/{id}/delete", delete_collection, show_collection),
    Route("GET", MENUS, show_menus),
    Route("POST", MENUS + "/{handle}", save_menu, show_menus),
)
