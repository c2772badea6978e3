"""Statements of the common SQL that only SQLite runs, each with a reason."""

from __future__ import annotations

SQLITE_ONLY: dict[str, str] = {}
"""Maps `module: part of the statement` to the reason."""
