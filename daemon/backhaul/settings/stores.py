"""`[stores.NAME]`: a store of the platform and how it differs from others."""

from typing import Literal

from pydantic import Field

from backhaul.settings.section import Section
from backhaul.settings.values import BaseUrl, Seconds, Secret, Secrets, Text


class Fields(Section):
    """Names of the fields in the body of a fulfill request."""

    tracking_company: Text = Field(
        default="trackingCompany", description="Field that names the carrier."
    )
    tracking_number: Text = Field(
        default="trackingNumber", description="Field with the parcel's number."
    )
    tracking_url: Text = Field(
        default="trackingUrl", description="Field with the address that follows it."
    )


class Store(Section):
    """A store: where its API is, its secrets, and where it differs from others."""

    base_url: BaseUrl = Field(
        description='Address of the platform, such as "https://shop.example", '
        "without /api/v1."
    )
    api_key: Secret = Field(description="Key of the store's admin API.")
    webhook_secrets: Secrets = Field(
        description="Secrets the store signs its webhooks with. A delivery may be "
        "signed with any of them, so that a secret can be replaced; the first signs "
        "what `backhaul trigger` sends."
    )
    release_when: Literal["placed", "confirmed", "paid"] = Field(
        default="placed", description="When an order is handed to the warehouse."
    )
    timeout_seconds: Seconds = Field(
        default=30,
        description="Longest wait for the answer to a read, in seconds. What is sent "
        "has its own limits in [push].",
    )
    restock_field: Text = Field(
        default="restock",
        description="Field of a cancel request that asks to put the stock back.",
    )
    fields: Fields = Field(
        default=Fields(), description="Names of the fields of a fulfill request."
    )
