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
    """Names of the fields in a fulfill request and in the parcels of an order."""

    tracking_company: Text = Field(
        default="trackingCompany", description="Field that names the carrier."
    )
    tracking_number: Text = Field(
        default="trackingNumber", description="Field with the parcel's number."
    )


class Store(Section):
    """A store: where its API is, its secrets, and where it differs from others."""

    base_url: BaseUrl = Field(
        description='Address of the platform, such as "https://shop.example", '
        "without /api/v1."
    )
    api_key: Secret = Field(description="Key of the store's admin API.")
    webhook_secrets: Secrets = Field(
        default=(),
        description="Secrets the store signs its webhooks with. A delivery may be "
        "signed with any of them, so that a secret can be replaced. May be left out "
        "where `public.url` is set and the key may manage webhooks: the daemon then "
        "subscribes and keeps the secret it is given.",
    )
    restock_field: Text = Field(
        default="restock",
        description="Field of a cancel request that asks to put the stock back.",
    )
    fields: Fields = Field(
        default=Fields(), description="Names of the fields that tell of parcels."
    )
    idempotency: bool | None = Field(
        default=None,
        description="Whether the platform takes a request with the same "
        "Idempotency-Key only once. Left out: the platform is asked, each time anew. A "
        "command in doubt is then sent again under its key at once.",
    )
    release_when: Literal["placed", "confirmed", "paid"] = Field(
        default="placed",
        description="When a new order is handed out to connectors: at once, once it "
        "awaits no confirmation, or once it is paid (be it partially refunded since).",
    )
    jobs: dict[StoreJobName, StoreJob] = Field(
        default={}, description="The jobs that differ for this store, by name."
    )

    @field_validator("jobs")
    @classmethod
    def _only_push_jobs_are_eager(
        cls, jobs: dict[str, StoreJob]
    ) -> dict[str, StoreJob]:
        for name, job in jobs.items():
            if "eager" in job.model_fields_set and name not in PUSH_JOBS:
                known = ", ".join(sorted(PUSH_JOBS))
                raise ValueError(f"{name} has eager, which only these have: {known}")
        return jobs


class Counts(Section):
    """How the stock that a connector reports is read, and what a person must see."""

    quantity_means: Literal["available", "on_hand"] = Field(
        default="available",
        description="What a count is of: available are units that may be sold, on_hand "
        "all that stand in the house; of those, what was sold and not shipped yet when "
        "it was counted is taken off.",
    )
    buffer: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Units that are kept back: the platform shows so many fewer.",
    )
    unseen_orders: Duration = Field(
        default=0.0,
        description="How long an order may be placed before the back office knows of "
        "it: what was sold so shortly before a count is taken off it too. For counts "
        "of what is available.",
    )
    max_step: Count | None = Field(
        default=None,
        le=1_000_000,
        description="Largest change of one article's stock that a count may make; one "
        "that would make a larger one is parked for a person.",
    )
    stale_after: Duration = Field(
        default=parse_duration("1d"),
        description="How old a count may be when it is to be made true; an older one "
        "is parked for a person.",
    )

    def policy(self) -> Policy:
        """Return them as what reckons with them takes them."""
        return Policy(
            quantity_means=self.quantity_means,
            buffer=self.buffer,
            max_step=self.max_step,
            stale_seconds=self.stale_after,
            unseen_seconds=self.unseen_orders,
        )


class Connector(Scheduled):
    """An instance of a connector; whatever is not listed here is the connector's own.

    `options` holds those other keys. Secret ones, and what their files hold, are
    `SecretStr` there. They never show in a repr.
    """

    model_config = ConfigDict(extra="allow")

    type: Name = Field(description='Which connector it is, such as "file_drop".')
    store: str = Field(
        default="",
        description="Name of the store it works for; may be left out where there is "
        "only one.",
    )
    every: Duration = Field(
        default=parse_duration("2s"),
        description="Time between two polls for something new, with "
        '`trigger = "interval"`.',
    )
    enabled: bool = Field(default=True, description="Whether the instance runs at all.")
    silent_after: Duration | None = Field(
        default=None,
        description="How long it may bring nothing before a person is alerted.",
    )
    dry_run: bool = Field(
        default=False,
        description="Plan what it asks for and send nothing of it; see `[push] "
        "dry_run`.",
    )

    counts: Counts = Field(
        default=Counts(), description="What holds for the stock that it reports."
    )
    topics: tuple[Text, ...] = Field(
        default=(),
        description="Kinds of news it is told, such as `order.placed`; none: all that "
        "its connector takes.",
    )
    begin: Literal["now", "all"] = Field(
        default="now",
        description="Whether a new instance is told from now on, or of all that is "
        "there. It counts once, at the first start with the instance.",
    )

    @property
    def options(self) -> dict[str, Any]:
        """The connector's own settings, not validated yet."""
        return dict(self.model_extra or {})

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, getattr(self, name)) for name in type(self).model_fields]
