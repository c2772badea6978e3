"""Echoes: the event by which an effect of our own came back, known by its identity.

An identity is an adjustment's id, a parcel's, or that of an order's cancellation. While
a command is under way its identity is not known yet: what is heard of its lane then is
kept, until its answer, or the settler, names the effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from backhaul.store.matching import Command

_OWNER = "SELECT id, instance FROM commands WHERE store = ? AND effect_id = ?"
_IN_FLIGHT = """
    SELECT 1 FROM commands WHERE store = ? AND lane = ?
      AND state IN ('sending', 'uncertain')
"""
_HEAR = """
    INSERT OR IGNORE INTO echoes (store, effect, lane, event_id, at, command_id)
    VALUES (?, ?, ?, ?, ?, ?)
"""


def record_effect(
    connection: sqlite3.Connection,
    store: str,
    lane: str,
    effect: str,
    event: int,
    now: str,
) -> tuple[bool, str | None]:
    """Note the first event that shows an effect which is, or may be, our own.

    Return whether this is it, and the instance behind the command where it is known.
    """
    owner = connection.execute(_OWNER, (store, effect)).fetchone()
    if owner is None and not connection.execute(_IN_FLIGHT, (store, lane)).fetchone():
        return False, None
    command, instance = owner or (None, None)
    added = connection.execute(_HEAR, (store, effect, lane, event, now, command))
    return added.rowcount > 0, instance


def link_change(
    connection: sqlite3.Connection, store: str, effects: Sequence[str], change: int
) -> None:
    """Keep which row of the change feed told of these effects."""
    connection.executemany(
        "UPDATE echoes SET change_id = ? WHERE store = ? AND effect = ?",
        [(change, store, effect) for effect in effects],
    )


def claim_effect(connection: sqlite3.Connection, command: Command, effect: str) -> None:
    """Link what was heard before it was known to be the command's own."""
    owner = connection.execute(_OWNER, (command.store, effect)).fetchone()
    if owner is None or owner[0] != command.id:
        return
    key = (command.store, effect)
    connection.execute(
        "UPDATE echoes SET command_id = ? WHERE store = ? AND effect = ?",
        (command.id, *key),
    )
    connection.execute(
        "UPDATE changes SET instance = ? WHERE id ="
        " (SELECT change_id FROM echoes WHERE store = ? AND effect = ?)",
        (command.instance, *key),
    )


def drop_unclaimed(connection: sqlite3.Connection, command: Command) -> None:
    """Drop what was heard of a lane and proved to be nobody's own."""
    connection.execute(
        "DELETE FROM echoes WHERE store = ? AND lane = ? AND command_id IS NULL",
        (command.store, command.lane),
    )
