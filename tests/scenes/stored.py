"""Reads stored data through `backhaul export` and the lists of the command line.

The functions use neither SQL nor the engine, so tests that call them still work when
the tables behind docs/mirror.md change.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import SystemClock
from backhaul.store import database_at
from backhaul.store.export_and_query import EventFilter
from backhaul.store.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul.store import Place
    from backhaul.store.command_records import CommandCheck, CommandDetail, ListedTarget
    from backhaul.store.inbox import Arrival
    from backhaul.store.mirror import Pass
    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import JobStatus, ListedRun, OpenIncident

ALL = 1_000_000
"""A limit for lists that no test reaches."""

COMMANDS_AND_TARGETS = "commands_and_targets"
"""The view of docs/mirror.md that shows stock targets as commands."""

Row = tuple[Any, ...]


def rows_of(path: Place, table: str, *columns: str, **wanted: object) -> list[Row]:
    """Return columns of a table or view of docs/mirror.md, in the order of its key.

    `wanted` are the values that columns must have; a set holds several. Without
    `columns` a row has all of them.
    """
    names, found = _contents(path, table)
    places = [names.index(name) for name in columns or names]
    asked = [(names.index(name), value) for name, value in wanted.items()]
    return [
        tuple(row[place] for place in places)
        for row in found
        if all(_fits(row[place], value) for place, value in asked)
    ]


def _contents(path: Place, table: str) -> tuple[Sequence[str], list[Row]]:
    if table == COMMANDS_AND_TARGETS:  # a view, which the export leaves out
        with database_at(path).connection() as connection:
            shown = connection.execute(f"SELECT * FROM {table} ORDER BY seq")  # noqa: S608 - a constant
            names = [column[0] for column in shown.description]
            return names, [tuple(row) for row in shown]
    with database_at(path).console(SystemClock()) as console:
        rows = [row for page in console.pages(table) for row in page]
        columns = console.columns(table)
    if table == "quarantine":
        rows = [_with_text(dict(zip(columns, row, strict=True))) for row in rows]
    return columns, rows


def _with_text(row: dict[str, Any]) -> Row:
    """Return a row of the quarantine; only SQLite has a record's raw row as text."""
    if row["source"] == "record" and isinstance(row["raw"], bytes):
        row["raw"] = row["raw"].decode()
    return tuple(row.values())


def _fits(found: object, wanted: object) -> bool:
    return found in wanted if isinstance(wanted, set) else found == wanted


def values_of(path: Place, table: str, column: str, **wanted: object) -> list[Any]:
    """Return one column, as `rows_of` does."""
    return [value for (value,) in rows_of(path, table, column, **wanted)]


def value_of(path: Place, table: str, column: str, **wanted: object) -> Any:
    """Return one column of the only row there is."""
    (value,) = values_of(path, table, column, **wanted)
    return value


def count(path: Place, table: str, **wanted: object) -> int:
    """Return how many rows `rows_of` finds."""
    return len(rows_of(path, table, **wanted))


def documents(path: Place, table: str, **wanted: object) -> list[Any]:
    """Return the decoded documents of `orders`, `products` or `customers`."""
    return [json.loads(each) for each in values_of(path, table, "document", **wanted)]


@contextmanager
def lists(path: Place) -> Iterator[Reader]:
    """Open the lists that the command line shows."""
    with database_at(path).reader() as reader:
        yield reader


def commands(
    path: Place, kind: str | None = None, state: str | None = None
) -> list[CommandDetail]:
    """Return commands with their attempts, checks and decisions, as planned."""
    with lists(path) as reader:
        listed = reader.commands(Filter(state=state, kind=kind), ALL)
        found = [reader.command(each.id) for each in listed]
    return sorted((each for each in found if each), key=lambda each: each.seq)


def command(path: Place, id_: str) -> CommandDetail:
    """Return one command with its evidence and history."""
    with lists(path) as reader:
        found = reader.command(id_)
    assert found is not None, f"there is no command {id_}"
    return found


def checks(path: Place, command_id: str) -> Sequence[CommandCheck]:
    """Return the checks of an uncertain command, the oldest first."""
    return command(path, command_id).looks


def stock_targets(path: Place, state: str | None = None) -> list[ListedTarget]:
    """Return the back office's stock counts, as planned."""
    with lists(path) as reader:
        return reader.stock_targets(state, None, ALL)[::-1]


def open_incidents(path: Place) -> list[OpenIncident]:
    """Return the open incidents, the oldest first."""
    with lists(path) as reader:
        return reader.incidents()


def job_runs(path: Place) -> list[ListedRun]:
    """Return the runs of jobs, the oldest first."""
    with lists(path) as reader:
        return reader.job_runs(ALL)[::-1]


def job_state(path: Place, job: str, store: str = "") -> JobStatus:
    """Return the state of a scheduled job."""
    with lists(path) as reader:
        return reader.jobs()[job, store]


def passes(path: Place) -> list[Pass]:
    """Return the passes over the platform's lists, the oldest first."""
    with lists(path) as reader:
        return reader.passes(ALL)[::-1]


def command_counts(path: Place) -> Mapping[str, int]:
    """Return the number of commands and stock targets in each state."""
    with lists(path) as reader:
        return reader.counts().commands


def events_to_fold(path: Place) -> int:
    """Return the number of events that wait to be folded."""
    with lists(path) as reader:
        return reader.counts().to_fold


def arrivals(path: Place, kind: str | None = None) -> list[Arrival]:
    """Return the events exactly as they arrived, in order of arrival.

    Events that retention erased are left out.
    """
    with database_at(path).inbox_export() as inbox:
        return list(inbox.arrivals(EventFilter(kind=kind)))


def bodies(path: Place, kind: str | None = None) -> list[bytes]:
    """Return the bodies of the events, as `arrivals` does."""
    return [arrival.body for arrival in arrivals(path, kind)]
