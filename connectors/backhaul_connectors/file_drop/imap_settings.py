"""The settings `[connectors.NAME.imap]`: a mailbox whose attachments are read."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

from backhaul_sdk.contract import STRICT
from backhaul_sdk.extras import require_extra

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

ANYBODY = "*"
PORTS = {"implicit": 993, "starttls": 143, "none": 143}
_ADDRESS = re.compile(r"[^@\s]*@[^@\s]+")


class ImapSettings(BaseModel):
    """`[connectors.NAME.imap]`; the password is `imap_password`."""

    model_config = STRICT

    host: str = Field(min_length=1, description="Name or address of the IMAP server.")
    port: int = Field(
        default=0,
        ge=0,
        le=65_535,
        description="Port of the server; 0 means 993, or 143 if tls is not implicit.",
    )
    tls: Literal["implicit", "starttls", "none"] = Field(
        default="implicit",
        description="`implicit` is TLS from the first byte, `starttls` begins TLS"
        " before the login, `none` is allowed only for a server on this machine.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="File with certificates (PEM) to trust besides the system's.",
    )
    user: str = Field(min_length=1, description="Name to log in with.")
    token_file: Path | None = Field(
        default=None,
        description="File with an OAuth 2.0 access token (XOAUTH2), in the place of"
        " imap_password. It is read at each login, so that another program can renew"
        " it.",
    )
    mailbox: str = Field(
        default="INBOX", min_length=1, description="Mailbox whose messages are read."
    )
    archive: str = Field(
        default="Imported",
        min_length=1,
        description="Mailbox to which imported messages are moved.",
    )
    rejected: str = Field(
        default="Rejected",
        min_length=1,
        description="Mailbox for messages that cannot be imported, and for reasons.",
    )
    senders: tuple[str, ...] = Field(
        min_length=1,
        description="From addresses that are allowed: `stock@supplier.example`,"
        ' `@supplier.example` for a whole domain, or `"*"` for anybody.',
    )
    authentication: str = Field(
        default="",
        description="Name of the mail server whose Authentication-Results header is"
        " trusted. If set, DKIM or DMARC must have passed for the sender's domain.",
    )
    subject: str = Field(
        default="*", min_length=1, description="Pattern that the subject must match."
    )
    only_reader: bool = Field(
        default=False,
        description="Whether no other program imports from the mailbox. Required for"
        " a server without CONDSTORE, where messages cannot be claimed.",
    )

    @property
    def actual_port(self) -> int:
        """Return the port to connect to."""
        return self.port or PORTS[self.tls]

    @property
    def place(self) -> tuple[str, int, str]:
        """Return what identifies the mailbox: host, port, and user with mailbox."""
        name = "INBOX" if self.mailbox.upper() == "INBOX" else self.mailbox
        return self.host.lower(), self.actual_port, f"{self.user}/{name}"

    @field_validator("senders")
    @classmethod
    def _are_addresses(cls, senders: tuple[str, ...]) -> tuple[str, ...]:
        for sender in senders:
            if sender != ANYBODY and not _ADDRESS.fullmatch(sender):
                raise ValueError(
                    f"{sender!r} is not an address; write stock@supplier.example,"
                    f" @supplier.example for a whole domain, or {ANYBODY!r} for anybody"
                )
        return tuple(sender.lower() for sender in senders)

    @model_validator(mode="after")
    def _is_whole(self) -> ImapSettings:
        require_extra("imap", user="imap")
        if self.tls == "none" and not _is_this_machine(self.host):
            raise ValueError(
                f'tls = "none" would send the password to {self.host} in plain text;'
                ' set tls = "implicit" or "starttls"'
            )
        names = [self.mailbox, self.archive, self.rejected]
        if len({name.lower() for name in names}) < len(names):
            raise ValueError(
                "mailbox, archive and rejected must be three mailboxes; set archive"
                " and rejected to other names"
            )
        return self


def _is_this_machine(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class MailboxSettings(BaseModel):
    """The settings of a file drop whose files are attachments of e-mails."""

    imap: ImapSettings | None = Field(
        default=None,
        description="A mailbox whose attachments are read, in the place of path.",
    )
    imap_password: SecretStr | None = Field(
        default=None, description="Password of the mailbox."
    )

    @property
    def held_in(self) -> str:
        """Return the place of held files, as an operator knows it."""
        return "held/" if self.imap is None else f"the mailbox {self.imap.rejected}"

    def check_mailbox(self, excluded: Collection[str]) -> None:
        """Raise ValueError if settings of a mailbox are missing or contradict."""
        if self.imap is None:
            if self.imap_password:
                raise ValueError("imap is missing; set imap.host and imap.user")
            return
        if found := sorted({*excluded} & self.model_fields_set):
            raise ValueError(f"imap excludes {' and '.join(found)}; remove these")
        if (self.imap_password is None) == (self.imap.token_file is None):
            raise ValueError("set one of imap_password and imap.token_file")


def imap_meanings(imap: ImapSettings | None) -> Iterator[str]:
    """Yield a sentence for each setting whose name does not explain its effect."""
    if imap is None:
        return
    if ANYBODY in imap.senders:
        yield (
            f"attachments from anybody who writes to {imap.user} change orders and"
            " stock"
        )
    elif not imap.authentication:
        yield (
            "the From address alone decides whether an attachment is imported; it can"
            " be forged unless the mail server refuses such messages"
        )
    if imap.only_reader:
        yield f"messages in {imap.mailbox} are not claimed: only this program reads it"
