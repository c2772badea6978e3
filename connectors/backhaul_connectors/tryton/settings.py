"""The settings of a Tryton server: its address, and the data to exchange."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, SecretStr, model_validator

from backhaul_sdk.addresses import Network, reachable
from backhaul_sdk.contract import STRICT


class Settings(BaseModel):
    """`[connectors.NAME]` with `type = "tryton"`."""

    model_config = STRICT

    url: str = Field(
        description='Address of the server, such as "https://erp.example".'
    )
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
    sale_state: Literal["draft", "quotation", "confirmed"] = Field(
        default="quotation", description="State that a new sale is advanced to."
    )
    shipping_product: str = Field(
        default="",
        description="Code of the service that shipping is charged by; without it the "
        "price of shipping is not written.",
    )
    shipments: bool = Field(
        default=True, description="Whether finished shipments are read."
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
    stock_seconds: float = Field(
        default=900.0,
        ge=0,
        description="Seconds between two readings of the whole stock; 0 for none.",
    )
    lag_seconds: float = Field(
        default=5.0,
        ge=0,
        description="Seconds for which a shipment must have been there before it is "
        "read: as long as the longest transaction of the server.",
    )
    batch_rows: int = Field(
        default=200, ge=1, le=1_000, description="Rows per request."
    )
    answer_seconds: float = Field(
        default=60.0, gt=0, le=600, description="Timeout of an answer, in seconds."
    )
    in_flight_seconds: float = Field(
        default=30.0,
        ge=0,
        le=600,
        description="How long the server may still process a request after the "
        "connection was lost. Until then a missing sale is not taken as absent.",
    )
    network: Network = Field(
        default=Network(),
        description="Addresses that are allowed besides public HTTPS servers.",
    )

    @model_validator(mode="after")
    def _may_be_called(self) -> Settings:
        reachable(self.url, self.network)
        return self
