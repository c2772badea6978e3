"""A drop folder on an SFTP server, and the SSH connection to it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import posixpath
import stat
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import asyncssh

from backhaul_connectors.file_drop.files import (
    ARCHIVE,
    HELD,
    REASON,
    FileChanged,
    FileCopy,
    Fingerprint,
    FolderUnreachable,
    FoundFile,
    free_name,
    unfinished_name,
)
from backhaul_connectors.file_drop.folder import FolderEntry, FolderListing, listed
from backhaul_sdk.files import in_thread, to_its_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from backhaul_connectors.file_drop.files import FileNames, TemporaryCopies
    from backhaul_connectors.file_drop.settings import Settings


CONNECT_SECONDS = 15
KEEPALIVE_SECONDS = 10
LOST = (
    asyncssh.ConnectionLost,
    asyncssh.DisconnectError,
    asyncssh.ChannelOpenError,
    asyncssh.SFTPConnectionLost,
    asyncssh.SFTPNoConnection,
    BrokenPipeError,
    ConnectionError,
)
CHUNK_BYTES = 1_000_000


class HostKeyCheck(asyncssh.SSHClient):
    """Remembers an unknown host key and refuses it."""

    def __init__(self, trusted: str) -> None:
        self._trusted = trusted
        self.refused: asyncssh.SSHKey | None = None

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        if key.get_fingerprint() in self._trusted.split():
            return True
        self.refused = key
        return False


class SftpConnection:
    """One connection, opened when needed and reopened after it broke.

    It serves one caller at a time: an error or a cancellation closes the connection.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._where = f"{settings.sftp_host}:{settings.sftp_port}"
        self._connection: Any = None
        self._sftp: Any = None

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        """Lend the SFTP client. Raises FolderUnreachable if the connection breaks."""
        sftp = await self._client()
        try:
            yield sftp
        except LOST as error:
            self._drop()
            raise FolderUnreachable(
                f"the connection to the SFTP server {self._where} broke: {error}"
            ) from None
        except asyncio.CancelledError:
            # A late answer would be taken for the next request's answer.
            self._drop()
            raise

    async def close(self) -> None:
        connection = self._connection
        self._drop()
        if connection is not None:
            with suppress(*LOST, asyncssh.Error):
                await connection.wait_closed()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.abort()
        self._connection = self._sftp = None

    async def _client(self) -> Any:
        if self._sftp is None or self._connection.is_closed():
            self._drop()
            # The host logs a lost and a restored connection, once each.
            logging.getLogger("asyncssh").setLevel(logging.CRITICAL)
            self._connection = await self._connect()
            try:
                self._sftp = await self._connection.start_sftp_client(
                    path_errors="surrogateescape"
                )
            except (asyncssh.Error, OSError) as error:
                self._drop()
                raise FolderUnreachable(
                    f"the server {self._where} offers no SFTP: {error}"
                ) from None
        return self._sftp

    async def _connect(self) -> Any:
        server = HostKeyCheck(self._settings.sftp_host_key)
        try:
            connection, _ = await asyncssh.create_connection(
                lambda: server, **self._options()
            )
        except asyncssh.HostKeyNotVerifiable as error:
            raise FolderUnreachable(self._unknown(server.refused, error)) from None
        except asyncssh.PermissionDenied:
            raise FolderUnreachable(
                f"the SFTP server {self._where} refuses the login of"
                f" {self._settings.sftp_user}; check sftp_user, and sftp_password"
                " or sftp_key"
            ) from None
        except (asyncssh.Error, OSError, TimeoutError) as error:
            words = str(error) or type(error).__name__
            raise FolderUnreachable(
                f"the SFTP server {self._where} cannot be reached: {words}"
            ) from None
        return connection

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "host": settings.sftp_host,
            "port": settings.sftp_port,
            "username": settings.sftp_user,
            "password": _secret(settings.sftp_password),
            "client_keys": self._keys(),
            "known_hosts": self._known_hosts(),
            # This user's own files and agents are never used.
            "config": None,
            "agent_path": None,
            "connect_timeout": CONNECT_SECONDS,
            "login_timeout": CONNECT_SECONDS,
            "keepalive_interval": KEEPALIVE_SECONDS,
        }

    def _keys(self) -> list[Any] | None:
        text = _secret(self._settings.sftp_key)
        if text is None:
            return None
        try:
            passphrase = _secret(self._settings.sftp_passphrase)
            return [asyncssh.import_private_key(text, passphrase)]
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError):
            raise FolderUnreachable(
                "sftp_key is not a private key, or sftp_passphrase does not open it"
            ) from None

    def _known_hosts(self) -> str | tuple[list[Any], list[Any], list[Any]]:
        """Return the trusted hosts; never none, which would trust any host."""
        if self._settings.sftp_known_hosts is not None:
            return str(self._settings.sftp_known_hosts)
        lines = self._settings.sftp_host_key.splitlines()
        keys = [line for line in lines if not line.startswith("SHA256:")]
        return [asyncssh.import_public_key(key) for key in keys if key], [], []

    def _unknown(self, key: Any, error: Exception) -> str:
        if key is None:
            return f"the SFTP server {self._where} cannot be trusted: {error}"
        return (
            f"the SFTP server {self._where} has a host key that the configuration"
            f" does not trust: {key.get_fingerprint()}; if the server's"
            " administrator confirms this key, set sftp_host_key ="
            f' "{key.export_public_key().decode().strip()}"'
        )


