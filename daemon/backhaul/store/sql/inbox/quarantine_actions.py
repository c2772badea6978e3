"""Operator actions on quarantined rows, each with its audit entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.identity import command_id
from backhaul.errors import BackhaulError
from backhaul.store.inbox import QuarantinedRow
from backhaul.store.matching import NewCommand
from backhaul.store.operations import AuditEntry
from backhaul.store.sql.commands.planning import plan
from backhaul.store.sql.dialect import document_of
from backhaul.store.sql.family import Family, write
from backhaul.store.sql.inbox import unreadable_orders
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.operations.audit_log import add_entry
from backhaul.store.sql.records.acceptance import KEPT_BY_CONNECTOR

if TYPE_CHECKING:
    from backhaul.store.mirror import OrderSummary
    from backhaul.store.sql.family import Connection

_ROW = """
    SELECT q.id, q.source, q.name, q.key, q.locator, q.state, q.reason,
           coalesce(r.payload, 'null') AS payload, r.command_id,
           coalesce(r.store, '') AS store
    FROM quarantine q
    LEFT JOIN records r ON r.instance = q.name AND r.key = q.key
    WHERE q.id = :id
"""
_RETRY = """
    UPDATE records SET state = :state, reason = '',
           payload = coalesce(:payload, payload), decided = 1, received_at = :now,
           retry_at = :now
    WHERE instance = :name AND key = :key
"""
_CORRECT = """
    UPDATE records SET state = 'accepted', reason = :reason, command_id = :command
    WHERE instance = :name AND key = :key
