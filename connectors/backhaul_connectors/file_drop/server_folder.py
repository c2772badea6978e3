"""A drop folder on a file server that has a rename: SFTP, WebDAV or FTP."""

from __future__ import annotations

import errno
import os
import posixpath
import ssl
import stat
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

from backhaul_connectors.file_drop.files import (
    ARCHIVE,
    HELD,
    REASON,
    FileChanged,
    FileCopy,
    FolderUnreachable,
    free_name,
    own_folders,
    unfinished_name,
)
from backhaul_connectors.file_drop.folder import (
    FolderEntry,
    FolderListing,
    RenamingFolder,
    listed,
)
from backhaul_sdk.files import in_thread, to_its_end

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

    from backhaul_connectors.file_drop.files import (
        FileNames,
        Fingerprint,
        FoundFile,
        TemporaryCopies,
    )
    from backhaul_connectors.file_drop.settings import Settings

CHUNK_BYTES = 1_000_000


def tls_context(ca_file: Path | None, setting: str) -> ssl.SSLContext:
    """Return how servers are verified; `setting` is the name of the file's setting.

    Raises FolderUnreachable if the file has no certificates that can be read.
    """
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            reason = (error.strerror or "no certificates in it").lower()
            raise FolderUnreachable(
                f"{setting} {ca_file} cannot be used: {reason}"
            ) from None
    return context


class FileServer(Protocol):
    """A file server. Paths have no slash at their end.

    Every method raises FolderUnreachable if the server fails, and PermissionError if it
    refuses one file.
    """

    failures: tuple[type[Exception], ...]
    """Further exceptions that mean that the server fails."""
    keeps_times: bool
    """Whether a renamed file keeps its time."""

    async def is_folder(self, path: str) -> bool:
        """Return whether this is a folder, or a link to one."""

    async def entries(self, path: str) -> Sequence[FolderEntry]:
        """Return what is in a folder."""

    async def entry(self, path: str) -> FolderEntry | None:
        """Return what has this path; None if nothing has."""

    def download(self, path: str) -> AsyncGenerator[bytes]:
        """Yield a file's content in pieces; raises FileNotFoundError."""

    async def upload(self, path: str, content: bytes) -> None:
        """Write a file, replacing an older one; it may be visible before its end."""

    async def rename(self, source: str, target: str, *, replace: bool) -> None:
        """Rename a file; `replace` allows that an older file has the new name."""

    async def remove(self, path: str) -> None:
        """Delete a file, if there is one."""

    async def make_folder(self, path: str) -> None:
        """Create a folder, if there is none."""

    async def close(self) -> None:
        """Release everything. Safe to call twice."""


