"""The settings of an ERPNext site: its address, and the data to exchange."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from backhaul_sdk.erp import ErpSettings
from backhaul_sdk.fields import zone_named

FIELD_NAME = r"^[a-z_][a-z0-9_]*$"


class Settings(ErpSettings):
    """`[connectors.NAME]` with `type = "erpnext"`."""

    api_key: str = Field(min_length=1, description="API key of the connector's user.")
    api_secret: SecretStr = Field(
        min_length=1, description="API secret of the connector's user."
    )
    time_zone: str = Field(
        default="",
        description="Time zone of the site's times, such as Asia/Kolkata. If not set, "
        "Backhaul asks the site.",
    )
    tracking_number_field: str = Field(
        default="lr_no",
        pattern=FIELD_NAME,
        description="Field of a delivery note that holds the tracking number.",
    )
    carrier_field: str = Field(
        default="transporter_name",
        pattern=FIELD_NAME,
        description="Field of a delivery note that holds the carrier.",
    )
    warehouses: tuple[str, ...] = Field(
        default=(),
        description="Names of the warehouses whose stock is read. If not set, Backhaul "
        "reads no stock.",
    )
    subtract_reserved: bool = Field(
        default=False,
        description="Whether reserved units are subtracted from the stock.",
    )
    customer: str = Field(
        default="",
        description="Name of the customer that sales orders are written for; with it "
        "only its delivery notes are read. Needed to write orders.",
    )
    company: str = Field(
        default="",
        description="Company of new sales orders; without it, the user's default.",
    )
    orders: Literal["none", "draft", "submitted"] = Field(
        default="draft",
        description='State that a new sales order is advanced to; with "none" no '
        "orders are written.",
    )
    delivery_days: int = Field(
        default=3,
        ge=0,
        le=365,
        description="Days from now to the delivery date of a new sales order.",
    )
    shipping_item: str = Field(
        default="",
        description="Item that shipping is charged by; without it the price of "
        "shipping is not written.",
    )

    @property
    def writes_orders(self) -> bool:
        return self.customer != "" and self.orders != "none"

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name:
            zone_named(name)
        return name
