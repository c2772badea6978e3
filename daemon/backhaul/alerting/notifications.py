"""Sends alerts by e-mail and webhook: once at begin, once at end."""

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
    from backhaul.settings.alerts import AlertSettings
    from backhaul.store.alerting import Alert, Alerts, News

    Way: TypeAlias = "Callable[[AlertSettings, Message], Awaitable[None]]"


LISTED = 5
"""Causes of one kind that are named one by one; of more, their number is told."""
_WHERE = {
    "parked": "backhaul commands list --state parked",
    "news": "backhaul connectors deliveries --state parked",
}
"""What lists the causes of a kind."""


class Message(Struct, frozen=True):
    """A subject of one line, and the text; `at` is in UTC."""

    id: str
    at: str
    subject: str
    text: str
    news: News


def compose(news: News, host: str, at: str) -> Message:
    """Write the message; what began comes first."""
    lines = [line for says, mend in _listed(news.begun) for line in (says, mend)]
    if news.over:
        lines += ["", "Over:"] if lines else []
        lines += [says for says, _ in _listed(news.over)]
    text = "\n".join([*lines, "", f"Backhaul on {host}, {at}", ""])
    return Message(news.id, at, f"[backhaul] {_subject(news)}", text, news)


def _listed(alerts: Sequence[Alert]) -> Iterator[tuple[str, str]]:
    """Yield what is said of each, and how to mend it, kind by kind."""
    kinds: dict[str, list[Alert]] = {}
    for one in alerts:
        kinds.setdefault(one.key.partition(" ")[0], []).append(one)
    for kind, those in kinds.items():
        for one in those[:LISTED]:
            yield f"- {one.says}", f"  mend: {one.mend}"
        if (more := len(those) - LISTED) > 0:
            where = _WHERE.get(kind, "backhaul status")
            yield f"- and {more} more ({kind})", f"  mend: {where}"


def _subject(news: News) -> str:
    first, what = (news.begun, "") if news.begun else (news.over, "over: ")
    more = len(news.begun) + len(news.over) - 1
    told = " ".join(f"{what}{first[0].says}".split())[:120]
    return f"{told} (and {more} more)" if more else told


PATIENCE_SECONDS = 20.0
PREFIX = "whsec_"
UNREACHABLE = (OSError, ValueError)
"""A server that does not answer (TimeoutError too), or a host that is none."""


class NotTold(BackhaulError):
    """A message did not get through; it is sent again."""


async def mail(wanted: AlertSettings, message: Message) -> None:
    """Hand the message to the mail server. Raises NotTold."""
    # Who wants no mail starts sooner without.
    import aiosmtplib

    letter = EmailMessage()
    letter["From"], letter["To"] = wanted.mail_from, ", ".join(wanted.mail_to)
    letter["Subject"] = message.subject
    letter["Message-ID"] = f"<{message.id}@backhaul>"
    letter["Date"] = from_text(message.at)
    letter["Auto-Submitted"] = "auto-generated"
    letter.set_content(message.text)
    password = wanted.smtp_password
    try:
        refused, _ = await aiosmtplib.send(
            letter,
            hostname=wanted.smtp_host,
            port=wanted.smtp_port,
            use_tls=wanted.smtp_security == "tls",
            start_tls=wanted.smtp_security == "starttls",
            username=wanted.smtp_user,
            password=password.get_secret_value() if password else None,
            timeout=PATIENCE_SECONDS,
        )
    except aiosmtplib.SMTPAuthenticationError as error:
        # A server may repeat a login that it refuses.
        why = f"it refuses the login, {error.code}: check smtp_user and smtp_password"
    except (aiosmtplib.SMTPException, *UNREACHABLE) as error:
        why = str(error)
    else:
        # Sent again, it would come twice to those who have it.
        for person, answer in refused.items():
            logger.bind(action="alert.refused", way="mail").error(
                "{}:{} takes no mail for {}: {}; the others were told",
                wanted.smtp_host,
                wanted.smtp_port,
                person,
                answer.message,
            )
        return
    server = f"{wanted.smtp_host}:{wanted.smtp_port}"
    raise NotTold(f"mail by {server}: {why}")


