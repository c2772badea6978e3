"""Echoes: the first event that shows an effect of our own, recognized by its id.

The id is that of an adjustment or a parcel, or is made from an order's cancellation.
While a command is in flight, the id of its effect is not known yet. The events of its
ordering key are kept until its response, or a check, names the effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.matching import Command
    from backhaul.store.sql.family import Connection

_OWNER = """
    SELECT id, instance FROM commands WHERE store = :store AND effect_id = :effect
"""
_IN_FLIGHT = """
    SELECT 1 FROM commands WHERE store = :store AND lane = :lane
      AND state IN ('sending', 'uncertain')
"""
_RECORD = """
    INSERT INTO echoes (store, effect, lane, event_id, at, command_id)
    VALUES (:store, :effect, :lane, :event, :at, :command)
    ON CONFLICT (store, effect) DO NOTHING
"""
_LINK_CHANGE = """
    UPDATE echoes SET change_id = :change WHERE store = :store AND effect = :effect
"""
_CLAIM = """
    UPDATE echoes SET command_id = :command WHERE store = :store AND effect = :effect
      AND EXISTS (SELECT 1 FROM commands c WHERE c.store = :store
                  AND c.effect_id = :effect AND c.id = :command)
"""
_CLAIM_CHANGE = """
    UPDATE changes SET instance = :instance WHERE id =
      (SELECT change_id FROM echoes WHERE store = :store AND effect = :effect)
"""
_DROP_UNCLAIMED = """
    DELETE FROM echoes WHERE store = :store AND lane = :lane AND command_id IS NULL
"""


def record_effect(
    connection: Connection, store: str, lane: str, effect: str, event: int, now: str
) -> tuple[bool, str | None]:
    """Record the first event that shows an effect which is, or may be, our own.

    Returns whether this is the first, and the connection behind the command if known.
    """
    values = {"store": store, "lane": lane, "effect": effect}
    owner = connection.execute(_OWNER, values).fetchone()
    if owner is None and not connection.execute(_IN_FLIGHT, values).fetchone():
        return False, None
    command, instance = owner or (None, None)
    row = {**values, "event": event, "at": now, "command": command}
    added = connection.execute(_RECORD, row)
    return added.rowcount > 0, instance


def link_change(
    connection: Connection, store: str, effects: Sequence[str], change: int
) -> None:
    """Keep which row of the change feed reports these effects."""
    connection.executemany(
        _LINK_CHANGE,
        [{"store": store, "effect": effect, "change": change} for effect in effects],
    )


def claim_effect(connection: Connection, command: Command, effect: str) -> None:
    """Link an event that was recorded before its effect was known to be ours."""
    values = {"store": command.store, "effect": effect}
    claimed = connection.execute(_CLAIM, {**values, "command": command.id})
    if claimed.rowcount:
        connection.execute(_CLAIM_CHANGE, {**values, "instance": command.instance})


def drop_unclaimed(connection: Connection, command: Command) -> None:
    """Delete events of an ordering key that turned out to show none of our effects."""
    values = {"store": command.store, "lane": command.lane}
    connection.execute(_DROP_UNCLAIMED, values)
