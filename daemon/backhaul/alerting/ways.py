"""The ways a message takes to a person: mail, and a signed webhook."""

from __future__ import annotations

import base64
import hmac
from email.message import EmailMessage
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
import msgspec
from loguru import logger

from backhaul.core.clock import from_text
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TypeAlias

    from backhaul.alerting.message import Message
    from backhaul.settings.alerts import Alerts

    Way: TypeAlias = Callable[[Alerts, Message], Awaitable[None]]

PATIENCE_SECONDS = 20.0
PREFIX = "whsec_"
UNREACHABLE = (OSError, ValueError)
"""A server that does not answer (TimeoutError too), or a host that is none."""


class NotTold(BackhaulError):
    """A message did not get through; it is sent again."""


async def mail(wanted: Alerts, message: Message) -> None:
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


async def post(wanted: Alerts, message: Message) -> None:
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


def _named(wanted: Alerts) -> str:
    """Name the server: the path of a chat's hook is what lets one write to it."""
    return f"webhook at {urlsplit(wanted.webhook_url or '').netloc}"


def _signed(wanted: Alerts, message: Message, body: bytes) -> dict[str, str]:
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


def of(wanted: Alerts) -> Mapping[str, Way]:
    """Return the ways that are set, by the names under which it is kept what they told.

    Each raises NotTold.
    """
    found: dict[str, Way] = {}
    if wanted.mail_to:
        found["mail"] = mail
    if wanted.webhook_url:
        found["webhook"] = post
    return found
