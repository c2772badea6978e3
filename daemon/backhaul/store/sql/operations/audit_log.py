"""The audit: one entry for each action of a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backhaul.store.operations import AuditEntry
    from backhaul.store.sql.family import Connection

_ADD = """
    INSERT INTO audit (at, who, action, detail) VALUES (:at, :who, :action, :detail)
"""


def add_entry(connection: Connection, now: str, deed: AuditEntry) -> None:
    """Add an entry in the transaction of the change that it records."""
    connection.execute(
        _ADD,
        {"at": now, "who": deed.who, "action": deed.action, "detail": deed.detail},
    )
