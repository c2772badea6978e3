"""The folder on disk: which files are ready, and where they go afterwards."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from backhaul_connectors.file_drop.csv_rows import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from backhaul_connectors.file_drop.parsing import Form

ARCHIVE, HELD, REJECTED = "archive", "held", "rejected"
UNFINISHED = (".tmp", ".part")
DONE = ".done"


class Changed(Exception):
    """The file is not the one that was found; it is looked at again later."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What changes when a file is written to, or another takes its name."""

    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Fingerprint:
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is ready to be read."""

    path: Path
    form: Form
    fingerprint: Fingerprint

    @property
    def name(self) -> str:
        return shown(self.path.name)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file as it was found; `Changed` if it is no longer that."""
        # No link is followed: who may write here must not choose what is read.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags)
        except FileNotFoundError:
            raise Changed(self.name) from None
        with os.fdopen(descriptor, "rb") as stream:
            self._compare(os.fstat(descriptor))
            yield stream
            self._compare(os.fstat(descriptor))

    def is_still_there(self, path: Path) -> bool:
        """Tell whether `path` is this very file, unchanged."""
        try:
            return Fingerprint.of(path.lstat()) == self.fingerprint
        except FileNotFoundError:
            return False

    def _compare(self, status: os.stat_result) -> None:
        if Fingerprint.of(status) != self.fingerprint:
            raise Changed(self.name)


class Folder:
    """The drop folder; remembers since when each file has not changed."""

    def __init__(
        self,
        path: Path,
        forms: Sequence[Form],
        *,
        settle_seconds: float,
        require_done_file: bool,
        clock: Callable[[], float],
    ) -> None:
        self._path = path
        self._forms = forms
        self._settle_seconds = settle_seconds
        self._require_done_file = require_done_file
        self._clock = clock
        self._seen: dict[Path, tuple[Fingerprint, float]] = {}

    def problem(self) -> str:
        """Say why work could not begin; empty if it could. Changes nothing."""
        if not self._path.is_dir():
            return f"{self._path} is no folder; create it, or correct the path"
        if not os.access(self._path, os.R_OK | os.W_OK | os.X_OK):
            return f"{self._path} must be readable and writable for this user"
        for name in (ARCHIVE, HELD, REJECTED):
            inner = self._path / name
            if inner.exists() and not os.access(inner, os.W_OK | os.X_OK):
                return f"{inner} must be a folder this user can write to"
            if inner.exists() and inner.stat().st_dev != self._path.stat().st_dev:
                return f"{inner} must be on the same disk as {self._path}"
        return ""

    def prepare(self) -> None:
        """Make the folders that files are moved to."""
        for name in (ARCHIVE, HELD, REJECTED):
            (self._path / name).mkdir(exist_ok=True)

    def ready(self, first: str) -> list[Found]:
        """Return what may be read: the file named `first`, then the oldest."""
        found = list(self._candidates())
        self._forget_all_but({file.path for file in found})
        ready = [file for file in found if self._may_be_read(file)]
        return sorted(
            ready,
            key=lambda file: (
                file.name != first,
                file.fingerprint.modified_ns,
                file.name,
            ),
        )

    def _candidates(self) -> Iterator[Found]:
        with os.scandir(self._path) as entries:
            for entry in entries:
                form = self._form_of(entry.name)
                if form is None or not entry.is_file(follow_symlinks=False):
                    continue
                status = Path(entry.path).lstat()
                # An empty file is one whose writer has not begun.
                if stat.S_ISREG(status.st_mode) and status.st_size:
                    yield Found(Path(entry.path), form, Fingerprint.of(status))

    def _form_of(self, name: str) -> Form | None:
        lower = name.lower()
        if lower.startswith(".") or lower.endswith((*UNFINISHED, DONE)):
            return None
        matching = (f for f in self._forms if fnmatchcase(lower, f.pattern.lower()))
        return next(matching, None)

    def _may_be_read(self, file: Found) -> bool:
        if self._is_declared_done(file):
            return True
        now = self._clock()
        known, since = self._seen.get(file.path, (None, now))
        if known != file.fingerprint:
            since = now
        self._seen[file.path] = (file.fingerprint, since)
        return not self._require_done_file and now - since >= self._settle_seconds

    def _is_declared_done(self, file: Found) -> bool:
        try:
            done = _done_file(file).lstat()
        except FileNotFoundError:
            return False
        # An older one was left over from the previous file of this name.
        return done.st_mtime_ns >= file.fingerprint.modified_ns

    def _forget_all_but(self, paths: set[Path]) -> None:
        self._seen = {p: seen for p, seen in self._seen.items() if p in paths}

    def archive(self, file: Found) -> None:
        """Move a file away that was taken; nothing happens if it was done before."""
        self._move(file, self._free(ARCHIVE, file))

    def hold(self, file: Found, reason: str) -> None:
        """Move a file away untouched, with the reason beside it."""
        if not file.is_still_there(file.path):
            return
        target = self._free(HELD, file)
        beside = target.with_name(f"{target.name}.reason.txt")
        beside.write_text(f"{reason}\n", encoding="utf-8")
        self._move(file, target)

    def _free(self, folder: str, file: Found) -> Path:
        """Return a path that does not exist yet: what is kept is never replaced."""
        target = self._path / folder / file.path.name
        number = 1
        while os.path.lexists(target):
            number += 1
            target = target.with_name(f"{file.path.stem}-{number}{file.path.suffix}")
        return target

    def _move(self, file: Found, target: Path) -> None:
        if not file.is_still_there(file.path):
            return
        target.parent.mkdir(exist_ok=True)
        file.path.rename(target)
        if not file.is_still_there(target):
            # Another file took the name in the last moment, and nobody read that one.
            target.rename(file.path)
            return
        _done_file(file).unlink(missing_ok=True)
        self._seen.pop(file.path, None)


def _done_file(file: Found) -> Path:
    return file.path.with_name(file.path.name + DONE)
