"""A client of an FTP server, with or without TLS."""

from __future__ import annotations

import asyncio
import ssl
import stat
from calendar import timegm
from contextlib import asynccontextmanager, suppress
from time import strptime
from typing import TYPE_CHECKING, TypeVar

import aioftp

from backhaul_connectors.file_drop.files import Fingerprint, FolderUnreachable
from backhaul_connectors.file_drop.folder import FolderEntry
from backhaul_connectors.file_drop.location_settings import parsed_folder
from backhaul_connectors.file_drop.server_folder import (
    CHUNK_BYTES,
    refused,
    tls_context,
)
from backhaul_sdk.files import in_thread

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Mapping,
        Sequence,
    )
    from typing import Any

    from backhaul_connectors.file_drop.settings import Settings

T = TypeVar("T")
CONNECT_SECONDS, ANSWER_SECONDS = 15.0, 60.0
PORT = 21
_LOST = (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError)
_TYPES = {
    "file": stat.S_IFREG,
    "dir": stat.S_IFDIR,
    "cdir": stat.S_IFDIR,
    "pdir": stat.S_IFDIR,
    "link": stat.S_IFLNK,
}


class _Client(aioftp.Client):
    """A client that also closes data connections whose command was cut off."""

    def __init__(self) -> None:
        super().__init__()
        self._writers: list[asyncio.StreamWriter] = []

    async def _open_connection(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await super()._open_connection(host, port)
        open_ones = (each for each in self._writers if not each.is_closing())
        self._writers = [*open_ones, writer]
        return reader, writer

    def close(self) -> None:
        super().close()
        for writer in self._writers:
            writer.close()


class FtpServer:
    """One FTP connection, opened when needed; it implements FileServer.

    It serves one caller at a time: an error or a cancellation closes the connection,
    because a late answer would be taken for that to the next command.
    """

    failures: tuple[type[Exception], ...] = ()
    keeps_times = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._url = parsed_folder(settings.folder)
        self._port = self._url.port or PORT
        self._client: _Client | None = None

    async def close(self) -> None:
        self._drop()

    async def is_folder(self, path: str) -> bool:
        found = await self.entry(path)
        return found is not None and stat.S_ISDIR(found.mode)

    async def entries(self, path: str) -> Sequence[FolderEntry]:
        async with self._session() as client:
            found = await _in_time(client.list(f"/{path}"))
        return [
            _entry(_below(str(each), f"/{path}"), facts)
            for each, facts in found
            if facts.get("type") not in ("cdir", "pdir")
        ]

    async def entry(self, path: str) -> FolderEntry | None:
        if not path:
            return FolderEntry("", stat.S_IFDIR, Fingerprint(0, 0))
        async with self._session() as client:
            facts = await _stat(client, path)
        return None if facts is None else _entry(path.rpartition("/")[2], facts)

    async def download(self, path: str) -> AsyncGenerator[bytes]:
        # The library leaves the data connection open if the server refuses to send.
        if await self.entry(path) is None:
            raise FileNotFoundError(path)
        async with self._session() as client:
            try:
                stream = await _in_time(client.download_stream(f"/{path}"))
            except aioftp.StatusCodeError as error:
                self._drop()
                if _is_missing(error):
                    # The same code stands for a file without permission.
                    raise refused(path) from None
                raise
            while piece := await _in_time(stream.read(CHUNK_BYTES)):
                yield piece
            await _in_time(stream.finish())

    async def upload(self, path: str, content: bytes) -> None:
        async with self._session() as client:
            stream = await _in_time(client.upload_stream(f"/{path}"))
            await _in_time(stream.write(content))
            await _in_time(stream.finish())

    async def rename(self, source: str, target: str, *, replace: bool) -> None:
        async with self._session() as client:
            try:
                await _in_time(client.rename(f"/{source}", f"/{target}"))
            except aioftp.StatusCodeError:
                # Some servers do not replace an older file.
                if not replace or await _stat(client, target) is None:
                    raise
                await _in_time(client.remove_file(f"/{target}"))
                await _in_time(client.rename(f"/{source}", f"/{target}"))

    async def remove(self, path: str) -> None:
        async with self._session() as client:
            if await _stat(client, path) is not None:
                await _in_time(client.remove_file(f"/{path}"))

    async def make_folder(self, path: str) -> None:
        async with self._session() as client:
            if await _stat(client, path) is None:
                await _in_time(client.make_directory(f"/{path}", parents=False))

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aioftp.Client]:
        client = await self._connected()
        try:
            yield client
        except aioftp.StatusCodeError as error:
            raise FolderUnreachable(
                f"the FTP server {self._where} refused a command: {_words(error)}; let"
                f" {self._settings.user} read, write, rename and delete below"
                f" {self._settings.folder}"
            ) from None
        except (FileNotFoundError, PermissionError):
            raise
        except (*_LOST, aioftp.AIOFTPException) as error:
            self._drop()
            words = str(error) or type(error).__name__
            raise FolderUnreachable(
                f"the connection to the FTP server {self._where} broke: {words}"
            ) from None
        except BaseException:
            self._drop()
            raise

    @property
    def _where(self) -> str:
        return f"{self._url.host}:{self._port}"

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    async def _connected(self) -> aioftp.Client:
        if self._client is None:
            self._client = await self._opened()
        return self._client

    async def _opened(self) -> _Client:
        context = None
        if self._url.scheme == "ftps":
            context = await in_thread(tls_context, self._settings.ca_file, "ca_file")
        client = _Client()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await client.connect(self._url.host, self._port)
                if context is not None:
                    await client.upgrade_to_tls(context)
                await self._log_in(client)
        except BaseException as error:
            client.close()
            if isinstance(error, ssl.SSLError):
                raise FolderUnreachable(
                    f"the FTP server {self._where} has a TLS certificate that is not"
                    " trusted; if it is from an authority of your own, set ca_file"
                ) from None
            if isinstance(error, (*_LOST, aioftp.AIOFTPException)):
                words = str(error) or type(error).__name__
                raise FolderUnreachable(
                    f"the FTP server {self._where} cannot be reached: {words}"
                ) from None
            raise
        return client

    async def _log_in(self, client: aioftp.Client) -> None:
        secret = self._settings.password
        password = secret.get_secret_value() if secret is not None else ""
        try:
            await client.login(self._settings.user, password)
        except aioftp.StatusCodeError as error:
            raise FolderUnreachable(
                f"the FTP server {self._where} refuses the login of"
                f" {self._settings.user}: {_words(error)}; correct user and password"
            ) from None


