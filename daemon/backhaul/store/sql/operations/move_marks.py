"""Marks of a move to another engine, as key-value state of both databases.

`moving_from` is in a copy until its source is marked. `moved_to` is in the source from
then on. A daemon starts with neither of them, so that only one of both databases is
ever in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backhaul.errors import ConfigurationError, Finding
from backhaul.store.moving import Mark
from backhaul.store.sql.operations import kv

if TYPE_CHECKING:
    from backhaul.store.sql.family import Connection

MOVED_TO = "moved_to"
MOVING_FROM = "moving_from"
_EPOCH = "epoch"
_DELETE = "DELETE FROM kv WHERE name = :name"


def find(connection: Connection, name: str) -> Mark | None:
    """Return a mark, or None."""
    text = kv.get(connection, name)
    return None if text is None else msgspec.json.decode(text, type=Mark)


def put_moved(connection: Connection, mark: Mark) -> None:
    """Mark a source as moved, and end the epoch of a daemon that still uses it."""
    kv.put(connection, MOVED_TO, _text(mark))
    epoch = int(kv.get(connection, _EPOCH) or 0)
    kv.put(connection, _EPOCH, str(epoch + 1))


def put_moving(connection: Connection, mark: Mark) -> None:
    """Mark a copy as one whose source is still in use."""
    kv.put(connection, MOVING_FROM, _text(mark))


def remove_moving(connection: Connection, move: str) -> None:
    """Make the copy of a move the database to use. It can be repeated."""
    mark = find(connection, MOVING_FROM)
    if mark is not None and mark.move == move:
        connection.execute(_DELETE, {"name": MOVING_FROM})


def remove_moved(connection: Connection) -> None:
    """Let a restored database be used again that was moved once."""
    connection.execute(_DELETE, {"name": MOVED_TO})


def require_usable(
    connection: Connection, place: str, *, to_receive: bool = False
) -> None:
    """Refuse a database that was moved, or is an incomplete copy.

    During a live move a daemon may use it `to_receive`. Raises ConfigurationError,
    because another `database.url` is the fix.
    """
    if mark := find(connection, MOVED_TO):
        raise ConfigurationError([moved(place, mark)])
    if mark := find(connection, MOVING_FROM):
        if mark.is_live and to_receive:
            return
        problem = f"the move from {mark.place} into this database is not complete"
        hint = f"run backhaul migrate --to {place} again, or set it to {mark.place}"
        raise ConfigurationError([_finding(place, problem, hint)])


def moved(place: str, mark: Mark) -> Finding:
    """Return the finding for a database that was moved; it names the new place."""
    problem = f"this database was moved to {mark.place} at {mark.at}"
    return _finding(place, problem, f"set it to {mark.place}")


def _finding(place: str, problem: str, hint: str) -> Finding:
    return Finding(place, "database.url", problem, hint)


def _text(mark: Mark) -> str:
    return msgspec.json.encode(mark).decode()
