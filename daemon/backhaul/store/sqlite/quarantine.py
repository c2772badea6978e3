"""Quarantine: what could not be used, as it came, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3


def set_aside(
    connection: sqlite3.Connection,
    source: str,
    name: str,
    key: str,
    raw: str | bytes,
    reason: str,
    locator: str,
    now: str,
) -> None:
    """Put a row into quarantine; one that was retried is open again."""
    connection.execute(
        """
        INSERT INTO quarantine (source, name, key, raw, reason, locator, at)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (source, name, key) DO UPDATE SET
            state = 'open', raw = excluded.raw, reason = excluded.reason,
            locator = excluded.locator, at = excluded.at, reported = 0
        WHERE state = 'retried'
        """,
        (source, name, key, raw, reason, locator, now),
    )
