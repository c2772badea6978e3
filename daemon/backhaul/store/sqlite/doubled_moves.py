"""Moves of stock that an earlier version wrote down twice, with and without their id.

It told the two apart by the id alone. They are joined as `moves` would have done, had
it taken them in: a row with an id stands for one without, or for all of its moment
where that is told more exactly than by the second. Migration 91, frozen as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

# What is told by an event was taken in by a version that joins.
_PAIRS = """
    SELECT n.id, i.id, n.at LIKE '%.000Z' OR n.at NOT LIKE '%.%'
    FROM stock_ledger n JOIN stock_ledger i
      ON i.store = n.store AND i.variant_id = n.variant_id AND i.at = n.at
    WHERE n.adjustment_id IS NULL AND n.told_by IS NULL
      AND i.adjustment_id IS NOT NULL AND i.told_by IS NULL
      AND i.product_id = n.product_id AND i.stock_after = n.stock_after
      AND n.adjustment IN (0, i.adjustment) AND n.reason IN ('', i.reason)
      AND (n.cause IS NULL OR n.cause = i.cause)
    ORDER BY n.id, i.id
"""
_NAMED = """
    SELECT adjustment_id, adjustment, reason, cause FROM stock_ledger WHERE id = ?
"""
_NAME = """
    UPDATE stock_ledger SET adjustment_id = ?, adjustment = ?, reason = ?, cause = ?
    WHERE id = ?
"""
_REMOVE = "DELETE FROM stock_ledger WHERE id = ?"


def join(connection: sqlite3.Connection) -> int:
    """Make one row of each such pair, in the older one's place; return how many."""
    pairs = list(_matched(connection.execute(_PAIRS).fetchall()))
    places: dict[int, int] = {}
    for nameless, named in pairs:
        place = places.get(named, named)
        known = connection.execute(_NAMED, (place,)).fetchone()
        places[named] = min(nameless, place)
        connection.execute(_REMOVE, (max(nameless, place),))
        connection.execute(_NAME, (*known, places[named]))
    return len(pairs)


def _matched(pairs: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Choose for each row without an id the one that it is the double of.

    In whole seconds goods may leave, come back and leave again: there a row with an id
    is the double of one row at most.
    """
    joined: set[int] = set()
    taken: set[int] = set()
    for nameless, named, is_coarse in pairs:
        if nameless not in joined and not (is_coarse and named in taken):
            joined.add(nameless)
            taken.add(named)
            yield nameless, named
