"""Counts that are of no use any more: old, done without a step, and counted again.

What stays is what tells one that comes in again from a new one: of each article the
newest that was made true, beside which an older one is superseded at once. What made a
step stays too, as the stock's movements are explained and reckoned with by it.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from backhaul.core.clock import to_text

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.store.sql.family import Connection

CURSOR = "old_counts_cursor"
"""Up to here every record was looked at when it had become old, and never again."""
BATCH = 16
LOOKED_AT = 20
"""Of so many counts of the article, the newest, one must have been made true."""
# The newest row of a table lends its number to nobody, and the newest record of an
# instance tells when it last brought something. Of two of one moment the later one
# counts: were the first forgotten, it would be the later one when it comes again.
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
        ORDER BY n.as_of DESC LIMIT {LOOKED_AT}) WHERE state = 'applied')
      AND NOT EXISTS (SELECT 1 FROM audit a WHERE a.command_id = c.id)
      AND NOT EXISTS (
        SELECT 1 FROM adopted a JOIN stock_ledger l
          ON l.store = a.store AND l.adjustment_id = a.adjustment_id
        WHERE a.store = t.store AND l.variant_id = t.variant_id))
"""  # noqa: S608 - constants
# What seems to come from the future was handed in while the clock was ahead.
_NEXT = f"""
    SELECT r.id, r.command_id,
           coalesce(r.caused_at, r.received_at) NOT BETWEEN :before AND :now, {_MAY_GO}
    FROM records r LEFT JOIN stock_targets t ON t.command_id = r.command_id
      LEFT JOIN commands c ON c.id = t.command_id
    WHERE r.id > coalesce((SELECT value FROM marks WHERE name = :cursor), 0) + 0
    ORDER BY r.id LIMIT :limit
"""  # noqa: S608 - constants


def delete_old_counts(
    connection: Connection, before: str, clock: Clock, until: float
) -> tuple[int, int]:
    """Drop counts handed in before a time, until that second of the clock.

    Returns how many, and how many records it has checked. It checks a record once: a
    count that cannot go then stays for good, which is at most one for each article.
    """
    span = {"before": before, "now": to_text(clock.now())}
    values = {**span, "cursor": CURSOR, "limit": BATCH}
    dropped, passed, more = 0, 0, True
    while more:
        rows = connection.execute(_NEXT, values).fetchall()
        old = list(takewhile(lambda row: row[2], rows))
        if old:
            dropped += _delete(connection, [row[:2] for row in old if row[3]])
            connection.execute(
                "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)",
                (CURSOR, str(old[-1][0])),
            )
        passed += len(old)
        more = len(old) == BATCH and clock.monotonic() < until
    return dropped, passed


def _delete(connection: Connection, gone: list[tuple[int, str | None]]) -> int:
    targets = [(command,) for _, command in gone if command is not None]
    connection.executemany(
        "DELETE FROM records WHERE id = ?", [row[:1] for row in gone]
    )
    connection.executemany("DELETE FROM stock_targets WHERE command_id = ?", targets)
    connection.executemany("DELETE FROM commands WHERE id = ?", targets)
    return len(gone)
