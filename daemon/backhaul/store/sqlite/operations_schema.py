"""Migrations from 60: what those who run it for years need.

They are frozen like the others; `migrations` registers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database


def add_newest_records(db: Database) -> None:
    """When each connector last brought something, without reading all records."""
    db.execute("CREATE INDEX records_newest ON records(instance, id)")


def add_alerts(db: Database) -> None:
    """What needs a person, from its begin until its end was told."""
    db.execute(
        """
        CREATE TABLE alerts (
            key TEXT PRIMARY KEY, says TEXT NOT NULL, mend TEXT NOT NULL,
            began_at TEXT NOT NULL, told_at TEXT) WITHOUT ROWID
        """
    )


def add_users(db: Database) -> None:
    """Who may use the dashboard; `secret` is an Argon2id hash."""
    db.execute(
        """
        CREATE TABLE users (
            name TEXT PRIMARY KEY, role TEXT NOT NULL, secret TEXT NOT NULL,
            epoch INTEGER NOT NULL, created_at TEXT NOT NULL, last_login_at TEXT)
        WITHOUT ROWID
        """
    )


def add_samples(db: Database) -> None:
    """What happened in each minute of the last day, for the dashboard's charts."""
    db.execute(
        """
        CREATE TABLE samples (
            at TEXT PRIMARY KEY, webhooks INTEGER NOT NULL, folded INTEGER NOT NULL,
            applied INTEGER NOT NULL, platform_seconds REAL, heartbeat_seconds REAL,
            events_waiting INTEGER NOT NULL, commands_open INTEGER NOT NULL,
            parked INTEGER NOT NULL) WITHOUT ROWID
        """
    )
