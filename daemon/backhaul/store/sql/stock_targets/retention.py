"""Deletes old stock counts that changed nothing and were followed by newer ones.

The newest applied count of each variant stays: beside it an older count that is
submitted again is superseded at once. Every count with an adjustment stays too, because
the stock ledger is explained by it.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.store.sql.operations import kv

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.store.sql.family import Connection

CURSOR = "old_counts_cursor"
"""Key of the id of the last record that was checked; none is checked twice."""
BATCH = 16
NEWEST = 20
"""One of so many counts of the variant, the newest ones, must have been applied."""
# The ids of deleted rows must not be used again, so the newest row of a table stays.
# The newest record of a connection shows when the connection last submitted anything.
# Of two counts made at one time the later row counts, so both stay.
_MAY_GO = f"""
    r.id < (SELECT max(o.id) FROM records o WHERE o.instance = r.instance)
    AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.source = 'record'
      AND q.name = r.instance AND q.key = r.key)
    AND (r.state = 'replaced' OR r.state = 'accepted'
      AND c.state IN ('applied', 'superseded')
      AND c.seq < (SELECT max(seq) FROM commands)
      AND t.correction IS NULL
      AND t.as_of < (SELECT max(as_of) FROM (
        SELECT n.as_of, o.state
        FROM stock_targets n JOIN commands o ON o.id = n.command_id
        WHERE n.variant_id = t.variant_id AND n.store = t.store
        ORDER BY n.as_of DESC LIMIT {NEWEST}) s WHERE s.state = 'applied')
      AND NOT EXISTS (SELECT 1 FROM audit a WHERE a.command_id = c.id)
      AND NOT EXISTS (
        SELECT 1 FROM adopted a JOIN stock_ledger l
          ON l.store = a.store AND l.adjustment_id = a.adjustment_id
        WHERE a.store = t.store AND l.variant_id = t.variant_id))
"""  # noqa: S608 - constants
# A record dated in the future was submitted while the clock was ahead.
_NEXT = f"""
    SELECT r.id, r.command_id,
           coalesce(r.caused_at, r.received_at) NOT BETWEEN :before AND :now, {_MAY_GO}
    FROM records r LEFT JOIN stock_targets t ON t.command_id = r.command_id
      LEFT JOIN commands c ON c.id = t.command_id
    WHERE r.id > {kv.number(":cursor")}
    ORDER BY r.id LIMIT :limit
"""  # noqa: S608 - constants


def delete_old_counts(
    connection: Connection, before: str, clock: Clock, until: float
) -> tuple[int, int]:
    """Delete counts submitted before a time, until that second of the clock.

    Returns the numbers of deleted counts and of checked records. A record is checked
    once, and what cannot be deleted then stays: at most one count of a variant.
    """
    values: dict[str, object] = {"before": before, "now": to_text(clock.now())}
    values |= {"cursor": CURSOR, "limit": BATCH}
    deleted, checked, more = 0, 0, True
    while more:
        rows = connection.execute(_NEXT, values).fetchall()
        old = list(takewhile(lambda row: row[2], rows))
        if old:
            deleted += _delete(connection, [row[:2] for row in old if row[3]])
            kv.put(connection, CURSOR, str(old[-1][0]))
        checked += len(old)
        more = len(old) == BATCH and clock.monotonic() < until
    return deleted, checked


def _delete(connection: Connection, rows: list[tuple[int, str | None]]) -> int:
    records = [{"id": record} for record, _ in rows]
    targets = [{"id": command} for _, command in rows if command is not None]
    connection.executemany("DELETE FROM records WHERE id = :id", records)
    connection.executemany("DELETE FROM stock_targets WHERE command_id = :id", targets)
    connection.executemany("DELETE FROM commands WHERE id = :id", targets)
    return len(rows)
