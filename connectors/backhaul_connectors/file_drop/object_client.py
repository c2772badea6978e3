"""A client of one object store: requests, and sentences about their errors."""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import AzureStore, GCSStore, S3Store

from backhaul_connectors.file_drop.files import Fingerprint, FolderUnreachable
from backhaul_connectors.file_drop.location_settings import parsed_folder
from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.files import to_its_end

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping

    from obstore import ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

    from backhaul_connectors.file_drop.settings import Settings

CONNECT_SECONDS, REQUEST_SECONDS = 15, 60
CHUNK_BYTES = 1_000_000
FAILURES = (BaseError, OSError)
"""Whatever the library raises; it uses built-in errors for missing objects."""
_RETRIES: RetryConfig = {
    "max_retries": 2,
    "backoff": {
        "init_backoff": timedelta(milliseconds=50),
        "max_backoff": timedelta(seconds=1),
        "base": 2,
    },
    "retry_timeout": timedelta(seconds=REQUEST_SECONDS),
}
_CODE = re.compile(r"<Code>(\w+)</Code>|\"(?:code|error)\": ?\"(\w+)\"")
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_SKEWED = ("RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture")
_ADVICE: Mapping[str, str] = {
    "NoSuchBucket": "there is no such bucket; correct folder, or endpoint and region",
    "InvalidAccessKeyId": "the store does not know access_key; correct it",
    "SignatureDoesNotMatch": "secret_key does not fit access_key; correct secret_key",
    "ExpiredToken": "session_token has expired; get new credentials",
    "InvalidToken": "session_token is not valid; get new credentials",
    "AccessDenied": "access is denied; allow the access key to list, read, write and"
    " delete objects of this bucket below the prefix",
    "PermanentRedirect": "the bucket is in another region; correct region or endpoint",
    "AuthorizationHeaderMalformed": "the bucket is in another region; correct region",
    "IllegalLocationConstraintException": "the bucket is in another region; correct"
    " region",
    "ContainerNotFound": "there is no such container; correct folder, or access_key",
    "AuthenticationFailed": "secret_key does not fit access_key; correct secret_key",
    "AuthorizationFailure": "access is denied; correct access_key and secret_key, or"
    " let the storage account accept requests from this machine",
    "AuthorizationPermissionMismatch": "access is denied; give this machine the role"
    " Storage Blob Data Contributor on the container",
}
_CONNECTING = (
    ("dns error", "its name cannot be resolved; correct endpoint or region"),
    ("InvalidCertificate", "its TLS certificate is not trusted; if it is from an"
     " authority of your own, set ca_file"),
    ("tcp connect error", "nothing accepts connections there; correct endpoint, or"
     " start the server"),
    ("Tls", "it does not speak TLS there; correct endpoint"),
    ("received corrupt message", "it does not speak TLS there; correct endpoint"),
    ("TimedOut", "it did not answer in time"),
)  # fmt: skip


class ObjectList(NamedTuple):
    """The objects and the folders directly below a prefix."""

    objects: Mapping[str, Fingerprint]
    folders: tuple[str, ...]


