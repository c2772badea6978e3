"""What an operator does to a quarantined row, with its audit entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.core.clock import to_text
from backhaul.core.identity import command_id
from backhaul.errors import BackhaulError
from backhaul.store.matching import NewCommand
from backhaul.store.operations import AuditEntry
from backhaul.store.sql.commands.planning import plan
from backhaul.store.sql.documents import document_of
from backhaul.store.sql.inbox import unreadable_orders
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.operations.audit_log import add_entry
from backhaul.store.sql.records.repository import KEPT_BY_CONNECTOR

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from backhaul.core.clock import Clock
    from backhaul.store.mirror import OrderSummary
    from backhaul.store.sqlite.writer import Writer


def may_correct(connection: sqlite3.Connection, row: Mapping[str, Any]) -> bool:
    """Return whether the number of a quarantined row can be sent to the store."""
    try:
        correction(connection, row)
    except BackhaulError:
        return False
    return True


def correction(connection: sqlite3.Connection, row: Mapping[str, Any]) -> NewCommand:
    """Return the command that sends the number of a quarantined row to the store.

    `row` has `id`, `name`, `key`, `store` and `payload`. Raises BackhaulError where the
    row is no shipment with a number, or its order is not shipped whole.
    """
    document = document_of(row["payload"])
    record = document.get("record") or {}
    number = record.get("tracking_number")
    if document.get("kind") != "fulfill" or not number:
        raise BackhaulError(
            f"row {row['id']} is not a shipment with a tracking number, so there is no "
            "number to send"
        )
    order = _order(connection, row, str(record["order"]))
    _check(connection, row, order, number)
    store, target = row["store"], order.id
    asked = {
        "tracking_company": record.get("tracking_company"),
        "tracking_number": number,
        "lines": [],
        "number_only": True,
    }
    identity = command_id(store, row["name"], f"{row['key']}:number", "fulfill")
    return NewCommand(identity, "fulfill", target, f"order:{target}", asked)


def _order(
    connection: sqlite3.Connection, row: Mapping[str, Any], name: str
) -> OrderSummary:
    orders = MirrorReader(connection).orders_called(row["store"], name)
    if len(orders) != 1:
        found = "is not known" if not orders else "could be any of several orders"
        raise BackhaulError(f"order {name!r} of row {row['id']} {found}")
    return orders[0]


def _check(
    connection: sqlite3.Connection,
    row: Mapping[str, Any],
    order: OrderSummary,
    number: str,
) -> None:
    if order.cancelled:
        raise BackhaulError(
            f"order {order.name} is cancelled; no number is sent for it"
        )
    mirror = MirrorReader(connection)
    parcels = mirror.parcels_of(row["store"], order.id)
    if number in {parcel.number for parcel in parcels}:
        raise BackhaulError(f"order {order.name} shows number {number} already")
    if open_ := mirror.open_units(row["store"], order.id):
        raise BackhaulError(
            f"order {order.name} has {open_} units that are not shipped in the store, "
            "and a number alone would ship them; retry ships the row's units, or "
            "change the number in the store's dashboard"
        )


_ROW = """
    SELECT q.id, q.source, q.name, q.key, q.locator, q.state, q.reason, r.payload,
           r.command_id, r.store
    FROM quarantine q
    LEFT JOIN records r ON r.instance = q.name AND r.key = q.key
    WHERE q.id = ?
