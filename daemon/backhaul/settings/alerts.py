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
    """Return an e-mail address; refuse one to which no message can be addressed."""
    from email.message import EmailMessage  # loaded only if alerts are mailed

    problem = 'is not an e-mail address such as "ops@shop.example"'
    if not _ADDRESS.fullmatch(value):
        raise ValueError(problem)
    message = EmailMessage()
    try:
        message["To"] = value
        message.as_bytes()
    except (AttributeError, LookupError, TypeError, ValueError):
        raise ValueError(problem) from None
    return value


Address = Annotated[str, AfterValidator(check_address)]


class AlertSettings(Section):
    """Alerts by e-mail or webhook: at the beginning and at the end of a problem."""

    mail_to: tuple[Address, ...] = Field(
        default=(),
        description="E-mail addresses that receive alerts, such as "
        '["ops@shop.example"].',
    )
    mail_from: Address | None = Field(
        default=None,
        description="Sender address of the alerts. This setting is required if "
        "`mail_to` is set.",
    )
    smtp_host: Host = Field(
        default="127.0.0.1", description="Mail server that sends the alerts."
    )
    smtp_port: Port = Field(
        default=25,
        description="Port of the mail server. With a login, the port is usually 587 "
        "or 465.",
    )
    smtp_security: Literal["none", "starttls", "tls"] = Field(
        default="none",
        description="Encryption of the connection to the mail server. A login needs "
        "`starttls` or `tls`.",
    )
    smtp_user: Text | None = Field(
        default=None, description="User name for the mail server."
    )
    smtp_password: Secret | None = Field(
        default=None, description="Password for the mail server."
    )
    webhook_url: BaseUrl | None = Field(
        default=None,
        description="URL to which Backhaul sends each alert as a signed POST request. "
        "The format is Standard Webhooks.",
    )
    webhook_secret: Secret | None = Field(
        default=None,
        description="Secret that signs the POST request. This setting is required if "
        "`webhook_url` is set.",
    )
    every: Duration = Field(
        default=parse_duration("1m"),
        description="How often Backhaul checks for problems.",
    )
    drift_rows: int = Field(
        default=1,
        ge=1,
        description="A full sync corrects the rows of the mirror that differ from the "
        "platform. Backhaul sends an alert if at least this number of rows could not "
        "be corrected.",
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.mail_to and self.mail_from is None:
            raise ValueError("mail_to needs mail_from, the sender's address")
        if (self.smtp_user is None) != (self.smtp_password is None):
            raise ValueError("smtp_user and smtp_password must both be set, or neither")
        if self.smtp_user and self.smtp_security == "none":
            raise ValueError('a login needs smtp_security "starttls" or "tls"')
        if (self.webhook_url is None) != (self.webhook_secret is None):
            raise ValueError(
                "webhook_url and webhook_secret must both be set, or neither"
            )
        return self

    @property
    def is_configured(self) -> bool:
        """Whether alerts go anywhere."""
        return bool(self.mail_to or self.webhook_url)
