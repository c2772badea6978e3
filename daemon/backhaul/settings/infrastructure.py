"""The tables `[database]`, `[cluster]`, `[admin.oidc]` and `[alerts]`."""

import re
from typing import Annotated, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from backhaul.settings.values import (
    POSTGRES_PREFIXES,
    BaseUrl,
    Count,
    DatabaseUrl,
    Duration,
    Host,
    Keys,
    Port,
    Secret,
    Section,
    Text,
    check_base_url,
    parse_duration,
)
from backhaul_sdk.extras import require_extra

SHORTEST_TTL, LONGEST_TTL = 1.0, 60.0
Role = Literal["receiver", "worker", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
_ADDRESS = re.compile(r"[^@\s,<>]+@[^@\s,<>]+")


def check_roles(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    """Return the roles, each once."""
    if not roles:
        raise ValueError("must not be empty")
    return tuple(role for role in ROLES if role in roles)


class Database(Section):
    """The database, and how long Backhaul keeps data."""

    url: DatabaseUrl = Field(
        default=SecretStr(""),
        description="The URL of a SQLite file, such as "
        '"sqlite:////var/lib/backhaul/backhaul.db", or of a PostgreSQL database, such '
        'as "postgresql://backhaul@db.internal/backhaul". The URL of a file is '
        "`sqlite:///` and the path. An absolute path starts with a slash too, so the "
        "URL then has four slashes. If the setting is empty, Backhaul uses the file "
        "backhaul.db in `state_dir`. You can also set a PostgreSQL URL in the "
        "variable `DATABASE_URL`.",
    )
    retention_days: Count = Field(
        default=30,
        le=3_650,
        description="Number of days for which Backhaul keeps the bodies and headers "
        "of events, the runs of jobs, and most stock counts that changed nothing. "
        "Backhaul keeps the outcome of each event for ever. docs/mirror.md lists the "
        "stock counts that Backhaul keeps for ever.",
    )

    @property
    def is_server(self) -> bool:
        """Whether the database is on a PostgreSQL server."""
        return self.url.get_secret_value().startswith(POSTGRES_PREFIXES)


class Cluster(Section):
    """Several daemons on one PostgreSQL database.

    With a SQLite file, Backhaul ignores this section.
    """

    roles: Annotated[tuple[Role, ...], AfterValidator(check_roles)] = Field(
        default=ROLES,
        description="What this daemon does. `receiver`: it receives webhooks. "
        "`worker`: it folds events, sends commands, polls, and runs the "
        "connections. `admin`: it "
        "serves the dashboard. Every daemon serves health checks and metrics. "
        "`backhaul run --role` sets this for one start. "
        "With a SQLite file, leave this setting out: the only daemon "
        "must have all roles.",
    )
    address: Host | None = Field(
        default=None,
        description="Name or IP address at which the other daemons reach this machine. "
        "The other daemons need this address to forward requests to `/connect/`, for "
        "example from scanners. Without this setting, Backhaul uses `public.host`. If "
        "`public.host` is `0.0.0.0`, Backhaul uses the local IP address from which "
        "this machine connects to the database server.",
    )
    durability: Literal["quorum", "single"] = Field(
        default="quorum",
        description='How the PostgreSQL server must protect commits. "quorum": a '
        "replica must confirm each commit, so no acknowledged data is lost if the "
        "primary server is lost. If the server is not set up in this way, Backhaul "
        'does not run. "single": Backhaul requires no replica. It only logs '
        "a warning about unsafe settings of the server, such as `fsync = off`.",
    )
    ttl: Duration = Field(
        default=3.0,
        description="If a daemon gives no sign of life for this time, the other "
        "daemons take over its stores.",
    )

    hold: Duration = Field(
        default=8.0,
        description="How long a webhook waits if Backhaul cannot write it to the "
        "database, for example during a failover, or while no replica confirms the "
        "commit. After this time Backhaul answers 503.",
    )
    spool: bool = Field(
        default=False,
        description="What Backhaul does with a webhook that it cannot write to the "
        "database server within `hold`. `false`: Backhaul answers 503, and the "
        "platform sends the webhook again. `true`: Backhaul writes the webhook to the "
        "file spool.db in `state_dir`, and answers 200. "
        "When the server is back, Backhaul copies the webhooks from the "
        "file to the database, the oldest first. Until then only the "
        "disk of this machine has the webhook.",
    )

    key: Keys = Field(
        default=(),
        description="Keys that encrypt the secrets of the webhook subscriptions, and "
        "of the second factors of users. The encrypted secrets are in the database, "
        "and every daemon with the same keys can use them. Required on PostgreSQL if "
        "`public.url` or `admin.require_totp` is set. All machines need the same keys. "
        "Make a key with: openssl rand -base64 32. "
        "Backhaul encrypts with the first key, and decrypts with each "
        "of them. To replace a key, add the new key as the second one "
        "on all machines, then make it the first.",
    )

    @field_validator("ttl")
    @classmethod
    def _long_enough(cls, seconds: float) -> float:
        if not SHORTEST_TTL <= seconds <= LONGEST_TTL:
            raise ValueError('must be from "1s" to "60s"')
        return seconds


LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def check_issuer(value: str) -> str:
    """Return the URL of an identity provider that nobody can listen to."""
    parts = urlsplit(check_base_url(value))
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        raise ValueError(
            "must begin with https://, because others could read and change what the"
            " identity provider sends"
        )
    return value.rstrip("/")


class Oidc(Section):
    """Single sign-on to the dashboard with OpenID Connect.

    Without `issuer`, there is no single sign-on.
    """

    issuer: Annotated[str, AfterValidator(check_issuer)] | None = Field(
        default=None,
        description="URL of the identity provider, such as "
        '"https://login.example/realms/main". Backhaul reads '
        "`/.well-known/openid-configuration` under this URL. At the identity "
        "provider, register `admin.url` with the path `/login/oidc/callback` as "
        "the redirect URI.",
    )
    client_id: Text | None = Field(
        default=None,
        description="Client id that the identity provider gave Backhaul. This setting "
        "is required if `issuer` is set.",
    )
    client_secret: Secret | None = Field(
        default=None,
        description="Client secret that the identity provider gave Backhaul. Leave "
        "this setting out for a public client.",
    )
    scopes: tuple[Text, ...] = Field(
        default=("openid", "profile", "email"),
        description="Scopes that Backhaul asks for. They must contain `openid`.",
    )
    button: Text = Field(
        default="Log in with single sign-on",
        description="Text of the button on the login page.",
    )
    name_claim: Text = Field(
        default="preferred_username",
        description="Claim of the ID token from which Backhaul takes the name of a "
        "new user. The user is recognised by the claim `sub`, never by this name.",
    )
    role_claim: Text = Field(
        default="groups",
        description="Claim of the ID token that decides the role: a text or a list of "
        'texts. Dots lead into a nested claim, such as "realm_access.roles".',
    )
    viewers: tuple[Text, ...] = Field(
        default=(),
        description="Values of `role_claim` that give the role `viewer`. A user "
        "without a value of `viewers`, `operators` or `admins` has no access.",
    )
    operators: tuple[Text, ...] = Field(
        default=(),
        description="Values of `role_claim` that give the role `operator`.",
    )
    admins: tuple[Text, ...] = Field(
        default=(), description="Values of `role_claim` that give the role `admin`."
    )
    clock_skew: Duration = Field(
        default=60.0,
        le=300,
        description="How far the clocks of this machine and of the identity provider "
        "may differ.",
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.issuer is None:
            return self
        if self.client_id is None:
            raise ValueError(
                "issuer is set, but client_id is missing; set client_id to the id that"
                " the identity provider gave Backhaul"
            )
        if "openid" not in self.scopes:
            raise ValueError('scopes must contain "openid"')
        if not (self.viewers or self.operators or self.admins):
            raise ValueError(
                "nobody would have access; set viewers, operators or admins to values"
                f" of the claim {self.role_claim}"
            )
        return self

    @property
    def is_configured(self) -> bool:
        """Whether users can log in with single sign-on."""
        return self.issuer is not None


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
        "The format follows the specification Standard Webhooks "
        "(https://www.standardwebhooks.com).",
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
            raise ValueError(
                "mail_to is set, but mail_from is missing; set mail_from to the"
                " sender's address"
            )
        if self.mail_to:
            require_extra("mail", user="mail_to")
        if (self.smtp_user is None) != (self.smtp_password is None):
            raise ValueError(
                "only one of smtp_user and smtp_password is set; set both or neither"
            )
        if self.smtp_user and self.smtp_security == "none":
            raise ValueError(
                "smtp_user needs an encrypted connection; set smtp_security to"
                ' "starttls" or "tls"'
            )
        if (self.webhook_url is None) != (self.webhook_secret is None):
            raise ValueError(
                "only one of webhook_url and webhook_secret is set; set both or neither"
            )
        return self

    @property
    def is_configured(self) -> bool:
        """Whether alerts go anywhere."""
        return bool(self.mail_to or self.webhook_url)
