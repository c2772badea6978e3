"""Navigation menus: items edited as rows."""

from collections.abc import Iterator
from typing import Any

from aiohttp import web

from backhaul_reference.control.shop_resources import DEEPEST_MENU, Menu
from backhaul_reference.dashboard import forms, page_context
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, Problem, invalid, not_found
from backhaul_reference.platform.state import menus

SPARE = 4
"""Empty rows under the items."""
LITERAL = ("URL", "PAGE")
LEVELS = {n: f"{n} deep" if n else "Top" for n in range(DEEPEST_MENU)}


async def show_menus(context: PageContext) -> web.Response:
    found = context.read(lambda rows: menus.control_views(rows, context.store.id))
    outlines = {menu["handle"]: list(flat(menu["items"])) for menu in found}
    return context.render("navigation.html", menus=found, outlines=outlines)


def flat(items: list[Document], level: int = 0) -> Iterator[Document]:
    """Return the items in display order, each with its depth."""
    for item in items:
        yield {**item, "level": level}
        yield from flat(item["children"], level + 1)


async def show_menu(context: PageContext) -> web.Response:
    store_id, handle = context.store.id, context.path("handle")
    menu = context.read(lambda rows: menus.control_view(rows, store_id, handle))
    items = list(flat(menu["items"]))
    return context.render(
        "navigation_one.html",
        menu=menu,
        items=items,
        offered=_offered(context, items),
        levels=LEVELS,
        spare=SPARE,
        most=page_context.OFFERED.limit,
    )


def _offered(context: PageContext, items: list[Document]) -> dict[str, dict[str, str]]:
    """Return the possible targets of an item, including the current ones."""
    found = {
        "COLLECTION": page_context.collection_choices(context),
        "PRODUCT": page_context.product_choices(context),
    }
    typed = [_item(context, n) for n in forms.rows(context.form, "label")]
    for item in [*items, *typed]:
        if item["type"] in found:
            found[item["type"]].setdefault(item["target"], item["label"])
    return found


async def add_menu(context: PageContext) -> web.Response:
    forms.require(context.form, "handle", "title")
    handle, title = (
        forms.text(context.form, "handle") or "",
        forms.text(context.form, "title"),
    )
    known = context.read(lambda rows: menus.control_views(rows, context.store.id))
    if not menus.HANDLE.fullmatch(handle):
        detail = "may hold small letters and digits, with single dashes between"
        raise invalid([Flaw("/handle", "BAD_FORMAT", detail)])
    if handle in {one["handle"] for one in known}:
        raise Problem(409, "HANDLE_TAKEN", "another menu has it")
    await context.change(lambda tx: menus.put(tx, context.store.id, handle, title, []))
    return context.go("navigation", handle, notice="The menu is added.")


async def save_menu(context: PageContext) -> web.Response:
    handle, form, store_id = context.path("handle"), context.form, context.store.id
    if not menus.HANDLE.fullmatch(handle):
        raise not_found("MENU")
    listed = forms.rows(form, "label", "leads", "address")
    kept = [n for n in listed if f"remove{n}" not in form]
    forms.require_numbers(form, *(f"order{n}" for n in kept))
    kept.sort(key=lambda n: _order(context, n))
    forms.require(
        form, "title", *(f"{one}{n}" for n in kept for one in ("label", "leads"))
    )
    literal = [n for n in kept if forms.text(form, f"leads{n}") in LITERAL]
    forms.require(form, *(f"address{n}" for n in literal))
    document = {**forms.document(form, words=("title",)), "items": _tree(context, kept)}
    body = context.body(Menu, document)
    items = [item.model_dump() for item in body.items]
    await context.change(lambda tx: menus.put(tx, store_id, handle, body.title, items))
    return context.go("navigation", notice="The menu is saved.")


async def delete_menu(context: PageContext) -> web.Response:
    handle, store_id = context.path("handle"), context.store.id
    await context.change(lambda tx: menus.delete(tx, store_id, handle))
    return context.go("navigation", notice="The menu is deleted.")


def _order(context: PageContext, n: int) -> tuple[int, int]:
    typed = forms.number(context.form, f"order{n}")
    return (typed if isinstance(typed, int) else n + 1, n)


def _tree(context: PageContext, kept: list[int]) -> list[Document]:
    """Turn rows with levels into a tree; the parent is the last shallower row."""
    top: list[Document] = []
    open_lists: list[list[Document]] = [top]
    for n in kept:
        level = forms.number(context.form, f"level{n}")
        depth = min(level if isinstance(level, int) else 0, len(open_lists) - 1)
        item = _item(context, n)
        open_lists[depth].append(item)
        open_lists[depth + 1 :] = [item["children"]]
    return top


def _item(context: PageContext, n: int) -> Document:
    form = context.form
    kind, _, target = (forms.text(form, f"leads{n}") or "").partition(":")
    if kind in LITERAL:
        target = forms.text(form, f"address{n}") or ""
    found: dict[str, Any] = {"label": forms.text(form, f"label{n}"), "type": kind}
    return {**found, "target": target, "children": []}


MENUS, MENU = STORE + "/navigation", STORE + "/navigation/{handle}"
ROUTES = (
    Route("GET", MENUS, show_menus),
    Route("POST", MENUS, add_menu, show_menus),
    Route("GET", MENU, show_menu),
    Route("POST", MENU, save_menu, show_menu),
    Route("POST", MENU + "/delete", delete_menu, show_menu),
)
