"""Moves a whole database from one engine to the other, and compares the two.

The order of the steps makes a move safe to interrupt. The source stays in use until the
copy is complete, compared and durable. Then it is marked as moved; only after that the
copy may be used. Until then the copy has a mark of its own. A second run removes an
unmarked source's copy and starts from the beginning, or completes the last steps.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backhaul.core.clock import to_text
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from backhaul.core.clock import Clock

Row: TypeAlias = tuple[Any, ...]
_SHOWN_EACH = 1_000
_DIGEST_BYTES = 16
_ALL_BITS = (1 << 8 * _DIGEST_BYTES) - 1


class Column(Struct, frozen=True):
    """A column: `kind` is INTEGER, TEXT, BLOB or REAL."""

    name: str
    kind: str
    is_nullable: bool
    is_key: bool


class Table(Struct, frozen=True):
    """A table that both engines have."""

    name: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> str:
        """The columns, as a list in SQL."""
        return ", ".join(f'"{column.name}"' for column in self.columns)


class Mark(Struct, frozen=True):
    """A move, as it is stored in both databases.

    `move` identifies one attempt, `place` is the other database without its
    credentials, `source` identifies the file or the tables that were copied. During a
    live move the target already receives webhooks.
    """

    move: str
    place: str
    source: str
    at: str
    is_live: bool = False


class MovedTable(Struct, frozen=True):
    """A table that is equal on both sides: its rows, and the digest of all of them."""

    name: str
    rows: int
    digest: str


class Moved(Struct, frozen=True):
    """A complete move.

    `source` and `target` say where both are, without credentials; `url` is the
    target's `database.url`, without a password. `tables` is empty if this run only
    completed the last steps of an interrupted move. `aside` is the source's file under
    its new name, None for PostgreSQL.
    """

    source: str
    target: str
    url: str
    tables: tuple[MovedTable, ...]
    aside: Path | None


class Step(Struct, frozen=True):
    """How far a move is: `done` of `total` rows.

    `what` is `copy`, `index` or `compare`.
    """

    what: str
    table: str
    done: int
    total: int


Show: TypeAlias = Callable[[Step], None]


class Source(Protocol):
    """The database that is moved: one snapshot of it, which nothing changes."""

    place: str
    """Where it is, without credentials."""
    identity: str
    """Differs for two databases that were at this place one after the other."""
    tables: Sequence[Table]

    def mark(self) -> Mark | None:
        """Return the mark of a move that was interrupted after its copy."""
        ...

    def count(self, table: Table) -> int: ...

    def rows(self, table: Table) -> Iterator[Row]:
        """Yield the rows in any order.

        Raises BackhaulError at a row that the other engine cannot store as it is.
        """
        ...

    def put_mark(self, mark: Mark) -> None:
        """Mark it as moved, durably. Raises BackhaulError if it changed meanwhile."""
        ...

    def rename(self) -> Path | None:
        """Give the file of a moved database another name; return it."""
        ...


class Target(Protocol):
    """The database that receives the rows."""

    place: str
    url: str
    """What to write as `database.url`, without a password."""

    def begin(self, source: str) -> None:
        """Create the schema, without what slows down a copy.

        Removes the copy of an interrupted move of the same source. Raises BackhaulError
        if anything else is there.
        """
        ...

    def receive(self, table: Table, rows: Iterable[Row]) -> None: ...

    def complete(self) -> None:
        """Create the indexes, and let new ids follow those of the rows."""
        ...

    def rows(self, table: Table) -> Iterator[Row]:
        """Yield the rows as they are stored now."""
        ...

    def commit(self, mark: Mark) -> None:
        """Make the copy durable, with a mark that keeps daemons from using it."""
        ...

    def finish(self, move: str) -> None:
        """Let daemons use the copy of this move. It can be repeated."""
        ...


Opened: TypeAlias = "AbstractContextManager[tuple[Source, Target]]"


class Tally:
    """The number of rows, and a digest of them that does not depend on their order."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0
        self._encode = msgspec.msgpack.Encoder().encode

    def add(self, row: Row) -> None:
        """Add one row. A number, a text and bytes always count as different."""
        digest = blake2b(self._encode(row), digest_size=_DIGEST_BYTES).digest()
        self._sum = (self._sum + int.from_bytes(digest)) & _ALL_BITS
        self.rows += 1

    @property
    def digest(self) -> str:
        """The digest in hexadecimal."""
        return f"{self._sum:0{2 * _DIGEST_BYTES}x}"

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Add rows while they pass."""
        for row in rows:
            self.add(row)
            yield row


def move(source: Source, target: Target, clock: Clock, show: Show) -> Moved:
    """Move a database, or complete a move that was interrupted.

    Raises BackhaulError if a row cannot be moved, or the copy differs.
    """
    mark = source.mark()
    copied: tuple[MovedTable, ...] = ()
    if mark is None:
        copied, mark = _copy(source, target, clock, show)
        source.put_mark(mark)
    elif mark.place != target.place:
        raise BackhaulError(
            f"{source.place}: this database was moved to {mark.place} at {mark.at};"
            f" to complete that move, run the command again with --to {mark.place},"
            " and add the user to this URL"
        )
    target.finish(mark.move)
    return Moved(source.place, target.place, target.url, copied, source.rename())


def _copy(
    source: Source, target: Target, clock: Clock, show: Show
) -> tuple[tuple[MovedTable, ...], Mark]:
    target.begin(source.identity)
    tallies = {}
    for table in source.tables:
        tallies[table] = tally = Tally()
        passing = _shown(source.rows(table), "copy", table, source.count(table), show)
        target.receive(table, tally.of(passing))
    show(Step("index", "all tables", 0, 0))
    target.complete()
    for table, tally in tallies.items():
        _compare(target, table, tally, show)
    mark = Mark(token_hex(16), target.place, source.identity, to_text(clock.now()))
    target.commit(replace(mark, place=source.place))
    copied = (
        MovedTable(table.name, tally.rows, tally.digest)
        for table, tally in tallies.items()
    )
    return tuple(copied), mark


def _compare(target: Target, table: Table, expected: Tally, show: Show) -> None:
    found = Tally()
    for row in _shown(target.rows(table), "compare", table, expected.rows, show):
        found.add(row)
    if (found.rows, found.digest) != (expected.rows, expected.digest):
        raise BackhaulError(
            f"{target.place}: the copy of the table {table.name} differs from its"
            f" source ({found.rows:,} of {expected.rows:,} rows, digest"
            f" {found.digest[:12]}… instead of {expected.digest[:12]}…). The source"
            " is unchanged, and daemons can still use it. Run the command again. If"
            " it fails again, check the memory and the disks of both machines"
        )


def _shown(
    rows: Iterable[Row], what: str, table: Table, total: int, show: Show
) -> Iterator[Row]:
    """Report how many rows have passed, now and then and at the end."""
    done = 0
    for row in rows:
        yield row
        done += 1
        if done % _SHOWN_EACH == 0:
            show(Step(what, table.name, done, total))
    show(Step(what, table.name, done, total))
