"""Maps tracking events and carrier statuses to records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from backhaul_connectors.courier.parsing import UnreadableEvent, digest_of
from backhaul_sdk import Bad, Fulfillment, Line, Tracking
from backhaul_sdk.fields import Unusable, article, shipped_units
from backhaul_sdk.records import TRACKING_STATUSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_connectors.courier.parsing import TrackingEvent
    from backhaul_connectors.courier.settings import Settings
    from backhaul_sdk import Record


EASYPOST = {
    "unknown": "",
    "pre_transit": "announced",
    "in_transit": "in_transit",
    "out_for_delivery": "out_for_delivery",
    "available_for_pickup": "out_for_delivery",
    "delivered": "delivered",
    "return_to_sender": "returned",
    "failure": "failed_attempt",
    "cancelled": "",
    "error": "",
}
AFTERSHIP = {
    "pending": "",
    "inforeceived": "announced",
    "intransit": "in_transit",
    "outfordelivery": "out_for_delivery",
    "attemptfail": "failed_attempt",
    "delivered": "delivered",
    "availableforpickup": "out_for_delivery",
    "exception": "",
    "expired": "",
}
SENDCLOUD = {
    "no label": "",
    "ready to send": "announced",
    "announced": "announced",
    "being announced": "announced",
    "announced: not collected": "announced",
    "announcement failed": "",
    "at sorting centre": "in_transit",
    "being sorted": "in_transit",
    "sorted": "in_transit",
    "not sorted": "in_transit",
    "shipment picked up by driver": "in_transit",
    "shipment collected by customer": "delivered",
    "shipment on route": "in_transit",
    "en route to sorting center": "in_transit",
    "at customs": "in_transit",
    "delivery delayed": "in_transit",
    "delivery method changed": "in_transit",
    "delivery date changed": "in_transit",
    "delivery address changed": "in_transit",
    "driver en route": "out_for_delivery",
    "parcel en route": "in_transit",
    "awaiting customer pickup": "out_for_delivery",
    "delivery attempt failed": "failed_attempt",
    "unable to deliver": "failed_attempt",
    "delivered": "delivered",
    "returned to sender": "returned",
    "refused by recipient": "failed_attempt",
    "exception": "",
    "address invalid": "",
    "unknown status - check carrier track & trace page for more insights": "",
    "cancellation requested": "",
    "submitting cancellation request": "",
    "cancelled upstream": "",
    "cancelled": "",
}
GENERIC = {
    "announced": "announced",
    "in_transit": "in_transit",
    "out_for_delivery": "out_for_delivery",
    "failed_attempt": "failed_attempt",
    "delivered": "delivered",
    "returned": "returned",
}
WORDS: Mapping[str, Mapping[str, str]] = {
    "easypost": EASYPOST,
    "aftership": AFTERSHIP,
    "sendcloud": SENDCLOUD,
    "generic": GENERIC,
}
MOST_RAW = 20_000


def carrier_status(word: str, vendor: str, more: Mapping[str, str]) -> str | None:
    """Return our status for a courier's word; empty to ignore it, None if unknown."""
    plain = " ".join(word.casefold().split())
    own = {key.casefold(): status for key, status in more.items()}
    return own.get(plain, WORDS[vendor].get(plain))


def records_of(
    settings: Settings, event: TrackingEvent | UnreadableEvent, raw: str
) -> list[Record | Bad]:
    """Return the records of an event: a shipment first, then the parcel's status."""
    if isinstance(event, UnreadableEvent):
        name = digest_of(event.row)
        return [bad(raw_of(event.row), event.reason, name, settings.vendor)]
    locator = f"{settings.vendor} {event.tracking_number}"
    status = _status(settings, event)
    if status is None:
        return [
            bad(
                raw,
                f"the status {event.word!r} is unknown: add it to statuses",
                f"{event.tracking_number}:{event.word}",
                locator,
            )
        ]
    if not status:
        return []
    tracking = Tracking(
        key=f"event:{event.key or _name(event)}",
        tracking_number=event.tracking_number,
        status=status,
        at=event.at,
        tracking_company=event.company,
        order=event.order,
        on_return=settings.on_return,
        locator=locator,
        raw=raw[:MOST_RAW],
    )
    return [*_shipment(settings, event, status, raw, locator), tracking]


def bad(raw: str, reason: str, name: str, locator: str) -> Bad:
    """Return a record that an operator has to examine."""
    return Bad(
        key=f"bad:{digest_of([name, reason])}",
        raw=raw[:MOST_RAW],
        reason=reason,
        locator=locator,
    )


def _status(settings: Settings, event: TrackingEvent) -> str | None:
    status = carrier_status(event.word, settings.vendor, settings.statuses)
    if not event.comes_back or not status:
        return status
    # A parcel on its way back is not delivered; at the end it is returned.
    return "returned" if status in ("delivered", "returned") else ""


def _name(event: TrackingEvent) -> str:
    return digest_of([event.tracking_number, event.word.casefold(), event.at])


def _shipment(
    settings: Settings, event: TrackingEvent, status: str, raw: str, locator: str
) -> list[Record | Bad]:
    rung = TRACKING_STATUSES.index(status)
    has_left = rung >= TRACKING_STATUSES.index(settings.ship_at)
    if settings.ship == "never" or event.order is None or status == "returned":
        return []
    if not has_left or (settings.ship == "lines" and event.lines is None):
        return []
    try:
        lines = () if event.lines is None else _lines(event.lines)
    except Unusable as error:
        return [bad(raw, str(error), f"lines {event.tracking_number}", locator)]
    return [
        Fulfillment(
            # A parcel leaves once, whichever event reports it first.
            key=f"shipped:{event.tracking_number}",
            order=event.order,
            tracking_company=event.company,
            tracking_number=event.tracking_number,
            lines=lines,
            everything=event.lines is None,
            shipped_at=event.at,
            locator=locator,
            raw=raw[:MOST_RAW],
        )
    ]


def _lines(found: Any) -> tuple[Line, ...]:
    """Return the lines of a parcel. Raises Unusable: a missing article is not all."""
    if not isinstance(found, list) or not found:
        raise Unusable(
            "the parcel's lines are empty, so it is unknown what was shipped"
        )
    return tuple(map(_line, found))


def _line(found: Any) -> Line:
    line = found if isinstance(found, dict) else {}
    sku = article(line.get("sku"), is_text=True)
    if not sku:
        raise Unusable(
            "a line of the parcel has no sku, so it is unknown what was shipped"
        )
    quantity = shipped_units(line.get("quantity", 1), decimal="system")
    return Line(sku=sku, quantity=quantity)


def raw_of(message: Any) -> str:
    """Return a message in the form that is stored."""
    return json.dumps(message, ensure_ascii=False)[:MOST_RAW]
