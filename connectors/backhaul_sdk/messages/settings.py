"""Settings that all message brokers share: sources of records, TLS, limits."""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, model_validator
from yarl import URL

from backhaul_sdk.contract import STRICT
from backhaul_sdk.json_items import ItemMapping
from backhaul_sdk.messages.broker import BrokerFailed


class Source(ItemMapping):
    """A queue or stream whose messages become records."""

    format: Literal["json", "lines"] = Field(
        default="json",
        description="What a message is: `json` is an object or an array of objects;"
        " `lines` is one JSON object in each line.",
    )
    prefetch: int = Field(
        default=200,
        ge=1,
        le=10_000,
        description="Most messages that Backhaul holds without an acknowledgement.",
    )
    most_bytes: int = Field(
        default=1_000_000,
        ge=1_000,
        le=64_000_000,
        description="Size of the largest message that is read. Backhaul quarantines"
        " a larger message, with so many of its bytes.",
    )


class BrokerSettings(BaseModel):
    """Settings of a connection to a broker, whatever its protocol."""

    model_config = STRICT

    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) that vouch for the broker; else the system's.",
    )
    certificate_file: Path | None = Field(
        default=None, description="Our certificate (PEM), if the broker asks for one."
    )
    key_file: Path | None = Field(
        default=None, description="Its key (PEM), if it is not in certificate_file."
    )
    allow_plaintext: bool = Field(
        default=False,
        description="Whether an unencrypted connection to another machine is allowed.",
    )
    answer_seconds: float = Field(
        default=10.0,
        gt=0,
        le=60,
        description="Seconds that the broker may take to answer.",
    )

    @model_validator(mode="after")
    def _has_the_certificate(self) -> BrokerSettings:
        if self.key_file and not self.certificate_file:
            raise ValueError("if key_file is set, certificate_file must be set too")
        return self

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context; reads files. Raises BrokerFailed."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise _unusable("ca_file", self.ca_file, error) from None
        if self.certificate_file:
            try:
                context.load_cert_chain(self.certificate_file, self.key_file)
            except OSError as error:
                raise _unusable(
                    "certificate_file", self.certificate_file, error
                ) from None
        return context


def _unusable(setting: str, file: Path | None, error: OSError) -> BrokerFailed:
    reason = error.strerror or str(error)
    return BrokerFailed(f"{setting}: the file {file} cannot be used: {reason}")


def checked_address(
    text: str, schemes: tuple[str, str], secrets: str, *, allow_plaintext: bool
) -> URL:
    """Return a broker's URL. Raises ValueError, which never shows the URL's secrets.

    `schemes` are the plain and the encrypted one; `secrets` names the settings in which
    credentials belong.
    """
    plain, encrypted = schemes
    try:
        url = URL(text)
        host, _ = url.host, url.port
    except ValueError:
        url, host = URL(), None
    if url.scheme not in schemes or not host:
        raise ValueError(
            f"the URL of the broker must be {encrypted}://HOST or {encrypted}://HOST"
            ":PORT"
        )
    if url.raw_user is not None or url.raw_password is not None:
        raise ValueError(
            "the URL of the broker contains credentials; remove them, and set"
            f" {secrets}"
        )
    if url.query_string or url.fragment:
        raise ValueError("the URL of the broker must not have parameters")
    if url.scheme == plain and not (allow_plaintext or _is_this_machine(host)):
        raise ValueError(
            f"the connection to {host} is not encrypted; use {encrypted}://, or set"
            " allow_plaintext = true"
        )
    return url


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
