"""Incidents: a parcel that crossed a cancellation or a refund on its way.

An incident is added in the transaction that records the command, or folds the order,
that shows it. It stays open until an operator resolves it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import json

from backhaul.core.clock import from_text, to_text
from backhaul.core.lifecycle import Cause
from backhaul.core.parcels import ShipmentIncident
from backhaul.errors import BackhaulError
from backhaul.store.commands import Incident
from backhaul.store.operations import AuditEntry
from backhaul.store.sql.dialect import document_of, hint
from backhaul.store.sql.family import Family, write
from backhaul.store.sql.mirror.rows import KEYS, part_of_key
from backhaul.store.sql.mirror.shipped_units import out_by_line
from backhaul.store.sql.operations.operators import add_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.core.resources import Order
    from backhaul.store.commands import Transition
    from backhaul.store.matching import Command
    from backhaul.store.sql.family import Connection

CROSSED_WITHIN = timedelta(days=1)
"""A cancellation so soon after a parcel left may not know of the parcel."""
OPEN = """
    SELECT id, store, order_id, command_id, at, says FROM incidents
    WHERE resolved_at IS NULL ORDER BY id
"""
_ADD = """
    INSERT INTO incidents (store, kind, order_id, command_id, at, says)
    VALUES (:store, :kind, :order, :command, :at, :says)
    ON CONFLICT (order_id, store, kind, command_id) DO NOTHING
"""
_NAME = """
    SELECT coalesce(name, CAST(number AS TEXT), id) FROM orders
    WHERE store = :store AND id = :order
"""
_ACCEPTED = "SELECT accepted FROM commands WHERE seq = :seq"
_OWN_CANCELS = f"""
    SELECT c.store, c.target FROM {KEYS} commands c
      ON c.target = {part_of_key(1)} AND {hint("+")}c.store = {part_of_key(0)}
    WHERE kind = 'cancel' AND state IN ('sending', 'uncertain', 'applied')
"""  # noqa: S608 - constants
# The units of a returned parcel are in the warehouse again.
_LEFT = f"""
    SELECT c.store, c.target, c.id, c.payload, c.effect_id FROM {KEYS} commands c
      ON c.target = {part_of_key(1)} AND {hint("+")}c.store = {part_of_key(0)}
    WHERE kind = 'fulfill' AND state = 'applied'
      AND attempts > 0 AND settled_at >= :since
      AND NOT EXISTS (SELECT 1 FROM incidents i
        WHERE i.store = c.store AND i.order_id = c.target AND i.command_id = c.id)
      AND NOT EXISTS (SELECT 1 FROM parcels p WHERE p.store = c.store
        AND p.shipment_id = c.effect_id AND p.status = 'returned')
"""  # noqa: S608 - constants
_RESOLVE = """
    UPDATE incidents
    SET resolved_at = :now, resolved_by = :who, resolution = :resolution
    WHERE id = :id AND resolved_at IS NULL
    RETURNING id, store, order_id, command_id, at, says, resolved_at, resolved_by,
              resolution
"""


class SqlIncidents(Family):
    """The incidents of every store, in one table."""

    @write
    def resolve(
        self, connection: Connection, id_: int, who: str, resolution: str
    ) -> Incident:
        now = self._now()
        values = {"now": now, "who": who, "resolution": resolution, "id": id_}
        row = connection.execute(_RESOLVE, values).fetchone()
        if row is None:
            raise BackhaulError(
                f"there is no open incident {id_}; see: backhaul incidents list"
            )
        entry = AuditEntry(who, "incidents resolve", f"{id_}: {resolution}")
        add_entry(connection, now, entry)
        return Incident(*row)


def add_of_command(
    connection: Connection, command: Command, change: Transition, now: str
) -> None:
    """Add the incident that the proof of an applied command shows, if any."""
    if crossed := change.evidence.get("crossed"):
        _add(connection, command, crossed["kind"], crossed["says"], now)
    elif command.kind == "cancel":
        _add_of_cancellation(connection, command, change, now)


def _add_of_cancellation(
    connection: Connection, command: Command, change: Transition, now: str
) -> None:
    payload, place = command.payload, (command.store, command.target)
    is_own = bool(change.effect_id) or Cause.PERSON_CONFIRMS in change.causes
    if payload.get("restock_unshipped") and not is_own:
        says = (
            "was cancelled without a restock, and not by this daemon: the units that"
            " have not shipped were not put back"
        )
        _add(connection, command, "kept", _named(connection, *place, says), now)
    values = {"seq": command.seq}
    (accepted,) = connection.execute(_ACCEPTED, values).fetchone()
    if not payload.get("restock") or accepted is not None:
        return
    out = out_by_line(connection, *place, change.evidence.get("fulfilled") or {})
    if units := sum(out.values()):
        says = (
            f"was cancelled with a restock after {_counted(units)} had shipped: the"
            f" stock is {_counted(units)} too high"
        )
        _add(connection, command, "restocked", _named(connection, *place, says), now)


def add_of_orders(
    connection: Connection, cancelled: Sequence[tuple[str, Order]], now: str
) -> None:
    """Add an incident for each of our parcels that a new cancellation crossed.

    `cancelled` are orders that were cancelled, each with its store.
    """
    if not cancelled:
        return
    keys = json.encode([*{(store, order.id) for store, order in cancelled}]).decode()
    since = to_text(from_text(now) - CROSSED_WITHIN)
    left = connection.execute(_LEFT, {"keys": keys, "since": since}).fetchall()
    if not left:
        return
    ours = {tuple(row) for row in connection.execute(_OWN_CANCELS, {"keys": keys})}
    rows = []
    for store, order in cancelled:
        data = document_of(order.document)
        for place in [one for one in left if tuple(one[:2]) == (store, order.id)]:
            _, _, command, payload, shipment = place
            crossing = ShipmentIncident.of(order, data, document_of(payload), shipment)
            if (store, order.id) in ours or crossing is None:
                continue
            left.remove(place)  # a later version of the order adds no second incident
            rows.append(
                {
                    "store": store,
                    "kind": crossing.kind,
                    "order": order.id,
                    "command": command,
                    "at": now,
                    "says": crossing.says,
                }
            )
    connection.executemany(_ADD, rows)


def _add(
    connection: Connection, command: Command, kind: str, says: str, now: str
) -> None:
    values = {
        "store": command.store,
        "kind": kind,
        "order": command.target,
        "command": command.id,
        "at": now,
        "says": says,
    }
    connection.execute(_ADD, values)


def _named(connection: Connection, store: str, order: str, says: str) -> str:
    row = connection.execute(_NAME, {"store": store, "order": order}).fetchone()
    return f"order {row[0] if row else order} {says}"


def _counted(units: int) -> str:
    return f"{units:,} unit{'' if units == 1 else 's'}"
