"""What a dry run sets aside: planned, in no lane's way, and passed over by a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from backhaul.store.matching import Command

REHEARSED = "dry run: not sent"
"""The reason of a planned command that would have left but for a dry run."""
AT_ONCE = 200
# `held`: 0 leaves in its turn, 1 waits for its order to change, 2 is set aside.
_SET_ASIDE = "UPDATE commands SET held = 2, reason = ? WHERE seq = ?"
_NEXT_INSTANCE = """
    SELECT min(instance) FROM commands INDEXED BY commands_aside
    WHERE store = ? AND state = 'planned' AND held = 2 AND instance > ?
"""
_TAKE_BACK = """
    UPDATE commands SET held = 0 WHERE seq IN (
      SELECT seq FROM commands INDEXED BY commands_aside
      WHERE store = ? AND state = 'planned' AND held = 2 AND instance = ? LIMIT ?)
"""


def set_aside(connection: sqlite3.Connection, commands: Sequence[Command]) -> None:
    """Let these wait until the dry run is over."""
    rows = [(REHEARSED, command.seq) for command in commands]
    connection.executemany(_SET_ASIDE, rows)


def resume(connection: sqlite3.Connection, store: str, rehearsed: Sequence[str]) -> int:
    """Take back into their lanes some that `rehearsed` does not name any more.

    Returns how many these were; none may leave before it is 0, or one would leave
    before another of its lane that is older.
    """
    for instance in _instances(connection, store):
        if not {"*", instance} & set(rehearsed):
            values = (store, instance, AT_ONCE)
            return connection.execute(_TAKE_BACK, values).rowcount
    return 0


def _instances(connection: sqlite3.Connection, store: str) -> Iterator[str]:
    """Find who asked for what is set aside, without a look at each row."""
    values = (store, "")
    while (row := connection.execute(_NEXT_INSTANCE, values).fetchone())[0] is not None:
        yield row[0]
        values = (store, row[0])