async def _in_time(work: Awaitable[T]) -> T:
    """Await an answer. The library's own timeouts can swallow a cancellation."""
    async with asyncio.timeout(ANSWER_SECONDS):
        return await work


async def _stat(client: aioftp.Client, path: str) -> Mapping[str, Any] | None:
    try:
        return await _in_time(client.stat(f"/{path}"))
    except aioftp.StatusCodeError as error:
        if _is_missing(error):
            return None
        raise


def _is_missing(error: aioftp.StatusCodeError) -> bool:
    return bool(error.received_codes) and error.received_codes[-1] in ("550", "551")


def _words(error: aioftp.StatusCodeError) -> str:
    """Return the server's code and text, without the command."""
    text = " ".join(str(each).strip() for each in error.info)
    return f"{error.received_codes[-1]} {text}" if error.received_codes else text


def _below(path: str, folder: str) -> str:
    """Return a name in the folder; one that leads elsewhere keeps its slashes."""
    return path.removeprefix(f"{folder.rstrip('/')}/")


def _entry(name: str, facts: Mapping[str, Any]) -> FolderEntry:
    size = str(facts.get("size", ""))
    seconds = _seconds(str(facts.get("modify", "")))
    mode = _TYPES.get(str(facts.get("type", "")).lower(), 0)
    known = Fingerprint(int(size) if size.isdecimal() else 0, seconds * 10**9)
    return FolderEntry(name, mode, known)


def _seconds(text: str) -> int:
    """Return the time of a file, as MLSD writes it: in UTC, to the second."""
    with suppress(ValueError):
        return timegm(strptime(text.partition(".")[0], "%Y%m%d%H%M%S"))
    return 0
