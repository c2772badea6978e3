"""The inbox: what arrived, byte for byte, and what became of it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from backhaul.core.identity import digest_of
from backhaul.store.inbox import Arrival, Folded, FoldReport, StoredEvent
from backhaul.store.sql.mirror.write import MirrorTransaction
from backhaul.store.sqlite import connections

if TYPE_CHECKING:
    import asyncio
    import sqlite3
    from collections.abc import Generator, Iterator, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.inbox import FoldOne
    from backhaul.store.sqlite.writer import Row, Writer

_COLUMNS = "store, kind, topic, received_at, headers, body, digest"
_BODY = 5
CHUNK_ROWS = 32
CHUNK_BYTES = 256 << 10
"""Rows, a power of two, and bytes of bodies that one statement inserts at most."""
FOLD_BATCH = 256
"""Rows that one slice of folding takes at most."""
CURSOR = "fold_cursor"
FOREIGN = "strangers:"
"""Under this and its name: when news of another store came last, and that one's id."""


def append_batch(connection: sqlite3.Connection, rows: Sequence[Row]) -> list[int]:
    """Insert rows and return their ids.

    Many rows go in one statement: the interpreter lock then changes hands once per
    statement and not once per row, which is what costs beside a busy event loop.
    """
    ids: list[int] = []
    for chunk in _chunks(rows):
        ids += _insert(connection, chunk)
    return ids


def _chunks(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the rows in order, a power of two at a time; a large body stands alone.

    A statement keeps a copy of what it was last given for as long as it is cached, and
    there is one for each number of rows: few numbers, few copies.
    """
    start = 0
    while left := len(rows) - start:
        number = min(CHUNK_ROWS, 1 << (left.bit_length() - 1))
        while number > 1 and _bytes(rows[start : start + number]) > CHUNK_BYTES:
            number //= 2
        yield rows[start : start + number]
        start += number


def _bytes(rows: Sequence[Row]) -> int:
    return sum(len(row[_BODY]) for row in rows)


def _insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> list[int]:
    places = ",".join(["(?,?,?,?,?,?,?)"] * len(rows))
    values = [value for row in rows for value in (*row, digest_of((row[_BODY],)))]
    cursor = connection.execute(
        f"INSERT INTO inbox ({_COLUMNS}) VALUES {places}",  # noqa: S608 - constants
        values,
    )
    # One writer and an INTEGER PRIMARY KEY: ids are consecutive.
    last = cursor.lastrowid or 0
    return list(range(last - len(rows) + 1, last + 1))


class SqlInbox:
    """Appends through the writer's accept batch; folds in its background slices."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    def append(self, arrival: Arrival) -> asyncio.Future[int]:
        """Resolve with the event's id once it is durable. May raise Busy."""
        return self._writer.append(arrival)

    async def newest(self) -> int:
        """Return the highest id, 0 of an empty inbox. May raise Busy."""
        return await self._writer.urgent(_newest)

    async def fold(self, fold_one: FoldOne, slice_seconds: float) -> FoldReport:
        """Fold for about `slice_seconds` in one transaction with the cursor."""

        def unit(connection: sqlite3.Connection) -> FoldReport:
            return _fold_slice(connection, self._clock, fold_one, slice_seconds)

        return await self._writer.background(unit)


def _newest(connection: sqlite3.Connection) -> int:
    (newest,) = connection.execute("SELECT coalesce(max(id), 0) FROM inbox").fetchone()
    return int(newest)


def folded_to(connection: sqlite3.Connection) -> int:
    """Return the id up to which everything is folded."""
    (value,) = connection.execute(
        "SELECT coalesce(max(value + 0), 0) FROM marks WHERE name = ?", (CURSOR,)
    ).fetchone()
    return int(value)


def _fold_slice(
    connection: sqlite3.Connection,
    clock: Clock,
    fold_one: FoldOne,
    slice_seconds: float,
) -> FoldReport:
    mirror = MirrorTransaction(connection, clock)
    until = clock.monotonic() + slice_seconds
    outcomes: list[tuple[int, Folded]] = []
    in_time, last_at = True, mirror.now
    connection.execute("SAVEPOINT slice")
    try:
        with closing(_after_cursor(connection)) as events:
            for event in events:
                outcomes.append((event.id, fold_one(event, mirror)))
                last_at = event.received_at
                in_time = clock.monotonic() < until
                if not in_time:
                    break
    except Exception as error:
        if connections.concerns_the_file(error):
            raise
        # Once more, one by one: only the event that cannot be folded is set aside.
        connection.execute("ROLLBACK TO slice")
        outcomes = [
            (event.id, isolated(connection, fold_one, event, mirror))
            for event in _after_cursor(connection)
        ]
    connection.execute("RELEASE slice")
    if outcomes:
        _record(connection, outcomes, mirror.now)
    more = not in_time or len(outcomes) == FOLD_BATCH
    problems = tuple(o for o in outcomes if o[1].state in {"quarantined", "unhandled"})
    return FoldReport(
        len(outcomes),
        more,
        problems,
        mirror.refetches,
        folded_to(connection),
        mirror.seconds_since(last_at),
        tuple(outcome for outcome in outcomes if outcome[1].notes),
    )


def isolated(
    connection: sqlite3.Connection,
    fold_one: FoldOne,
    event: StoredEvent,
    mirror: MirrorTransaction,
) -> Folded:
    """Fold one event so that its failure undoes its own work only."""
    connection.execute("SAVEPOINT event")
    try:
        folded = fold_one(event, mirror)
    except Exception as error:
        if connections.concerns_the_file(error):
            raise
        connection.execute("ROLLBACK TO event")
        detail = f"cannot be folded: {type(error).__name__}: {error}"
        folded = Folded("quarantined", event.topic, detail=detail)
    connection.execute("RELEASE event")
    return folded


def _after_cursor(connection: sqlite3.Connection) -> Generator[StoredEvent]:
    """Yield what is not folded yet, row by row: bodies may be large."""
    with closing(
        connection.execute(
            """
            SELECT id, store, kind, topic, received_at, body, digest FROM inbox
            WHERE id > coalesce((SELECT value FROM marks WHERE name = ?), 0) + 0
            ORDER BY id LIMIT ?
            """,
            (CURSOR, FOLD_BATCH),
        )
    ) as rows:
        for row in rows:
            yield StoredEvent(*row)


def _record(
    connection: sqlite3.Connection, outcomes: list[tuple[int, Folded]], now: str
) -> None:
    connection.executemany(
        """
        INSERT INTO event_outcomes
            (id, state, topic, event_id, kind, object_id, detail, folded_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [
            (id_, o.state, o.topic, o.event_id, o.kind, o.object_id, o.detail, now)
            for id_, o in outcomes
        ],
    )
    connection.executemany(
        """
        INSERT OR IGNORE INTO quarantine (source, name, key, raw, reason, locator, at)
        SELECT 'event', store, id, body, ?, 'event ' || id, ? FROM inbox WHERE id = ?
        """,
        [(o.detail, now, id_) for id_, o in outcomes if o.state == "quarantined"],
    )
    connection.executemany(
        "INSERT OR REPLACE INTO marks (name, value)"
        " SELECT ? || store, ? FROM inbox WHERE id = ?",
        [
            (FOREIGN, f"{now} {o.foreign_store}", id_)
            for id_, o in outcomes
            if o.foreign_store
        ],
    )
    connection.execute(
        "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)",
        (CURSOR, str(outcomes[-1][0])),
    )
