"""The drop folder on this machine."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from backhaul_connectors.file_drop.files import (
    ARCHIVE,
    HELD,
    REASON,
    FileChanged,
    Fingerprint,
    FolderUnreachable,
    FoundFile,
    free_name,
    unfinished_name,
)
from backhaul_connectors.file_drop.folder import (
    FolderEntry,
    FolderListing,
    RenamingFolder,
    listed,
)
from backhaul_sdk.files import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul_connectors.file_drop.files import FileNames, TemporaryCopies
    from backhaul_connectors.file_drop.parsing import FileKind


_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""No link is followed: a user with write access here must not choose what is read."""


def put_file(target: Path, content: bytes) -> None:
    """Write a temporary file beside the target."""
    with _unfinished(target).open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def publish_file(target: Path) -> None:
    """Rename the temporary file to its final name."""
    _unfinished(target).replace(target)
    sync_folder(target.parent)


def _unfinished(target: Path) -> Path:
    return target.with_name(unfinished_name(target.name))


def sync_folder(folder: Path) -> None:
    """Make the folder's names durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fingerprint_of(status: os.stat_result) -> Fingerprint:
    return Fingerprint(status.st_size, status.st_mtime_ns, status.st_ino)


def reason_of(held: Path) -> Path:
    """Return the file that says why another file was held."""
    return held.with_name(f"{held.name}{REASON}")


class LocalFile(Struct, frozen=True):
    """A file that is read in its folder."""

    path: Path
    found: FoundFile

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def form(self) -> FileKind:
        return self.found.form

    @property
    def fingerprint(self) -> Fingerprint:
        return self.found.fingerprint

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file that was found; raises FileChanged if it is another one."""
        try:
            descriptor = os.open(self.path, _FLAGS)
        except FileNotFoundError:
            raise FileChanged(self.name) from None
        with os.fdopen(descriptor, "rb") as stream:
            self._compare(os.fstat(descriptor))
            yield stream
            self._compare(os.fstat(descriptor))

    def _compare(self, status: os.stat_result) -> None:
        if fingerprint_of(status) != self.fingerprint:
            raise FileChanged(self.name)


class LocalFolder(RenamingFolder):
    """The local drop folder; it implements DropFolder."""

    failures: tuple[type[Exception], ...] = (FolderUnreachable, OSError)

    def __init__(
        self,
        path: Path,
        names: FileNames,
        own_folders: Sequence[str],
    ) -> None:
        self._path = path
        self._names = names
        self._own_folders = own_folders

    async def check(self) -> None:
        if problem := await in_thread(self._problem):
            raise FolderUnreachable(problem)

    async def open(self) -> None:
        await self.check()
        await in_thread(self._prepare)

    async def close(self) -> None:
        return None

    async def listing(self) -> FolderListing:
        return await in_thread(self._list)

    async def status(self, folder: str, name: str) -> Fingerprint | None:
        return await in_thread(self._status, self._path / folder / name)

    async def files(self, folder: str) -> Mapping[str, Fingerprint]:
        return await in_thread(self._files, self._path / folder)

    async def fetch(self, file: FoundFile, copies: TemporaryCopies) -> LocalFile:
        return LocalFile(self._path / file.path, file)

    async def free_name(self, folder: str, file: FoundFile) -> str:
        return await in_thread(lambda: self._free(folder, file).name)

    async def archive(self, file: FoundFile, name: str) -> None:
        await in_thread(self._move, file, ARCHIVE, name)

    async def hold(self, file: FoundFile, reason: str) -> None:
        await in_thread(self._hold, file, reason)

    async def read(self, folder: str, name: str) -> bytes | None:
        return await in_thread(self._read, self._path / folder / name)

    async def write(self, folder: str, name: str, content: bytes) -> None:
        await self.put(folder, name, content)
        await self.publish(folder, name)

    async def put(self, folder: str, name: str, content: bytes) -> None:
        await in_thread(put_file, self._path / folder / name, content)

    async def publish(self, folder: str, name: str) -> None:
        await in_thread(publish_file, self._path / folder / name)

    async def exists(self, folder: str, name: str) -> bool:
        await self.check()
        return await in_thread(os.path.lexists, self._path / folder / name)

    def _problem(self) -> str:
        """Return why the folder cannot be used; empty if it can."""
        if not self._path.is_dir():
            return f"{self._path} is not a folder; create it, or correct the path"
        if not os.access(self._path, os.R_OK | os.W_OK | os.X_OK):
            return f"{self._path} must be readable and writable for this user"
        for name in self._own_folders:
            inner = self._path / name
            if inner.exists() and not os.access(inner, os.W_OK | os.X_OK):
                return f"{inner} must be a folder this user can write to"
            if inner.exists() and inner.stat().st_dev != self._path.stat().st_dev:
                return f"{inner} must be on the same disk as {self._path}"
        return ""

    def _prepare(self) -> None:
        for name in self._own_folders:
            (self._path / name).mkdir(exist_ok=True)

    def _list(self) -> FolderListing:
        with os.scandir(self._path) as entries:
            there = [self._entry(entry) for entry in entries]
        known = (entry for entry in there if entry is not None)
        return listed(known, self._names, self._own_folders)

    @staticmethod
    def _entry(entry: os.DirEntry[str]) -> FolderEntry | None:
        try:
            status = Path(entry.path).lstat()
        except FileNotFoundError:
            return None
        return FolderEntry(entry.name, status.st_mode, fingerprint_of(status))

    @staticmethod
    def _status(path: Path) -> Fingerprint | None:
        try:
            status = path.lstat()
        except FileNotFoundError:
            return None
        return fingerprint_of(status) if stat.S_ISREG(status.st_mode) else None

    def _files(self, folder: Path) -> dict[str, Fingerprint]:
        found = ((path.name, self._status(path)) for path in folder.iterdir())
        return {name: known for name, known in found if known is not None}

    @staticmethod
    def _read(path: Path) -> bytes | None:
        """Read a file that we wrote; refuse a link or a pipe in its place."""
        try:
            descriptor = os.open(path, _FLAGS)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FolderUnreachable(
                    f"{path} is not a regular file, but a folder, link or device;"
                    " remove it"
                )
            return stream.read()

    def _is_still_there(self, file: FoundFile, path: Path) -> bool:
        return self._status(path) == file.fingerprint

    def _hold(self, file: FoundFile, reason: str) -> None:
        if not self._is_still_there(file, self._path / file.path):
            return
        target = self._free(HELD, file)
        beside = reason_of(target)
        put_file(beside, f"{reason}\n".encode())
        publish_file(beside)
        self._move(file, HELD, target.name)

    def _free(self, folder: str, file: FoundFile) -> Path:
        """Return an unused path: no stored file is ever replaced."""
        number = 1
        target = self._path / folder / file.file_name
        while os.path.lexists(target):
            number += 1
            target = target.with_name(free_name(file.file_name, number))
        return target

    def _move(self, file: FoundFile, folder: str, name: str) -> None:
        path, target = self._path / file.path, self._path / folder / name
        if not self._is_still_there(file, path):
            return
        target.parent.mkdir(exist_ok=True)
        if os.path.lexists(target):
            target = self._free(folder, file)
        path.rename(target)
        if not self._is_still_there(file, target):
            # Another file took the name just now, and it was not read yet.
            target.rename(path)
            return
        if file.moved_to:
            reason_of(path).unlink(missing_ok=True)
        marker = self._names.marker_of(file.file_name)
        (self._path / marker).unlink(missing_ok=True)
