"""The audit log: one entry for each action of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

if TYPE_CHECKING:
    from backhaul.store.operations import AuditEntry
    from backhaul.store.sql.family import Connection

_ADD = """
    INSERT INTO audit (at, who, action, detail) VALUES (:at, :who, :action, :detail)
"""
# A decision also names its command or stock target, as lists show it.
ADD_DECISION = """
    INSERT INTO audit (at, who, action, detail, command_id, state_before, state_after)
    VALUES (:at, :who, :action, :detail, :command, :before, :after)
"""


def add_entry(connection: Connection, now: str, entry: AuditEntry) -> None:
    """Add an entry in the transaction of the change that it records."""
    connection.execute(_ADD, {"at": now, **asdict(entry)})
