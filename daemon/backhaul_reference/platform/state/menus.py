"""Navigation menus: item references, resolved when they are read."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backhaul_reference.platform import models
from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.problems import Flaw, invalid, not_found
from backhaul_reference.platform.state.database import Row, Rows, placeholders
from backhaul_reference.platform.state.writer import Tx

HANDLE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
FIRST_MENUS = {"main-menu": "Main menu", "footer": "Footer"}
VISIBLE = {
    "PRODUCT": "SELECT id, handle FROM product WHERE store_id = ?"
    " AND status = 'active' AND id IN ({})",
    "COLLECTION": "SELECT id, handle FROM collection WHERE store_id = ?"
    " AND published AND id IN ({})",
}
KNOWN = {
    "PRODUCT": "SELECT id FROM product WHERE store_id = ? AND id IN ({})",
    "COLLECTION": "SELECT id FROM collection WHERE store_id = ? AND id IN ({})",
}
LITERAL = {"URL": "", "PAGE": "/pages/"}
PREFIXES = {"PRODUCT": "/products/", "COLLECTION": "/collections/"}


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """An item and its JSON pointer in the submitted menu."""

    pointer: str
    item: Document


def add_first(tx: Tx, store_id: str) -> None:
    for handle, title in FIRST_MENUS.items():
        _write(tx, store_id, handle, title, [])


def put(
    tx: Tx, store_id: str, handle: str, title: str | None, items: list[Document]
) -> Document:
    """Replace a menu; without a title in the request the old title stays."""
    _check_targets(tx, store_id, items)
    old = _find(tx, store_id, handle)
    kept: str = old["title"] if old is not None else handle
    _write(tx, store_id, handle, title or kept, items)
    return control_view(tx, store_id, handle)


def delete(tx: Tx, store_id: str, handle: str) -> Document:
    gone = tx.run(
        "DELETE FROM menu WHERE store_id = ? AND handle = ?", (store_id, handle)
    )
    if not gone:
        raise not_found("MENU")
    return {"handle": handle, "deleted": True}


def _write(
    tx: Tx, store_id: str, handle: str, title: str, items: list[Document]
) -> None:
    tx.run(
        "INSERT OR REPLACE INTO menu(store_id, handle, title, items)"
        " VALUES(?, ?, ?, ?)",
        (store_id, handle, title, encode_text(items)),
    )


def _check_targets(rows: Rows, store_id: str, items: Sequence[Document]) -> None:
    places = list(_entries(items, "/items"))
    flaws = []
    for kind, sql in KNOWN.items():
        meant = [place for place in places if place.item["type"] == kind]
        targets = [place.item["target"] for place in meant]
        found = rows.all(sql.format(placeholders(targets)), (store_id, *targets))
        known = {row["id"] for row in found}
        flaws += [
            Flaw(f"{place.pointer}/target", "NOT_FOUND", "the target does not exist")
            for place in meant
            if place.item["target"] not in known
        ]
    if flaws:
        raise invalid(flaws)


def _entries(items: Sequence[Document], pointer: str) -> Iterator[MenuEntry]:
    for n, item in enumerate(items):
        yield MenuEntry(f"{pointer}/{n}", item)
        yield from _entries(item["children"], f"{pointer}/{n}/children")


def _find(rows: Rows, store_id: str, handle: str) -> Row | None:
    return rows.one(
        "SELECT * FROM menu WHERE store_id = ? AND handle = ?", (store_id, handle)
    )


def _rows(rows: Rows, store_id: str) -> list[Row]:
    return rows.all(
        "SELECT * FROM menu WHERE store_id = ? ORDER BY handle DESC", (store_id,)
    )


def storefront_views(rows: Rows, store_id: str) -> dict[str, models.Menu]:
    return {
        row["handle"]: _resolved(rows, store_id, row) for row in _rows(rows, store_id)
    }


def storefront_view(rows: Rows, store_id: str, handle: str) -> models.Menu:
    row = _find(rows, store_id, handle)
    if row is None:
        raise not_found("MENU")
    return _resolved(rows, store_id, row)


def _resolved(rows: Rows, store_id: str, row: Row) -> models.Menu:
    items = decode_stored(row["items"])
    urls = _urls(rows, store_id, items)
    shown = _shown(items, urls)
    return {"handle": row["handle"], "title": row["title"], "items": shown}


def _shown(items: Sequence[Document], urls: dict[str, str]) -> list[models.MenuItem]:
    """Return the items with a visible target; children of a hidden item are hidden."""
    return [
        {
            "label": item["label"],
            "url": urls[item["target"]],
            "children": _shown(item["children"], urls),
        }
        for item in items
        if item["target"] in urls
    ]


def _urls(rows: Rows, store_id: str, items: Sequence[Document]) -> dict[str, str]:
    """The address of each target that a shopper may see."""
    every = [place.item for place in _entries(items, "")]
    urls = {
        item["target"]: LITERAL[item["type"]] + item["target"]
        for item in every
        if item["type"] in LITERAL
    }
    for kind, sql in VISIBLE.items():
        ids = [item["target"] for item in every if item["type"] == kind]
        for row in rows.all(sql.format(placeholders(ids)), (store_id, *ids)):
            urls[row["id"]] = PREFIXES[kind] + row["handle"]
    return urls


def control_views(rows: Rows, store_id: str) -> list[Document]:
    return [_control(rows, store_id, row) for row in _rows(rows, store_id)]


def control_view(rows: Rows, store_id: str, handle: str) -> Document:
    row = _find(rows, store_id, handle)
    if row is None:
        raise not_found("MENU")
    return _control(rows, store_id, row)


def _control(rows: Rows, store_id: str, row: Row) -> Document:
    items = decode_stored(row["items"])
    urls = _urls(rows, store_id, items)
    listed = _with_urls(items, urls)
    return {"handle": row["handle"], "title": row["title"], "items": listed}


def _with_urls(items: Sequence[Document], urls: dict[str, str]) -> list[Document]:
    return [
        {
            **item,
            "url": urls.get(item["target"]),
            "children": _with_urls(item["children"], urls),
        }
        for item in items
    ]
