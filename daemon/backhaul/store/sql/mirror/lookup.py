"""What matching and sending ask of the mirror."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul.core import sku_matching
from backhaul.core.identity import command_id
from backhaul.core.lifecycle import State
from backhaul.core.sku_matching import same_text
from backhaul.store.mirror import (
    OpenLine,
    OrderParcel,
    OrderSummary,
    Parcel,
    ReportedShipment,
)
from backhaul.store.sql.dialect import document, member
from backhaul.store.sql.documents import document_of, is_document
from backhaul.store.sql.mirror import shipped_units
from backhaul.store.sql.mirror.rows import NEWEST
from backhaul.store.sql.mirror.sku_spellings import near_skus
from backhaul.store.sql.stock_targets import adjustments
from backhaul.store.sql.stock_targets.count_coalescing import levels_listed
from backhaul_sdk import LineInStore, NameInStore, OrderInStore

if TYPE_CHECKING:
    from backhaul.core.stock import ListedLevel
    from backhaul.store.matching import Command, Hold, WaitingRecord
    from backhaul.store.sql.family import Connection

_BY_SKU = f"""
    SELECT product_id, id, sku FROM variants v WHERE store = ? AND sku = ? AND {NEWEST}
"""  # noqa: S608 - constants
_BY_BARCODE = f"""
    SELECT product_id, id, sku FROM variants v WHERE store = ?
    AND barcode IN (SELECT value FROM json_each(?)) AND {NEWEST} ORDER BY id
"""  # noqa: S608 - constants
_SUMMARY = "SELECT id, coalesce(name, number, id), cancelled_at, updated_at FROM orders"
# What is applied without an answer that shows it, a person confirmed: they know of it
# from the store, as the mirror does.
_ASKED = f"""
    SELECT state, CAST(payload AS BLOB) FROM commands
    WHERE target = :order AND store = :store AND kind = 'fulfill' AND id != :own
      AND (:before IS NULL OR seq < :before AND state != 'planned')
      AND (state IN ('planned', 'sending', 'uncertain', 'parked')
           OR state = 'applied'
              AND {member("evidence", "$.updated_at")} > :updated_at)
"""  # noqa: S608 - constants
# What answered or was read for a command may be newer than the mirror; of two states of
# one moment the cancelled one is the later.
_CANCELLED = f"""
    SELECT 1 FROM commands
    WHERE target = :order AND store = :store AND (
      {member("evidence", "$.cancelled_at")} IS NOT NULL
        AND {member("evidence", "$.updated_at")} >= :updated_at
      OR {member("evidence", "$.read.cancelled_at")} IS NOT NULL
        AND {member("evidence", "$.read.updated_at")} >= :updated_at)
"""  # noqa: S608 - constants
_REPORTED = """
    SELECT r.instance, r.key, r.locator, CAST(r.payload AS BLOB), c.id,
           CAST(c.payload AS BLOB)
    FROM commands c JOIN records r ON r.command_id = c.id
    WHERE c.target = :order AND c.store = :store AND c.kind = 'fulfill'
      AND c.state IN ('planned', 'sending', 'uncertain', 'parked', 'applied')
      AND r.id != :record
    ORDER BY r.id
"""
_PARCELS = f"""
    SELECT s.tracking_number, s.tracking_company, (
      SELECT d.value -> '$.items'
      FROM orders o, json_each({document("o.document")}, '$.shipments') d
      WHERE o.store = s.store AND o.id = s.order_id AND d.value ->> 'id' = s.id)
    FROM shipments s WHERE s.store = ? AND s.order_id = ? ORDER BY s.id
"""  # noqa: S608 - constants
_CERTAIN = frozenset({State.PLANNED, State.APPLIED})
"""Of what the mirror does not show yet. It may show the effect of all else already."""


class _Asked(Struct):
    """What commands ask for of one order and the mirror does not show for certain."""

    units: dict[str, int]
    rest: bool = False
    any: bool = False
    in_doubt: bool = False

    def of(self, line_id: str, left: int) -> int:
        """Return how many of a line's `left` units nobody has asked for."""
        return 0 if self.rest else max(left - self.units.get(line_id, 0), 0)


