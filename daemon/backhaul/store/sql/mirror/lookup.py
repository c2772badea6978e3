"""Reads the mirror for the matching of records and the sending of commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.core import sku_matching
from backhaul.core.identity import command_id
from backhaul.core.lifecycle import State
from backhaul.core.sku_matching import near_text, same_text
from backhaul.store.mappings import MappingKind, UsedMapping
from backhaul.store.mirror import (
    OpenLine,
    OrderParcel,
    OrderSummary,
    Parcel,
    ReportedShipment,
)
from backhaul.store.sql.dialect import (
    document_of,
    elements,
    has,
    hint,
    is_document,
    member,
)
from backhaul.store.sql.mirror import shipped_units
from backhaul.store.sql.mirror.rows import NEWEST, document_text
from backhaul.store.sql.records import mappings
from backhaul.store.sql.stock_targets import adjustments
from backhaul.store.sql.stock_targets.count_coalescing import levels_listed
from backhaul_sdk import LineInStore, NameInStore, OrderInStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backhaul.core.stock import ListedLevel
    from backhaul.store.matching import Command, Hold, WaitingRecord
    from backhaul.store.sql.family import Connection

_BY_SKU = f"""
    SELECT product_id, id, sku FROM variants v
    WHERE store = :store AND sku = :sku AND {NEWEST}
"""  # noqa: S608 - constants
_BY_BARCODE = f"""
    SELECT product_id, id, sku FROM variants v WHERE {hint("+")}store = :store
    AND barcode IN (SELECT value FROM {elements(":spellings", "$")}) AND {NEWEST}
    ORDER BY id
"""  # noqa: S608 - constants
SKUS_SHOWN = 20
SIMILAR_SKUS = """
    SELECT s.sku FROM sku_spellings s
    WHERE s.store = :store AND s.near = :near AND s.sku != :sku
      AND EXISTS (SELECT 1 FROM variants v WHERE v.sku = s.sku AND v.store = s.store)
    ORDER BY s.sku LIMIT :most
"""
_NAME = "coalesce({0}name, CAST({0}number AS TEXT), {0}id)"
_ORDER = f"SELECT id, {_NAME.format('')}, cancelled_at, updated_at FROM orders"  # noqa: S608 - constants
# With the + SQLite uses the index over names, and does not scan the store.
_ORDERS_NAMED = f"""
    {_ORDER} WHERE store = :store AND number = :number
    UNION {_ORDER} WHERE {hint("+")}store = :store AND name IN (:name, :other, :hashed)
    UNION {_ORDER} WHERE store = :store AND external_id = :name
    UNION {_ORDER} WHERE store = :store AND id = :name
"""
_LINES = """
    SELECT id, sku, quantity - fulfilled_quantity, variant_id FROM order_items
    WHERE store = :store AND order_id = :order
"""
# A command that is applied without evidence was confirmed by an operator, who saw its
# effect in the store. The mirror has that effect too.
_ASKED = f"""
    SELECT state, payload FROM commands
    WHERE target = :order AND store = :store AND kind = 'fulfill' AND id != :own
      AND (CAST(:before AS BIGINT) IS NULL OR seq < :before AND state != 'planned')
      AND (state IN ('planned', 'sending', 'uncertain', 'parked')
           OR state = 'applied'
              AND {member("evidence", "$.updated_at")} > :updated_at)
"""  # noqa: S608 - constants
# The answer or evidence of a command may be newer than the mirror. Of two states of one
# time, the cancelled one is the later.
_CANCELLED = f"""
    SELECT 1 FROM commands
    WHERE target = :order AND store = :store AND (
      {has("evidence", "$.cancelled_at")}
        AND {member("evidence", "$.updated_at")} >= :updated_at
      OR {has("evidence", "$.read.cancelled_at")}
        AND {member("evidence", "$.read.updated_at")} >= :updated_at)
"""  # noqa: S608 - constants
_REPORTED = """
    SELECT r.instance, r.key, r.locator, r.payload, c.id, c.payload
    FROM commands c JOIN records r ON r.command_id = c.id
    WHERE c.target = :order AND c.store = :store AND c.kind = 'fulfill'
      AND c.state IN ('planned', 'sending', 'uncertain', 'parked', 'applied')
      AND r.id != :record
    ORDER BY r.id
"""
_TRACKED = f"""
    SELECT s.id, s.order_id, {_NAME.format("o.")}, o.number, o.external_id,
           o.cancelled_at
    FROM shipments s JOIN orders o ON o.store = s.store AND o.id = s.order_id
    WHERE s.tracking_number = :number AND s.store = :store
"""  # noqa: S608 - constants
_PARCELS = """
    SELECT id, tracking_number, tracking_company FROM shipments
    WHERE store = :store AND order_id = :order ORDER BY id
"""
_OPEN_UNITS = """
    SELECT coalesce(sum(quantity - coalesce(fulfilled_quantity, 0)), 0) AS units
    FROM order_items WHERE store = :store AND order_id = :order
    AND quantity > coalesce(fulfilled_quantity, 0)
