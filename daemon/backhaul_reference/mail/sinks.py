"""Sinks: where composed mails go, a folder or an SMTP server."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiosmtplib

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
SMTP_SECONDS = 20
PERMANENT = range(500, 600)


@dataclass(frozen=True, slots=True)
class Post:
    """A composed mail."""

    mail_id: str
    sender: str
    recipient: str
    message: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """Sent where `error` is None; `hopeless` where another try changes nothing."""

    error: str | None = None
    hopeless: bool = False


class Sink(Protocol):
    """Takes mails; answers one outcome for each and does not raise."""

    async def send(self, posts: Sequence[Post]) -> list[Outcome]: ...


@dataclass(frozen=True, slots=True)
class FolderSink:
    """Writes `.eml` files, which only their owner may read."""

    folder: Path

    async def send(self, posts: Sequence[Post]) -> list[Outcome]:
        return await asyncio.to_thread(self._write_all, posts)

    def _write_all(self, posts: Sequence[Post]) -> list[Outcome]:
        return [self._write(post) for post in posts]

    def _write(self, post: Post) -> Outcome:
        path = self.folder / f"{post.mail_id}.eml"
        scratch = path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            self.folder.mkdir(exist_ok=True, mode=PRIVATE_FOLDER)
            with os.fdopen(os.open(scratch, flags, PRIVATE_FILE), "wb") as file:
                file.write(post.message)
            scratch.replace(path)
        except OSError as error:
            return Outcome(type(error).__name__)
        return Outcome()


@dataclass(frozen=True, slots=True)
class SmtpSink:
    """Hands mails to an SMTP server, one connection for each batch."""

    host: str
    port: int

    async def send(self, posts: Sequence[Post]) -> list[Outcome]:
        client = aiosmtplib.SMTP(
            hostname=self.host, port=self.port, timeout=SMTP_SECONDS
        )
        try:
            async with client:
                return [await _hand_over(client, post) for post in posts]
        except (aiosmtplib.SMTPException, OSError) as error:
            # What was taken before the connection broke is sent once more.
            return [Outcome(type(error).__name__)] * len(posts)


async def _hand_over(client: aiosmtplib.SMTP, post: Post) -> Outcome:
    try:
        await client.sendmail(post.sender, post.recipient, post.message)
    except aiosmtplib.SMTPRecipientsRefused as refused:
        codes = {one.code for one in refused.recipients}
        return Outcome(_words(refused, codes), all(one in PERMANENT for one in codes))
    except aiosmtplib.SMTPResponseException as refused:
        return Outcome(_words(refused, {refused.code}), refused.code in PERMANENT)
    return Outcome()


def _words(error: Exception, codes: set[int]) -> str:
    """The kind of failure; a server's own words may quote addresses or links."""
    return f"{type(error).__name__} {' '.join(str(code) for code in sorted(codes))}"
