"""Sends alerts by e-mail and webhook, when a problem begins and when it ends."""

from __future__ import annotations

import base64
import hmac
from email.message import EmailMessage
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
import msgspec
from loguru import logger
from msgspec import Struct

from backhaul.core.clock import from_text, to_text
from backhaul.errors import BackhaulError, Busy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from backhaul.core.clock import Clock
    from backhaul.settings.infrastructure import AlertSettings
    from backhaul.store.operations import Alert, AlertChanges, Alerts

    Channel: TypeAlias = "Callable[[AlertSettings, Message], Awaitable[None]]"


LISTED = 5
"""The problems of one kind that a message names; it only counts the others."""
_WHERE = {
    "parked": "backhaul commands list --state parked",
    "news": "backhaul connectors deliveries --state parked",
}
"""The command that lists all problems of a kind."""
_LABELS = {
    "counts": "stock counts stopped",
    "doubled": "took effect twice",
    "down": "connection down",
    "held": "stock counts on hold",
    "news": "parked deliveries",
    "silent": "no records",
    "stopped": "sending stopped",
    "stranded": "store not configured",
    "stranger": "webhooks of another store",
    "unreadable": "unreadable orders",
    "untold": "late deliveries",
    "vain": "sent repeatedly",
}
"""What a message calls a kind of problem, if not by the first word of its key."""


class Message(Struct, frozen=True):
    """One message: a subject of one line and the text. `at` is in UTC."""

    id: str
    at: str
    subject: str
    text: str
    news: AlertChanges


def compose(news: AlertChanges, host: str, at: str) -> Message:
    """Return the message: new problems first, then those that have ended."""
    lines = [line for says, todo in _listed(news.begun) for line in (says, todo)]
    if news.over:
        lines += ["", "Resolved:"] if lines else []
        lines += [says for says, _ in _listed(news.over)]
    text = "\n".join([*lines, "", f"Backhaul on {host}, {at}", ""])
    return Message(news.id, at, f"[backhaul] {_subject(news)}", text, news)


def _listed(alerts: Sequence[Alert]) -> Iterator[tuple[str, str]]:
    """Yield the text of each alert and what to do about it, grouped by kind."""
    kinds: dict[str, list[Alert]] = {}
    for one in alerts:
        kinds.setdefault(one.key.partition(" ")[0], []).append(one)
    for kind, those in kinds.items():
        for one in those[:LISTED]:
            yield f"- {one.text}", f"  what to do: {one.remedy}"
        if (more := len(those) - LISTED) > 0:
            where = _WHERE.get(kind, "backhaul status")
            named = _LABELS.get(kind, kind)
            yield f"- and {more} more ({named})", f"  list them: {where}"


def _subject(news: AlertChanges) -> str:
    first, what = (news.begun, "") if news.begun else (news.over, "resolved: ")
    more = len(news.begun) + len(news.over) - 1
    line = " ".join(f"{what}{first[0].text}".split())[:120]
    return f"{line} (and {more} more)" if more else line


TIMEOUT_SECONDS = 20.0
PREFIX = "whsec_"
UNREACHABLE = (OSError, ValueError)
"""Raised if a server does not answer (TimeoutError too) or its name is invalid."""


class NotSent(BackhaulError):
    """A message was not delivered. It is sent again."""


async def mail(settings: AlertSettings, message: Message) -> None:
    """Give the message to the mail server. Raises NotSent."""
    # Imported late: a daemon that sends no mail starts faster.
    import aiosmtplib

    letter = EmailMessage()
    letter["From"], letter["To"] = settings.mail_from, ", ".join(settings.mail_to)
    letter["Subject"] = message.subject
    letter["Message-ID"] = f"<{message.id}@backhaul>"
    letter["Date"] = from_text(message.at)
    letter["Auto-Submitted"] = "auto-generated"
    letter.set_content(message.text)
    password = settings.smtp_password
    try:
        refused, _ = await aiosmtplib.send(
            letter,
            hostname=settings.smtp_host,
            port=settings.smtp_port,
            use_tls=settings.smtp_security == "tls",
            start_tls=settings.smtp_security == "starttls",
            username=settings.smtp_user,
            password=password.get_secret_value() if password else None,
            timeout=TIMEOUT_SECONDS,
        )
    except aiosmtplib.SMTPAuthenticationError as error:
        # Not the server's own text: some repeat the password in it.
        why = (
            f"the server refused the login ({error.code}): check smtp_user and"
            " smtp_password in [alerts]"
        )
    except (aiosmtplib.SMTPException, *UNREACHABLE) as error:
        why = str(error)
    else:
        # No retry: the other recipients have the message and would get it twice.
        for recipient, answer in refused.items():
            logger.bind(action="alert.refused", way="mail").error(
                "mail server {}:{} refused the alert for {}: {}; all other recipients"
                " got it. Check the address in mail_to",
                settings.smtp_host,
                settings.smtp_port,
                recipient,
                answer.message,
            )
        return
    server = f"{settings.smtp_host}:{settings.smtp_port}"
    raise NotSent(f"mail through {server}: {why}")