class ObjectClient:
    """Sends requests to one bucket; keys are whole, without a leading slash.

    Every method raises FolderUnreachable if the store fails. A write that was begun
    ends before a cancellation is passed on.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.url = parsed_folder(settings.folder)
        self._opened: ObjectStore | None = None

    def close(self) -> None:
        self._opened = None

    async def list(self, prefix: str) -> ObjectList:
        with self._explained("listed"):
            found = await obstore.list_with_delimiter_async(self._store(), prefix)
        names = {
            entry["path"].rpartition("/")[2]: fingerprint_of(entry)
            for entry in found["objects"]
            if entry["path"] != prefix
        }
        folders = (each.rpartition("/")[2] for each in found["common_prefixes"])
        return ObjectList(names, tuple(folders))

    async def head(self, key: str) -> Fingerprint | None:
        """Return the fingerprint of an object; None if there is none."""
        with self._explained("read", key):
            try:
                return fingerprint_of(await obstore.head_async(self._store(), key))
            except (FileNotFoundError, NotFoundError):
                return None

    async def read(self, key: str) -> bytes | None:
        """Return the content of an object; None if there is none."""
        with self._explained("read", key):
            try:
                found = await obstore.get_async(self._store(), key)
            except (FileNotFoundError, NotFoundError):
                return None
            return bytes(await found.bytes_async())

    async def stream(self, key: str, wanted: Fingerprint) -> AsyncGenerator[bytes]:
        """Yield the content in pieces; yields nothing for another object."""
        with self._explained("read", key):
            try:
                found = await obstore.get_async(self._store(), key)
            except (FileNotFoundError, NotFoundError):
                return
            if fingerprint_of(found.meta) != wanted:
                return
            async for piece in found.stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(piece)

    async def write(self, key: str, content: bytes) -> None:
        with self._explained("written", key):
            await to_its_end(
                obstore.put_async(self._store(), key, content, use_multipart=False)
            )

    async def create(self, key: str, content: bytes) -> bool:
        """Write an object that does not exist; return False if it exists.

        After an answer was lost, False may stand for the object of this call.
        """
        with self._explained("written", key):
            try:
                await to_its_end(
                    obstore.put_async(self._store(), key, content, mode="create")
                )
            except (FileExistsError, AlreadyExistsError):
                return False
        return True

    async def copy(self, source: str, target: str) -> None:
        with self._explained("copied", source):
            await to_its_end(obstore.copy_async(self._store(), source, target))

    async def delete(self, key: str) -> None:
        """Delete an object, if there is one."""
        with self._explained("deleted", key):
            try:
                await to_its_end(obstore.delete_async(self._store(), key))
            except (FileNotFoundError, NotFoundError):
                return

    @contextmanager
    def _explained(self, done: str, key: str = "") -> Iterator[None]:
        try:
            yield
        except FolderUnreachable:
            raise
        except FAILURES as error:
            what = f"the object {key}" if key else "the folder"
            raise FolderUnreachable(
                f"{what} in {self.url.scheme}://{self.url.host} cannot be {done}:"
                f" {reason_of(error, self._server())}"
            ) from None

    def _server(self) -> str:
        return self._settings.endpoint or f"the server of {self.url}"

    def _store(self) -> ObjectStore:
        if self._opened is None:
            makers = {"s3": self._s3, "gs": self._gcs, "az": self._azure}
            self._opened = makers[self.url.scheme](self._client_options())
        return self._opened

    def _client_options(self) -> ClientConfig:
        options: ClientConfig = {
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "timeout": timedelta(seconds=REQUEST_SECONDS),
            "allow_http": self._settings.endpoint.startswith("http://"),
        }
        if self._settings.ca_file is not None:
            try:
                options["root_certificate"] = self._settings.ca_file.read_bytes()
            except OSError as error:
                raise FolderUnreachable(
                    f"ca_file {self._settings.ca_file} cannot be read: {error.strerror}"
                ) from None
        return options

    def _s3(self, client: ClientConfig) -> ObjectStore:
        settings, given = self._settings, dict[str, Any]()
        if settings.endpoint:
            given["endpoint"] = settings.endpoint
        if settings.access_key:
            given["access_key_id"] = settings.access_key
            given["secret_access_key"] = _text(settings.secret_key)
        if settings.session_token is not None:
            given["session_token"] = _text(settings.session_token)
        by_path = settings.path_style
        if by_path is None:
            by_path = bool(settings.endpoint)
        return S3Store(
            self.url.host,
            region=settings.region or "us-east-1",
            virtual_hosted_style_request=not by_path,
            # Not every store has the request that deletes several objects.
            disable_bulk_delete=True,
            client_options=client,
            retry_config=_RETRIES,
            **given,
        )

    def _gcs(self, client: ClientConfig) -> ObjectStore:
        given: dict[str, Any] = {}
        if self._settings.service_account is not None:
            given["service_account_key"] = _text(self._settings.service_account)
        return GCSStore(
            self.url.host, client_options=client, retry_config=_RETRIES, **given
        )

    def _azure(self, client: ClientConfig) -> ObjectStore:
        settings, given = self._settings, dict[str, Any]()
        if settings.access_key:
            given["account_name"] = settings.access_key
            given["account_key"] = _text(settings.secret_key)
        if settings.endpoint:
            given["endpoint"] = settings.endpoint
        return AzureStore(
            self.url.host, client_options=client, retry_config=_RETRIES, **given
        )


def _text(secret: Any) -> str | None:
    return secret.get_secret_value() if secret is not None else None


def fingerprint_of(found: ObjectMeta) -> Fingerprint:
    """Return the fingerprint, the same from a list and from a single object.

    One of them may have no fractions of seconds, and no quotation marks of the ETag.
    """
    seconds = int(found["last_modified"].timestamp())
    mark = (found["e_tag"] or "").removeprefix("W/").strip('"').encode()
    identity = int.from_bytes(sha256(mark).digest()[:6], "big") if mark else 0
    return Fingerprint(found["size"], seconds * 10**9, identity)


def reason_of(error: Exception, server: str) -> str:
    """Return what an error of the library means and what to do, in one sentence."""
    text = str(error)
    code = next((a or b for a, b in _CODE.findall(text)), "")
    if code in _SKEWED:
        now = datetime.fromtimestamp(seconds_since_1970(), UTC).strftime("%H:%M:%S")
        return (
            f"{code}: the clock of this machine ({now} UTC) differs too much from"
            " that of the store; synchronize it, for instance with systemd-timesyncd"
        )
    if code:
        return f"{code}: {_ADVICE.get(code, 'the store refused the request')}"
    if status := _STATUS.search(text):
        known = {"403": "AccessDenied", "404": "NoSuchBucket"}
        advice = _ADVICE.get(known.get(status[1][:3], ""), "try again later")
        return f"{status[1].strip()}: {advice}"
    if "Invalid Access Key" in text:
        return "secret_key is not the key of a storage account, which is base64"
    for sign, meaning in _CONNECTING:
        if sign in text:
            return f"{server} cannot be reached: {meaning}"
    return text.partition("\n")[0]
