"""Sends due mails from the outbox and records the results."""

import asyncio
import logging
import re
from binascii import b2a_qp
from collections.abc import Sequence
from dataclasses import dataclass
from email.header import Header
from email.utils import formataddr, formatdate
from html import escape

from backhaul_reference.mail.texts import MailRenderer, MailText
from backhaul_reference.mail.transports import ComposedMail, SendResult, Transport
from backhaul_reference.platform.clock import Clock, either
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state import mail_outbox
from backhaul_reference.platform.state.database import Reader, Row, Rows
from backhaul_reference.platform.state.mail_outbox import Sending
from backhaul_reference.platform.state.writer import Writer

HTML = """<!doctype html>
<html><body style="font-family: sans-serif; max-width: 36em; margin: 2em auto">
{}
</body></html>
"""
MAILABLE = re.compile(r"[\w!#$%&'*+/=?^`{|}~.-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
LONGEST_LINE = 900
LINE_ENDS = re.compile(r"\r\n?")


class UnsendableError(Exception):
    """The recipient is not an address that mail can be sent to."""


def compose(text: MailText, sender: str, mail_id: str, at_ms: int) -> bytes:
    """Return the message by RFC 5322 and RFC 2046, with LF line ends."""
    # Not the standard library's classes, which are thirty times slower.
    boundary = f"=_{mail_id}"
    headers = (
        ("From", _named(text.sender, sender)),
        ("To", _address(text.to)),
        ("Subject", _words(text.subject)),
        ("Date", formatdate(at_ms / 1000)),
        ("Message-ID", f"<{mail_id}@{sender.rpartition('@')[2]}>"),
        ("Auto-Submitted", "auto-generated"),
        ("MIME-Version", "1.0"),
        ("Content-Type", f'multipart/alternative; boundary="{boundary}"'),
    )
    head = "".join(f"{name}: {value}\n" for name, value in headers)
    cut = f"\n--{boundary}\n".encode()
    parts = (_part(_text(text), "plain"), _part(_html(text), "html"))
    whole = cut.join((head.encode("ascii"), *parts))
    return whole + f"\n--{boundary}--\n".encode()


def _address(text: str) -> str:
    if not MAILABLE.fullmatch(text):
        raise UnsendableError("the address cannot be mailed to")
    return text


def _named(name: str, address: str) -> str:
    words = _words(name)
    if words == " ".join(name.split()):
        return formataddr((words, address))
    return f"{words} <{address}>"


def _words(text: str) -> str:
    line = " ".join(text.split())
    plain = line.isascii() and line.isprintable()
    return line if plain else Header(line, "utf-8").encode()


def _part(text: str, subtype: str) -> bytes:
    body = LINE_ENDS.sub("\n", text)
    short = all(len(line) <= LONGEST_LINE for line in body.split("\n"))
    if body.isascii() and short:
        return _head_of_part(subtype, "us-ascii", "7bit") + body.encode()
    readable = b2a_qp(body.encode(), istext=True)
    return _head_of_part(subtype, "utf-8", "quoted-printable") + readable


def _head_of_part(subtype: str, charset: str, encoding: str) -> bytes:
    return (
        f'Content-Type: text/{subtype}; charset="{charset}"\n'
        f"Content-Transfer-Encoding: {encoding}\n\n"
    ).encode()


def _text(text: MailText) -> str:
    width = max((len(name) for name, _ in text.rows), default=0)
    table = "\n".join(f"  {name:<{width}}  {value}" for name, value in text.rows)
    link = [f"{text.link[0]}: {text.link[1]}"] if text.link else []
    parts = [*text.opening, *([table] if table else []), *text.closing, *link]
    return "\n\n".join(parts) + "\n"


def _html(text: MailText) -> str:
    parts = [f"<p>{escape(line)}</p>" for line in text.opening]
    if text.rows:
        rows = (
            f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>"
            for name, value in text.rows
        )
        parts.append(f'<table cellpadding="4">{"".join(rows)}</table>')
    parts += [f"<p>{escape(line)}</p>" for line in text.closing]
    if text.link:
        words, url = text.link
        parts.append(f'<p><a href="{escape(url)}">{escape(words)}</a></p>')
    return HTML.format("\n".join(parts))


# Few at a time: between two batches requests have their turn.
BATCH = 8
# Some work queues mails without waking the worker, such as a disabled webhook.
IDLE_SECONDS = 5.0
PAUSE_SECONDS = 1.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MailServices:
    """Services that the mail worker needs."""

    writer: Writer
    reader: Reader
    clock: Clock
    renderer: MailRenderer
    transport: Transport
    sender: str


class MailWorker:
    """Sends due mails until stopped; `wake` makes it check at once."""

    def __init__(self, services: MailServices) -> None:
        self._services = services
        self._wake = asyncio.Event()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        # An SMTP conversation may swallow the cancellation that came during it.
        this = asyncio.current_task()
        while this is None or not this.cancelling():
            self._wake.clear()
            try:
                wait = await self._send_due()
            except Problem as problem:
                log.warning("mails paused code=%s", problem.code)
                wait = PAUSE_SECONDS
            except Exception:
                log.exception("mails failed")
                wait = PAUSE_SECONDS
            if wait > 0:
                await either(self._wake.wait(), self._services.clock.sleep(wait))

    async def _send_due(self) -> float:
        """Send one batch; return the seconds until the next mail is due."""
        services = self._services
        now_ms = services.clock.now_ms()
        due = services.reader.read(lambda rows: mail_outbox.due(rows, now_ms, BATCH))
        if not due:
            return self._until_next(now_ms)
        ended = await self._send(due, now_ms)
        await services.writer.run(lambda tx: mail_outbox.record(tx, ended))
        for row, one in zip(due, ended, strict=True):
            log.info(
                "mail id=%s template=%s error=%s", row["id"], row["template"], one.error
            )
        return 0

    def _until_next(self, now_ms: int) -> float:
        next_ms = self._services.reader.read(mail_outbox.next_due_ms)
        if next_ms is None:
            return IDLE_SECONDS
        return max(0.001, min(IDLE_SECONDS, (next_ms - now_ms) / 1000))

    async def _send(self, due: Sequence[Row], now_ms: int) -> list[Sending]:
        written = self._services.reader.read(
            lambda rows: self._write(rows, due, now_ms)
        )
        posts = [one for one in written.values() if isinstance(one, ComposedMail)]
        sent = await self._services.transport.send(posts) if posts else []
        outcomes = {
            mail_id: one
            for mail_id, one in written.items()
            if isinstance(one, SendResult)
        }
        for post, outcome in zip(posts, sent, strict=True):
            outcomes[post.mail_id] = outcome
        return [_ending(row, outcomes[row["id"]], now_ms) for row in due]

    def _write(
        self, rows: Rows, due: Sequence[Row], now_ms: int
    ) -> dict[str, ComposedMail | SendResult]:
        return {row["id"]: self._write_one(rows, row, now_ms) for row in due}

    def _write_one(
        self, rows: Rows, row: Row, now_ms: int
    ) -> ComposedMail | SendResult:
        try:
            text = self._services.renderer.write(rows, row)
            if text is None:
                return SendResult("the object of this mail was deleted", hopeless=True)
            sender = self._services.sender
            message = compose(text, sender, row["id"], now_ms)
        except UnsendableError as error:
            return SendResult(str(error), hopeless=True)
        except Exception:
            # One mail that cannot be written must not hold up the others.
            log.exception("mail not written id=%s", row["id"])
            return SendResult("it could not be written")
        return ComposedMail(row["id"], sender, text.to, message)


def _ending(row: Row, outcome: SendResult, at_ms: int) -> Sending:
    return Sending(row["seq"], row["attempts"], at_ms, outcome.error, outcome.hopeless)
