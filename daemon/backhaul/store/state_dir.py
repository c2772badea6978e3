"""The state directory: one process at a time works in it."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from backhaul.errors import AlreadyRunning, ConfigurationError, Finding, why

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWNER_ONLY = 0o700
_NOT_OF_THE_SETTING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM})
"""A full disk and a missing right: another setting does not help."""


@contextmanager
def setting_errors(setting: str) -> Iterator[None]:
    """Report a folder that cannot be used as a ConfigurationError of its setting."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_OF_THE_SETTING:
            raise
        reason = why(error)
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = "it is not a folder, or a part of its path is not"
        problem = f"cannot be used: {reason}"
        hint = "correct it, or name a folder that the daemon can write to"
        finding = Finding(str(error.filename), setting, problem, hint)
        raise ConfigurationError([finding]) from None


@contextmanager
def sole_writer(state_dir: Path) -> Iterator[None]:
    """Hold the lock of the state directory. Raises AlreadyRunning, ConfigurationError.

    The lock has a file of its own: closing a second handle on the database file would
    drop SQLite's locks on it.
    """
    with setting_errors("state_dir"):
        state_dir.mkdir(OWNER_ONLY, parents=True, exist_ok=True)
        lock = os.open(state_dir / "backhaul.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise AlreadyRunning(
                f"{state_dir}: another Backhaul uses this folder (process {holder});"
                " stop that process first, or set another state_dir"
            ) from None
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(lock)
