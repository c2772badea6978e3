"""Records from connectors: kept with their cursor, matched, planned or set aside."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from backhaul.core.clock import from_text, to_text
from backhaul.core.stock import ListEnd
from backhaul.store.matching import WaitingRecord
from backhaul.store.records import (
    Known,
    Matched,
    QuarantinedRow,
    RecordOutcome,
    Tracked,
    Unmatched,
)
from backhaul.store.sql.commands.planning import plan
from backhaul.store.sql.commands.shipment_parts import (
    MERGED,
    record_parts,
    split_shipment,
)
from backhaul.store.sql.inbox import quarantine_rows
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.mirror.parcel_tracking import track
from backhaul.store.sql.records.content import (
    content_of,
    difference,
    digest_of,
    is_spelled_otherwise,
    note_question,
)
from backhaul.store.sql.stock_targets.adjustments import KIND
from backhaul.store.sql.stock_targets.count_coalescing import (
    replace_older_counts,
    withdraw,
)
from backhaul.store.sql.stock_targets.full_lists import conclude_list, note_listed
from backhaul.store.sql.stock_targets.repository import plan_target
from backhaul.store.sqlite.connections import concerns_the_file

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from backhaul.core.clock import Clock
    from backhaul.store.records import MatchOne, NewRecord
    from backhaul.store.sqlite.writer import Writer
    from backhaul_sdk import NameInStore

SHORTEST_REST = timedelta(milliseconds=50)
LONGEST_REST = timedelta(seconds=1)
"""A waiting record rests as long as it has waited: its order is a moment behind, or far
away."""
OTHER = "an earlier record with the same key has other content; the earlier counts"
GIVEN_UP = "an operator discarded an earlier record with the same key and other content"
KEPT_BY_CONNECTOR = b'{"kind":"kept","record":{}}'
"""The payload of a bad row that its connector can apply as it is."""
APPROVED = """
    SELECT id, key, raw, reason, locator FROM records
    WHERE instance = ? AND state = 'approved' ORDER BY id
"""
UNREPORTED = """
    SELECT id, key, raw, reason, locator FROM quarantine
    WHERE source = 'record' AND name = ? AND reported = 0 ORDER BY id LIMIT ?
"""


class SqlRecords:
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
            found = []
            for new in records:
                found.append(_accept(connection, instance, store, new, now, match_one))
                note_listed(connection, found[-1].record)
            return found

        return await self._writer.urgent(unit)

    async def match(self, match_one: MatchOne, limit: int) -> list[RecordOutcome]:
        """Try waiting records again, those that rested longest first."""

        def unit(connection: sqlite3.Connection) -> list[RecordOutcome]:
            moment = self._clock.now()
            now = to_text(moment)
            rows = connection.execute(
                """
                SELECT id, instance, store, key, CAST(payload AS BLOB), locator,
                       received_at
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
            found = [_match(connection, record, now, match_one) for record in waiting]
            for record in waiting:
                note_listed(connection, record)
            return found

        return await self._writer.background(unit)

    async def find_names(
        self, store: str, names: Sequence[str]
    ) -> dict[str, NameInStore]:
        """Return what each name stands for in the mirror of a store."""

        def unit(connection: sqlite3.Connection) -> dict[str, NameInStore]:
            reader = MirrorReader(connection)
            return {name: reader.named(store, name) for name in names}

        return await self._writer.urgent(unit)

    async def any_waiting(self) -> bool:
        """Tell whether a record waits, be it not to be tried yet."""

        def unit(connection: sqlite3.Connection) -> bool:
            waiting = "SELECT 1 FROM records WHERE state = 'waiting' LIMIT 1"
            return connection.execute(waiting).fetchone() is not None

        return await self._writer.background(unit)

    async def unreported(self, instance: str, limit: int) -> list[QuarantinedRow]:
        """Return the oldest quarantined rows that the connector was not told of."""

        def unit(connection: sqlite3.Connection) -> list[QuarantinedRow]:
            rows = connection.execute(UNREPORTED, (instance, limit))
            return [QuarantinedRow(*row) for row in rows]

        return await self._writer.urgent(unit)

    async def approved(self, instance: str) -> list[QuarantinedRow]:
        """Return the rows that an operator wants applied by their connector."""

        def unit(connection: sqlite3.Connection) -> list[QuarantinedRow]:
            rows = connection.execute(APPROVED, (instance,))
            return [QuarantinedRow(*row) for row in rows]

        return await self._writer.urgent(unit)

    async def mark_applied(self, id_: int) -> None:
        """Note that the connector has applied the row with this record id."""

        def unit(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE records SET state = 'accepted', reason = 'applied by decision'"
                " WHERE id = ? AND state = 'approved'",
                (id_,),
            )

        await self._writer.urgent(unit)

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


