"""The settings of an Odoo server: its address, and the data to exchange."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, model_validator

from backhaul_sdk.erp import ErpSettings


class Settings(ErpSettings):
    """`[connectors.NAME]` with `type = "odoo"`."""

    api: Literal["json-rpc", "json-2"] = Field(
        default="json-rpc",
        description='Interface of the server: "json-rpc" up to Odoo 18, "json-2" from '
        "Odoo 19 on.",
    )
    database: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9_.-]*$",
        description="Name of the database. JSON-2 needs it only if the server has "
        "several.",
    )
    user: str = Field(
        default="",
        description="Login of the connector's user. JSON-2 does not need it.",
    )
    api_key: SecretStr = Field(
        min_length=1, description="API key of the connector's user."
    )
    sku_field: Literal["default_code", "barcode"] = Field(
        default="default_code",
        description="Field of a product that holds the store's SKU: the internal "
        "reference, or the barcode.",
    )
    order_field: Literal["client_order_ref", "origin"] = Field(
        default="client_order_ref",
        description="What names the store's order: the customer reference of the sales "
        "order, or the source document of the delivery.",
    )
    require_tracking: bool = Field(
        default=False,
        description="Whether a delivery is read only when it has a tracking reference.",
    )
    warehouse: str = Field(
        default="",
        description="Code or name of the warehouse whose stock is read; without it, "
        "all internal locations.",
    )
    subtract_reserved: bool = Field(
        default=False,
        description="Whether reserved units are subtracted from the stock.",
    )
    orders: Literal["none", "quotation", "confirmed"] = Field(
        default="none",
        description="State that a new sales order is advanced to; with "
        '"none" no orders are written.',
    )
    customer: str = Field(
        default="",
        description="Reference of the contact that all orders are written for; with it "
        "only its deliveries are read. Without it, each customer of the store becomes "
        "a contact.",
    )
    sales_team: str = Field(
        default="",
        description="Name of the sales team that new orders belong to; with it only "
        "deliveries of its orders are read.",
    )
    shipping_product: str = Field(
        default="",
        description="SKU of the service that shipping is charged by; without it the "
        "price of shipping is not written.",
    )

    @property
    def location(self) -> tuple[str, ...]:
        return (*super().location, self.database)

    @property
    def writes_orders(self) -> bool:
        return self.orders != "none"

    @model_validator(mode="after")
    def _names_its_login(self) -> Settings:
        if self.api == "json-rpc" and not (self.database and self.user):
            raise ValueError('api = "json-rpc" needs database and user')
        return self