async def post(settings: AlertSettings, message: Message) -> None:
    """Send the message as a signed webhook (Standard Webhooks). Raises NotSent."""
    body = msgspec.json.encode(
        {
            "type": "backhaul.alert",
            "timestamp": message.at,
            "data": {
                "subject": message.subject,
                "text": message.text,
                "begun": message.news.begun,
                "over": message.news.over,
            },
        }
    )
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                settings.webhook_url or "",
                data=body,
                headers=_signed(settings, message, body),
                allow_redirects=False,
            ) as answer,
        ):
            if not 200 <= answer.status < 300:
                raise NotSent(f"{_named(settings)}: {answer.status}")
    except (aiohttp.ClientError, *UNREACHABLE) as error:
        why = f"{type(error).__name__} {error}".rstrip()
        why = why.replace(settings.webhook_url or "", "")
        raise NotSent(f"{_named(settings)}: {why}".rstrip()) from None


def _named(settings: AlertSettings) -> str:
    """Return the server's name, not the path: the path of a chat hook is a secret."""
    return f"webhook at {urlsplit(settings.webhook_url or '').netloc}"


def _signed(settings: AlertSettings, message: Message, body: bytes) -> dict[str, str]:
    """Sign as Standard Webhooks defines: base64(HMAC-SHA256(id.timestamp.body))."""
    at = str(int(from_text(message.at).timestamp()))
    to_sign = f"{message.id}.{at}.".encode() + body
    secret = settings.webhook_secret
    key = _key(secret.get_secret_value() if secret else "")
    signature = base64.b64encode(hmac.digest(key, to_sign, "sha256")).decode()
    return {
        "Content-Type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{signature}",
    }


def _key(secret: str) -> bytes:
    """Return the secret's bytes: base64-decoded after `whsec_`, else unchanged."""
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        return secret.encode()


def channels(settings: AlertSettings) -> Mapping[str, Channel]:
    """Return the configured channels, by the names that the database knows them by.

    Each raises NotSent.
    """
    found: dict[str, Channel] = {}
    if settings.mail_to:
        found["mail"] = mail
    if settings.webhook_url:
        found["webhook"] = post
    return found


class Notifier:
    """Sends an alert once when its problem begins, and once when the problem ends.

    The channels are independent. A message that one channel cannot deliver is sent
    again through that channel only, after the next check, with the same id. `is_ours`
    returns whether this daemon sends the alerts, of several on one database.
    """

    def __init__(
        self,
        settings: AlertSettings,
        alerts: Alerts,
        find_problems: Callable[[], Awaitable[Mapping[str, Alert]]],
        clock: Clock,
        host: str,
        is_ours: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings = settings
        self._is_ours = is_ours
        self._alerts = alerts
        self._find_problems = find_problems
        self._clock = clock
        self._channels = channels(settings)
        self._host = host
        self._failing: set[str] = set()
        self._broken = False

    async def run(self) -> None:
        """Check for problems periodically until cancelled."""
        while self._settings.is_configured:
            await self._clock.sleep(self._settings.every)
            try:
                if self._is_ours():
                    await self.notify()
            except Busy as error:
                logger.bind(action="alert.busy").warning("{}", error)
            except Exception as error:  # noqa: BLE001 - a bug here must not stop the rest
                self._check_failed(error)
            else:
                self._broken = False

    async def notify(self) -> None:
        """Check once, and send what began or ended. May raise Busy."""
        problems = await self._find_problems()
        found = await self._alerts.compare(problems, self._channels)
        for way, news in found.items():
            if news:
                await self._send(way, news)

    async def _send(self, way: str, news: AlertChanges) -> None:
        message = compose(news, self._host, to_text(self._clock.now()))
        try:
            await self._channels[way](self._settings, message)
        except NotSent as error:
            self._send_failed(way, error)
            return
        await self._alerts.record_sent(way, news)
        self._failing.discard(way)
        _log(way, news)

    def _check_failed(self, error: Exception) -> None:
        if not self._broken:
            logger.bind(action="alert.broken").opt(exception=error).error(
                "unexpected error while checking for problems: {}; no alert can be"
                " sent, and the check is repeated",
                error,
            )
        self._broken = True

    def _send_failed(self, way: str, error: NotSent) -> None:
        if way not in self._failing:
            logger.bind(action="alert.failed", way=way).error(
                "an alert could not be sent: {}; it is sent again after the next check",
                error,
            )
        self._failing.add(way)


def _log(way: str, news: AlertChanges) -> None:
    for one in news.begun:
        logger.bind(action="alert.sent", alert=one.key, way=way).info("{}", one.text)
    for one in news.over:
        logger.bind(action="alert.over", alert=one.key, way=way).info("{}", one.text)
