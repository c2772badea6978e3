"""The file of a moved database: its new name, and what keeps its old place empty."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from backhaul.errors import BackhaulError, ConfigurationError, Finding
from backhaul.store.sql.operations import move_marks
from backhaul.store.sqlite import file_backup, file_replacement

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX = ".moved"


def url_of(path: Path) -> str:
    """Return a file as `database.url` has it."""
    return f"sqlite:///{path.absolute()}"


def name_of(path: Path) -> Path:
    """Return the name that a database gets once it was moved."""
    return file_replacement.part(path, SUFFIX)


def require_new_name(path: Path) -> None:
    """Refuse to move a file if that of an earlier move is still there."""
    if file_replacement.parts_of(name_of(path)):
        raise BackhaulError(
            f"{name_of(path)}: this file is left from an earlier move to"
            " PostgreSQL. Move it away or delete it, then run the command again"
        )


def rename(path: Path) -> Path:
    """Rename a moved database, so that nobody takes it for the one in use.

    Its log is empty by now. The database comes first: without it a log is harmless.
    """
    aside = name_of(path)
    for suffix in reversed(file_replacement.parts_of(path)):
        file_replacement.part(path, suffix).rename(file_replacement.part(aside, suffix))
    file_backup.sync(path.parent)
    return aside


def require_here(path: Path) -> None:
    """Refuse an empty place whose database was moved. Raises ConfigurationError.

    A daemon that still has the old setting would begin with an empty database.
    """
    if finding := why_absent(path):
        raise ConfigurationError([finding])


def why_absent(path: Path) -> Finding | None:
    """Return where the database of an empty place was moved, None if it was not."""
    path = file_replacement.real_path(path)
    aside = name_of(path)
    if path.exists() or not aside.is_file():
        return None
    try:
        with file_backup.open_read_only(aside) as connection:
            mark = move_marks.find(connection, move_marks.MOVED_TO)
    except sqlite3.Error:
        mark = None
    if mark is not None:
        return move_marks.moved(url_of(path), mark)
    problem = f"this database was moved, and {aside} does not say where"
    hint = f"set it to the new place, or move {aside} away to begin with an empty one"
    return Finding(url_of(path), "database.url", problem, hint)