def _accept(
    connection: sqlite3.Connection,
    instance: str,
    store: str,
    new: NewRecord,
    now: str,
    match_one: MatchOne,
) -> RecordOutcome:
    """Take a record, or what is new of one whose parts others brought."""
    found = None if new.payload is None else split_shipment(connection, instance, new)
    if found is None:
        return _accept_one(connection, instance, store, new, now, match_one)
    outcomes: list[RecordOutcome] = []
    if found.new is not None:
        outcome = _accept_one(connection, instance, store, found.new, now, match_one)
        outcomes.append(outcome)
    for other, state, known in found.contradicted:
        payload = other.payload or b"null"
        record = WaitingRecord(0, instance, store, other.key, payload, new.locator, now)
        outcomes.append(_contradict(connection, record, other, state, known))
    if not outcomes:
        record = WaitingRecord(0, instance, store, new.key, b"null", new.locator, now)
        return RecordOutcome(record, "duplicate", "known already")
    return msgspec.structs.replace(outcomes[0], also=tuple(outcomes[1:]))


def _accept_one(
    connection: sqlite3.Connection,
    instance: str,
    store: str,
    new: NewRecord,
    now: str,
    match_one: MatchOne,
) -> RecordOutcome:
    payload = new.payload or (KEPT_BY_CONNECTOR if new.can_apply else b"null")
    record = WaitingRecord(0, instance, store, new.key, payload, new.locator, now)
    state = "quarantined" if new.payload is None else "waiting"
    id_ = _add(connection, record, new, state, new.reason)
    if id_ is None:
        return _accept_again(connection, record, new, match_one)
    record = record._replace(id=id_)
    record_parts(connection, instance, id_, payload)
    if new.payload is None:
        _set_aside(connection, record, new.raw, new.reason, now)
        return RecordOutcome(record, "quarantined", new.reason)
    return _match(connection, record, now, match_one)


