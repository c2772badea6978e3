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

API = "api"
"""The connection of the records that programs submit over the HTTP API."""


class Fields(Section):
    """Names of fields in a fulfill request and in an order's fulfillments (parcels)."""

    tracking_company: Text = Field(
        default="trackingCompany",
        description="Name of the field that contains the courier's name.",
    )
    tracking_number: Text = Field(
        default="trackingNumber",
        description="Name of the field that contains the tracking number.",
    )


class Store(Section):
    """A store: its API, its secrets, and settings that apply only to this store."""

    base_url: BaseUrl = Field(
        description='URL of the platform, such as "https://shop.example", '
        "without /api/v1."
    )
    api_key: Secret = Field(description="API key of the store's admin API.")
    webhook_secrets: Secrets = Field(
        default=(),
        description="Secrets that sign the store's webhooks. Backhaul accepts a "
        "webhook that is signed with any of these secrets. So you can change a secret "
        "without losing webhooks. You can leave this setting out if `public.url` is "
        "set and the API key has permission to manage webhooks. Then Backhaul creates "
        "the webhook subscription and stores the secret that the platform returns.",
    )
    restock_field: Text = Field(
        default="restock",
        description="Name of the field in a cancel request that tells the platform to "
        "put the units back into stock.",
    )
    fields: Fields = Field(
        default=Fields(), description="Field names for tracking data."
    )
    idempotency: bool | None = Field(
        default=None,
        description="Whether the platform carries out requests with the same header "
        "`Idempotency-Key` only once. If true, Backhaul sends an uncertain command "
        "again immediately, with the same key, and keeps connections open. "
        "If you leave this setting out, Backhaul asks the platform.",
    )
    release_when: Literal["placed", "confirmed", "paid"] = Field(
        default="placed",
        description="This setting says when connections receive a new order."
        " `placed`: immediately. `confirmed`: when the order no longer awaits"
        " confirmation. `paid`: when the order is paid. "
        "An order that was paid and then refunded in part counts as "
        "paid.",
    )
    test_store: bool = Field(
        default=False,
        description="Whether this is a store for tests, such as one of the reference "
        "server. "
        "For any other store, `backhaul trigger` needs the option "
        "`--live` to send a sample order to the running daemon.",
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
                raise ValueError(
                    f"job {name} has the setting eager; only these jobs accept it:"
                    f" {known}"
                )
        return jobs


class Counts(Section):
    """How Backhaul uses stock counts of a connection, and when a count waits for an
    operator (is *parked*)."""

    quantity_means: Literal["available", "on_hand"] = Field(
        default="available",
        description="Which units a count contains. `available`: the units that can be "
        "sold. `on_hand`: all units in the warehouse. From an `on_hand` count "
        "Backhaul subtracts the units that were sold, but not shipped, at the time of "
        "the count.",
    )
    buffer: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Safety stock: number of units that Backhaul subtracts, so that "
        "the store does not show them.",
    )
    unseen_orders: Duration = Field(
        default=0.0,
        description="Order lag: the longest time that an order takes to reach the "
        'back office. Example: with "5m", Backhaul subtracts from each count the units '
        "that were sold in the 5 minutes before the count, because perhaps the back "
        "office did not know these sales yet. Only for "
        '`quantity_means = "available"`.',
    )
    max_step: Count | None = Field(
        default=None,
        le=1_000_000,
        description="Largest adjustment that one count can cause for one SKU. If a "
        "count needs a larger adjustment, Backhaul parks the count and an operator "
        "decides.",
    )
    stale_after: Duration = Field(
        default=parse_duration("1d"),
        description="Maximum age of a count when Backhaul applies it. If a count is "
        "older, Backhaul parks the count and an operator decides.",
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
    """A connection. The page of its connector lists more settings.

    `options` holds those other settings. Secrets among them, also those read from
    files, are `SecretStr`. No repr shows them.
    """

    model_config = ConfigDict(extra="allow")

    type: Name = Field(description='Type of the connector, such as "file_drop".')
    store: str = Field(
        default="",
        description="Name of the store that the connection serves. You can leave this "
        "setting out if there is only one store.",
    )
    every: Duration = Field(
        default=parse_duration("2s"),
        description='Time between two runs, with `trigger = "interval"`.',
    )
    enabled: bool = Field(default=True, description="Whether the connection runs.")
    runs_on: Text | None = Field(
        default=None,
        description="Host name of the only machine on which the connection runs, if "
        "several daemons share a PostgreSQL database. The daemon on that machine then "
        "does all work for the store of the connection. If it fails, no other daemon "
        "takes over. Use this setting if a connection reads a folder of that machine, "
        "or listens on a port of its own.",
    )
    silent_after: Duration | None = Field(
        default=None,
        description="Backhaul sends an alert if the connection submits no record for "
        "this time.",
    )
    dry_run: bool = Field(
        default=False,
        description="Dry run: Backhaul plans the commands of this connection and does "
        "not send them. See `[push] dry_run`.",
    )

    counts: Counts = Field(
        default=Counts(), description="Stock counts of this connection."
    )
    topics: tuple[Text, ...] = Field(
        default=(),
        description="Topics of the change notifications that the connection receives, "
        "such as `order.placed`. If the list is empty, the connection receives all "
        "topics that its connector supports.",
    )
    begin: Literal["now", "all"] = Field(
        default="now",
        description="What a new connection receives. `now`: only changes from now on. "
        "`all`: also everything that exists already. Backhaul uses this setting only "
        "at the first start with the connection.",
    )

    @property
    def options(self) -> dict[str, Any]:
        """The connector's own settings, not validated yet."""
        return dict(self.model_extra or {})

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, getattr(self, name)) for name in type(self).model_fields]
