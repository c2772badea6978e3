"""`[stores.NAME]`: a store of the platform and how it differs from others."""

from typing import Literal

from pydantic import Field, field_validator

from backhaul.settings.jobs import PUSH_JOBS, StoreJob, StoreJobName
from backhaul.settings.section import Section
from backhaul.settings.values import BaseUrl, Secret, Secrets, Text


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
