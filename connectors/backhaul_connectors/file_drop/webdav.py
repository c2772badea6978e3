"""A client of a WebDAV server."""

from __future__ import annotations

import logging
import ssl
import stat
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

import httpx
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring

from backhaul_connectors.file_drop.files import Fingerprint, FolderUnreachable
from backhaul_connectors.file_drop.folder import FolderEntry
from backhaul_connectors.file_drop.location_settings import parsed_folder
from backhaul_connectors.file_drop.server_folder import (
    CHUNK_BYTES,
    refused,
    tls_context,
)
from backhaul_sdk.files import in_thread, to_its_end

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from backhaul_connectors.file_drop.settings import Settings

CONNECT_SECONDS, ANSWER_SECONDS = 15.0, 60.0
_PROPERTIES = (
    b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/>'
    b"<getcontentlength/><getlastmodified/><getetag/></prop></propfind>"
)
_ADVICE: Mapping[int, str] = {
    401: "the login is refused; correct user and password",
    403: "access is denied; let this user read, write, move and delete there",
    404: "there is no such file or folder; correct folder",
    405: "WebDAV is not served there; correct folder",
    409: "a folder above it is missing; create it",
    412: "the server refused the condition of the request",
    423: "another program has locked it; close it there",
    501: "WebDAV is not served there; correct folder",
    507: "the server's disk is full; delete files there",
}


class WebDavServer:
    """Sends WebDAV requests; it implements FileServer."""

    failures: tuple[type[Exception], ...] = ()
    keeps_times = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        url = parsed_folder(settings.folder)
        secure = url.scheme == "webdavs"
        port = f":{url.port}" if url.port else ""
        host = f"[{url.host}]" if ":" in url.host else url.host
        self._root = f"{'https' if secure else 'http'}://{host}{port}"
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def is_folder(self, path: str) -> bool:
        found = await self.entry(path)
        return found is not None and stat.S_ISDIR(found.mode)

    async def entries(self, path: str) -> Sequence[FolderEntry]:
        answer = await self._propfind(path, "1")
        self._expect(answer, path, 207)
        own = unquote(urlsplit(self._url(path)).path).rstrip("/")
        found = self._parsed(answer, path)
        return [entry for href, entry in found if href.rstrip("/") != own]

    async def entry(self, path: str) -> FolderEntry | None:
        answer = await self._propfind(path, "0")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        self._expect(answer, path, 207)
        return next((entry for _, entry in self._parsed(answer, path)), None)

    async def download(self, path: str) -> AsyncGenerator[bytes]:
        client = await self._connected()
        try:
            async with client.stream("GET", self._url(path)) as answer:
                if answer.status_code == httpx.codes.NOT_FOUND:
                    raise FileNotFoundError(path)
                if answer.status_code in (403, 423):
                    raise refused(path)
                self._expect(answer, path, 200)
                async for piece in answer.aiter_bytes(CHUNK_BYTES):
                    yield piece
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    async def upload(self, path: str, content: bytes) -> None:
        # A request that is cut off may replace the file after a later upload.
        answer = await to_its_end(self._request("PUT", path, content=content))
        self._expect(answer, path, 200, 201, 204)

    async def rename(self, source: str, target: str, *, replace: bool) -> None:
        overwrite = "T" if replace else "F"
        headers = {"Destination": self._url(target), "Overwrite": overwrite}
        answer = await self._request("MOVE", source, headers=headers)
        self._expect(answer, source, 201, 204)

    async def remove(self, path: str) -> None:
        answer = await self._request("DELETE", path)
        self._expect(answer, path, 200, 204, 404)

    async def make_folder(self, path: str) -> None:
        answer = await self._request("MKCOL", f"{path}/")
        # 405: it exists.
        self._expect(answer, path, 201, 405)

    def _url(self, path: str) -> str:
        return f"{self._root}/{quote(path)}"

    async def _propfind(self, path: str, depth: str) -> httpx.Response:
        headers = {"Depth": depth, "Content-Type": "application/xml"}
        return await self._request(
            "PROPFIND", path, headers=headers, content=_PROPERTIES
        )

    async def _request(self, method: str, path: str, **given: Any) -> httpx.Response:
        client = await self._connected()
        try:
            return await client.request(method, self._url(path), **given)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    async def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            # A context without certificates trusts nobody, and is quick to make.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if self._root.startswith("https:"):
                context = await in_thread(
                    tls_context, self._settings.ca_file, "ca_file"
                )
            # It logs every request as news.
            logging.getLogger("httpx").setLevel(logging.WARNING)
            secret = self._settings.password
            password = secret.get_secret_value() if secret is not None else ""
            self._client = httpx.AsyncClient(
                auth=httpx.BasicAuth(self._settings.user, password),
                verify=context,
                timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
                # A proxy or a password of the environment is never used.
                trust_env=False,
            )
        return self._client

    def _unreachable(self, error: httpx.HTTPError) -> FolderUnreachable:
        if isinstance(error.__cause__, ssl.SSLError) or "CERTIFICATE" in str(error):
            words = "its TLS certificate is not trusted, or it does not speak TLS"
            words += (
                "; if the certificate is from an authority of your own, set ca_file"
            )
        else:
            words = str(error) or type(error).__name__
        return FolderUnreachable(
            f"the WebDAV server {self._root} cannot be reached: {words}"
        )

    def _expect(self, answer: httpx.Response, path: str, *allowed: int) -> None:
        code = answer.status_code
        if code in allowed:
            return
        advice = _ADVICE.get(code, "try again later")
        if answer.is_redirect:
            advice = "it redirects; write the final address as folder"
        raise FolderUnreachable(
            f"the WebDAV server {self._root} refused {answer.request.method} for"
            f" {path or '/'}: {code} {answer.reason_phrase}: {advice}"
        )

    def _parsed(
        self, answer: httpx.Response, path: str
    ) -> list[tuple[str, FolderEntry]]:
        """Return the entries of a response, each with its decoded path."""
        try:
            document: Element = fromstring(answer.content)
        except (ParseError, DefusedXmlException, ValueError):
            raise FolderUnreachable(
                f"the WebDAV server {self._root} answered for {path or '/'} with text"
                " that is not valid XML; correct folder"
            ) from None
        found = document.findall("{DAV:}response")
        return [entry for each in found if (entry := _entry(each)) is not None]


