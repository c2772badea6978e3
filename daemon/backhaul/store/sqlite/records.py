"""Records from connectors: kept with their cursor, matched, planned or set aside."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from backhaul.core.clock import from_text, to_text
from backhaul.store.contract import (
    Matched,
    QuarantinedRow,
    RecordOutcome,
    Tracked,
    Unmatched,
    WaitingRecord,
)
from backhaul.store.sqlite.commands import plan
from backhaul.store.sqlite.connections import concerns_the_file
from backhaul.store.sqlite.corrections import KIND
from backhaul.store.sqlite.mirror_reading import MirrorReader
from backhaul.store.sqlite.quarantine import set_aside
from backhaul.store.sqlite.targets import plan_target
from backhaul.store.sqlite.tracking import track

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from backhaul.core.clock import Clock
    from backhaul.store.contract import MatchOne, NewRecord
    from backhaul.store.sqlite.writer import Writer

SHORTEST_REST = timedelta(milliseconds=50)
LONGEST_REST = timedelta(seconds=1)
"""A waiting record rests as long as it has waited: its order is a moment behind, or far
away."""


class SqliteRecords:
    """Every verb is one transaction."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def cursor(self, instance: str) -> str | None:
        """Return how far the instance has been read."""

        def unit(connection: sqlite3.Connection) -> str | None:
            row = connection.execute(
                "SELECT value FROM cursors WHERE instance = ?", (instance,)
            ).fetchone()
            return row[0] if row else None

        return await self._writer.urgent(unit)

    async def accept(
        self,
        instance: str,
        store: str,
        records: Sequence[NewRecord],
        cursor: str | None,
        match_one: MatchOne,
    ) -> list[RecordOutcome]:
        """Store records and cursor in one transaction, planning what matches."""

        def unit(connection: sqlite3.Connection) -> list[RecordOutcome]:
            now = to_text(self._clock.now())
            if cursor is not None:
                connection.execute(
                    "INSERT OR REPLACE INTO cursors VALUES (?, ?)", (instance, cursor)
                )
            return [
                _accept_one(connection, instance, store, record, now, match_one)
                for record in records
            ]

        return await self._writer.urgent(unit)

    async def match(self, match_one: MatchOne, limit: int) -> list[RecordOutcome]:
        """Try waiting records again, those that rested longest first."""

        def unit(connection: sqlite3.Connection) -> list[RecordOutcome]:
            moment = self._clock.now()
            now = to_text(moment)
            rows = connection.execute(
                """
                SELECT id, instance, store, key, payload, locator, received_at
                FROM records
                WHERE state = 'waiting' AND (retry_at <= ? OR retry_at > ?)
                ORDER BY retry_at LIMIT ?
                """,
                # Further ahead than the longest rest: the clock was set back since.
                (now, to_text(moment + LONGEST_REST), limit),
            ).fetchall()
            waiting = [WaitingRecord(*row) for row in rows]
            connection.executemany(
                "UPDATE records SET retry_at = ? WHERE id = ?",
                [(_rested(record, moment), record.id) for record in waiting],
            )
            return [_match(connection, record, now, match_one) for record in waiting]

        return await self._writer.background(unit)

    async def unreported(self, instance: str) -> list[QuarantinedRow]:
        """Return quarantined rows that the connector was not told of."""

        def unit(connection: sqlite3.Connection) -> list[QuarantinedRow]:
            rows = connection.execute(
                """
                SELECT id, key, raw, reason, locator FROM quarantine
                WHERE source = 'record' AND name = ? AND reported = 0 ORDER BY id
                """,
                (instance,),
            )
            return [QuarantinedRow(*row) for row in rows]

        return await self._writer.urgent(unit)

    async def mark_reported(self, ids: Sequence[int]) -> None:
        """Remember that the connector was told."""

        def unit(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "UPDATE quarantine SET reported = 1 WHERE id = ?",
                [(id_,) for id_ in ids],
            )

        await self._writer.urgent(unit)


def _rested(record: WaitingRecord, now: datetime) -> str:
    waited = now - from_text(record.received_at)
    return to_text(now + min(max(waited, SHORTEST_REST), LONGEST_REST))


