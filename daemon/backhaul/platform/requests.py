"""Request of each kind of command, and which effect proves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from backhaul.core.effect_proof import NOT_RESTOCKED, RESTOCKED
from backhaul.core.identity import cancellation, tag
from backhaul.core.parcels import ShipmentIncident, fits_lines
from backhaul.errors import Unusable
from backhaul.platform import decoding
from backhaul.platform.fields import identity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from backhaul.core.resources import Order
    from backhaul.store.matching import Command


class Dialect(msgspec.Struct, frozen=True):
    """How this store's platform names things, and what it was found not to know."""

    restock_field: str = "restock"
    tracking_company: str = "trackingCompany"
    tracking_number: str = "trackingNumber"
    unknown_members: set[str] = msgspec.field(default_factory=set)


def path(command: Command) -> str:
    """Return the path below /api/v1."""
    if command.kind == "adjust":
        return "/inventory/adjust"
    return f"{object_path(command)}/{command.kind}"


def object_path(command: Command) -> str:
    """Return where the command's order or product is read. An id leads nowhere else."""
    kind = "products" if command.kind == "adjust" else "orders"
    return f"/{kind}/{quote(command.target, safe='')}"


def body(command: Command, dialect: Dialect) -> bytes:
    """Return the exact bytes to send: the command's payload in the store's words."""
    members = _BODIES[command.kind](command, dialect)
    kept = {
        name: value
        for name, value in members.items()
        if value is not None and f"{command.kind}.{name}" not in dialect.unknown_members
    }
    return msgspec.json.encode(kept)


def _fulfill(command: Command, dialect: Dialect) -> dict[str, Any]:
    payload = command.payload
    lines = [
        {"lineItemId": line["line_id"], "quantity": line["quantity"]}
        for line in payload["lines"]
    ]
    return {
        dialect.tracking_company: payload["tracking_company"],
        dialect.tracking_number: payload["tracking_number"],
        "items": lines or None,
    }


def _cancel(command: Command, dialect: Dialect) -> dict[str, Any]:
    payload = command.payload
    return {
        dialect.restock_field: payload["restock"],
        "reason": payload["reason"],
        "note": tag(command.id),
    }


def _adjust(command: Command, _: Dialect) -> dict[str, Any]:
    payload = command.payload
    return {
        "productId": command.target,
        "variantId": payload["variant_id"],
        "adjustment": payload["delta"],
        "reason": payload["reason"],
        "expectedStock": payload.get("expected_stock"),
        "note": tag(command.id),
    }


_IN_PART = "PARTIALLY_FULFILLED"
_BODIES = {"fulfill": _fulfill, "cancel": _cancel, "adjust": _adjust}


def evidence(
    command: Command,
    document: object,
    tracking: decoding.Tracking = decoding.TRACKING,
    claimed: Collection[str] = (),
) -> dict[str, Any]:
    """Return what a 2xx proves, to recognize the effect by. Raises Unusable.

    `claimed` are the effects that other commands own.

    fulfill: the order's shipment ids; cancel: `cancelledAt`; adjust: the adjustment id
    and the levels it left.
    """
    data = decoding.resource(document)
    if command.kind == "adjust":
        return _adjustment(command, data)
    order = decoding.order(data, tracking)
    if order.id != command.target:
        raise Unusable(
            f"the platform's response is about order {order.id}, and the command is"
            f" about order {command.target}"
        )
    if not shows_effect(command, order, data):
        raise Unusable(
            "the platform's response does not show the effect of the command"
            f" ({command.kind})"
        )
    if command.kind == "fulfill":
        fitting = matching_parcels(command, order, data, claimed)
        # One that another command owns was asked for by both.
        parcel = (fitting or matching_parcels(command, order, data))[-1]
        return order_evidence(order) | parcel_evidence(command, order, data, parcel)
    return order_evidence(order) | cancelled(order)


def effect_id(evidence: Mapping[str, Any]) -> str | None:
    """Return the adjustment, parcel or cancellation that is a command's own."""
    names = ("adjustment_id", "shipment", "cancellation")
    return next((evidence[name] for name in names if evidence.get(name)), None)


def order_evidence(order: Order) -> dict[str, Any]:
    """Return what the order shows, as evidence."""
    return {
        "shipments": [parcel.id for parcel in order.shipments],
        "fulfilled": units(order),
        "cancelled_at": order.cancelled_at,
        "updated_at": order.updated_at,
    }


def parcel_evidence(
    command: Command, order: Order, data: Mapping[str, Any], parcel: str
) -> dict[str, Any]:
    """Return the parcel of a fulfill as evidence, and what crossed it on its way."""
    crossing = ShipmentIncident.of(order, data, command.payload, parcel)
    crossed = {} if crossing is None else {"crossed": msgspec.to_builtins(crossing)}
    return {"shipment": parcel, **crossed}


