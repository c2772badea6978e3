"""An SFTP server with a drop folder, and the SSH connection to it."""

from __future__ import annotations

import asyncio
import logging
import posixpath
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import asyncssh

from backhaul_connectors.file_drop.files import Fingerprint, FolderUnreachable
from backhaul_connectors.file_drop.folder import FolderEntry
from backhaul_connectors.file_drop.server_folder import CHUNK_BYTES, refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

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


class SftpServer:
    """One connection, opened when needed and reopened after it broke.

    It implements FileServer, with paths that may be absolute. It serves one caller at
    a time: an error or a cancellation closes the connection.
    """

    failures: tuple[type[Exception], ...] = (asyncssh.Error,)
    keeps_times = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._where = f"{settings.sftp_host}:{settings.sftp_port}"
        self._connection: Any = None
        self._sftp: Any = None

    async def is_folder(self, path: str) -> bool:
        async with self._session() as sftp:
            return bool(await sftp.isdir(path))

    async def entries(self, path: str) -> Sequence[FolderEntry]:
        async with self._session() as sftp:
            return [
                _entry(str(each.filename), each.attrs)
                async for each in sftp.scandir(path)
            ]

    async def entry(self, path: str) -> FolderEntry | None:
        async with self._session() as sftp:
            try:
                return _entry(posixpath.basename(path), await sftp.lstat(path))
            except asyncssh.SFTPNoSuchFile:
                return None

    async def download(self, path: str) -> AsyncGenerator[bytes]:
        try:
            async with self._session() as sftp, sftp.open(path, "rb") as remote:
                while content := await remote.read(CHUNK_BYTES):
                    yield content
        except asyncssh.SFTPNoSuchFile:
            raise FileNotFoundError(path) from None
        except asyncssh.SFTPPermissionDenied:
            raise refused(path) from None

    async def upload(self, path: str, content: bytes) -> None:
        async with self._session() as sftp, sftp.open(path, "wb") as remote:
            await remote.write(content)
            # Without fsync, the server decides when the file is on disk.
            with suppress(asyncssh.SFTPOpUnsupported):
                await remote.fsync()

    async def rename(self, source: str, target: str, *, replace: bool) -> None:
        async with self._session() as sftp:
            if not replace:
                await sftp.rename(source, target)
                return
            try:
                await sftp.posix_rename(source, target)
            except asyncssh.SFTPOpUnsupported:
                if await sftp.lexists(target):
                    await sftp.remove(target)
                await sftp.rename(source, target)

    async def remove(self, path: str) -> None:
        async with self._session() as sftp:
            if await sftp.lexists(path):
                await sftp.remove(path)

    async def make_folder(self, path: str) -> None:
        async with self._session() as sftp:
            await sftp.makedirs(path, exist_ok=True)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        """Lend the SFTP client. Raises FolderUnreachable if the connection breaks."""
        sftp = await self._client()
        try:
            yield sftp
        except LOST as error:
            self._drop()
            raise FolderUnreachable(
                f"the connection to the SFTP server {self._where} broke: {error}"
            ) from None
        except (asyncio.CancelledError, GeneratorExit):
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


def _entry(name: str, attributes: Any) -> FolderEntry:
    seconds = attributes.mtime or 0
    nanoseconds = getattr(attributes, "mtime_ns", None) or 0
    known = Fingerprint(attributes.size or 0, seconds * 10**9 + nanoseconds)
    return FolderEntry(name, attributes.permissions or 0, known)
