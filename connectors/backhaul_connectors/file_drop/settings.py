"""The settings of a file drop, with the default name of every column."""

from __future__ import annotations

from datetime import UTC, tzinfo
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, field_validator

STRICT = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class FulfillmentColumns(BaseModel):
    """What the columns of a fulfillment file are called."""

    model_config = STRICT

    order: str = Field(default="order", description="Column of the order's number.")
    tracking_company: str = Field(
        default="tracking_company", description="Column of the carrier; may be empty."
    )
    tracking_number: str = Field(
        default="tracking_number",
        description="Column of the tracking number; may be empty.",
    )
    sku: str = Field(
        default="sku",
        description="Column of the article, for a part of an order; may be absent.",
    )
    quantity: str = Field(
        default="quantity",
        description="Column of how many units of the article left; may be absent.",
    )
    shipped_at: str = Field(
        default="shipped_at",
        description="Column of when the parcel left; may be absent.",
    )


class CancellationColumns(BaseModel):
    """What the columns of a cancellation file are called."""

    model_config = STRICT

    order: str = Field(default="order", description="Column of the order's number.")
    restock: str = Field(
        default="restock",
        description="Column that says yes or no: the goods go back on the shelf.",
    )
    reason: str = Field(
        default="reason", description="Column of the reason; empty means OTHER."
    )


class StockDeltaColumns(BaseModel):
    """What the columns of a file of stock changes are called."""

    model_config = STRICT

    sku: str = Field(default="sku", description="Column of the article.")
    adjustment: str = Field(
        default="adjustment",
        description="Column of the signed change, in units: 5 came, -5 went.",
    )
    reason: str = Field(
        default="reason",
        description="Column of the reason; empty means MANUAL_ADJUSTMENT.",
    )


class Settings(BaseModel):
    """`[connectors.NAME]` with `type = "file_drop"`."""

    model_config = STRICT

    path: Path = Field(description="The folder that files are put into.")
    fulfillments: str = Field(
        default="fulfillments*.csv",
        description="Pattern of the names of fulfillment files; empty for none.",
    )
    cancellations: str = Field(
        default="cancellations*.csv",
        description="Pattern of the names of cancellation files; empty for none.",
    )
    stock_deltas: str = Field(
        default="stock-deltas*.csv",
        description="Pattern of the names of files of stock changes; empty for none.",
    )
    fulfillment_columns: FulfillmentColumns = Field(
        default=FulfillmentColumns(), description="Column names of fulfillment files."
    )
    cancellation_columns: CancellationColumns = Field(
        default=CancellationColumns(), description="Column names of cancellation files."
    )
    stock_delta_columns: StockDeltaColumns = Field(
        default=StockDeltaColumns(),
        description="Column names of files of stock changes.",
    )
    key_columns: tuple[str, ...] = Field(
        default=(),
        description="Columns that together name one stock movement, such as a document "
        "number; without them a movement is a row of one particular file.",
    )
    delimiter: Literal["auto", ",", ";", "\t", "|"] = Field(
        default="auto",
        description='What stands between two cells; "auto" looks at the first line.',
    )
    encoding: Literal["auto", "utf-8", "cp1252"] = Field(
        default="auto",
        description='How letters are stored; "auto" is UTF-8, or Windows-1252 for a '
        "file that is not.",
    )
    timezone: str = Field(
        default="UTC",
        description="Time zone of times that do not name theirs, such as Asia/Kolkata.",
    )
    settle_seconds: float = Field(
        default=1.0,
        ge=0,
        description="Seconds for which a file must not change before it is read.",
    )
    require_done_file: bool = Field(
        default=False,
        description="Whether a file is read only when NAME.done lies beside it.",
    )
    max_bad_share: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Share of unusable rows, from 0 to 1, above which a file of five "
        "or more rows is held as a whole.",
    )
    batch_rows: int = Field(
        default=500,
        ge=1,
        le=10_000,
        description="Rows that are handed over and committed together.",
    )

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            zone(name)
        except (ValueError, OSError):
            problem = f"{name!r} is not a time zone; write one such as Europe/Berlin"
            raise ValueError(problem) from None
        return name


def zone(name: str) -> tzinfo:
    """Return the time zone. Raises ValueError or OSError for an unknown one."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except KeyError:
        raise ValueError(name) from None
