"""The settings of a drop folder that is in an object store or on a file server."""

from __future__ import annotations

import re
from pathlib import Path  # noqa: TC003 - pydantic reads it
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from backhaul_connectors.file_drop.imap_settings import (
    MailboxSettings,
    imap_meanings,
)
from backhaul_sdk.contract import STRICT
from backhaul_sdk.extras import require_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

OBJECT_STORES = {"s3": "s3", "gs": "gcs", "az": "azure"}
"""The extra for each scheme whose location is an object store."""
EXPERIMENTAL = {
    "gs": "Google Cloud Storage",
    "az": "Azure Blob Storage",
}
"""Stores that no test of this project has reached."""
SERVERS = ("webdavs", "webdav", "ftps", "ftp")
SCHEMES = (*OBJECT_STORES, *SERVERS)
_EXTRAS = {
    **OBJECT_STORES,
    "webdavs": "webdav",
    "webdav": "webdav",
    "ftps": "ftp",
    "ftp": "ftp",
}
_LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)(:\d+)?", re.ASCII)


class FolderUrl(NamedTuple):
    """The parts of `folder`; `host` is the bucket of an object store."""

    scheme: str
    host: str
    port: int | None
    path: str

    def __str__(self) -> str:
        port = f":{self.port}" if self.port else ""
        return f"{self.scheme}://{self.host}{port}/{self.path}".rstrip("/")


def parsed_folder(text: str) -> FolderUrl:
    """Split a URL of `folder`. Raises ValueError with what to write."""
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES:
        allowed = ", ".join(f"{each}://" for each in SCHEMES)
        raise ValueError(
            f"{text!r} is not a location; begin it with one of {allowed}, or write a"
            " folder on this machine as path"
        )
    if "@" in parts.netloc:
        raise ValueError("contains a user name or password; write them as settings")
    if parts.query or parts.fragment:
        raise ValueError('contains "?" or "#"; write them as %3F and %23')
    if not parts.hostname:
        raise ValueError(f"{text!r} has no name after ://; add the bucket or server")
    path = unquote(parts.path).strip("/")
    if any(part in ("", ".", "..") for part in path.split("/")) and path:
        raise ValueError(f"{text!r} has an empty part, . or .. in its path")
    # An old bucket's name may contain capitals, which `hostname` would change.
    is_bucket = parts.scheme in ("s3", "gs")
    host = parts.netloc.partition(":")[0] if is_bucket else parts.hostname
    return FolderUrl(parts.scheme, host, parts.port, path)


class LocationSettings(MailboxSettings):
    """Where the folder is, if it is neither local nor on an SFTP server."""

    model_config = STRICT

    folder: str = Field(
        default="",
        description="URL of the drop folder in the place of path: s3://BUCKET/PREFIX, "
        "gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, webdavs://HOST/PATH or "
        "ftps://HOST/PATH.",
    )
    endpoint: str = Field(
        default="",
        description="URL of the object store's service, such as "
        "https://s3.example.com; empty means the provider's own.",
    )
    region: str = Field(
        default="",
        description="Region of the bucket, such as eu-central-1; empty means "
        "us-east-1.",
    )
    path_style: bool | None = Field(
        default=None,
        description="Whether the bucket is in the path of URLs instead of their host "
        "name; unset means yes with an endpoint, and no without.",
    )
    access_key: str = Field(
        default="",
        description="Id of the access key of S3, or name of the Azure account. If it "
        "is empty, Backhaul uses the role that the cloud provider gave this machine.",
    )
    secret_key: SecretStr | None = Field(
        default=None, description="Secret of the access key, or key of the account."
    )
    session_token: SecretStr | None = Field(
        default=None, description="Session token of temporary credentials of S3."
    )
    service_account: SecretStr | None = Field(
        default=None,
        description="Key of a Google service account, as JSON; unset means the "
        "account of this machine.",
    )
    user: str = Field(
        default="", description="Name to log in with at a WebDAV or FTP server."
    )
    password: SecretStr | None = Field(
        default=None, description="Password to log in with there."
    )
    ca_file: Path | None = Field(
        default=None,
        description="File of certificates (PEM) to trust as well, if the server's "
        "certificate is from an authority of your own.",
    )
    claims: bool = Field(
        default=True,
        description="Whether Backhaul writes a claim before it reads an object, so "
        "that several daemons on one bucket take each file once.",
    )

    @field_validator("folder")
    @classmethod
    def _is_a_location(cls, text: str) -> str:
        if text:
            url = parsed_folder(text)
            require_extra(_EXTRAS[url.scheme])
            if url.scheme == "webdav" and not _LOOPBACK.fullmatch(url.host):
                raise ValueError(
                    "webdav:// would send the password in plain text; write webdavs://"
                )
        return text

    @field_validator("endpoint")
    @classmethod
    def _is_protected(cls, url: str) -> str:
        parts = urlsplit(url)
        if not url or (parts.scheme == "https" and parts.netloc):
            return url
        if parts.scheme == "http" and _LOOPBACK.fullmatch(parts.netloc):
            return url
        raise ValueError(
            f"{url!r} must begin with https://. With http://, others on the network"
            " could read the object keys and contents, so http:// is allowed only for"
            " an address of this machine"
        )

    @model_validator(mode="after")
    def _can_log_in(self) -> LocationSettings:
        if not self.folder:
            return self
        if parsed_folder(self.folder).scheme in SERVERS:
            if not self.user or self.password is None:
                missing = "password" if self.user else "user"
                raise ValueError(f"{missing} is missing; set user and password")
            return self
        if bool(self.access_key) != (self.secret_key is not None):
            missing = "secret_key" if self.access_key else "access_key"
            raise ValueError(
                f"{missing} is missing; set both access_key and secret_key. To use"
                " the role that the cloud provider gave this machine, set neither"
            )
        return self


def location_meanings(settings: LocationSettings) -> Iterator[str]:
    """Yield what an operator should know about the location."""
    yield from imap_meanings(settings.imap)
    if not settings.folder:
        return
    scheme = parsed_folder(settings.folder).scheme
    if store := EXPERIMENTAL.get(scheme):
        yield f"{store} is experimental: this project's tests never reached it"
    if scheme == "ftp":
        yield "ftp:// sends the password and the files in plain text; use ftps://"
    if scheme in OBJECT_STORES and not settings.claims:
        yield "no claims are written, so only one daemon may read the folder"
