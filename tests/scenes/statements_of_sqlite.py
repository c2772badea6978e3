"""Statements of the common text that only SQLite runs, each with a reason."""

from __future__ import annotations

SQLITE_ONLY: dict[str, str] = {}
"""From `module: a part of the statement` to the reason why it has a text of its own."""
