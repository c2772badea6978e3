"""What a filter selects in a long list, and how many rows one read searches.

The rows of such a list have growing numbers. Where an index answers the filter, a read
searches the whole list. Otherwise it searches some rows, and the next one continues.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from backhaul.core.clock import from_text, to_text
from backhaul.store.filters import Sort, Span
from backhaul.store.sql.dialect import contains, elements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backhaul.store.filters import Filter
    from backhaul.store.sql.family import Connection

NO_END = (1 << 63) - 1
"""A bound above every number."""
SCANNED = 20_000
"""The rows that one page searches at most: some hundredths of a second."""
MOST_COUNTED = 10_000
"""Counts of a state end above this number."""
SLACK = timedelta(hours=6)
"""How far the times of rows may differ from the order of their numbers.

A clock is set back, or a webhook waits on a disk while the database is away.
"""
_LONGEST_NUMBER = 18
_ORDERS = """
    SELECT id FROM orders WHERE name = :text
    UNION SELECT id FROM orders WHERE name = '#' || :text
    UNION SELECT id FROM orders WHERE external_id = :text
    UNION SELECT id FROM orders WHERE number = :number
"""


class NumberedRows(NamedTuple):
    """A table, with the columns of its growing number and of its time."""

    source: str
    number: str
    time: str


def where(conditions: Mapping[str, str], values: Mapping[str, Any]) -> str:
    """Return the conditions of the values that are given, for a WHERE clause."""
    terms = [text for name, text in conditions.items() if values.get(name) is not None]
    return " AND ".join(terms) or "1 = 1"


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without those that are None."""
    return {name: value for name, value in values.items() if value is not None}


def as_list(values: Iterable[object]) -> str | None:
    """Return values as the JSON of a parameter; None if there are none."""
    found = list(values)
    return json.dumps(found) if found else None


def in_list(column: str, parameter: str) -> str:
    """Return a condition that a column is one of the texts of a parameter."""
    return f"{column} IN (SELECT value FROM {elements(f':{parameter}', '$')})"  # noqa: S608 - constants


def all_words(text: str) -> str:
    """Return a condition that a text contains all `words`, in any capitals."""
    return f"""
        NOT EXISTS (SELECT 1 FROM {elements(":words", "$")} w
          WHERE NOT {contains(f"lower({text})", "lower(w.value)")})
    """  # noqa: S608 - constants


def order_ids(connection: Connection, text: str) -> list[str]:
    """Return the ids that the name, number or id of an order may mean."""
    bare = text.removeprefix("#")
    is_number = bare.isascii() and bare.isdigit() and len(bare) <= _LONGEST_NUMBER
    values = {"text": bare, "number": int(bare) if is_number else -1}
    return [text, *(row[0] for row in connection.execute(_ORDERS, values))]


def count(connection: Connection, rows: str) -> int:
    """Count rows up to one more than MOST_COUNTED; `rows` is a query."""
    query = f"SELECT count(*) AS rows FROM ({rows} LIMIT {MOST_COUNTED + 1}) counted"  # noqa: S608 - constants
    return int(connection.execute(query, {}).fetchone()[0])


def span(
    connection: Connection,
    tables: Sequence[NumberedRows],
    wanted: Filter,
    after: int | None,
    sort: Sort,
    scanned: int | None = SCANNED,
) -> Span:
    """Return the numbers that a read searches: behind the number `after`.

    The rows of all `tables` are one list. `scanned` is the most rows of each table to
    search; None is all of them.
    """
    first, last, more = 0, NO_END, False
    if wanted.since:
        time = _moved(wanted.since, -SLACK)
        first = min(_first_since(connection, rows, time) for rows in tables)
    if wanted.until:
        time = _moved(wanted.until, SLACK)
        last = max(_first_since(connection, rows, time) for rows in tables)
    is_oldest = sort is Sort.OLDEST
    if after is not None:
        after = min(after, NO_END - 1)
        first = max(first, after + 1) if is_oldest else first
        last = last if is_oldest else min(last, after - 1)
    edge = scanned and _edge(connection, tables, first, last, sort, scanned)
    if edge and first < edge < last:
        more = True
        first, last = (first, edge) if is_oldest else (edge, last)
    return Span(first, last, more)


def _moved(time: str, by: timedelta) -> str:
    try:
        return to_text(from_text(time) + by)
    except OverflowError:
        return time


def _edge(
    connection: Connection,
    tables: Sequence[NumberedRows],
    first: int,
    last: int,
    sort: Sort,
    scanned: int,
) -> int | None:
    """Return the number of the last row to search; None if there are fewer."""
    found: list[int] = []
    for rows in tables:
        query = f"""
            SELECT {rows.number} FROM {rows.source}
            WHERE {rows.number} >= :first AND {rows.number} <= :last
            ORDER BY {rows.number}{"" if sort is Sort.OLDEST else " DESC"}
            LIMIT 1 OFFSET {scanned - 1}
        """  # noqa: S608 - constants
        values = {"first": first, "last": last}
        row = connection.execute(query, values).fetchone()
        found += [] if row is None else [int(row[0])]
    pick = min if sort is Sort.OLDEST else max
    return pick(found) if found else None


def _first_since(connection: Connection, rows: NumberedRows, time: str) -> int:
    """Return the number of the first row at a time or later, by halving the list."""
    newest = f"SELECT coalesce(max({rows.number}), 0) AS last FROM {rows.source}"  # noqa: S608 - constants
    query = f"""
        SELECT {rows.number}, {rows.time} FROM {rows.source}
        WHERE {rows.number} >= :middle ORDER BY {rows.number} LIMIT 1
    """  # noqa: S608 - constants
    low, high = 0, int(connection.execute(newest, {}).fetchone()[0]) + 1
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(query, {"middle": middle}).fetchone()
        if row is None or row[1] >= time:
            high = middle
        else:
            low = int(row[0]) + 1
    return low