class MirrorReader:
    """Reads the mirror on a connection that somebody else owns.

    The command of `record` is the reader's: what it asks for is nobody else's.
    """

    def __init__(
        self, connection: Connection, record: WaitingRecord | None = None
    ) -> None:
        self._connection = connection
        self._record = record

    def orders_called(self, store: str, name: str) -> list[OrderSummary]:
        """Return the orders with this number or name, external id or id.

        Numbers and names are found with and without their `#`: `1001`, `#1001`.
        """
        bare = name.removeprefix("#")
        is_number = bare.isascii() and bare.isdigit() and len(bare) < 19
        number = int(bare) if is_number else None
        other = name if bare.startswith("#") else bare
        # With `+store` the index over names is used, and not a scan of the store.
        rows = self._connection.execute(
            f"""
            {_SUMMARY} WHERE store = ?1 AND number = ?2
            UNION {_SUMMARY} WHERE +store = ?1 AND name IN (?3, ?4, ?5)
            UNION {_SUMMARY} WHERE store = ?1 AND external_id = ?3
            UNION {_SUMMARY} WHERE store = ?1 AND id = ?3
            """,
            (store, number, name, other, f"#{bare}"),
        ).fetchall()
        return [self._summary(store, *row) for row in rows]

    def order(self, store: str, order_id: str) -> OrderSummary | None:
        """Return one order by its platform id."""
        return self._order(store, order_id)

    def _order(
        self, store: str, order_id: str, before: int | None = None
    ) -> OrderSummary | None:
        """Return an order with what commands ask for of it, or only earlier ones."""
        row = self._connection.execute(
            f"{_SUMMARY} WHERE store = ? AND id = ?", (store, order_id)
        ).fetchone()
        return None if row is None else self._summary(store, *row, before=before)

    def variants_with_sku(self, store: str, sku: str) -> list[tuple[str, str]]:
        """Return (product id, variant id) of every variant with the SKU or GTIN."""
        return [(row[0], row[1]) for row in self._variants(store, sku)]

    def articles_called(self, store: str, name: str) -> list[tuple[str, str | None]]:
        """Return (variant id, SKU) of every variant with this SKU or GTIN today."""
        return [(row[1], row[2]) for row in self._variants(store, name)]

    def parcels_tracked(self, store: str, number: str) -> list[Parcel]:
        """Return the parcels with a tracking number."""
        rows = self._connection.execute(
            """
            SELECT s.id, s.order_id, coalesce(o.name, o.number, o.id), o.number,
                   o.external_id, o.cancelled_at IS NOT NULL
            FROM shipments s JOIN orders o ON o.store = s.store AND o.id = s.order_id
            WHERE s.tracking_number = ? AND s.store = ?
            """,
            (number, store),
        ).fetchall()
        return [
            Parcel(id_, order, str(name), number, external, bool(cancelled))
            for id_, order, name, number, external, cancelled in rows
        ]

    def named(self, store: str, name: str) -> NameInStore:
        """Return the orders and articles that a text names, for a connector."""
        variants = self._variants(store, name)
        return NameInStore(
            tuple(_shown(order) for order in self.orders_called(store, name)),
            frozenset(sku for _, _, sku in variants if sku is not None),
            frozenset(variant for _, variant, _ in variants),
        )

    def shipments_reported(
        self, store: str, order_id: str, record: int
    ) -> list[ReportedShipment]:
        """Return the shipments of an order, the first first, without this record."""
        values = {"store": store, "order": order_id, "record": record}
        rows = self._connection.execute(_REPORTED, values).fetchall()
        return [_reported(row) for row in rows if is_document(row[3])]

    def open_units(self, store: str, order_id: str) -> int:
        """Return how many units of an order the mirror shows as not shipped."""
        (units,) = self._connection.execute(
            "SELECT coalesce(sum(quantity - coalesce(fulfilled_quantity, 0)), 0)"
            " FROM order_items WHERE store = ? AND order_id = ?"
            " AND quantity > coalesce(fulfilled_quantity, 0)",
            (store, order_id),
        ).fetchone()
        return int(units)

    def parcels_of(self, store: str, order_id: str) -> list[OrderParcel]:
        """Return the parcels of an order that the store shows."""
        rows = self._connection.execute(_PARCELS, (store, order_id)).fetchall()
        return [
            OrderParcel(number, company, None if items is None else _held_units(items))
            for number, company, items in rows
        ]

    def _variants(self, store: str, name: str) -> list[tuple[str, str, str | None]]:
        rows = self._connection.execute(_BY_SKU, (store, name)).fetchall()
        if (whole := sku_matching.normalized(same_text(name))) is not None:
            spellings = sku_matching.spellings(whole)
            values = (store, json.dumps(spellings))
            # Exactly this SKU goes before another spelling of its number.
            for sku in () if rows else spellings:
                rows += self._connection.execute(_BY_SKU, (store, sku)).fetchall()
            rows += self._connection.execute(_BY_BARCODE, values).fetchall()
        rows = rows or self._looking_the_same(store, name)
        return list(dict.fromkeys((row[0], row[1], row[2]) for row in rows))

    def _looking_the_same(
        self, store: str, name: str
    ) -> list[tuple[str, str, str | None]]:
        """Return the variants of every SKU that cannot be told from a text by eye."""
        same = [
            x for x in self.skus_near(store, name) if same_text(x) == same_text(name)
        ]
        found = [self._connection.execute(_BY_SKU, (store, sku)) for sku in same]
        return [row for rows in found for row in rows.fetchall()]

    def skus_near(self, store: str, sku: str) -> list[str]:
        """Return other SKUs of the store that a person may take for this one."""
        return near_skus(self._connection, store, sku)

    def levels_listed(
        self, record: WaitingRecord, variant: str, as_of: str, listed_at: str
    ) -> list[ListedLevel]:
        """Return the other targets of a variant from the list of this record."""
        return levels_listed(self._connection, record, variant, as_of, listed_at)

    def hold(self, command: Command) -> Hold | None:
        """Return why an operator has to decide about a fulfill or cancel, or None."""
        order = self._order(command.store, command.target, command.seq)
        if order is None:
            return None
        return shipped_units.hold(self._connection, command, order)

    def overtaken(self, command: Command) -> str | None:
        """Say why an adjustment is not to be sent after all: a count has overtaken it.

        A count that did not know of it, and is not made true yet, is done anew.
        """
        return adjustments.supersede_reason(self._connection, command)

    def _summary(
        self,
        store: str,
        order_id: str,
        name: object,
        cancelled_at: str | None,
        updated_at: str,
        *,
        before: int | None = None,
    ) -> OrderSummary:
        items = self._connection.execute(
            "SELECT id, sku, quantity - fulfilled_quantity, variant_id FROM order_items"
            " WHERE store = ? AND order_id = ?",
            (store, order_id),
        ).fetchall()
        asked = self._asked(store, order_id, updated_at, before)
        return OrderSummary(
            id=order_id,
            name=str(name),
            cancelled=cancelled_at is not None
            or self._was_cancelled(store, order_id, updated_at),
            items=tuple(
                OpenLine(id_, sku, asked.of(id_, left), variant)
                for id_, sku, left, variant in items
            ),
            on_its_way=asked.any,
            in_doubt=asked.in_doubt,
        )

    def _was_cancelled(self, store: str, order_id: str, updated_at: str) -> bool:
        """Tell whether a command knows of a cancellation newer than the mirror."""
        values = {"store": store, "order": order_id, "updated_at": updated_at}
        return self._connection.execute(_CANCELLED, values).fetchone() is not None

    def _own(self) -> str:
        if self._record is None:
            return ""
        own = self._record
        return command_id(own.store, own.instance, own.key, "fulfill")

    def _asked(
        self, store: str, order_id: str, updated_at: str, before: int | None
    ) -> _Asked:
        values: dict[str, object] = {"store": store, "order": order_id}
        values["own"] = self._own()
        values |= {"updated_at": updated_at, "before": before}
        asked = _Asked({})
        for state, payload in self._connection.execute(_ASKED, values):
            said = document_of(payload)
            if said.get("number_only"):
                continue
            asked.any = True
            # What is damaged may have asked for any units.
            asked.in_doubt = asked.in_doubt or state not in _CERTAIN or not said
            parts = said.get("lines") or []
            asked.rest = asked.rest or not parts
            for part in parts:
                units = asked.units.get(part["line_id"], 0) + part["quantity"]
                asked.units[part["line_id"]] = units
        return asked


def _shown(order: OrderSummary) -> OrderInStore:
    lines = (LineInStore(line.sku, line.variant_id, line.left) for line in order.items)
    return OrderInStore(order.name, order.cancelled, tuple(lines), order.in_doubt)


def _reported(row: tuple[Any, ...]) -> ReportedShipment:
    instance, key, locator, record, command, payload = row
    asked = document_of(payload)
    lines: dict[str, int] = {}
    for part in asked.get("lines") or ():
        units = lines.get(part["line_id"], 0) + part["quantity"]
        lines[part["line_id"]] = units
    number = asked.get("tracking_number")
    return ReportedShipment(instance, key, locator, record, command, number, lines)


def _held_units(items: str) -> dict[str, int] | None:
    """Return the units of each line in a parcel; None where the store names none."""
    units: dict[str, int] = {}
    for item in json.loads(items) or ():
        named = item if isinstance(item, dict) else {}
        line, count = named.get("lineItemId"), named.get("quantity")
        if not isinstance(line, str) or not isinstance(count, int):
            return None
        units[line] = units.get(line, 0) + count
    return units or None
