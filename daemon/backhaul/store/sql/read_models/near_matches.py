"""Finds the SKUs, orders and carriers that a name may mean, by indexes alone."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from backhaul.core.near_matching import (
    likeness,
    near_texts,
    ranked,
    without_misread_letters,
)
from backhaul.core.sku_matching import near_text
from backhaul.store.read_records import NearMatch
from backhaul.store.sql.dialect import elements, hint
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.mirror.rows import NEWEST
from backhaul_sdk.database import end_of_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backhaul.store.sql.family import Connection

MOST_NEIGHBOURS = 100
"""Names that one step reads: those with a prefix, or before and after a name."""
MOST_RECENT = 2_000
"""Parcels whose carriers are read, the newest first."""
MOST_CARRIERS = 30
LONGEST_NUMBER = 18
SKUS_SPELLED = f"""
    SELECT sku FROM sku_spellings
    WHERE store = :store AND near IN (SELECT value FROM {elements(":nears", "$")})
"""  # noqa: S608 - constants
SKUS_AFTER = """
    SELECT sku FROM sku_spellings
    WHERE store = :store AND near >= :begin AND near < :end ORDER BY near LIMIT :most
"""
SKUS_BEFORE = """
    SELECT sku FROM sku_spellings
    WHERE store = :store AND near < :begin ORDER BY near DESC LIMIT :most
"""
SKU_DETAIL = f"""
    SELECT p.title, v.title, l.stock FROM variants v
    LEFT JOIN products p ON p.store = v.store AND p.id = v.product_id
    LEFT JOIN inventory_levels l ON l.store = v.store AND l.variant_id = v.id
    WHERE {hint("+")}v.store = :store AND v.sku = :sku AND {NEWEST} LIMIT 1
"""  # noqa: S608 - constants
_ORDER = """
    SELECT id, coalesce(name, CAST(number AS TEXT), id), external_id, placed_at,
           status, cancelled_at, fulfillment_status
    FROM orders
"""
_IN_NAMES = f"IN (SELECT value FROM {elements(':names', '$')})"  # noqa: S608 - constants
# With the + SQLite uses the index over the names, and does not scan the store.
ORDERS_NUMBERED = f"""
    {_ORDER} WHERE {hint("+")}store = :store
      AND number IN (SELECT CAST(value AS BIGINT) FROM {elements(":numbers", "$")})
    ORDER BY number DESC LIMIT :most
"""  # noqa: S608 - constants
ORDERS_NAMED = f"""
    {_ORDER} WHERE {hint("+")}store = :store AND name {_IN_NAMES} LIMIT :most
"""
ORDERS_REFERENCED = f"""
    {_ORDER} WHERE {hint("+")}store = :store AND external_id IS NOT NULL
      AND external_id {_IN_NAMES} LIMIT :most
"""
ORDER_UNITS = """
    SELECT coalesce(sum(quantity - coalesce(fulfilled_quantity, 0)), 0)
    FROM order_items WHERE store = :store AND order_id = :id
"""
CARRIERS = """
    SELECT DISTINCT tracking_company FROM (
        SELECT tracking_company FROM shipments WHERE store = :store
        ORDER BY order_id DESC LIMIT :recent) newest
    WHERE tracking_company IS NOT NULL AND tracking_company != ''
    ORDER BY tracking_company LIMIT :most