"""
_CERTAIN = frozenset({State.PLANNED, State.APPLIED})
"""States of a command that is not in the mirror yet. In others it may be already."""


class _Asked(Struct):
    """What commands ask for of one order and the mirror does not show for certain."""

    units: dict[str, int]
    rest: bool = False
    any: bool = False
    uncertain: bool = False

    def of(self, line_id: str, left: int) -> int:
        """Return how many of a line's `left` units no command asks for."""
        return 0 if self.rest else max(left - self.units.get(line_id, 0), 0)


class MirrorReader:
    """A MatchReader on a connection that somebody else owns.

    The command of `record` is left out of what other commands ask for. Mappings are
    those of its connection, or of `instance`.
    """

    def __init__(
        self,
        connection: Connection,
        record: WaitingRecord | None = None,
        instance: str = "",
    ) -> None:
        self._connection = connection
        self._record = record
        self._instance = instance if record is None else record.instance
        self._used: dict[tuple[MappingKind, str], UsedMapping] = {}

    @property
    def used_mappings(self) -> tuple[UsedMapping, ...]:
        return tuple(self._used.values())

    def orders_named(self, store: str, name: str) -> list[OrderSummary]:
        bare = name.removeprefix("#")
        is_number = bare.isascii() and bare.isdigit() and len(bare) < 19
        values = {
            "store": store,
            "number": int(bare) if is_number else None,
            "name": name,
            "other": name if bare.startswith("#") else bare,
            "hashed": f"#{bare}",
        }
        rows = self._connection.execute(_ORDERS_NAMED, values).fetchall()
        return [self._summary(store, *row) for row in rows]

    def order(self, store: str, order_id: str) -> OrderSummary | None:
        return self._order(store, order_id)

    def _order(
        self, store: str, order_id: str, before: int | None = None
    ) -> OrderSummary | None:
        """Return an order with what commands ask for of it, or only earlier ones."""
        query = f"{_ORDER} WHERE store = :store AND id = :order"
        values = {"store": store, "order": order_id}
        row = self._connection.execute(query, values).fetchone()
        return None if row is None else self._summary(store, *row, before=before)

    def variants_with_sku(self, store: str, sku: str) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._variants(store, sku)]

    def variants_named(
        self, store: str, name: str, *, mapped: bool = True
    ) -> list[tuple[str, str | None]]:
        rows = (self._variants if mapped else self._unmapped)(store, name)
        return [(row[1], row[2]) for row in rows]

    def carrier_named(self, store: str, name: str) -> str:
        found = mappings.find(
            self._connection, store, MappingKind.CARRIER, self._instance, name
        )
        if found is None:
            return name
        kind = MappingKind.CARRIER
        self._used[kind, name] = UsedMapping(kind, name, found)
        return found

    def parcels_with_number(self, store: str, number: str) -> list[Parcel]:
        values = {"number": number, "store": store}
        rows = self._connection.execute(_TRACKED, values).fetchall()
        return [
            Parcel(id_, order, name, number, external, cancelled_at is not None)
            for id_, order, name, number, external, cancelled_at in rows
        ]

    def named(self, store: str, name: str) -> NameInStore:
        """Return the orders and variants that a text names, for a connector."""
        variants = self._variants(store, name)
        return NameInStore(
            tuple(_shown(order) for order in self.orders_named(store, name)),
            frozenset(sku for _, _, sku in variants if sku is not None),
            frozenset(variant for _, variant, _ in variants),
        )

    def reported_shipments(
        self, store: str, order_id: str, record: int
    ) -> list[ReportedShipment]:
        values = {"store": store, "order": order_id, "record": record}
        rows = self._connection.execute(_REPORTED, values).fetchall()
        return [_reported(row) for row in rows if is_document(row[3])]

    def open_units(self, store: str, order_id: str) -> int:
        values = {"store": store, "order": order_id}
        return int(self._connection.execute(_OPEN_UNITS, values).fetchone()[0])

    def parcels_of(self, store: str, order_id: str) -> list[OrderParcel]:
        values = {"store": store, "order": order_id}
        rows = self._connection.execute(_PARCELS, values).fetchall()
        text = document_text(self._connection, "order", store, order_id)
        items = {
            shipment["id"]: shipment.get("items")
            for shipment in document_of(text).get("shipments") or ()
        }
        return [
            OrderParcel(number, company, _units(items.get(id_)))
            for id_, number, company in rows
        ]

    def _variants(self, store: str, name: str) -> list[tuple[str, str, str | None]]:
        """Return the variants of a name; only if there are none, those it maps to."""
        if rows := self._unmapped(store, name):
            return rows
        kind = MappingKind.SKU
        found = mappings.find(self._connection, store, kind, self._instance, name)
        if found is None:
            return []
        rows = self._unmapped(store, found)
        self._used[kind, name] = UsedMapping(kind, name, found, bool(rows))
        return rows

    def _unmapped(self, store: str, name: str) -> list[tuple[str, str, str | None]]:
        rows = self._with_skus(store, [name])
        if (whole := sku_matching.normalized(same_text(name))) is not None:
            spellings = sku_matching.spellings(whole)
            # The exact SKU wins over another spelling of its number.
            rows = rows or self._with_skus(store, spellings)
            values = {"store": store, "spellings": json.dumps(spellings)}
            rows += self._connection.execute(_BY_BARCODE, values).fetchall()
        rows = rows or self._looking_the_same(store, name)
        return list(dict.fromkeys((row[0], row[1], row[2]) for row in rows))

    def _looking_the_same(self, store: str, name: str) -> list[Any]:
        """Return the variants of every SKU that looks the same as a text."""
        near = self.similar_skus(store, name)
        return self._with_skus(
            store, [sku for sku in near if same_text(sku) == same_text(name)]
        )

    def _with_skus(self, store: str, skus: Iterable[str]) -> list[Any]:
        found = (
            self._connection.execute(_BY_SKU, {"store": store, "sku": sku})
            for sku in skus
        )
        return [row for rows in found for row in rows.fetchall()]

    def similar_skus(self, store: str, sku: str) -> list[str]:
        values = {"store": store, "near": near_text(sku), "sku": sku}
        rows = self._connection.execute(SIMILAR_SKUS, values | {"most": SKUS_SHOWN})
        return [row[0] for row in rows]

    def levels_listed(
        self, record: WaitingRecord, variant: str, as_of: str, listed_at: str
    ) -> list[ListedLevel]:
        return levels_listed(self._connection, record, variant, as_of, listed_at)

    def hold(self, command: Command) -> Hold | None:
        order = self._order(command.store, command.target, command.seq)
        if order is None:
            return None
        return shipped_units.hold(self._connection, command, order)

    def supersede_reason(self, command: Command) -> str | None:
        return adjustments.supersede_reason(self._connection, command)

    def _summary(
        self,
        store: str,
        order_id: str,
        name: str,
        cancelled_at: str | None,
        updated_at: str,
        *,
        before: int | None = None,
    ) -> OrderSummary:
        values = {"store": store, "order": order_id}
        items = self._connection.execute(_LINES, values).fetchall()
        asked = self._asked(store, order_id, updated_at, before)
        return OrderSummary(
            id=order_id,
            name=name,
            cancelled=cancelled_at is not None
            or self._was_cancelled(store, order_id, updated_at),
            items=tuple(
                OpenLine(id_, sku, asked.of(id_, left), variant)
                for id_, sku, left, variant in items
            ),
            in_progress=asked.any,
            uncertain=asked.uncertain,
        )

    def _was_cancelled(self, store: str, order_id: str, updated_at: str) -> bool:
        """Return True if a command shows a cancellation newer than the mirror."""
        values = {"store": store, "order": order_id, "updated_at": updated_at}
        return self._connection.execute(_CANCELLED, values).fetchone() is not None

    def _own_command(self) -> str:
        if self._record is None:
            return ""
        own = self._record
        return command_id(own.store, own.instance, own.key, "fulfill")

    def _asked(
        self, store: str, order_id: str, updated_at: str, before: int | None
    ) -> _Asked:
        values = {
            "store": store,
            "order": order_id,
            "own": self._own_command(),
            "updated_at": updated_at,
            "before": before,
        }
        asked = _Asked({})
        for state, text in self._connection.execute(_ASKED, values):
            payload = document_of(text)
            if payload.get("number_only"):
                continue
            asked.any = True
            # A command with a damaged payload may have asked for any units.
            asked.uncertain = asked.uncertain or state not in _CERTAIN or not payload
            parts = payload.get("lines") or []
            asked.rest = asked.rest or not parts
            _add_units(asked.units, parts)
        return asked


def _shown(order: OrderSummary) -> OrderInStore:
    lines = (LineInStore(line.sku, line.variant_id, line.left) for line in order.items)
    return OrderInStore(order.name, order.cancelled, tuple(lines), order.uncertain)


def _reported(row: tuple[Any, ...]) -> ReportedShipment:
    instance, key, locator, record, command, text = row
    payload = document_of(text)
    lines: dict[str, int] = {}
    _add_units(lines, payload.get("lines") or ())
    number = payload.get("tracking_number")
    return ReportedShipment(
        instance, key, locator, record.encode(), command, number, lines
    )


def _add_units(units: dict[str, int], lines: Iterable[Mapping[str, Any]]) -> None:
    for line in lines:
        known = units.get(line["line_id"], 0)
        units[line["line_id"]] = known + line["quantity"]


def _units(items: Iterable[Any] | None) -> dict[str, int] | None:
    """Return the units of each line in a parcel; None if the store lists none."""
    units: dict[str, int] = {}
    for item in items or ():
        named = item if isinstance(item, dict) else {}
        line, count = named.get("lineItemId"), named.get("quantity")
        if not isinstance(line, str) or not isinstance(count, int):
            return None
        units[line] = units.get(line, 0) + count
    return units or None
