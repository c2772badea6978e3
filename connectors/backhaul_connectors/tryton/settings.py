"""The settings of a Tryton server: its address, and the data to exchange."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from backhaul_sdk.erp import ErpSettings


class Settings(ErpSettings):
    """`[connectors.NAME]` with `type = "tryton"`."""

    database: str = Field(
        pattern=r"^[A-Za-z0-9_.-]+$", description="Name of the database."
    )
    user: str = Field(description="Login of the connector's user.")
    password: SecretStr = Field(description="The user's password.")
    customer: str = Field(
        default="",
        description="Code of the party that sales are written for; with it only its "
        "shipments are read. Needed to write orders.",
    )
    sale_state: Literal["none", "draft", "quotation", "confirmed"] = Field(
        default="quotation",
        description='State that a new sale is advanced to; with "none" no orders are '
        "written.",
    )
    shipping_product: str = Field(
        default="",
        description="Code of the service that shipping is charged by; without it the "
        "price of shipping is not written.",
    )
    tracking_number_field: str = Field(
        default="reference",
        pattern=r"^[a-z_]*$",
        description="Field of a shipment that holds the tracking number; with the "
        'module stock_package_shipping "shipping_reference".',
    )
    warehouse: str = Field(
        default="",
        description="Code or name of the warehouse whose stock is read; may be left "
        "out where there is only one.",
    )
    lag_seconds: float = Field(
        default=5.0,
        ge=0,
        description="Seconds for which a shipment must have been there before it is "
        "read: as long as the longest transaction of the server.",
    )

    @property
    def location(self) -> tuple[str, ...]:
        return (*super().location, self.database)

    @property
    def writes_orders(self) -> bool:
        return self.customer != "" and self.sale_state != "none"
