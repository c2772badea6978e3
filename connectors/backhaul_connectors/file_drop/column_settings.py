"""Settings of columns and rows: names, fixed values, row filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from backhaul_connectors.file_drop.cells import yes_or_no
from backhaul_connectors.file_drop.column_names import column_name
from backhaul_sdk.contract import STRICT
from backhaul_sdk.fields import Unusable, reason_of
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_COLUMN = '; "" if there is none'

Names: TypeAlias = str | tuple[str, ...]
"""The name of a column, or several names of which a file has one."""


class Columns(BaseModel):
    """The names of the columns of a kind of file.

    A name is a text, or a list of names of which a file has one.
    """

    model_config = STRICT
    needed: ClassVar[frozenset[str]] = frozenset()
    """Columns that every file must have."""

    @model_validator(mode="after")
    def _are_names(self) -> Columns:
        taken: dict[str, str] = {}
        for meaning, name in self._written():
            if not name.strip():
                if meaning in self.needed:
                    raise ValueError(f"{meaning} needs a column; name it")
                if isinstance(getattr(self, meaning), tuple):
                    raise ValueError(f"{meaning} has an empty name in its list")
                continue
            other = taken.setdefault(column_name(name), meaning)
            if other != meaning:
                raise ValueError(
                    f"{other} and {meaning} have the same column {name!r}; each needs "
                    "a column of its own"
                )
        return self

    def _written(self) -> Iterator[tuple[str, str]]:
        for meaning in type(self).model_fields:
            written = getattr(self, meaning)
            for name in (written,) if isinstance(written, str) else written or ("",):
                yield meaning, name


class FulfillmentColumns(Columns):
    """The names of the columns of a fulfillment file."""

    needed = frozenset({"order"})

    order: Names = Field(default="order", description="Column of the order's number.")
    tracking_company: Names = Field(
        default="tracking_company",
        description=f"Column of the carrier; its cells may be empty{NO_COLUMN}.",
    )
    tracking_number: Names = Field(
        default="tracking_number",
        description=f"Column of the tracking number; may be empty{NO_COLUMN}.",
    )
    sku: Names = Field(
        default="sku",
        description="Column of the article, for a part of an order; may be absent.",
    )
    quantity: Names = Field(
        default="quantity",
        description="Column of how many units of the article left; may be absent.",
    )
    shipped_at: Names = Field(
        default="shipped_at",
        description="Column of when the parcel left; may be absent.",
    )


class CancellationColumns(Columns):
    """The names of the columns of a cancellation file."""

    needed = frozenset({"order"})

    order: Names = Field(default="order", description="Column of the order's number.")
    restock: Names = Field(
        default="restock",
        description="Column that says yes or no: the goods go back on the shelf; "
        '"" where cancellation_values says it.',
    )
    reason: Names = Field(
        default="reason",
        description="Column of the reason; may be absent; empty means OTHER.",
    )


class StockDeltaColumns(Columns):
    """The names of the columns of a file of stock changes."""

    needed = frozenset({"sku", "adjustment"})

    sku: Names = Field(default="sku", description="Column of the article.")
    adjustment: Names = Field(
        default="adjustment",
        description="Column of the signed change, in units: 5 came, -5 went.",
    )
    reason: Names = Field(
        default="reason",
        description="Column of the reason; may be absent; empty means "
        "MANUAL_ADJUSTMENT.",
    )


class StockLevelColumns(Columns):
    """The names of the columns of a file of stock levels."""

    needed = frozenset({"sku", "quantity"})

    sku: Names = Field(default="sku", description="Column of the article.")
    quantity: Names = Field(
        default="quantity", description="Column of how many units there are."
    )
    as_of: Names = Field(
        default="as_of",
        description="Column of when they were counted; may be absent: when the file "
        "was written.",
    )


def _restock(text: str) -> str:
    try:
        yes_or_no(text or "no")
    except Unusable as error:
        raise ValueError(str(error)) from None
    return text


def _reason(words: frozenset[str], text: str) -> str:
    try:
        reason_of(text, words, "OTHER")
    except Unusable as error:
        raise ValueError(str(error)) from None
    return text


class FulfillmentValues(BaseModel):
    """The values of empty cells and absent columns of a fulfillment."""

    model_config = STRICT

    tracking_company: str = Field(
        default="", description="The carrier of files that do not name one."
    )


class CancellationValues(BaseModel):
    """The values of empty cells and absent columns of a cancellation."""

    model_config = STRICT

    restock: Annotated[str, AfterValidator(_restock)] = Field(
        default="", description="yes or no, where the files do not say it."
    )
    reason: Annotated[
        str, AfterValidator(lambda text: _reason(CANCEL_REASONS, text))
    ] = Field(default="", description="The reason, where the files do not name one.")


class StockDeltaValues(BaseModel):
    """The values of empty cells and absent columns of a stock change."""

    model_config = STRICT

    reason: Annotated[
        str, AfterValidator(lambda text: _reason(STOCK_REASONS, text))
    ] = Field(default="", description="The reason, where the files do not name one.")


def _list(values: object) -> object:
    return (values,) if isinstance(values, str) else values


Values: TypeAlias = dict[str, Annotated[tuple[str, ...], BeforeValidator(_list)]]
"""By column: a value, or a list of values."""


class RowFilter(BaseModel):
    """Rows of a kind of file that are included, and rows that are excluded.

    Case and blanks make no difference. A row that matches both is excluded.
    """

    model_config = STRICT

    only: Values = Field(
        default={},
        description="By column: the values of rows that are taken; all other rows are "
        "left out.",
    )
    skip: Values = Field(
        default={}, description="By column: the values of rows that are left out."
    )

    @model_validator(mode="after")
    def _are_filled(self) -> RowFilter:
        for name, values in (*self.only.items(), *self.skip.items()):
            if not name.strip():
                raise ValueError("a column has no name")
            if not values:
                raise ValueError(f"{name} has no values; name at least one")
        return self