async def post(wanted: AlertSettings, message: Message) -> None:
    """Send the message as a signed webhook (Standard Webhooks). Raises NotTold."""
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
    timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                wanted.webhook_url or "",
                data=body,
                headers=_signed(wanted, message, body),
                allow_redirects=False,
            ) as answer,
        ):
            if not 200 <= answer.status < 300:
                raise NotTold(f"{_named(wanted)}: {answer.status}")
    except (aiohttp.ClientError, *UNREACHABLE) as error:
        told = f"{type(error).__name__} {error}".rstrip()
        told = told.replace(wanted.webhook_url or "", "")
        raise NotTold(f"{_named(wanted)}: {told}".rstrip()) from None


def _named(wanted: AlertSettings) -> str:
    """Name the server: the path of a chat's hook is what lets one write to it."""
    return f"webhook at {urlsplit(wanted.webhook_url or '').netloc}"


def _signed(wanted: AlertSettings, message: Message, body: bytes) -> dict[str, str]:
    """Sign as Standard Webhooks has it: base64(HMAC-SHA256(id.timestamp.body))."""
    at = str(int(from_text(message.at).timestamp()))
    to_sign = f"{message.id}.{at}.".encode() + body
    secret = wanted.webhook_secret
    key = _key(secret.get_secret_value() if secret else "")
    signature = base64.b64encode(hmac.digest(key, to_sign, "sha256")).decode()
    return {
        "Content-Type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{signature}",
    }


def _key(secret: str) -> bytes:
    """Return the bytes of a `whsec_` secret in base64; of any other, itself."""
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        return secret.encode()


def of(wanted: AlertSettings) -> Mapping[str, Way]:
    """Return the ways that are set, by the names under which it is kept what they told.

    Each raises NotTold.
    """
    found: dict[str, Way] = {}
    if wanted.mail_to:
        found["mail"] = mail
    if wanted.webhook_url:
        found["webhook"] = post
    return found


class Watch:
    """Tells of each cause once when it begins, and once when it is over.

    Each way tells by itself: what does not get through is sent again by that way alone,
    at the next look, with the id it had.
    """

    def __init__(
        self,
        wanted: AlertSettings,
        alerts: Alerts,
        look: Callable[[], Awaitable[Mapping[str, Alert]]],
        clock: Clock,
        host: str,
    ) -> None:
        self._wanted = wanted
        self._alerts = alerts
        self._look = look
        self._clock = clock
        self._ways = of(wanted)
        self._host = host
        self._mute: set[str] = set()
        self._broken = False

    async def run(self) -> None:
        """Look for ever. Cancel to stop."""
        while self._wanted.wanted:
            await self._clock.sleep(self._wanted.every)
            try:
                await self.tell()
            except Busy as error:
                logger.bind(action="alert.busy").warning("{}", error)
            except Exception as error:  # noqa: BLE001 - it must not end what others do
                self._looked_in_vain(error)
            else:
                self._broken = False

    async def tell(self) -> None:
        """Look once, and tell what is news. May raise Busy."""
        found = await self._alerts.compare(await self._look(), self._ways)
        for way, news in found.items():
            if news:
                await self._tell(way, news)

    async def _tell(self, way: str, news: News) -> None:
        message = compose(news, self._host, to_text(self._clock.now()))
        try:
            await self._ways[way](self._wanted, message)
        except NotTold as error:
            self._told_in_vain(way, error)
            return
        await self._alerts.told(way, news)
        self._mute.discard(way)
        _log(way, news)

    def _looked_in_vain(self, error: Exception) -> None:
        if not self._broken:
            logger.bind(action="alert.broken").opt(exception=error).error(
                "a look for what needs a person met what nobody foresaw: {}", error
            )
        self._broken = True

    def _told_in_vain(self, way: str, error: NotTold) -> None:
        if way not in self._mute:
            logger.bind(action="alert.failed", way=way).error(
                "nobody could be told of what needs a person: {}", error
            )
        self._mute.add(way)


def _log(way: str, news: News) -> None:
    for one in news.begun:
        logger.bind(action="alert.told", alert=one.key, way=way).info("{}", one.says)
    for one in news.over:
        logger.bind(action="alert.over", alert=one.key, way=way).info("{}", one.says)
