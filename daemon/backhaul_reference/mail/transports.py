"""Mail transports to a folder and to stdout, and the SMTP login."""

import asyncio
import email.policy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from pathlib import Path
from typing import Literal, Protocol

Tls = Literal["auto", "starttls", "tls", "off"]
USER = "BACKHAUL_REFERENCE_SMTP_USER"
PASSWORD = "BACKHAUL_REFERENCE_SMTP_PASSWORD"  # noqa: S105  - a name, no password
OTHERS_MAY_READ = 0o077


class MailLoginError(Exception):
    """The SMTP login is unusable; the message says why and never contains it."""


@dataclass(frozen=True, slots=True)
class SmtpLogin:
    """A user of the SMTP server."""

    user: str
    password: str = field(repr=False)


def login_of(file: Path | None, environment: Mapping[str, str]) -> SmtpLogin | None:
    """Return the login from the file, else from the variables, else None."""
    if file is not None:
        return _of_file(file)
    found = [environment.get(name, "") for name in (USER, PASSWORD)]
    if not any(found):
        return None
    if not all(found):
        raise MailLoginError(f"{USER} and {PASSWORD} are set together or not at all")
    return SmtpLogin(*found)


def _of_file(file: Path) -> SmtpLogin:
    try:
        with file.open(encoding="utf-8") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            lines = opened.read().splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise MailLoginError(f"--smtp-login {file}: {reason}") from None
    if mode & OTHERS_MAY_READ:
        raise MailLoginError(
            f"--smtp-login {file}: others may read it; chmod 600 {file}"
        )
    if len(lines) != 2 or not all(lines):
        raise MailLoginError(
            f"--smtp-login {file}: must be two lines, the user and the password"
        )
    return SmtpLogin(*lines)


PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


@dataclass(frozen=True, slots=True)
class ComposedMail:
    """A composed mail."""

    mail_id: str
    sender: str
    recipient: str
    message: bytes


@dataclass(frozen=True, slots=True)
class SendResult:
    """Result of one mail: sent if `error` is None; `hopeless` means do not retry."""

    error: str | None = None
    hopeless: bool = False


class Transport(Protocol):
    """Sends mails; returns one result for each and does not raise."""

    async def send(self, posts: Sequence[ComposedMail]) -> list[SendResult]: ...


@dataclass(frozen=True, slots=True)
class FolderTransport:
    """Writes `.eml` files with mode 0600."""

    folder: Path

    async def send(self, posts: Sequence[ComposedMail]) -> list[SendResult]:
        return await asyncio.to_thread(self._write_all, posts)

    def _write_all(self, posts: Sequence[ComposedMail]) -> list[SendResult]:
        return [self._write(post) for post in posts]

    def _write(self, post: ComposedMail) -> SendResult:
        path = self.folder / f"{post.mail_id}.eml"
        scratch = path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            self.folder.mkdir(exist_ok=True, mode=PRIVATE_FOLDER)
            with os.fdopen(os.open(scratch, flags, PRIVATE_FILE), "wb") as file:
                file.write(post.message)
            scratch.replace(path)
        except OSError as error:
            return SendResult(type(error).__name__)
        return SendResult()


STANDARD_OUTPUT = 1
REDACTED = "(redacted)"


@dataclass(frozen=True, slots=True)
class RedactedTokens:
    """Makes fake tokens, because printed mails may end up in a log."""

    def token(self, order_id: str) -> str:
        return REDACTED


@dataclass(frozen=True, slots=True)
class StdoutTransport:
    """Prints mails to stdout, each under a header line with its id."""

    descriptor: int = STANDARD_OUTPUT

    async def send(self, posts: Sequence[ComposedMail]) -> list[SendResult]:
        return await asyncio.to_thread(self._print_all, posts)

    def _print_all(self, posts: Sequence[ComposedMail]) -> list[SendResult]:
        return [self._print(post) for post in posts]

    def _print(self, post: ComposedMail) -> SendResult:
        try:
            with open(self.descriptor, "wb", closefd=False) as output:
                output.write(shown(post).encode())
        except OSError as error:
            return SendResult(type(error).__name__)
        return SendResult()


def shown(post: ComposedMail) -> str:
    message = message_from_bytes(post.message, policy=email.policy.default)
    assert isinstance(message, EmailMessage)  # noqa: S101  - that policy makes no other
    body = message.get_body(("plain",))
    lines = [f"Subject: {message['Subject']}", ""]
    lines += body.get_content().splitlines() if body is not None else []
    told = "".join(f"  {_harmless(line)}".rstrip() + "\n" for line in lines)
    return f"mail {post.mail_id} to {post.recipient}\n{told}"


def _harmless(line: str) -> str:
    # Buyers name themselves, and terminals obey control characters.
    return line if line.isprintable() else line.encode("unicode_escape").decode()
