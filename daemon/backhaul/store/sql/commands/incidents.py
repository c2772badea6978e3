"""Incidents: a parcel that crossed a cancellation or a refund on its way.

They are written in the transaction that records the command, or folds the order, that
shows them. An incident stays open until an operator resolves it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import from_text, to_text
from backhaul.core.lifecycle import Cause
from backhaul.core.parcels import ShipmentIncident
from backhaul.errors import BackhaulError
from backhaul.store.commands import Incident
from backhaul.store.operations import AuditEntry
from backhaul.store.sql.documents import document_of
from backhaul.store.sql.mirror.shipped_units import out_by_line
from backhaul.store.sql.operations.audit_log import add_entry

if TYPE_CHECKING:
    import sqlite3

    from backhaul.core.clock import Clock
    from backhaul.core.resources import Order
    from backhaul.store.commands import Transition
    from backhaul.store.matching import Command
    from backhaul.store.sqlite.writer import Writer

CROSSED_WITHIN = timedelta(days=1)
"""A cancellation so soon after a parcel left may not know of it; later it does."""
OPEN = """
    SELECT id, store, order_id, command_id, at, says FROM incidents
    WHERE resolved_at IS NULL ORDER BY id
"""
_ADD = """
    INSERT OR IGNORE INTO incidents (store, kind, order_id, command_id, at, says)
    VALUES (?, ?, ?, ?, ?, ?)
"""
_ORDER = "SELECT coalesce(name, number, id) FROM orders WHERE store = ? AND id = ?"
_ACCEPTED = "SELECT accepted IS NOT NULL FROM commands WHERE seq = ?"
_OWN_CANCEL = """
    SELECT 1 FROM commands WHERE store = ? AND target = ? AND kind = 'cancel'
    AND state IN ('sending', 'uncertain', 'applied')
"""
# A parcel that came back is on the shelf again.
_LEFT = """
    SELECT id, CAST(payload AS BLOB), effect_id FROM commands c
    WHERE store = ?1 AND target = ?2 AND kind = 'fulfill' AND state = 'applied'
      AND attempts > 0 AND settled_at >= ?3
      AND NOT EXISTS (SELECT 1 FROM incidents i
        WHERE i.store = ?1 AND i.order_id = ?2 AND i.command_id = c.id)
      AND NOT EXISTS (SELECT 1 FROM parcels p WHERE p.store = ?1
        AND p.shipment_id = c.effect_id AND p.status = 'returned')
"""


def add_of_command(
    connection: sqlite3.Connection, command: Command, settlement: Transition, now: str
) -> None:
    """Add the incident that the proof of an applied command shows, if any."""
    if crossed := settlement.evidence.get("crossed"):
        _add(connection, command, crossed["kind"], crossed["says"], now)
    elif command.kind == "cancel":
        _of_cancellation(connection, command, settlement, now)


def _of_cancellation(
    connection: sqlite3.Connection, command: Command, settlement: Transition, now: str
) -> None:
    payload, place = command.payload, (command.store, command.target)
    is_own = bool(settlement.effect_id) or Cause.PERSON_CONFIRMS in settlement.causes
    if payload.get("restock_unshipped") and not is_own:
        says = (
            "was cancelled without a restock, and not by this daemon: the units that"
            " have not shipped were not put back"
        )
        _add(connection, command, "kept", _named(connection, *place, says), now)
    (is_accepted,) = connection.execute(_ACCEPTED, (command.seq,)).fetchone()
    if not payload.get("restock") or is_accepted:
        return
    out = out_by_line(connection, *place, settlement.evidence.get("fulfilled") or {})
    if units := sum(out.values()):
        says = (
            f"was cancelled with a restock after {_counted(units)} had shipped: the"
            f" stock is {_counted(units)} too high"
        )
        _add(connection, command, "restocked", _named(connection, *place, says), now)


def add_of_order(
    connection: sqlite3.Connection, store: str, order: Order, now: str
) -> None:
    """Add an incident for each parcel of ours that a new cancellation crossed."""
    if order.cancelled_at is None:
        return
    place = (store, order.id)
    since = to_text(from_text(now) - CROSSED_WITHIN)
    left = connection.execute(_LEFT, (*place, since)).fetchall()
    if not left or connection.execute(_OWN_CANCEL, place).fetchone():
        return
    data = document_of(order.document)
    for command, payload, shipment in left:
        crossing = ShipmentIncident.of(order, data, document_of(payload), shipment)
        if crossing is not None:
            values = (store, crossing.kind, order.id, command, now, crossing.says)
            connection.execute(_ADD, values)


def _add(
    connection: sqlite3.Connection, command: Command, kind: str, says: str, now: str
) -> None:
    values = (command.store, kind, command.target, command.id, now, says)
    connection.execute(_ADD, values)


def _named(connection: sqlite3.Connection, store: str, order: str, says: str) -> str:
    row = connection.execute(_ORDER, (store, order)).fetchone()
    return f"order {row[0] if row else order} {says}"


def _counted(units: int) -> str:
    return f"{units:,} unit{'' if units == 1 else 's'}"


class SqlIncidents:
    """Closes incidents."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def resolve(self, id_: int, who: str, resolution: str) -> Incident:
        """Close an open incident, with an audit entry. Raises BackhaulError."""

        def unit(connection: sqlite3.Connection) -> Incident:
            now = to_text(self._clock.now())
            row: Any = connection.execute(
                "UPDATE incidents SET resolved_at = ?, resolved_by = ?, resolution = ?"
                " WHERE id = ? AND resolved_at IS NULL"
                " RETURNING id, store, order_id, command_id, at, says, resolved_at,"
                " resolved_by, resolution",
                (now, who, resolution, id_),
            ).fetchone()
            if row is None:
                raise BackhaulError(
                    f"there is no open incident {id_}; see: backhaul incidents list"
                )
            deed = AuditEntry(who, "incidents resolve", f"{id_}: {resolution}")
            add_entry(connection, now, deed)
            return Incident(*row)

        return await self._writer.urgent(unit)
