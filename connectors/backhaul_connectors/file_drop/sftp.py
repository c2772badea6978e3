"""A drop folder on an SFTP server."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncssh

from backhaul_connectors.file_drop.found import (
    Changed,
    Copy,
    Fingerprint,
    Found,
    Unreachable,
)
from backhaul_connectors.file_drop.listing import Entry, Listing, listed
from backhaul_connectors.file_drop.naming import (
    ARCHIVE,
    HELD,
    REASON,
    free_name,
    unfinished_name,
)
from backhaul_connectors.file_drop.waiting import in_thread, to_its_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from backhaul_connectors.file_drop.copies import Copies
    from backhaul_connectors.file_drop.naming import Names
    from backhaul_connectors.file_drop.ssh_line import Line

CHUNK_BYTES = 1_000_000


def fingerprint_of(attributes: Any) -> Fingerprint:
    seconds = attributes.mtime or 0
    nanoseconds = getattr(attributes, "mtime_ns", None) or 0
    return Fingerprint(attributes.size or 0, seconds * 10**9 + nanoseconds)


class RemoteFolder:
    """The drop folder over there. Its methods are those of a Place."""

    failures: tuple[type[Exception], ...] = (Unreachable, OSError, asyncssh.Error)

    def __init__(
        self,
        line: Line,
        path: str,
        names: Names,
        *,
        own_folders: Sequence[str],
        max_bytes: int,
    ) -> None:
        self._line = line
        self._path = path
        self._names = names
        self._own_folders = own_folders
        self._max_bytes = max_bytes

    async def check(self) -> None:
        async with self._line.session() as sftp:
            if not await sftp.isdir(self._path):
                raise Unreachable(
                    f"{self._path} is no folder on the server; create it, or correct "
                    "the path"
                )

    async def open(self) -> None:
        await self.check()
        async with self._line.session() as sftp:
            for name in self._own_folders:
                await sftp.makedirs(self._at(name), exist_ok=True)

    async def close(self) -> None:
        await self._line.close()

    async def listing(self) -> Listing:
        async with self._line.session() as sftp:
            entries = [entry async for entry in self._entries(sftp, self._path)]
        return listed(entries, self._names, self._own_folders)

    async def status(self, folder: str, name: str) -> Fingerprint | None:
        async with self._line.session() as sftp:
            return await self._status(sftp, self._at(folder, name))

    async def files(self, folder: str) -> Mapping[str, Fingerprint]:
        async with self._line.session() as sftp:
            entries = [entry async for entry in self._entries(sftp, self._at(folder))]
        regular = (entry for entry in entries if stat.S_ISREG(entry.mode))
        return {entry.name: entry.fingerprint for entry in regular}

    @staticmethod
    async def _entries(sftp: Any, path: str) -> AsyncIterator[Entry]:
        async for each in sftp.scandir(path):
            mode = each.attrs.permissions or 0
            yield Entry(str(each.filename), mode, fingerprint_of(each.attrs))

    @staticmethod
    async def _status(sftp: Any, path: str) -> Fingerprint | None:
        try:
            found = await sftp.lstat(path)
        except asyncssh.SFTPNoSuchFile:
            return None
        is_file = stat.S_ISREG(found.permissions or 0)
        return fingerprint_of(found) if is_file else None

    async def fetch(self, file: Found, copies: Copies) -> Copy:
        """Copy the file whole: a line that breaks in the middle leaves nothing."""
        copy = Copy(file.name, file.form, file.fingerprint, copies.make())
        if file.fingerprint.size > self._max_bytes:
            return copy
        try:
            async with self._line.session() as sftp:
                await self._download(sftp, file, copy)
        except asyncssh.SFTPNoSuchFile:
            raise Changed(file.name) from None
        except asyncssh.SFTPPermissionDenied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
        return copy

    async def _download(self, sftp: Any, file: Found, copy: Copy) -> None:
        left = file.fingerprint.size
        async with sftp.open(self._at(file.path), "rb") as remote:
            while left > 0 and (content := await remote.read(min(left, CHUNK_BYTES))):
                await in_thread(copy.stream.write, content)
                left -= len(content)
            now = fingerprint_of(await remote.stat())
        if left or now != file.fingerprint:
            raise Changed(file.name)

    async def free_name(self, folder: str, file: Found) -> str:
        async with self._line.session() as sftp:
            return posixpath.basename(await self._free(sftp, folder, file))

    async def archive(self, file: Found, name: str) -> None:
        async with self._line.session() as sftp:
            await to_its_end(self._move(sftp, file, ARCHIVE, name))

    async def hold(self, file: Found, reason: str) -> None:
        async with self._line.session() as sftp:
            if await self._is_there(sftp, file, self._at(file.path)):
                name = posixpath.basename(await self._free(sftp, HELD, file))
                await self._put(sftp, HELD, f"{name}{REASON}", f"{reason}\n".encode())
                await self._publish(sftp, HELD, f"{name}{REASON}")
                await to_its_end(self._move(sftp, file, HELD, name))

    async def read(self, folder: str, name: str) -> bytes | None:
        async with self._line.session() as sftp:
            try:
                async with sftp.open(self._at(folder, name), "rb") as remote:
                    return bytes(await remote.read())
            except asyncssh.SFTPNoSuchFile:
                return None

    async def exists(self, folder: str, name: str) -> bool:
        await self.check()
        async with self._line.session() as sftp:
            return bool(await sftp.lexists(self._at(folder, name)))

    async def put(self, folder: str, name: str, content: bytes) -> None:
        async with self._line.session() as sftp:
            await self._put(sftp, folder, name, content)

    async def publish(self, folder: str, name: str) -> None:
        async with self._line.session() as sftp:
            await to_its_end(self._publish(sftp, folder, name))

    async def write(self, folder: str, name: str, content: bytes) -> None:
        await self.put(folder, name, content)
        await self.publish(folder, name)

    def _at(self, *names: str) -> str:
        return posixpath.join(self._path, *names)

    async def _put(self, sftp: Any, folder: str, name: str, content: bytes) -> None:
        path = self._at(folder, unfinished_name(name))
        async with sftp.open(path, "wb") as remote:
            await remote.write(content)
            # Where there is none, the server decides when it is on disk.
            with suppress(asyncssh.SFTPOpUnsupported):
                await remote.fsync()

    async def _publish(self, sftp: Any, folder: str, name: str) -> None:
        source, target = self._at(folder, unfinished_name(name)), self._at(folder, name)
        try:
            await sftp.posix_rename(source, target)
        except asyncssh.SFTPOpUnsupported:
            if await sftp.lexists(target):
                await sftp.remove(target)
            await sftp.rename(source, target)

    async def _free(self, sftp: Any, folder: str, file: Found) -> str:
        """Return a path that does not exist yet: what is kept is never replaced."""
        number = 1
        while await sftp.lexists(
            target := self._at(folder, free_name(file.file_name, number))
        ):
            number += 1
        return target

    async def _is_there(self, sftp: Any, file: Found, path: str) -> bool:
        return await self._status(sftp, path) == file.fingerprint

    async def _move(self, sftp: Any, file: Found, folder: str, name: str) -> None:
        path, target = self._at(file.path), self._at(folder, name)
        if not await self._is_there(sftp, file, path):
            return
        if await sftp.lexists(target):
            target = await self._free(sftp, folder, file)
        await sftp.rename(path, target)
        if not await self._is_there(sftp, file, target):
            # Another file took the name in the last moment, and nobody read that one.
            await sftp.rename(target, path)
            return
        beside = [self._at(self._names.marker_of(file.file_name))]
        if file.moved_to:
            beside.append(f"{path}{REASON}")
        for each in beside:
            if await sftp.lexists(each):
                await sftp.remove(each)
