"""Makes records of an ERP's rows: parcels, stock counts, and rows of no use."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul_sdk.fields import (
    Unusable,
    article,
    identifier,
    label,
    rfc3339,
    shipped_units,
    stock_of,
    whole_number,
)
from backhaul_sdk.records import Bad, Fulfillment, Line, ReadValue, StockLevel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from backhaul_sdk.records import RecordKind


DECIMALS = 6
"""Sums of quantities are rounded to so many decimals."""
MOST_EDITABLE_LINES = 28
"""The host keeps 60 values of a bad row: four of the shipment, and two of each line."""


class Goods(Struct, frozen=True):
    """A row of a parcel: the product's code and its units, as the ERP has them.

    `problem` says why the units cannot be used; empty if they can.
    """

    code: Any
    quantity: Any
    problem: str = ""


class Parcel(Struct, frozen=True, kw_only=True):
    """What left the warehouse for one order, as the ERP has it.

    `code_field` is what the ERP's users call the field with the product's code.
    """

    key: str
    order: Any
    carrier: Any
    tracking: Any
    goods: Sequence[Goods]
    shipped_at: str | None
    locator: str
    system: str
    code_field: str = "code"


def fulfillment(parcel: Parcel) -> Fulfillment | Bad:
    """Return the record of a parcel; Bad if a value cannot be used."""
    goods = [{"code": each.code, "quantity": each.quantity} for each in parcel.goods]
    raw = json.dumps({"order": parcel.order, "goods": goods}, default=str)
    try:
        return Fulfillment(
            key=parcel.key,
            order=identifier(parcel.order, "order", is_text=True, required=True),
            tracking_company=label(parcel.carrier, "tracking company") or None,
            tracking_number=identifier(parcel.tracking, "tracking number", is_text=True)
            or None,
            lines=tuple(_line(each, parcel) for each in parcel.goods),
            shipped_at=parcel.shipped_at,
            locator=parcel.locator,
            raw=raw,
        )
    except Unusable as error:
        read = _values_of(parcel)
        return bad_row(parcel.key, raw, error, parcel.locator, "fulfill", read)


def total_units(quantities: Iterable[Any]) -> Any:
    """Return the sum of quantities; ERPs store them as floats.

    If one of them is not a number, return this one: the record is then refused.
    """
    total = 0.0
    for each in quantities:
        if isinstance(each, bool) or not isinstance(each, int | float):
            return each
        total += each
    return round(total, DECIMALS)


def stock_count(key: str, sku: Any, quantity: Any, as_of: datetime) -> StockLevel | Bad:
    """Return the record of a product's stock; Bad if a value cannot be used.

    A quantity below 0 counts as 0: an ERP may have shipped what it has not received
    yet. `key` identifies the product; the record's key also has time and quantity.
    """
    counted = rfc3339(as_of)
    full_key = f"stock:{key}:{counted}:{quantity}"
    raw = json.dumps({"code": sku, "quantity": quantity}, default=str)
    locator = f"product {sku}"
    try:
        code = article(sku, is_text=True, required=True)
        number = whole_number(quantity, f"quantity of {code}", "system")
        units, note = stock_of(number, negative_is_zero=True)
    except Unusable as error:
        read = {"sku": sku, "quantity": quantity, "as_of": counted}
        return bad_row(full_key, raw, error, locator, "level", read)
    return StockLevel(
        key=full_key,
        sku=code,
        quantity=units,
        note=note,
        as_of=counted,
        locator=locator,
        raw=raw,
    )


def bad_row(
    key: str,
    raw: str,
    error: Unusable,
    locator: str,
    kind: RecordKind,
    read: Mapping[str, Any],
) -> Bad:
    """Return a row that cannot be used, with its values for the operator."""
    values = {name: ReadValue(_text_of(value)) for name, value in read.items()}
    return Bad(
        key=key,
        raw=raw,
        reason=str(error),
        locator=locator,
        kind=kind,
        read=values,
    )


def _values_of(parcel: Parcel) -> Mapping[str, Any]:
    """Return the values of a bad parcel, by the names that an operator edits."""
    read = {
        "order": parcel.order,
        "tracking_company": parcel.carrier,
        "tracking_number": parcel.tracking,
        "shipped_at": parcel.shipped_at,
    }
    if len(parcel.goods) > MOST_EDITABLE_LINES:
        # All lines or none: with some of them, a retry would ship only these.
        return read
    for number, goods in enumerate(parcel.goods, 1):
        read[f"lines.{number}.sku"] = goods.code
        read[f"lines.{number}.quantity"] = goods.quantity
    return read


def _text_of(value: Any) -> str:
    """Return a value as people enter it: ERPs store 2 units as 2.0."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def _line(goods: Goods, parcel: Parcel) -> Line:
    if goods.problem:
        raise Unusable(goods.problem)
    sku = article(goods.code, is_text=True)
    if not sku:
        name = parcel.code_field
        raise Unusable(
            f"a product of the shipment has no {name} in {parcel.system}; set its"
            f" {name} to the store's SKU"
        )
    units = shipped_units(goods.quantity, f"quantity of {sku}", "system")
    return Line(sku=sku, quantity=units)
