"""Matches the lines of a shipment to the open lines of its order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.core.sku_text import difference, near_text, same_text
from backhaul.store.contract import Unmatched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.contract import (
        MatchReader,
        OpenLine,
        OrderSummary,
        WaitingRecord,
    )
    from backhaul_sdk import Fulfillment

MOST_NAMED = 5
"""Articles that a reason names; a person looks the others up."""
NO_LINES = (
    "it names no lines and does not say that everything left; set lines, or everything "
    "to true"
)
BOTH = "it names lines and says that everything left; keep one of the two"


def fulfillment_payload(
    waiting: WaitingRecord,
    record: Fulfillment,
    order: OrderSummary,
    mirror: MatchReader,
) -> dict[str, Any] | Unmatched:
    """Return what a fulfill command sends for a shipment, or why it cannot be sent."""
    if order.cancelled:
        return Unmatched(f"order {order.name} is cancelled", final=True)
    if problem := _problem(record):
        return Unmatched(problem, final=True)
    wanted = wanted_lines(waiting.store, record, order, mirror)
    if isinstance(wanted, Unmatched):
        return wanted
    lines: list[dict[str, Any]] = []
    for (name, places), quantity in wanted.items():
        found = _spread(order, name, places, quantity)
        if isinstance(found, Unmatched):
            return found
        lines += found
    return {
        "tracking_company": record.tracking_company,
        "tracking_number": record.tracking_number,
        "lines": lines,
    }


def _problem(record: Fulfillment) -> str:
    """Return what is wrong with a shipment, whatever its order is; else an empty text.

    A shipment cannot be taken back, so an empty list never means everything.
    """
    if any(line.quantity < 1 for line in record.lines):
        return "a line's quantity is below 1"
    if record.lines and record.everything:
        return BOTH
    return "" if record.lines or record.everything else NO_LINES


def wanted_lines(
    store: str, record: Fulfillment, order: OrderSummary, mirror: MatchReader
) -> dict[tuple[str, tuple[str, ...]], int] | Unmatched:
    """Return the units of each article: (its SKU in the order, ids of its lines)."""
    skus = {line.id: line.sku for line in order.items}
    units: dict[tuple[str, tuple[str, ...]], int] = {}
    for line in record.lines:
        found = lines_of(order, line.sku, mirror.articles_called(store, line.sku))
        if isinstance(found, Unmatched):
            return found
        name = (skus[found[0]] if found else None) or line.sku
        units[name, found] = units.get((name, found), 0) + line.quantity
    return units


def lines_of(
    order: OrderSummary, name: str, called: Sequence[tuple[str, str | None]]
) -> tuple[str, ...] | Unmatched:
    """Return the ids of the order lines of an article, by its SKU, variant or GTIN.

    A line keeps the SKU that its variant had when the order was placed; `called` are
    the variants, and their SKUs, that have the name today.
    """
    variants = {variant for variant, _ in called}
    skus = {name, *(sku for _, sku in called if sku is not None)}
    found = [x for x in order.items if x.sku in skus or x.variant_id in variants]
    if not found:
        same = same_text(name)
        found = [x for x in order.items if x.sku and same_text(x.sku) == same]
    if _are_several(found):
        names = ", ".join(dict.fromkeys(str(line.sku) for line in found))
        reason = f"{name!r} could be any of {names} in order {order.name}"
        return Unmatched(reason, final=True)
    return tuple(line.id for line in found)


def _are_several(lines: Sequence[OpenLine]) -> bool:
    """Tell whether lines are of several articles: neither one SKU nor one variant."""
    variants = {line.variant_id for line in lines}
    one_variant = len(variants) == 1 and None not in variants
    return len({line.sku for line in lines}) > 1 and not one_variant


def _spread(
    order: OrderSummary, name: str, places: Sequence[str], quantity: int
) -> list[dict[str, Any]] | Unmatched:
    """Spread a picked quantity over the open lines of the article."""
    taken: list[dict[str, Any]] = []
    missing = quantity
    for line in order.items:
        if line.id in places and line.left > 0 and missing > 0:
            taken.append({"line_id": line.id, "quantity": min(line.left, missing)})
            missing -= min(line.left, missing)
    if missing:
        return _too_much(order, name, quantity, quantity - missing)
    return taken


def _too_much(order: OrderSummary, name: str, quantity: int, left: int) -> Unmatched:
    """Refuse what is more than is open; with commands in doubt that is told later."""
    beside = " beside what is on its way" if order.on_its_way else ""
    reason = f"order {order.name} has {left} open of SKU {name!r}{beside}, "
    doubt = "; what became of that is not known yet" if order.in_doubt else ""
    hint = "" if left else _open_articles(order, name)
    return Unmatched(f"{reason}not {quantity}{doubt}{hint}", final=not order.in_doubt)


def _open_articles(order: OrderSummary, name: str) -> str:
    """Name what is open instead, as an article may have got another name."""
    units: dict[str, int] = {}
    for line in order.items:
        if line.left > 0 and line.sku is not None:
            units[line.sku] = units.get(line.sku, 0) + line.left
    named = [f"{count} of {sku!r}" for sku, count in units.items()]
    more = ["…"] if len(named) > MOST_NAMED else []
    near = [sku for sku in units if near_text(sku) == near_text(name)]
    differs = "".join(f" ({sku!r} differs in {difference(name, sku)})" for sku in near)
    listed = ", ".join(named[:MOST_NAMED] + more)
    return f"; it has open: {listed}{differs}" if named else ""