class ServerFolder(RenamingFolder):
    """The drop folder `path` on a server; it implements DropFolder."""

    def __init__(
        self, server: FileServer, path: str, settings: Settings, names: FileNames
    ) -> None:
        self.failures: tuple[type[Exception], ...] = (
            *(FolderUnreachable, OSError),
            *server.failures,
        )
        self._server = server
        self._path = path
        self._names = names
        self._own_folders = own_folders(settings.exports)
        self._where = settings.folder or f"the path {path}"
        self._setting = "folder" if settings.folder else "path"
        self._max_bytes = settings.max_file_mb * 1_000_000

    async def check(self) -> None:
        if not await self._server.is_folder(self._path):
            raise FolderUnreachable(
                f"{self._where} is not a folder on the server; create the folder, or"
                f" correct {self._setting}"
            )

    async def open(self) -> None:
        await self.check()
        for name in self._own_folders:
            await to_its_end(self._server.make_folder(self._at(name)))

    async def close(self) -> None:
        await self._server.close()

    async def listing(self) -> FolderListing:
        entries = await self._server.entries(self._path)
        return listed(entries, self._names, self._own_folders)

    async def status(self, folder: str, name: str) -> Fingerprint | None:
        return await self._status(self._at(folder, name))

    async def files(self, folder: str) -> Mapping[str, Fingerprint]:
        entries = await self._server.entries(self._at(folder))
        regular = (entry for entry in entries if stat.S_ISREG(entry.mode))
        return {entry.name: entry.fingerprint for entry in regular}

    async def fetch(self, file: FoundFile, copies: TemporaryCopies) -> FileCopy:
        """Copy the whole file: a broken connection leaves nothing behind."""
        copy = FileCopy(file.name, file.form, file.fingerprint, copies.make())
        if file.fingerprint.size > self._max_bytes:
            return copy
        path, size = self._at(file.path), 0
        try:
            async with aclosing(self._server.download(path)) as pieces:
                async for piece in pieces:
                    size += len(piece)
                    if size > file.fingerprint.size:
                        break
                    await in_thread(copy.stream.write, piece)
        except FileNotFoundError:
            raise FileChanged(file.name) from None
        if size != file.fingerprint.size or not await self._is_there(file, path):
            raise FileChanged(file.name)
        return copy

    async def free_name(self, folder: str, file: FoundFile) -> str:
        """Return an unused name: no stored file is ever replaced."""
        number = 1
        while await self._server.entry(
            self._at(folder, name := free_name(file.file_name, number))
        ):
            number += 1
        return name

    async def archive(self, file: FoundFile, name: str) -> None:
        await to_its_end(self._move(file, ARCHIVE, name))

    async def hold(self, file: FoundFile, reason: str) -> None:
        await to_its_end(self._hold(file, reason))

    async def read(self, folder: str, name: str) -> bytes | None:
        pieces = self._server.download(self._at(folder, name))
        try:
            async with aclosing(pieces):
                return b"".join([piece async for piece in pieces])
        except FileNotFoundError:
            return None

    async def write(self, folder: str, name: str, content: bytes) -> None:
        await self.put(folder, name, content)
        await self.publish(folder, name)

    async def put(self, folder: str, name: str, content: bytes) -> None:
        # Nobody reads this name yet, so a cancellation may end the upload at once.
        await self._server.upload(self._at(folder, unfinished_name(name)), content)

    async def publish(self, folder: str, name: str) -> None:
        source, target = self._at(folder, unfinished_name(name)), self._at(folder, name)
        await to_its_end(self._server.rename(source, target, replace=True))

    async def exists(self, folder: str, name: str) -> bool:
        await self.check()
        return await self._server.entry(self._at(folder, name)) is not None

    def _at(self, *names: str) -> str:
        return posixpath.join(self._path, *names)

    async def _status(self, path: str) -> Fingerprint | None:
        found = await self._server.entry(path)
        is_file = found is not None and stat.S_ISREG(found.mode)
        return found.fingerprint if found is not None and is_file else None

    async def _is_there(self, file: FoundFile, path: str) -> bool:
        return await self._status(path) == file.fingerprint

    def _is_it(self, moved: Fingerprint | None, file: FoundFile) -> bool:
        """Return whether what was renamed is the file that was read."""
        if self._server.keeps_times:
            return moved == file.fingerprint
        return moved is None or moved.size == file.fingerprint.size

    async def _hold(self, file: FoundFile, reason: str) -> None:
        if await self._is_there(file, self._at(file.path)):
            name = await self.free_name(HELD, file)
            await self.write(HELD, f"{name}{REASON}", f"{reason}\n".encode())
            await self._move(file, HELD, name)

    async def _move(self, file: FoundFile, folder: str, name: str) -> None:
        path, target = self._at(file.path), self._at(folder, name)
        if not await self._is_there(file, path):
            return
        if await self._server.entry(target):
            target = self._at(folder, await self.free_name(folder, file))
        await self._server.rename(path, target, replace=False)
        if not self._is_it(await self._status(target), file):
            # Another file took the name just now, and it was not read yet.
            await self._server.rename(target, path, replace=False)
            return
        await self._server.remove(self._at(self._names.marker_of(file.file_name)))
        if file.moved_to:
            await self._server.remove(f"{path}{REASON}")


def refused(path: str) -> PermissionError:
    """Return the error for a file that this user must not read."""
    return PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
