"""`[stores.NAME]` and `[connectors.NAME]` tables."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator

from backhaul.core.stock import Policy
from backhaul.settings.jobs import PUSH_JOBS, Scheduled, StoreJob, StoreJobName
from backhaul.settings.values import (
    BaseUrl,
    Count,
    Duration,
    Name,
    Secret,
    Secrets,
    Section,
    Text,
    parse_duration,
)


class Fields(Section):
    """Field names in a fulfill request and in the fulfillments of an order."""

    tracking_company: Text = Field(
        default="trackingCompany", description="Field with the carrier's name."
    )
    tracking_number: Text = Field(
        default="trackingNumber", description="Field with the tracking number."
    )


class Store(Section):
    """A store: its API, its secrets, and the settings that only this store has."""

    base_url: BaseUrl = Field(
        description='URL of the platform, such as "https://shop.example", '
        "without /api/v1."
    )
    api_key: Secret = Field(description="API key of the store's admin API.")
    webhook_secrets: Secrets = Field(
        default=(),
        description="Secrets that sign the store's webhooks. A webhook signed with "
        "any of them is accepted, so a secret can be rotated without loss. Optional if "
        "`public.url` is set and the API key has permission to manage webhooks: the "
        "daemon then subscribes and stores the secret that the platform returns.",
    )
    restock_field: Text = Field(
        default="restock",
        description="Name of the field in a cancel request that puts the units back "
        "into stock.",
    )
    fields: Fields = Field(
        default=Fields(), description="Field names for tracking data."
    )
    idempotency: bool | None = Field(
        default=None,
        description="Whether the platform applies requests with the same "
        "Idempotency-Key only once. If true, Backhaul retries an uncertain command "
        "immediately with the same key. If you leave it out, Backhaul asks the "
        "platform each time.",
    )
    release_when: Literal["placed", "confirmed", "paid"] = Field(
        default="placed",
        description="When connectors receive a new order: immediately (`placed`), "
        "when it no longer awaits confirmation (`confirmed`), or when it is paid, even "
        "if it was partially refunded later (`paid`).",
    )
    jobs: dict[StoreJobName, StoreJob] = Field(
        default={}, description="Jobs that differ for this store, by name."
    )

    @field_validator("jobs")
    @classmethod
    def _only_push_jobs_are_eager(
        cls, jobs: dict[str, StoreJob]
    ) -> dict[str, StoreJob]:
        for name, job in jobs.items():
            if "eager" in job.model_fields_set and name not in PUSH_JOBS:
                known = ", ".join(sorted(PUSH_JOBS))
                raise ValueError(f"{name} has eager, which only these take: {known}")
        return jobs


class Counts(Section):
    """How stock counts of a connection are interpreted, and when one is parked."""

    quantity_means: Literal["available", "on_hand"] = Field(
        default="available",
        description="Whether a count means sellable (`available`) or physical "
        "(`on_hand`) stock. With `on_hand`, Backhaul subtracts the units that were "
        "sold, but not shipped, at the time of the count.",
    )
    buffer: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Safety stock: units that Backhaul subtracts from the stock that "
        "the store shows.",
    )
    unseen_orders: Duration = Field(
        default=0.0,
        description="Order lag: how long an order may take to reach the back office. "
        "Backhaul subtracts the units that were sold in this time before a count, "
        "because the count may not include these sales yet. Only for "
        '`quantity_means = "available"`.',
    )
    max_step: Count | None = Field(
        default=None,
        le=1_000_000,
        description="Largest adjustment that one count may cause for one SKU; a count "
        "that needs a larger one is parked for an operator.",
    )
    stale_after: Duration = Field(
        default=parse_duration("1d"),
        description="Maximum age of a count when it is applied; an older one is parked "
        "for an operator.",
    )

    def policy(self) -> Policy:
        """Return the settings as the core's stock rules take them."""
        return Policy(
            quantity_means=self.quantity_means,
            buffer=self.buffer,
            max_step=self.max_step,
            stale_seconds=self.stale_after,
            unseen_seconds=self.unseen_orders,
        )


class Connector(Scheduled):
    """A connection; settings that are not listed here belong to its connector.

    `options` holds those other settings. Secrets among them, also those read from
    files, are `SecretStr`. No repr shows them.
    """

    model_config = ConfigDict(extra="allow")

    type: Name = Field(description='Type of the connector, such as "file_drop".')
    store: str = Field(
        default="",
        description="Name of the store that the connection serves; optional if there "
        "is only one.",
    )
    every: Duration = Field(
        default=parse_duration("2s"),
        description='Polling interval, with `trigger = "interval"`.',
    )
    enabled: bool = Field(default=True, description="Whether the connection runs.")
    silent_after: Duration | None = Field(
        default=None,
        description="Alert if the connection submits no record for this long.",
    )
    dry_run: bool = Field(
        default=False,
        description="Plan the commands of this connection and send none; see `[push] "
        "dry_run`.",
    )

    counts: Counts = Field(
        default=Counts(), description="Stock counts of this connection."
    )
    topics: tuple[Text, ...] = Field(
        default=(),
        description="Topics of the change notifications that the connection receives, "
        "such as `order.placed`. Empty: all topics that its connector supports.",
    )
    begin: Literal["now", "all"] = Field(
        default="now",
        description="What a new connection receives: only changes from now on "
        "(`now`), or also everything that exists (`all`). Used once, at the first "
        "start with the connection.",
    )

    @property
    def options(self) -> dict[str, Any]:
        """The connector's own settings, not validated yet."""
        return dict(self.model_extra or {})

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, getattr(self, name)) for name in type(self).model_fields]
