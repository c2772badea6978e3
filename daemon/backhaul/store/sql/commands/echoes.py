"""Echoes: the first event that shows an effect of our own, recognized by its id.

The id is that of an adjustment or a parcel, or is made from an order's cancellation.
While a command is in flight, the id of its effect is not known yet. The events of its
ordering key are kept until its response, or a check, names the effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from backhaul.store.sql.dialect import elements
from backhaul.store.sql.mirror.rows import part_of_key, read_by_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.store.matching import Command
    from backhaul.store.sql.family import Connection
    from backhaul.store.sql.mirror.rows import Key

_EFFECTS = f"""
    SELECT {part_of_key(0)}, {part_of_key(1)}, {part_of_key(2)}, c.id, c.instance,
           EXISTS (SELECT 1 FROM commands o
                   WHERE o.store = {part_of_key(0)} AND o.lane = {part_of_key(1)}
                     AND o.state IN ('sending', 'uncertain')),
           EXISTS (SELECT 1 FROM echoes h
                   WHERE h.store = {part_of_key(0)} AND h.effect = {part_of_key(2)})
    FROM {elements(":keys", "$")} e LEFT JOIN commands c
      ON c.store = {part_of_key(0)} AND c.effect_id = {part_of_key(2)}
"""  # noqa: S608 - constants
_RECORD = """
    INSERT INTO echoes (store, effect, lane, event_id, at, command_id, change_id)
    VALUES (:store, :effect, :lane, :event, :at, :command, :change)
    ON CONFLICT (store, effect) DO NOTHING
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


class Owner(NamedTuple):
    """Whose effect it may be, and whether an event showed it before.

    `command` and `instance` are None while no command is known to have the effect;
    `is_in_flight` tells that a command of the ordering key may turn out to have it.
    """

    command: str | None
    instance: str | None
    is_in_flight: bool
    was_shown: bool


class ShownEffects:
    """The effects that the events of a slice show; written at `flush`."""

    def __init__(self, connection: Connection, now: str) -> None:
        self._connection = connection
        self._now = now
        self._owners: dict[Key, Owner] = {}
        self._shown: dict[Key, dict[str, Any]] = {}

    def load(self, keys: Iterable[Key]) -> None:
        """Read the owners of effects, by store, ordering key and effect."""
        missing = dict.fromkeys(key for key in keys if key not in self._owners)
        if not missing:
            return
        for row in read_by_keys(self._connection, _EFFECTS, missing):
            owner = Owner(row[3], row[4], bool(row[5]), bool(row[6]))
            self._owners[tuple(row[:3])] = owner

    def record(
        self, store: str, lane: str, effect: str, event: int
    ) -> tuple[bool, str | None]:
        """Record the first event that shows an effect which is, or may be, our own.

        Returns whether this is the first, and the connection behind the command if
        known.
        """
        key = store, lane, effect
        self.load((key,))
        owner = self._owners[key]
        if owner.command is None and not owner.is_in_flight:
            return False, None
        is_first = not owner.was_shown and (store, effect) not in self._shown
        if is_first:
            self._shown[store, effect] = {
                "store": store,
                "effect": effect,
                "lane": lane,
                "event": event,
                "at": self._now,
                "command": owner.command,
                "change": None,
            }
        return is_first, owner.instance

    def link_change(self, store: str, effects: Iterable[str], change: int) -> None:
        """Keep which row of the change feed reports these effects."""
        for effect in effects:
            self._shown[store, effect]["change"] = change

    def flush(self) -> None:
        """Write the effects that were shown first."""
        if self._shown:
            self._connection.executemany(_RECORD, [*self._shown.values()])
        self._owners, self._shown = {}, {}


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
