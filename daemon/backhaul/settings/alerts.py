"""`[alerts]` table: who is notified, and by which channel."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from backhaul.settings.values import (
    BaseUrl,
    Duration,
    Host,
    Port,
    Secret,
    Section,
    Text,
    parse_duration,
)

_ADDRESS = re.compile(r"[^@\s,<>]+@[^@\s,<>]+")


def check_address(value: str) -> str:
    """Refuse what no letter can be written to: each look would end in a bug."""
    from email.message import EmailMessage  # who wants no mail does without

    problem = 'is not an address of mail such as "ops@shop.example"'
    if not _ADDRESS.fullmatch(value):
        raise ValueError(problem)
    letter = EmailMessage()
    try:
        letter["To"] = value
        letter.as_bytes()
    except (AttributeError, LookupError, TypeError, ValueError):
        raise ValueError(problem) from None
    return value


Address = Annotated[str, AfterValidator(check_address)]


class AlertSettings(Section):
    """Mail and webhook for what needs a person; once for each cause, and when over."""

    mail_to: tuple[Address, ...] = Field(
        default=(), description='Who gets mail, such as ["ops@shop.example"].'
    )
    mail_from: Address | None = Field(
        default=None, description="Sender of the mail; needed with `mail_to`."
    )
    smtp_host: Host = Field(default="127.0.0.1", description="Mail server to send by.")
    smtp_port: Port = Field(
        default=25, description="Its port; 587 and 465 are usual with a login."
    )
    smtp_security: Literal["none", "starttls", "tls"] = Field(
        default="none",
        description="How the way to it is encrypted; a login needs one of the two.",
    )
    smtp_user: Text | None = Field(default=None, description="Name to log in with.")
    smtp_password: Secret | None = Field(
        default=None, description="Password to log in with."
    )
    webhook_url: BaseUrl | None = Field(
        default=None,
        description="Address that gets each message as a signed POST (Standard "
        "Webhooks).",
    )
    webhook_secret: Secret | None = Field(
        default=None, description="Secret to sign it with; needed with `webhook_url`."
    )
    every: Duration = Field(
        default=parse_duration("1m"), description="Time between two looks."
    )
    drift_rows: int = Field(
        default=1,
        ge=1,
        description="Rows that a full walk could not repair before it is told.",
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.mail_to and self.mail_from is None:
            raise ValueError("mail_to needs mail_from, the sender's address")
        if (self.smtp_user is None) != (self.smtp_password is None):
            raise ValueError("smtp_user and smtp_password go together")
        if self.smtp_user and self.smtp_security == "none":
            raise ValueError('a login needs smtp_security "starttls" or "tls"')
        if (self.webhook_url is None) != (self.webhook_secret is None):
            raise ValueError("webhook_url and webhook_secret go together")
        return self

    @property
    def wanted(self) -> bool:
        """Whether anybody is to be told."""
        return bool(self.mail_to or self.webhook_url)