def units(order: Order) -> dict[str, int]:
    """Return how many units of each line have left."""
    return {item.id: item.fulfilled_quantity for item in order.items}


def read(order: Order, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an order that proves nothing shows, for a person who decides."""
    return order_evidence(order) | {"restocked": _restocked(data)}


def cancelled(order: Order) -> dict[str, str]:
    """Return what a cancellation is known by, as evidence."""
    if order.cancelled_at is None:
        return {}
    return {"cancellation": cancellation(order.id, order.cancelled_at)}


def own_cancellation(
    command: Command,
    order: Order,
    data: Mapping[str, Any],
    before: Mapping[str, Any] | None,
) -> dict[str, str]:
    """Return what the order's cancellation is known by, if it is the command's own.

    The note that is shown with it tells. Where there is none, it is taken for its own
    if an attempt may have made it: `before` is what was known of the order before the
    first such attempt, None where there is none.
    """
    if note := _cancellation(data).get("note"):
        return cancelled(order) if tag(command.id) in str(note) else {}
    if before is None or before.get("cancelled_at") == order.cancelled_at:
        return {}
    return cancelled(order)


def _adjustment(command: Command, data: Mapping[str, Any]) -> dict[str, Any]:
    if _id(data.get("productId")) != command.target:
        raise Unusable(
            "the platform's response is about another product:"
            f" {data.get('productId')!r}"
        )
    adjustment, levels = _id(data.get("adjustmentId")), data.get("levels")
    if not (adjustment and isinstance(levels, list)):
        raise Unusable(
            "the platform's response lacks the members adjustmentId and levels"
        )
    return {"adjustment_id": adjustment, "levels": levels}


def _id(value: object) -> str | None:
    try:
        return identity(value)
    except Unusable:
        return None


def shows_effect(command: Command, order: Order, data: Mapping[str, Any]) -> bool:
    """Tell whether an order as read shows the effect that the command asks for."""
    if command.kind == "cancel":
        return order.cancelled_at is not None and not cancellation_mismatch(
            command, order, data
        )
    return bool(matching_parcels(command, order, data))


def cancellation_mismatch(
    command: Command, order: Order, data: Mapping[str, Any]
) -> str:
    """Say how a cancelled order is not cancelled as asked; "" where it is, or is not.

    What was not put back is missing on the shelf, or what was, too much: a repeated
    cancellation changes neither.
    """
    if command.kind != "cancel" or order.cancelled_at is None:
        return ""
    restocked = _restocked(data)
    if command.payload["restock"] and not restocked:
        return NOT_RESTOCKED
    if not command.payload["restock"] and restocked and _came_back(data):
        return RESTOCKED
    return ""


def _restocked(data: Mapping[str, Any]) -> bool:
    return bool(_cancellation(data).get("restocked"))


def _cancellation(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an answer tells of the cancellation; nothing in another shape."""
    found = data.get("cancellation")
    return found if isinstance(found, dict) else {}


def _came_back(data: Mapping[str, Any]) -> bool:
    """Tell whether units of a restocked order came back; what is not told may have."""
    lines = data.get("items") or ()
    return any(line.get("restockedQuantity") not in {0, "0"} for line in lines)


def matching_parcels(
    command: Command,
    order: Order,
    data: Mapping[str, Any],
    claimed: Collection[str] = (),
) -> list[str]:
    """Return the ids of the parcels that can be the one a fulfill asks for.

    Those `claimed` by other commands are theirs. But two records may tell of one parcel
    with a number: it is what both ask for, if it left nothing more to be sent.
    """
    wanted = (command.payload["tracking_company"], command.payload["tracking_number"])
    takes_all = not command.payload["lines"]
    if takes_all and wanted[1] is None and order.fulfillment_status == _IN_PART:
        return []  # somebody else sent a part: what takes all leaves nothing
    fitting = [
        parcel.id
        for parcel, raw in zip(
            order.shipments, data.get("shipments") or (), strict=True
        )
        if (parcel.tracking_company, parcel.tracking_number) == wanted
        and fits_lines(raw.get("items"), command.payload["lines"])
    ]
    own = [parcel for parcel in fitting if parcel not in claimed]
    is_told_twice = wanted[1] is not None and not has_open_units(order, command)
    return own or (fitting if is_told_twice else [])


def has_open_units(order: Order, command: Command) -> bool:
    """Tell whether units that a fulfill asks for can still be sent."""
    asked = {line["line_id"] for line in command.payload["lines"]}
    return order.fulfillment_status != "FULFILLED" and any(
        item.fulfilled_quantity < item.quantity
        for item in order.items
        if not asked or item.id in asked
    )
