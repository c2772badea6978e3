"""Rows as no verb leaves them: damaged, from the past, or of another version.

Only this module knows how to write them. The names are those of docs/mirror.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenes.databases import write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def overwrite(
    path: Path, table: str, values: Mapping[str, object], **wanted: object
) -> None:
    """Overwrite columns of the rows whose columns have the values of `wanted`."""
    changes = ", ".join(f'"{name}" = ?' for name in values)
    where = " AND ".join(f'"{name}" = ?' for name in wanted) or "1"
    statement = f"UPDATE {table} SET {changes} WHERE {where}"  # noqa: S608 - a test's own
    write(path, statement, *values.values(), *wanted.values())


def insert(path: Path, table: str, **values: object) -> None:
    """Write a row by hand."""
    names = ", ".join(f'"{name}"' for name in values)
    places = ", ".join("?" for _ in values)
    statement = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608 - a test's own
    write(path, statement, *values.values())


def lose(path: Path, table: str) -> None:
    """Delete all rows of a table."""
    write(path, f"DELETE FROM {table}")  # noqa: S608 - a test's own