"""
_COLUMNS = (
    *("id", "source", "name", "key", "locator", "state", "reason", "payload"),
    *("command_id", "store"),
)
EVENT = "event"
_TRIED_AGAIN = frozenset({"open", "dropped"})
_GIVEN_UP = frozenset({"open"})
"""In which states a row may be tried again, and in which given up."""


class SqlQuarantine:
    """Every verb is one transaction."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def find(self, id_: int) -> dict[str, Any]:
        """Return a row of a connector that may be tried again. Raises BackhaulError."""
        return await self._writer.urgent(
            lambda connection: _find(connection, id_, _TRIED_AGAIN)
        )

    async def retry(
        self, id_: int, payload: bytes | None, who: str, reason: str
    ) -> str:
        """Match a row again, with another payload where one is given.

        That is also the way back for a row that was given up. Returns the new state of
        its record: `approved` where its connector is to apply it, else `waiting`.
        """

        def unit(connection: sqlite3.Connection) -> str:
            now = to_text(self._clock.now())
            row = _find(connection, id_, _TRIED_AGAIN)
            kept = payload.decode() if payload else row["payload"]
            if kept == "null":
                raise BackhaulError(
                    f"row {id_} never became a record, so there is nothing to try "
                    f"again; correct it: backhaul quarantine edit {id_} --kind …"
                )
            by_connector = kept == KEPT_BY_CONNECTOR.decode()
            state = "approved" if by_connector else "waiting"
            connection.execute(
                "UPDATE records SET state = ?, reason = '', payload = ?, decided = 1,"
                " received_at = ?, retry_at = ? WHERE instance = ? AND key = ?",
                (state, kept, now, now, row["name"], row["key"]),
            )
            verb = "edit" if payload else "retry"
            _close(connection, row, "retried")
            _write_down(connection, row, verb, who, reason, now)
            return state

        return await self._writer.urgent(unit)

    async def correct(self, id_: int, who: str, reason: str) -> str:
        """Plan to send the number of a shipment whose order was shipped whole already.

        Returns the id of the command. Raises BackhaulError where that cannot be done.
        """

        def unit(connection: sqlite3.Connection) -> str:
            now = to_text(self._clock.now())
            row = _find(connection, id_, _TRIED_AGAIN)
            command = correction(connection, row)
            cause = f"row {id_} of the quarantine, corrected by {who}"
            plan(connection, row["store"], row["name"], command, cause, now)
            connection.execute(
                "UPDATE records SET state = 'accepted', reason = ?, command_id = ?"
                " WHERE instance = ? AND key = ?",
                ("only its number is sent", command.id, row["name"], row["key"]),
            )
            _close(connection, row, "retried")
            _write_down(connection, row, "correct", who, reason, now)
            return command.id

        return await self._writer.urgent(unit)

    async def drop(self, id_: int, who: str, reason: str) -> None:
        """Give a row up: it stays to be read, and is tried no more.

        A record is not tried again even when its connector hands it in again. The
        commands that wait because of an event may leave.
        """

        def unit(connection: sqlite3.Connection) -> None:
            now = to_text(self._clock.now())
            row = _find(connection, id_, _GIVEN_UP, events=True)
            if row["source"] == EVENT:
                unreadable_orders.discard(connection, int(row["key"]), now)
            connection.execute(
                "UPDATE records SET state = 'dropped' WHERE instance = ? AND key = ?",
                (row["name"], row["key"]),
            )
            _close(connection, row, "dropped")
            _write_down(connection, row, "drop", who, reason, now)

        await self._writer.urgent(unit)


def _find(
    connection: sqlite3.Connection,
    id_: int,
    states: frozenset[str],
    *,
    events: bool = False,
) -> dict[str, Any]:
    found = connection.execute(_ROW, (id_,)).fetchone()
    if found is None:
        raise BackhaulError(f"there is no row {id_}; see: backhaul quarantine list")
    row = dict(zip(_COLUMNS, found, strict=True))
    if row["source"] != "record" and not (events and row["source"] == EVENT):
        raise BackhaulError(
            f"row {id_} is an event; correct the cause, then reprocess it: "
            "backhaul events reprocess --state quarantined"
        )
    if row["state"] not in states or row["command_id"] is not None:
        raise BackhaulError(f"row {id_} is {row['state']} by now; nothing was changed")
    return row


def _close(connection: sqlite3.Connection, row: dict[str, Any], state: str) -> None:
    connection.execute(
        "UPDATE quarantine SET state = ? WHERE id = ?", (state, row["id"])
    )


def _write_down(
    connection: sqlite3.Connection,
    row: dict[str, Any],
    verb: str,
    who: str,
    reason: str,
    now: str,
) -> None:
    detail = f"row {row['id']} ({row['name']} {row['locator'] or row['key']}): {reason}"
    add_entry(connection, now, AuditEntry(who, f"quarantine {verb}", detail))