def _secret(value: Any) -> str | None:
    return value.get_secret_value() if value is not None else None


def fingerprint_of(attributes: Any) -> Fingerprint:
    seconds = attributes.mtime or 0
    nanoseconds = getattr(attributes, "mtime_ns", None) or 0
    return Fingerprint(attributes.size or 0, seconds * 10**9 + nanoseconds)


class RemoteFolder:
    """The drop folder on the server; it implements DropFolder."""

    failures: tuple[type[Exception], ...] = (FolderUnreachable, OSError, asyncssh.Error)

    def __init__(
        self,
        line: SftpConnection,
        path: str,
        names: FileNames,
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
                raise FolderUnreachable(
                    f"the path {self._path} is not a folder on the SFTP server;"
                    " create the folder, or correct path"
                )

    async def open(self) -> None:
        await self.check()
        async with self._line.session() as sftp:
            for name in self._own_folders:
                await sftp.makedirs(self._at(name), exist_ok=True)

    async def close(self) -> None:
        await self._line.close()

    async def listing(self) -> FolderListing:
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
    async def _entries(sftp: Any, path: str) -> AsyncIterator[FolderEntry]:
        async for each in sftp.scandir(path):
            mode = each.attrs.permissions or 0
            yield FolderEntry(str(each.filename), mode, fingerprint_of(each.attrs))

    @staticmethod
    async def _status(sftp: Any, path: str) -> Fingerprint | None:
        try:
            found = await sftp.lstat(path)
        except asyncssh.SFTPNoSuchFile:
            return None
        is_file = stat.S_ISREG(found.permissions or 0)
        return fingerprint_of(found) if is_file else None

    async def fetch(self, file: FoundFile, copies: TemporaryCopies) -> FileCopy:
        """Copy the whole file: a broken connection leaves nothing behind."""
        copy = FileCopy(file.name, file.form, file.fingerprint, copies.make())
        if file.fingerprint.size > self._max_bytes:
            return copy
        try:
            async with self._line.session() as sftp:
                await self._download(sftp, file, copy)
        except asyncssh.SFTPNoSuchFile:
            raise FileChanged(file.name) from None
        except asyncssh.SFTPPermissionDenied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
        return copy

    async def _download(self, sftp: Any, file: FoundFile, copy: FileCopy) -> None:
        left = file.fingerprint.size
        async with sftp.open(self._at(file.path), "rb") as remote:
            while left > 0 and (content := await remote.read(min(left, CHUNK_BYTES))):
                await in_thread(copy.stream.write, content)
                left -= len(content)
            now = fingerprint_of(await remote.stat())
        if left or now != file.fingerprint:
            raise FileChanged(file.name)

    async def free_name(self, folder: str, file: FoundFile) -> str:
        async with self._line.session() as sftp:
            return posixpath.basename(await self._free(sftp, folder, file))

    async def archive(self, file: FoundFile, name: str) -> None:
        async with self._line.session() as sftp:
            await to_its_end(self._move(sftp, file, ARCHIVE, name))

    async def hold(self, file: FoundFile, reason: str) -> None:
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
            # Without fsync, the server decides when the file is on disk.
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

    async def _free(self, sftp: Any, folder: str, file: FoundFile) -> str:
        """Return an unused path: no stored file is ever replaced."""
        number = 1
        while await sftp.lexists(
            target := self._at(folder, free_name(file.file_name, number))
        ):
            number += 1
        return target

    async def _is_there(self, sftp: Any, file: FoundFile, path: str) -> bool:
        return await self._status(sftp, path) == file.fingerprint

    async def _move(self, sftp: Any, file: FoundFile, folder: str, name: str) -> None:
        path, target = self._at(file.path), self._at(folder, name)
        if not await self._is_there(sftp, file, path):
            return
        if await sftp.lexists(target):
            target = await self._free(sftp, folder, file)
        await sftp.rename(path, target)
        if not await self._is_there(sftp, file, target):
            # Another file took the name just now, and it was not read yet.
            await sftp.rename(target, path)
            return
        beside = [self._at(self._names.marker_of(file.file_name))]
        if file.moved_to:
            beside.append(f"{path}{REASON}")
        for each in beside:
            if await sftp.lexists(each):
                await sftp.remove(each)