def _accept_one(
    connection: sqlite3.Connection,
    instance: str,
    store: str,
    new: NewRecord,
    now: str,
    match_one: MatchOne,
) -> RecordOutcome:
    state = "quarantined" if new.payload is None else "waiting"
    payload = new.payload or b"null"
    cursor = connection.execute(
        """
        INSERT OR IGNORE INTO records (instance, store, key, payload, raw, locator,
                                       state, reason, received_at, retry_at,
                                       caused_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            instance,
            store,
            new.key,
            payload.decode(),
            new.raw,
            new.locator,
            state,
            new.reason,
            now,
            now,
            now,
        ),
    )
    record = WaitingRecord(
        cursor.lastrowid or 0, instance, store, new.key, payload, new.locator, now
    )
    if cursor.rowcount == 0:
        return _accept_again(connection, record, new, now, match_one)
    if new.payload is None:
        set_aside(
            connection,
            "record",
            instance,
            new.key,
            new.raw,
            new.reason,
            new.locator,
            now,
        )
        return RecordOutcome(record, "quarantined", new.reason)
    return _match(connection, record, now, match_one)


def _accept_again(
    connection: sqlite3.Connection,
    record: WaitingRecord,
    new: NewRecord,
    now: str,
    match_one: MatchOne,
) -> RecordOutcome:
    """Take a known key: only one that was set aside for want of a match is tried anew.

    It never became a command, so it cannot be doubled; whoever hands the row in again
    has mended what was missing, or waits for an answer.
    """
    row = connection.execute(
        """
        UPDATE records SET state = 'waiting', reason = '', payload = ?, raw = ?,
               locator = ?, received_at = ?, retry_at = ?
        WHERE instance = ? AND key = ? AND state = 'quarantined'
          AND payload != 'null' AND command_id IS NULL AND ? RETURNING id
        """,
        (
            record.payload.decode(),
            new.raw,
            new.locator,
            now,
            now,
            record.instance,
            new.key,
            new.payload is not None,
        ),
    ).fetchone()
    if row is None:
        return RecordOutcome(record, *_known(connection, record, new))
    connection.execute(
        "UPDATE quarantine SET state = 'retried'"
        " WHERE source = 'record' AND name = ? AND key = ?",
        (record.instance, new.key),
    )
    return _match(connection, replace(record, id=row[0]), now, match_one)


def _known(
    connection: sqlite3.Connection, record: WaitingRecord, new: NewRecord
) -> tuple[str, str]:
    """Tell a record that came again from another that bears the same key."""
    (held,) = connection.execute(
        "SELECT payload FROM records WHERE instance = ? AND key = ?",
        (record.instance, new.key),
    ).fetchone()
    if new.payload is None or held == "null" or same_record(held, new.payload):
        return "duplicate", "known already"
    return "conflict", "its key is known with other content; the first one counts"


def same_record(held: str, given: bytes) -> bool:
    """Tell whether two payloads say the same; where they stood does not matter."""
    known, other = msgspec.json.decode(held), msgspec.json.decode(given)
    for document in (known, other):
        if isinstance(document, dict):
            document.get("record", {}).pop("locator", None)
    return bool(known == other)


def _match(
    connection: sqlite3.Connection,
    record: WaitingRecord,
    now: str,
    match_one: MatchOne,
) -> RecordOutcome:
    """Match one record; one that cannot even be tried is set aside, not in the way."""
    connection.execute("SAVEPOINT record")
    try:
        outcome = _try_match(connection, record, now, match_one)
    except Exception as error:
        if concerns_the_file(error):
            raise
        connection.execute("ROLLBACK TO record")
        reason = f"cannot be matched: {type(error).__name__}: {error}"
        outcome = _keep(connection, record, Unmatched(reason, final=True), now)
    connection.execute("RELEASE record")
    return outcome


def _try_match(
    connection: sqlite3.Connection,
    record: WaitingRecord,
    now: str,
    match_one: MatchOne,
) -> RecordOutcome:
    found = match_one(record, MirrorReader(connection))
    if isinstance(found, Matched):
        command = found.command
        cause = f"record {record.instance} {record.locator or record.key}"
        plan(connection, record.store, record.instance, command, cause, now)
        _date_back(connection, record, command.id, now)
        if command.kind == KIND:
            plan_target(connection, record.store, command, now)
        _conclude(connection, record, "accepted", "", command.id)
        return RecordOutcome(record, "accepted", f"{command.kind} {command.target}")
    if isinstance(found, Tracked):
        said = track(connection, record, found, now)
        _conclude(connection, record, "accepted", said, None)
        return RecordOutcome(record, "accepted", said)
    return _keep(connection, record, found, now)


def _date_back(
    connection: sqlite3.Connection, record: WaitingRecord, command: str, now: str
) -> None:
    """Keep when a record that waited was handed in: a count since then knows of it."""
    (caused_at,) = connection.execute(
        "SELECT coalesce(caused_at, received_at) FROM records WHERE id = ?",
        (record.id,),
    ).fetchone()
    if caused_at != now:
        connection.execute(
            "UPDATE commands SET caused_at = ? WHERE id = ?", (caused_at, command)
        )


def _keep(
    connection: sqlite3.Connection, record: WaitingRecord, found: Unmatched, now: str
) -> RecordOutcome:
    state = "quarantined" if found.final else "waiting"
    _conclude(connection, record, state, found.reason, None)
    if found.final:
        (raw,) = connection.execute(
            "SELECT raw FROM records WHERE id = ?", (record.id,)
        ).fetchone()
        set_aside(
            connection,
            "record",
            record.instance,
            record.key,
            raw,
            found.reason,
            record.locator,
            now,
        )
    return RecordOutcome(record, state, found.reason)


def _conclude(
    connection: sqlite3.Connection,
    record: WaitingRecord,
    state: str,
    reason: str,
    command_id: str | None,
) -> None:
    connection.execute(
        "UPDATE records SET state = ?, reason = ?, command_id = ? WHERE id = ?",
        (state, reason, command_id, record.id),
    )
