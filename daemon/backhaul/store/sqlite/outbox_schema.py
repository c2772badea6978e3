"""Migrations from 40: how what was asked of the platform is proved and explained.

They are frozen like the others; `migrations` registers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database


def add_proofs(db: Database) -> None:
    """What a command's fate is told from, each look at it, and the effect it had."""
    # `baseline`: what was known of the object before the first byte left, as JSON.
    db.execute("ALTER TABLE commands ADD COLUMN baseline TEXT")
    db.execute("ALTER TABLE commands ADD COLUMN sent_at TEXT")
    db.execute("ALTER TABLE commands ADD COLUMN looks INTEGER NOT NULL DEFAULT 0")
    # `effect_id`: the adjustment or parcel on the platform that is this command's own.
    db.execute("ALTER TABLE commands ADD COLUMN effect_id TEXT")
    db.execute(
        "UPDATE commands SET effect_id = json_extract(evidence, '$.adjustment_id')"
        " WHERE kind = 'adjust' AND state = 'applied' AND NOT EXISTS"
        " (SELECT 1 FROM commands o WHERE o.store = commands.store"
        "  AND o.seq < commands.seq AND o.state = 'applied' AND o.kind = 'adjust'"
        "  AND json_extract(o.evidence, '$.adjustment_id')"
        "   = json_extract(commands.evidence, '$.adjustment_id'))"
    )
    db.execute(
        "CREATE UNIQUE INDEX commands_effect ON commands(store, effect_id)"
        " WHERE effect_id IS NOT NULL"
    )
    db.execute(
        "CREATE INDEX commands_doubt ON commands(store, due_at)"
        " WHERE state = 'uncertain'"
    )
    db.execute(
        """
        CREATE TABLE looks (
            id INTEGER PRIMARY KEY, command_id TEXT NOT NULL, number INTEGER NOT NULL,
            at TEXT NOT NULL, found TEXT NOT NULL, reason TEXT NOT NULL, read TEXT)
        """
    )
    db.table("looks").create_index(["command_id"])


def add_adopted(db: Database) -> None:
    """Adjustments with our tag that this database knows no command of."""
    # After a restore: the command is born applied when its record comes in again.
    db.execute(
        """
        CREATE TABLE adopted (
            store TEXT NOT NULL, adjustment_id TEXT NOT NULL, command_id TEXT NOT NULL,
            evidence TEXT NOT NULL, at TEXT NOT NULL,
            PRIMARY KEY (store, adjustment_id)) WITHOUT ROWID
        """
    )
    db.table("adopted").create_index(["command_id"])


_FEED = """
    SELECT c.id, c.store, c.kind, c.object_id, c.change, c.at, c.event, c.instance,
           EXISTS (SELECT 1 FROM commands o WHERE o.store = c.store
                   AND o.lane = CASE c.kind WHEN 'order' THEN 'order:'
                                ELSE 'product:' END || c.object_id
                   AND o.state IN ('planned', 'sending', 'uncertain')
                   AND o.state != 'planned') AS waits
    FROM changes c
"""


def add_echoes(db: Database) -> None:
    """The event by which each effect of our own came back, and whose it was."""
    db.execute(
        """
        CREATE TABLE echoes (
            store TEXT NOT NULL, effect TEXT NOT NULL, lane TEXT NOT NULL,
            event_id INTEGER NOT NULL, at TEXT NOT NULL, change_id INTEGER,
            command_id TEXT, PRIMARY KEY (store, effect)) WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX echoes_at ON echoes(at) WHERE command_id IS NOT NULL")
    db.execute("CREATE INDEX echoes_command ON echoes(command_id)")
    db.execute(
        "CREATE INDEX echoes_unclaimed ON echoes(store, lane) WHERE command_id IS NULL"
    )
    db.execute("ALTER TABLE changes ADD COLUMN instance TEXT")
    db.execute(f"CREATE VIEW feed AS {_FEED}")
