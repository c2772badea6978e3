"""The settings that connectors for ERP servers share."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, model_validator
from yarl import URL

from backhaul_sdk.addresses import Network, reachable
from backhaul_sdk.contract import STRICT

if TYPE_CHECKING:
    from collections.abc import Callable


class ErpSettings(BaseModel):
    """Where the server is, and how it is read; a connector adds its own settings."""

    model_config = STRICT

    url: str = Field(
        description='Address of the server, such as "https://erp.example".'
    )
    shipments: bool = Field(
        default=True, description="Whether finished shipments are read."
    )
    shipped_since: date | None = Field(
        default=None,
        description="First day whose shipments are read, such as 2026-01-01. If not "
        "set, Backhaul reads all shipments.",
    )
    stock_seconds: float = Field(
        default=900.0,
        ge=0,
        description="Seconds between two readings of the whole stock. With 0, Backhaul "
        "reads no stock.",
    )
    lag_seconds: float = Field(
        default=120.0,
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
        "connection was lost. Until then a missing order is not taken as absent.",
    )
    network: Network = Field(
        default=Network(),
        description="Addresses that are allowed besides public HTTPS servers.",
    )

    @property
    def location(self) -> tuple[str, ...]:
        """The server, and its database if it has several, in a comparable form."""
        return (str(URL(self.url)).rstrip("/"),)

    @property
    def writes_orders(self) -> bool:
        """Whether the connection writes the store's orders into the ERP."""
        return False

    @model_validator(mode="after")
    def _may_be_called(self) -> ErpSettings:
        reachable(self.url, self.network)
        return self


def shared_by(
    shipments: str, *parts: str
) -> Callable[[ErpSettings, ErpSettings, bool], str]:
    """Return the `Spec.shared` of an ERP; `shipments` is its word for them.

    `parts` are the settings that each restrict which shipments are read. If one of the
    two connections leaves such a setting out, it reads the shipments of all.
    """

    def shared(one: ErpSettings, other: ErpSettings, is_one_store: bool) -> str:
        if not is_one_store or one.location != other.location:
            return ""
        found = []
        if one.shipments and other.shipments and not _are_apart(one, other, parts):
            found.append(f"the {shipments} of {one.url}")
        if one.writes_orders and other.writes_orders:
            found.append(f"the orders written to {one.url}")
        return " and ".join(found)

    return shared


def shared_hint(shipments: str, orders: str) -> str:
    """Return the `Spec.shared_hint` of an ERP.

    `shipments` is its word for them; `orders` is the setting with the value "none".
    """
    return (
        "let each do a part of the work: a connection with shipments = false reads no"
        f' {shipments}, one with {orders} = "none" writes no orders'
    )


def _are_apart(one: ErpSettings, other: ErpSettings, parts: tuple[str, ...]) -> bool:
    values = ((getattr(one, part), getattr(other, part)) for part in parts)
    return any(mine and theirs and mine != theirs for mine, theirs in values)