"""


def find(
    connection: Connection, kind: str, store: str, name: str, limit: int
) -> list[NearMatch]:
    """Return what a name may mean, the most similar first.

    `kind` is `sku`, `order` or `carrier`. All known carriers are returned. For `open`,
    `name` is an order's, and its articles that no command ships are returned.
    """
    return _FINDERS[kind](connection, store, name, limit)


def _skus(connection: Connection, store: str, name: str, limit: int) -> list[NearMatch]:
    near = near_text(name)
    spelled = {"nears": json.dumps(sorted(near_texts(near)))}
    queries: list[tuple[str, Mapping[str, Any]]] = [(SKUS_SPELLED, spelled)]
    queries += [
        (SKUS_BEFORE, {"begin": near, "most": MOST_NEIGHBOURS}),
        (SKUS_AFTER, {"begin": near, "end": "\U0010ffff", "most": MOST_NEIGHBOURS}),
    ]
    queries += [
        (
            SKUS_AFTER,
            {
                "begin": near[:length],
                "end": end_of_prefix(near[:length]),
                "most": MOST_NEIGHBOURS,
            },
        )
        for length in sorted({len(near) * 2 // 3, len(near) // 2} - {0})
    ]
    found = {
        row[0]: near_text(row[0])
        for query, values in queries
        for row in connection.execute(query, {"store": store, **values})
        if row[0] != name
    }
    order = ranked(near, found.values())
    places = {text: place for place, text in enumerate(order)}
    skus = sorted(
        (sku for sku in found if found[sku] in places),
        key=lambda sku: (places[found[sku]], sku),
    )
    return _first(limit, (_sku(connection, store, sku) for sku in skus))


def _sku(connection: Connection, store: str, sku: str) -> NearMatch | None:
    """Return a SKU with its title and stock; None if no variant has the SKU now."""
    values = {"store": store, "sku": sku}
    row = connection.execute(SKU_DETAIL, values).fetchone()
    if row is None:
        return None
    product, variant, stock = row
    title = " / ".join(dict.fromkeys(filter(None, (product, variant))))
    detail = "stock unknown" if stock is None else f"{stock:,} in stock"
    return NearMatch(sku, title, detail)


def _open_articles(
    connection: Connection, store: str, name: str, limit: int
) -> list[NearMatch]:
    orders = MirrorReader(connection).orders_named(store, name) if name else []
    if len(orders) != 1:
        return []
    found = []
    for sku, units in list(orders[0].open_units.items())[:limit]:
        known = _sku(connection, store, sku)
        title = known.title if known else ""
        found.append(NearMatch(sku, title, f"{units:,} to ship"))
    return found


def _first(limit: int, found: Iterable[NearMatch | None]) -> list[NearMatch]:
    matches: list[NearMatch] = []
    for each in found:
        if len(matches) == limit:
            break
        if each is not None:
            matches.append(each)
    return matches


def _orders(
    connection: Connection, store: str, name: str, limit: int
) -> list[NearMatch]:
    bare = name.strip().removeprefix("#")
    texts = _order_texts(bare)
    numbers = [t for t in texts if t.isascii() and t.isdigit()]
    asked = {
        "store": store,
        "numbers": json.dumps([t for t in numbers if len(t) <= LONGEST_NUMBER]),
        "names": json.dumps([*texts, *(f"#{text}" for text in texts)]),
        "most": MOST_NEIGHBOURS,
    }
    rows: dict[str, Sequence[Any]] = {}
    for query in (ORDERS_NUMBERED, ORDERS_NAMED, ORDERS_REFERENCED):
        used = {part: asked[part] for part in asked if f":{part}" in query}
        rows.update((row[0], row) for row in connection.execute(query, used))
    wanted = without_misread_letters(bare)
    # Of orders that are equally similar, an open and a new one comes first.
    newest = sorted(rows.values(), key=lambda row: row[3] or "", reverse=True)
    best = sorted(newest, key=lambda row: (-_order_likeness(wanted, row), _done(row)))
    return [_order(connection, store, row) for row in best[:limit]]


def _order_texts(bare: str) -> list[str]:
    """Return the texts that may be meant: near ones, and the numbers in the text."""
    misread = without_misread_letters(bare)
    inside = re.findall(r"\d+", misread, re.ASCII)
    stripped = [each.lstrip("0") for each in inside]
    return sorted({*near_texts(bare), misread, *inside, *stripped} - {""})


def _order_likeness(wanted: str, row: Sequence[Any]) -> float:
    names = (str(row[1]).removeprefix("#"), row[2] or "")
    return max(likeness(wanted, name) for name in names)


def _done(row: Sequence[Any]) -> bool:
    *_, cancelled_at, fulfillment = row
    return cancelled_at is not None or fulfillment == "FULFILLED"


def _order(connection: Connection, store: str, row: Sequence[Any]) -> NearMatch:
    id_, name, external, placed_at, _, cancelled_at, _ = row
    (units,) = connection.execute(ORDER_UNITS, {"store": store, "id": id_}).fetchone()
    left = (
        f"{units} {'unit' if units == 1 else 'units'} to ship" if units else "shipped"
    )
    placed = f"placed {placed_at[:10]}" if placed_at else ""
    detail = "cancelled" if cancelled_at else left
    title = ", ".join(filter(None, (external, placed)))
    return NearMatch(str(name), title, detail)


def _carriers(
    connection: Connection, store: str, name: str, limit: int
) -> list[NearMatch]:
    values = {"store": store, "recent": MOST_RECENT, "most": MOST_CARRIERS}
    found = [row[0] for row in connection.execute(CARRIERS, values)]
    folded = name.casefold()
    found.sort(key=lambda each: -likeness(folded, each.casefold()))
    return [NearMatch(each, "", "used in this store") for each in found[:limit]]


_FINDERS: Mapping[str, Callable[[Connection, str, str, int], list[NearMatch]]] = {
    "sku": _skus,
    "order": _orders,
    "carrier": _carriers,
    "open": _open_articles,
}
