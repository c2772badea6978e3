"""Matches the lines of a shipment to the open lines of its order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.store.contract import Unmatched
from backhaul_sdk import Line

if TYPE_CHECKING:
    from backhaul.store.contract import MatchReader, OrderSummary, WaitingRecord
    from backhaul_sdk import Fulfillment


def fulfillment_payload(
    waiting: WaitingRecord,
    record: Fulfillment,
    order: OrderSummary,
    mirror: MatchReader,
) -> dict[str, Any] | Unmatched:
    """Return what a fulfill command sends for a shipment, or why it cannot be sent."""
    if order.cancelled:
        return Unmatched(f"order {order.name} is cancelled", final=True)
    if any(line.quantity < 1 for line in record.lines):
        return Unmatched("a line's quantity is below 1", final=True)
    wanted: dict[str, int] = {}
    for line in record.lines:
        sku = _sku_in(order, line.sku, mirror.skus_called(waiting.store, line.sku))
        if isinstance(sku, Unmatched):
            return sku
        wanted[sku] = wanted.get(sku, 0) + line.quantity
    lines: list[dict[str, Any]] = []
    for sku, quantity in wanted.items():
        found = _lines_of(order, Line(sku=sku, quantity=quantity))
        if isinstance(found, Unmatched):
            return found
        lines += found
    return {
        "tracking_company": record.tracking_company,
        "tracking_number": record.tracking_number,
        "lines": lines,
    }


def _sku_in(order: OrderSummary, name: str, called: list[str]) -> str | Unmatched:
    """Return the SKU of the order's line that a name, maybe a GTIN, stands for."""
    there = {sku for _, sku, _ in order.items}
    found = [sku for sku in dict.fromkeys([name, *called]) if sku in there]
    if len(found) > 1:
        reason = f"{name!r} could be any of {', '.join(found)} in order {order.name}"
        return Unmatched(reason, final=True)
    return found[0] if found else name


def _lines_of(order: OrderSummary, line: Line) -> list[dict[str, Any]] | Unmatched:
    """Spread a picked quantity over the order's open lines with that SKU."""
    taken: list[dict[str, Any]] = []
    missing = line.quantity
    for line_id, sku, left in order.items:
        if sku == line.sku and left > 0 and missing > 0:
            taken.append({"line_id": line_id, "quantity": min(left, missing)})
            missing -= min(left, missing)
    if missing:
        return _too_much(order, line, line.quantity - missing)
    return taken


def _too_much(order: OrderSummary, line: Line, left: int) -> Unmatched:
    """Refuse what is more than is open; with commands in doubt that is told later."""
    beside = " beside what is on its way" if order.on_its_way else ""
    reason = f"order {order.name} has {left} open of SKU {line.sku!r}{beside}, "
    doubt = "; what became of that is not known yet" if order.in_doubt else ""
    return Unmatched(f"{reason}not {line.quantity}{doubt}", final=not order.in_doubt)