"""
_DROP = "UPDATE records SET state = 'dropped' WHERE instance = :name AND key = :key"
_CLOSE = "UPDATE quarantine SET state = :state WHERE id = :id"
_EVENT = "event"
_MAY_RETRY = frozenset({"open", "dropped"})
_MAY_DROP = frozenset({"open"})
"""The states in which a row may be retried or dropped."""


class SqlQuarantine(Family):
    """Every method is one transaction."""

    @write
    def find(self, connection: Connection, id_: int) -> QuarantinedRow:
        return _find(connection, id_, _MAY_RETRY)

    @write
    def retry(
        self,
        connection: Connection,
        id_: int,
        payload: bytes | None,
        who: str,
        reason: str,
    ) -> str:
        now = self._now()
        row = _find(connection, id_, _MAY_RETRY)
        edited = payload.decode() if payload else None
        kept = edited or row.payload
        if kept == "null":
            raise BackhaulError(
                f"Backhaul could not read row {id_} as a record, so a retry without"
                f" changes fails again. Edit the row: backhaul quarantine edit {id_}"
                " --kind KIND --set NAME=VALUE"
            )
        by_connector = kept == KEPT_BY_CONNECTOR.decode()
        state = "approved" if by_connector else "waiting"
        values = _key(row) | {"state": state, "payload": edited, "now": now}
        connection.execute(_RETRY, values)
        _close(connection, row, "retried")
        verb = "edit" if payload else "retry"
        _add_entry(connection, row, AuditEntry(who, verb, reason), now)
        return state

    @write
    def correct(self, connection: Connection, id_: int, who: str, reason: str) -> str:
        now = self._now()
        row = _find(connection, id_, _MAY_RETRY)
        command = _correction(connection, row)
        cause = f"row {id_} of the quarantine, corrected by {who}"
        plan(connection, row.store, row.name, command, cause, now)
        values = {"reason": "only its number is sent", "command": command.id}
        connection.execute(_CORRECT, _key(row) | values)
        _close(connection, row, "retried")
        _add_entry(connection, row, AuditEntry(who, "correct", reason), now)
        return command.id

    @write
    def drop(self, connection: Connection, id_: int, who: str, reason: str) -> None:
        now = self._now()
        row = _find(connection, id_, _MAY_DROP, events=True)
        if row.source == _EVENT:
            unreadable_orders.discard(connection, int(row.key), now)
        connection.execute(_DROP, _key(row))
        _close(connection, row, "dropped")
        _add_entry(connection, row, AuditEntry(who, "drop", reason), now)


def may_correct(connection: Connection, id_: int) -> bool:
    """Return True if the number of a quarantined row can be sent to the store."""
    try:
        _correction(connection, _row(connection, id_))
    except BackhaulError:
        return False
    return True


def _correction(connection: Connection, row: QuarantinedRow) -> NewCommand:
    """Return the command that sends the number of a quarantined row to the store.

    Raises BackhaulError unless the row is a shipment with a number, and its order is
    shipped completely.
    """
    document = document_of(row.payload)
    record = document.get("record") or {}
    number = record.get("tracking_number")
    if document.get("kind") != "fulfill" or not number:
        raise BackhaulError(
            f"row {row.id} is not a shipment with a tracking number, so nothing can be"
            " sent"
        )
    order = _order(connection, row, str(record["order"]))
    _require_number_only(connection, row.store, order, number)
    asked = {
        "tracking_company": record.get("tracking_company"),
        "tracking_number": number,
        "lines": [],
        "number_only": True,
    }
    identity = command_id(row.store, row.name, f"{row.key}:number", "fulfill")
    return NewCommand(identity, "fulfill", order.id, f"order:{order.id}", asked)


def _order(connection: Connection, row: QuarantinedRow, name: str) -> OrderSummary:
    mirror = MirrorReader(connection)
    orders = mirror.orders_named(row.store, name)
    if len(orders) != 1:
        found = "is not known" if not orders else "could be any of several orders"
        raise BackhaulError(f"order {name!r} of row {row.id} {found}")
    return orders[0]


def _require_number_only(
    connection: Connection, store: str, order: OrderSummary, number: str
) -> None:
    """Raise BackhaulError if more than the number is missing in the store."""
    if order.cancelled:
        raise BackhaulError(
            f"order {order.name} is cancelled; no number is sent for it"
        )
    mirror = MirrorReader(connection)
    parcels = mirror.parcels_of(store, order.id)
    if number in {parcel.number for parcel in parcels}:
        raise BackhaulError(f"order {order.name} already shows the number {number}")
    if open_ := mirror.open_units(store, order.id):
        raise BackhaulError(
            f"order {order.name} still has {open_} open units in the store, and the"
            " number alone would ship all of them. To ship the row's units, retry"
            " the row. To change only the number, use the store's dashboard"
        )


def _row(connection: Connection, id_: int) -> QuarantinedRow:
    found = connection.execute(_ROW, {"id": id_}).fetchone()
    if found is None:
        raise BackhaulError(f"there is no row {id_}; see: backhaul quarantine list")
    return QuarantinedRow(*found)


def _find(
    connection: Connection, id_: int, states: frozenset[str], *, events: bool = False
) -> QuarantinedRow:
    """Return a row that is in one of the states. Raises BackhaulError."""
    row = _row(connection, id_)
    if row.source != "record" and not (events and row.source == _EVENT):
        raise BackhaulError(
            f"row {id_} is an event; correct the cause, then reprocess it: "
            "backhaul events reprocess --state quarantined"
        )
    if row.state not in states or row.command_id is not None:
        raise BackhaulError(f"row {id_} is now {row.state}; nothing was changed")
    return row


def _key(row: QuarantinedRow) -> dict[str, str]:
    """Return the key of the record that the row became."""
    return {"name": row.name, "key": row.key}


def _close(connection: Connection, row: QuarantinedRow, state: str) -> None:
    connection.execute(_CLOSE, {"id": row.id, "state": state})


def _add_entry(
    connection: Connection, row: QuarantinedRow, entry: AuditEntry, now: str
) -> None:
    """Add an audit entry whose action and detail name the row."""
    detail = f"row {row.id} ({row.name} {row.locator or row.key}): {entry.detail}"
    entry = AuditEntry(entry.who, f"quarantine {entry.action}", detail)
    add_entry(connection, now, entry)
