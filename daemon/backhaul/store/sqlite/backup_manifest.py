"""The manifest of a backup: what is in it, in a file of its own beside it.

A restore compares the backup with its manifest, so that a changed byte is found that
SQLite does not see, and a backup is not mistaken for another one of the same name.
"""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from sqlite_utils import Database

from backhaul.core.clock import to_text
from backhaul.errors import BackhaulError, CorruptData, why
from backhaul.store.sqlite import file_backup, file_inspection
from backhaul.store.sqlite.migrations.versions import migrations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backhaul.core.clock import Clock

SUFFIX = ".manifest.json"
_MOST_BYTES = 1 << 20


class Manifest(Struct, frozen=True):
    """`rows` has the number of rows of each table, `bytes` and `sha256` are the file's.

    `schema_version` is the name of the newest migration.
    """

    created_at: str
    schema_version: str
    bytes: int
    sha256: str
    rows: dict[str, int]


def path_of(backup: Path) -> Path:
    """Return where the manifest of a backup lies."""
    return backup.with_name(backup.name + SUFFIX)


def back_up(
    source: Path,
    target: Path,
    clock: Clock,
    ended: Callable[[], bool] = file_backup.never,
) -> Manifest:
    """Copy a database as `copies.copy` does, and write the manifest of the copy.

    Returns the manifest. Raises as `copies.copy`; then there is no copy.
    """
    path_of(target).unlink(missing_ok=True)  # of an earlier file of this name
    file_backup.copy(source, target, ended)
    try:
        made = describe(target, clock)
        _write(path_of(target), made)
    except BaseException as error:
        target.unlink(missing_ok=True)
        path_of(target).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise BackhaulError(
                f"{path_of(target)}: cannot be written: {why(error)}"
            ) from None
        raise
    return made


def describe(database: Path, clock: Clock) -> Manifest:
    """Return the manifest of a file that nothing writes to."""
    return _described(database, to_text(clock.now()))


def describe_again(database: Path, before: Manifest) -> Manifest:
    """Return the manifest now; equal to the one before if nothing has changed."""
    return _described(database, before.created_at)


def _described(database: Path, created_at: str) -> Manifest:
    # The bytes come last: SQLite has read the file by then.
    schema, rows = schema_version(database), file_inspection.counts(database)
    size = database.stat().st_size
    return Manifest(created_at, schema, size, sha256_of(database), rows)


def read(backup: Path) -> Manifest | None:
    """Return the manifest beside a backup; one of an earlier version has none.

    Raises CorruptData when there is a manifest that cannot be read.
    """
    file = path_of(backup)
    try:
        if file.exists() and not file.is_file():  # opening a FIFO would wait for ever
            raise OSError(errno.EINVAL, "not a file")
        with file.open("rb") as opened:
            return msgspec.json.decode(opened.read(_MOST_BYTES), type=Manifest)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        reason = why(error) if isinstance(error, OSError) else str(error)
        raise CorruptData(
            f"{file}: the manifest of this backup cannot be read ({reason}); use"
            " another backup. If you know that this backup is complete, remove its"
            " manifest"
        ) from None


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def schema_version(database: Path) -> str:
    """Return the name of the newest migration; empty where there is none."""
    with file_backup.open_to_look(database) as connection:
        wrapped = Database(connection, execute_plugins=False)
        applied = migrations.applied(wrapped)
    return applied[-1].name if applied else ""


def _write(file: Path, manifest: Manifest) -> None:
    """Write the manifest: whole and durable, for its owner only."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    with closing(os.fdopen(handle, "wb")) as stream:
        stream.write(text + b"\n")
    file_backup.sync(unfinished)
    unfinished.rename(file)
    file_backup.sync(file.parent)