def _add(
    connection: sqlite3.Connection,
    record: WaitingRecord,
    new: NewRecord,
    state: str,
    reason: str,
) -> int | None:
    """Write a record; return its id, None where its key is known."""
    now = record.received_at
    cursor = connection.execute(
        """
        INSERT OR IGNORE INTO records (instance, store, key, payload, raw, locator,
                                       state, reason, received_at, retry_at,
                                       caused_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            record.instance,
            record.store,
            record.key,
            record.payload.decode(),
            new.raw,
            new.locator,
            *(state, reason, now, now, now),
        ),
    )
    return cursor.lastrowid if cursor.rowcount else None


def _set_aside(
    connection: sqlite3.Connection,
    record: WaitingRecord,
    raw: str,
    reason: str,
    now: str,
) -> None:
    quarantine_rows.add(
        connection,
        "record",
        record.instance,
        record.key,
        raw,
        reason,
        record.locator,
        now,
    )


class _Held(NamedTuple):
    """What is known under a key; `again`: it was set aside, and tried again since."""

    id: int
    payload: bytes
    raw: bytes
    state: str
    again: bool


_HELD = """
    SELECT id, CAST(payload AS BLOB), CAST(raw AS BLOB), state, EXISTS (
        SELECT 1 FROM quarantine q WHERE q.source = 'record' AND q.name = r.instance
        AND q.key = r.key AND q.state = 'retried')
    FROM records r WHERE instance = ? AND key = ?
"""


def _accept_again(
    connection: sqlite3.Connection,
    record: WaitingRecord,
    new: NewRecord,
    match_one: MatchOne,
) -> RecordOutcome:
    """Take a known key: anew while it is no command, as it cannot be doubled then.

    Whoever hands in again what was set aside has mended what was missing, or waits for
    an answer; what waits is only replaced by other content.
    """
    held = _Held(*connection.execute(_HELD, (record.instance, record.key)).fetchone())
    same = new.payload is None or _says_the_same(held, new, new.payload)
    if (held.state in {"quarantined", MERGED} and new.payload is not None) or (
        held.state == "waiting" and not same
    ):
        return _take_anew(connection, record._replace(id=held.id), new, match_one)
    if not same and not is_spelled_otherwise(held.payload, record.payload):
        return _contradict(connection, record, new, held.state, held.payload)
    known = "discarded by an operator" if held.state == "dropped" else "known already"
    return RecordOutcome(record, "duplicate", known)


def _take_anew(
    connection: sqlite3.Connection,
    record: WaitingRecord,
    new: NewRecord,
    match_one: MatchOne,
) -> RecordOutcome:
    now = record.received_at
    connection.execute(
        "UPDATE records SET state = 'waiting', reason = '', payload = ?, raw = ?,"
        " decided = 0, locator = ?, received_at = ?, retry_at = ? WHERE id = ?",
        (record.payload.decode(), new.raw, new.locator, now, now, record.id),
    )
    connection.execute(
        "UPDATE quarantine SET state = 'retried'"
        " WHERE source = 'record' AND name = ? AND key = ?",
        (record.instance, record.key),
    )
    return _match(connection, record, now, match_one)


def _contradict(
    connection: sqlite3.Connection,
    record: WaitingRecord,
    new: NewRecord,
    state: str,
    known: bytes,
) -> RecordOutcome:
    """Set other content under a known key aside, once, as a record of its own.

    A person may give it up, or have it carried out beside the first.
    """
    reason = GIVEN_UP if state == "dropped" else OTHER
    reason += difference(known, record.payload)
    other = record._replace(key=f"{record.key}~{digest_of(record.payload)}")
    if _add(connection, other, new, "quarantined", reason) is None:
        return RecordOutcome(record, "duplicate", reason)
    _set_aside(connection, other, new.raw, reason, record.received_at)
    return RecordOutcome(record, "conflict", reason)


def _says_the_same(held: _Held, new: NewRecord, payload: bytes) -> bool:
    """Tell a record that came again from another that bears the same key.

    What a person mended differs from the row that it came from.
    """
    came_before = held.again and held.raw == new.raw.encode() != b""
    return came_before or content_of(held.payload) == content_of(payload)


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
    record = replace_older_counts(connection, record)
    found = match_one(record, MirrorReader(connection, record))
    if isinstance(found, Matched):
        command = found.command
        cause = f"record {record.instance} {record.locator or record.key}"
        plan(connection, record.store, record.instance, command, cause, now)
        _date_back(connection, record, command.id, now)
        if command.kind == KIND:
            plan_target(connection, record.store, command, now)
        _conclude(connection, record, "accepted", found.note, command.id)
        said = "; ".join(filter(None, (f"{command.kind} {command.target}", found.note)))
        return RecordOutcome(record, "accepted", said)
    if isinstance(found, Known):
        _conclude(connection, record, "accepted", found.reason, found.command_id)
        return RecordOutcome(record, "duplicate", found.reason)
    if isinstance(found, Tracked):
        said = track(connection, record, found, now)
        _conclude(connection, record, "accepted", said, None)
        return RecordOutcome(record, "accepted", said)
    if isinstance(found, ListEnd):
        done = conclude_list(connection, record, found, now)
        if isinstance(done, str):
            _conclude(connection, record, "accepted", done, None)
            return RecordOutcome(record, "accepted", done)
        found = done
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
    if not found.final:
        _go_on_waiting(connection, record, found.reason)
        return RecordOutcome(record, "waiting", found.reason)
    withdraw(connection, found.withdraw, now)
    _conclude(connection, record, "quarantined", found.reason, None)
    if found.asks:
        note_question(connection, record.id)
    (raw,) = connection.execute(
        "SELECT raw FROM records WHERE id = ?", (record.id,)
    ).fetchone()
    _set_aside(connection, record, raw, found.reason, now)
    return RecordOutcome(record, "quarantined", found.reason)


def _go_on_waiting(
    connection: sqlite3.Connection, record: WaitingRecord, reason: str
) -> None:
    # Writing a state, even the same, writes every index over states anew.
    connection.execute(
        "UPDATE records SET reason = ?1 WHERE id = ?2 AND reason != ?1",
        (reason, record.id),
    )


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
