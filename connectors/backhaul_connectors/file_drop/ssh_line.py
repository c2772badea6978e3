"""The line to an SFTP server whose host key is known."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import asyncssh

from backhaul_connectors.file_drop.found import Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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


class KnownServer(asyncssh.SSHClient):
    """Asked about a host key that is not known yet: remembers it, and says no."""

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


class Line:
    """One connection, made when it is needed and made anew when it broke.

    It is for one after the other: what breaks or is cancelled drops the connection.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._where = f"{settings.sftp_host}:{settings.sftp_port}"
        self._connection: Any = None
        self._sftp: Any = None

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        """Lend the SFTP client. Raises Unreachable when the line breaks."""
        sftp = await self._client()
        try:
            yield sftp
        except LOST as error:
            self._drop()
            raise Unreachable(f"the line to {self._where} broke: {error}") from None
        except asyncio.CancelledError:
            # What was asked for may still be answered, and would be mistaken.
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
            # The host tells of a line that is down or up, and tells it once.
            logging.getLogger("asyncssh").setLevel(logging.CRITICAL)
            self._connection = await self._connect()
            try:
                self._sftp = await self._connection.start_sftp_client(
                    path_errors="surrogateescape"
                )
            except (asyncssh.Error, OSError) as error:
                self._drop()
                raise Unreachable(f"{self._where} has no SFTP: {error}") from None
        return self._sftp

    async def _connect(self) -> Any:
        server = KnownServer(self._settings.sftp_host_key)
        try:
            connection, _ = await asyncssh.create_connection(
                lambda: server, **self._options()
            )
        except asyncssh.HostKeyNotVerifiable as error:
            raise Unreachable(self._unknown(server.refused, error)) from None
        except asyncssh.PermissionDenied:
            raise Unreachable(
                f"{self._where} refuses {self._settings.sftp_user}: check the name and "
                "the password or key"
            ) from None
        except (asyncssh.Error, OSError, TimeoutError) as error:
            words = str(error) or type(error).__name__
            raise Unreachable(f"{self._where} cannot be reached: {words}") from None
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
            # Nothing is taken from this user's own files, nor from an agent.
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
            raise Unreachable(
                "sftp_key is no private key, or sftp_passphrase does not open it"
            ) from None

    def _known_hosts(self) -> str | tuple[list[Any], list[Any], list[Any]]:
        """Return whom to trust; never nothing, which would mean anybody."""
        if self._settings.sftp_known_hosts is not None:
            return str(self._settings.sftp_known_hosts)
        lines = self._settings.sftp_host_key.splitlines()
        keys = [line for line in lines if not line.startswith("SHA256:")]
        return [asyncssh.import_public_key(key) for key in keys if key], [], []

    def _unknown(self, key: Any, error: Exception) -> str:
        if key is None:
            return f"{self._where} cannot be trusted: {error}"
        return (
            f"{self._where} shows a host key that is not trusted: "
            f"{key.get_fingerprint()}; if its administrator confirms that, set "
            f'sftp_host_key = "{key.export_public_key().decode().strip()}"'
        )


def _secret(value: Any) -> str | None:
    return value.get_secret_value() if value is not None else None
