"""The mail transport to an SMTP server; its library is an extra."""

from collections.abc import Sequence
from dataclasses import dataclass

import aiosmtplib

from backhaul_reference.mail.transports import ComposedMail, SendResult, SmtpLogin, Tls

SMTP_SECONDS = 20
PERMANENT = range(500, 600)
STARTTLS: dict[Tls, bool | None] = {
    "auto": None,  # where the server offers it
    "starttls": True,
    "tls": False,  # from the first byte
    "off": False,
}


@dataclass(frozen=True, slots=True)
class SmtpTransport:
    """Hands mails to an SMTP server, one connection for each batch."""

    host: str
    port: int
    tls: Tls = "auto"
    login: SmtpLogin | None = None

    def _client(self) -> aiosmtplib.SMTP:
        login = self.login
        return aiosmtplib.SMTP(
            hostname=self.host,
            port=self.port,
            timeout=SMTP_SECONDS,
            use_tls=self.tls == "tls",
            start_tls=STARTTLS[self.tls],
            username=login.user if login else None,
            password=login.password if login else None,
        )

    async def send(self, posts: Sequence[ComposedMail]) -> list[SendResult]:
        client = self._client()
        try:
            async with client:
                return [await _hand_over(client, post) for post in posts]
        except (aiosmtplib.SMTPException, OSError) as error:
            # What was taken before the connection broke is sent once more.
            return [SendResult(type(error).__name__)] * len(posts)


async def _hand_over(client: aiosmtplib.SMTP, post: ComposedMail) -> SendResult:
    try:
        await client.sendmail(post.sender, post.recipient, post.message)
    except aiosmtplib.SMTPRecipientsRefused as refused:
        codes = {one.code for one in refused.recipients}
        return SendResult(
            _failure_kind(refused, codes), all(one in PERMANENT for one in codes)
        )
    except aiosmtplib.SMTPResponseException as refused:
        return SendResult(
            _failure_kind(refused, {refused.code}), refused.code in PERMANENT
        )
    return SendResult()


def _failure_kind(error: Exception, codes: set[int]) -> str:
    """Return the kind of failure; the server's text may contain addresses or links."""
    return f"{type(error).__name__} {' '.join(str(code) for code in sorted(codes))}"
