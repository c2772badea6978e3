"""The settings of the public and the admin listener."""

from typing import Self

from pydantic import Field, model_validator

from backhaul.settings.infrastructure import Oidc
from backhaul.settings.values import (
    BaseUrl,
    Count,
    Networks,
    Port,
    Seconds,
    Section,
    Text,
)
from backhaul_sdk.extras import require_extra


class Public(Section):
    """Public listener: receives requests of the platform and of connected systems."""

    host: Text = Field(
        default="0.0.0.0",  # noqa: S104 - the platform calls from outside
        description="Address to listen on.",
    )
    port: Port = Field(
        default=8750,
        description="Port to listen on. With 0, Backhaul takes a free port and logs "
        "its number.",
    )
    url: BaseUrl | None = Field(
        default=None,
        description="URL at which the platform reaches this listener, such as "
        '"https://hooks.example". If you set this URL, Backhaul creates the webhook '
        "subscription of each store and keeps it correct.",
    )
    receivers: int = Field(
        default=0,
        ge=0,
        le=16,
        description="Number of additional processes that receive webhooks in place of "
        "the daemon. With 0, the daemon itself receives them. Set 1 or 2 if webhooks "
        "arrive faster than one core can receive and process them. The limits of this "
        "section apply to each process. Only with SQLite.",
    )
    max_body_bytes: Count = Field(
        default=1_048_576,
        description="Maximum size of a request body, in bytes. Backhaul answers a "
        "larger request with 413.",
    )
    request_seconds: Seconds = Field(
        default=10,
        description="Maximum time, in seconds, for a request to arrive completely.",
    )
    max_connections: Count = Field(
        default=512, description="Maximum number of open connections."
    )
    max_waiting_bytes: Count = Field(
        default=16_777_216,
        description="Maximum total size, in bytes, of the requests that are not "
        "finished: they are still arriving, or Backhaul is still writing them to "
        "disk. Above this size Backhaul answers new requests with 503. Set a value "
        "several times as large as `max_body_bytes`.",
    )
    slow_per_address: Count = Field(
        default=32,
        description="Maximum number of slow requests from one client address at the "
        "same time. A request is slow if it takes more than 1 second to arrive. "
        "Backhaul closes further slow requests from this address.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Addresses or networks of your own proxies, such as "
        '["10.0.0.0/8"]. `slow_per_address` does not apply to requests from these '
        "proxies.",
    )


class Admin(Section):
    """Admin listener: dashboard, health checks and metrics."""

    host: Text = Field(
        default="127.0.0.1",
        description="Address to listen on. Use a loopback address, or an address that "
        "only your own load balancer and operators can reach, because `/metrics` and "
        "other pages for monitoring need no login. For access from other machines, "
        "use an HTTPS proxy.",
    )
    port: Port = Field(
        default=8751,
        description="Port to listen on. With 0, Backhaul takes a free port and logs "
        "its number.",
    )
    url: BaseUrl | None = Field(
        default=None,
        description="URL at which users open the dashboard, such as "
        '"https://backhaul.example". Set this URL if the dashboard is behind a proxy.',
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Addresses or networks of your own proxies, such as "
        '["127.0.0.1"]. Backhaul trusts the headers `X-Forwarded-Proto` and '
        "`X-Forwarded-For` from these proxies.",
    )
    passwords: bool = Field(
        default=True,
        description="Whether users can log in with a password. `false` needs single "
        "sign-on in `[admin.oidc]`.",
    )
    require_totp: bool = Field(
        default=False,
        description="Whether every user with a password needs a second factor: a "
        "one-time code (TOTP). A user without it must set it up after the next login.",
    )
    oidc: Oidc = Field(
        default=Oidc(), description="Single sign-on with OpenID Connect."
    )

    @model_validator(mode="after")
    def _lets_users_in(self) -> Self:
        if self.require_totp:
            require_extra("login", user="require_totp")
        if self.oidc.is_configured:
            require_extra("login", user="oidc")
        if self.oidc.is_configured and self.url is None:
            raise ValueError(
                "url is missing, and oidc needs it: the identity provider sends"
                " browsers back to this address; set url"
            )
        if not (self.passwords or self.oidc.is_configured):
            raise ValueError(
                "passwords is false, and nobody could log in; set issuer in"
                " [admin.oidc], or passwords to true"
            )
        return self