def _entry(response: Element) -> tuple[str, FolderEntry] | None:
    path = urlsplit(response.findtext("{DAV:}href", "").strip()).path
    # A server may encode a slash in a name: it must not become a folder.
    name = unquote(path.rstrip("/").rpartition("/")[2])
    properties = next(
        (
            each.find("{DAV:}prop")
            for each in response.findall("{DAV:}propstat")
            if " 200 " in f"{each.findtext('{DAV:}status', '')} "
        ),
        None,
    )
    if properties is None or (not name and path != "/"):
        return None
    kind = properties.find("{DAV:}resourcetype/{DAV:}collection")
    mode = stat.S_IFREG if kind is None else stat.S_IFDIR
    return unquote(path), FolderEntry(name, mode, _fingerprint(properties))


def _fingerprint(properties: Element) -> Fingerprint:
    size = properties.findtext("{DAV:}getcontentlength", "").strip()
    mark = properties.findtext("{DAV:}getetag", "").removeprefix("W/").strip('" ')
    digest = sha256(mark.encode()).digest()[:6]
    return Fingerprint(
        int(size) if size.isdecimal() else 0,
        _seconds(properties.findtext("{DAV:}getlastmodified", "")) * 10**9,
        int.from_bytes(digest, "big") if mark else 0,
    )


def _seconds(text: str) -> int:
    try:
        return int(parsedate_to_datetime(text).timestamp())
    except (ValueError, TypeError, OverflowError):
        return 0
