"""The manifest of a backup: a file beside it that describes its contents.

A restore compares the backup with its manifest. So it finds a changed byte that SQLite
does not notice, and another backup of the same name.
"""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
from sqlite_utils import Database

from backhaul.core.clock import to_text
from backhaul.errors import BackhaulError, CorruptData, why
from backhaul.store.database import Manifest, manifest_of
from backhaul.store.sqlite import file_backup
from backhaul.store.sqlite.migrations import migrations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backhaul.core.clock import Clock

_MOST_BYTES = 1 << 20


def back_up(
    source: Path,
    target: Path,
    clock: Clock,
    ended: Callable[[], bool] = file_backup.never,
) -> Manifest:
    """Copy a database with `file_backup.copy`, and write the manifest of the copy.

    Returns the manifest. Raises what `file_backup.copy` raises; then there is no copy.
    """
    manifest_of(target).unlink(missing_ok=True)  # of an earlier file of this name
    file_backup.copy(source, target, ended)
    try:
        made = describe(target, clock)
        _write(manifest_of(target), made)
    except BaseException as error:
        target.unlink(missing_ok=True)
        manifest_of(target).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise BackhaulError(
                f"{manifest_of(target)}: cannot be written: {why(error)}"
            ) from None
        raise
    return made


def describe(database: Path, clock: Clock) -> Manifest:
    """Return the manifest of a file that nothing writes to."""
    return _described(database, to_text(clock.now()))


def describe_again(database: Path, before: Manifest) -> Manifest:
    """Return the present manifest; it equals `before` if nothing has changed."""
    return _described(database, before.created_at)


def _described(database: Path, created_at: str) -> Manifest:
    # The bytes come last: SQLite has read the file before.
    schema, rows = schema_version(database), file_backup.row_counts(database)
    size = database.stat().st_size
    return Manifest(created_at, schema, size, sha256_of(database), rows)


def read(backup: Path) -> Manifest | None:
    """Return the manifest of a backup, None if an earlier version made the backup.

    Raises CorruptData if the manifest cannot be read.
    """
    file = manifest_of(backup)
    try:
        if file.exists() and not file.is_file():  # opening a FIFO would never return
            raise OSError(errno.EINVAL, "not a file")
        with file.open("rb") as opened:
            return msgspec.json.decode(opened.read(_MOST_BYTES), type=Manifest)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        reason = why(error) if isinstance(error, OSError) else str(error)
        raise CorruptData(
            f"{file}: this file, the manifest of a backup, cannot be read"
            f" ({reason}). Use another backup. If you know that the backup is"
            " complete, delete this file"
        ) from None


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def schema_version(database: Path) -> str:
    """Return the name of the newest migration, empty if there is none."""
    with file_backup.open_read_only(database) as connection:
        wrapped = Database(connection, execute_plugins=False)
        applied = migrations.applied(wrapped)
    return applied[-1].name if applied else ""


def _write(file: Path, manifest: Manifest) -> None:
    """Write the manifest completely and durably; only its owner can read it."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    with closing(os.fdopen(handle, "wb")) as stream:
        stream.write(text + b"\n")
    file_backup.sync(unfinished)
    unfinished.rename(file)
    file_backup.sync(file.parent)
