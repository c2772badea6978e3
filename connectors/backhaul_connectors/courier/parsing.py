"""Parses courier webhooks and API rows into tracking events, and those into records."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backhaul_sdk import Bad, Fulfillment, Line, ReadValue, Tracking, fields
from backhaul_sdk.fields import Unusable, article, shipped_units
from backhaul_sdk.json_paths import find
from backhaul_sdk.records import TRACKING_STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul_connectors.courier.settings import Settings
    from backhaul_sdk import Record


SENDCLOUD_TIME = "%d-%m-%Y %H:%M:%S"
"""How Sendcloud writes the times of its list, without a zone."""


class TrackingEvent(Struct, frozen=True, kw_only=True):
    """A courier's report about one parcel; `word` is the courier's own status.

    `key` is empty if the courier does not identify the event. `lines` are the original
    lines, None if the courier does not report the parcel's content.
    """

    key: str
    tracking_number: str
    word: str
    at: str | None = None
    company: str | None = None
    order: str | None = None
    lines: Any = None
    comes_back: bool = False


class UnreadableEvent(Struct, frozen=True):
    """One of several events that cannot be used, and why."""

    row: Any
    reason: str


def events_of(
    settings: Settings, message: Any
) -> Sequence[TrackingEvent | UnreadableEvent]:
    """Return the events of a message; none if the message is about something else.

    Raises Unusable if the whole message cannot be used.
    """
    if not isinstance(message, dict | list):
        raise Unusable("the message is not a JSON object")
    return MESSAGES[settings.vendor](settings, message)


def event_of(settings: Settings, row: Any) -> TrackingEvent | UnreadableEvent:
    """Parse one of several events; a bad event does not stop the others."""
    try:
        return ROWS[settings.vendor](settings, row)
    except Unusable as error:
        return UnreadableEvent(row, str(error))


def _easypost(settings: Settings, message: Any) -> list[TrackingEvent]:
    result = _member(message, "result")
    kind = str(_member(message, "description"))
    if not isinstance(result, dict) or not kind.startswith(("tracker.", "shipment.")):
        return []
    return [easypost_row(settings, result, _member(message, "id"))]


def easypost_row(settings: Settings, row: Any, key: Any = None) -> TrackingEvent:
    """Parse a Tracker or a Shipment."""
    details = _member(row, "tracking_details")
    last = details[-1] if isinstance(details, list) and details else {}
    rate = _member(row, "selected_rate")
    return _event(
        key=key,
        number=_member(row, "tracking_code"),
        word=_member(row, "status"),
        times=[_member(last, "datetime"), _member(row, "updated_at")],
        company=_member(row, "carrier") or _member(rate, "carrier"),
        order=_member(row, "reference"),
    )


def _aftership(settings: Settings, message: Any) -> list[TrackingEvent]:
    row = _member(message, "msg")
    if _member(message, "event") != "tracking_update" or not isinstance(row, dict):
        return []
    return [aftership_row(settings, row, _member(message, "event_id"))]


def aftership_row(settings: Settings, row: Any, key: Any = None) -> TrackingEvent:
    """Parse a tracking."""
    points = _member(row, "checkpoints")
    last = points[-1] if isinstance(points, list) and points else {}
    return _event(
        key=key,
        number=_member(row, "tracking_number"),
        word=_member(row, "tag"),
        times=[_member(last, "checkpoint_time"), _member(row, "updated_at")],
        company=_member(row, "slug"),
        order=_member(row, "order_number") or _member(row, "order_id"),
        comes_back=_member(row, "return_to_sender") is True,
    )


def _sendcloud(settings: Settings, message: Any) -> list[TrackingEvent]:
    parcel = _member(message, "parcel")
    if _member(message, "action") != "parcel_status_changed" or not parcel:
        return []
    sent, status = _member(message, "timestamp"), _member(parcel, "status")
    parts = (_member(parcel, "id"), _member(status, "message"), sent)
    key = ":".join(map(fields.key, parts)) if sent else None
    changed = _member(message, "carrier_status_change_timestamp")
    return [sendcloud_row(settings, parcel, key, changed, sent)]


def sendcloud_row(
    settings: Settings, row: Any, key: Any = None, *times: Any
) -> TrackingEvent:
    """Parse a parcel; `times` come before its own."""
    return _event(
        key=key,
        number=_member(row, "tracking_number"),
        word=_member(_member(row, "status"), "message"),
        times=[*times, _member(row, "date_updated")],
        date_format=SENDCLOUD_TIME,
        company=_member(_member(row, "carrier"), "code"),
        order=_member(row, "order_number"),
        lines=_member(row, "parcel_items") or None,
        comes_back=_member(row, "is_return") is True,
    )


def _generic(settings: Settings, message: Any) -> list[TrackingEvent | UnreadableEvent]:
    rows = find(settings.events.items, message)
    if not isinstance(rows, list):
        raise Unusable(
            f"the message has no list of events at {settings.events.items!r}, which"
            " events.items names"
        )
    return [event_of(settings, row) for row in rows]


def generic_row(settings: Settings, row: Any) -> TrackingEvent:
    """Parse an event whose members the settings locate."""
    where = settings.events
    return _event(
        key=find(where.key, row),
        number=find(where.tracking_number, row),
        word=find(where.status, row),
        times=[find(where.at, row)],
        company=find(where.tracking_company, row),
        order=find(where.order, row),
        lines=find(where.lines, row),
    )


def _event(
    *,
    key: Any,
    number: Any,
    word: Any,
    times: Sequence[Any],
    company: Any,
    order: Any,
    date_format: str | None = None,
    lines: Any = None,
    comes_back: bool = False,
) -> TrackingEvent:
    """Return the event of these members; the first exact one of `times` counts."""
    exact = (
        fields.moment_if_exact(each, "at", date_format=date_format) for each in times
    )
    return TrackingEvent(
        key=fields.key(key),
        tracking_number=fields.identifier(
            number, "tracking number", is_text=True, required=True
        ),
        word=fields.word(word, "status"),
        at=next(filter(None, exact), None),
        company=fields.label(company, "tracking company") or None,
        order=fields.identifier(order, "order", is_text=True) or None,
        lines=lines,
        comes_back=comes_back,
    )


MESSAGES: Mapping[
    str, Callable[[Settings, Any], Sequence[TrackingEvent | UnreadableEvent]]
] = {
    "easypost": _easypost,
    "aftership": _aftership,
    "sendcloud": _sendcloud,
    "generic": _generic,
}
ROWS: Mapping[str, Callable[[Settings, Any], TrackingEvent]] = {
    "easypost": easypost_row,
    "aftership": aftership_row,
    "sendcloud": sendcloud_row,
    "generic": generic_row,
}


def digest_of(message: Any) -> str:
    """Return a short digest of a message, the same for equal messages."""
    text = json.dumps(message, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _member(document: Any, name: str) -> Any:
    return document.get(name) if isinstance(document, dict) else None


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
        return [bad(raw_of(event.row), event.reason, name, settings.label)]
    locator = f"{settings.label} {event.tracking_number}"
    status = _status(settings, event)
    if status is None:
        unknown = bad(
            raw,
            f"the status {event.word!r} is unknown: add it to statuses",
            f"{event.tracking_number}:{event.word}",
            locator,
        )
        return [replace(unknown, kind="track", read=_read(settings, event))]
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


def _read(settings: Settings, event: TrackingEvent) -> dict[str, ReadValue]:
    """Return the values of an event with an unknown status, for its record."""
    return {
        "tracking_number": ReadValue(event.tracking_number),
        "status": ReadValue(event.word),
        "at": ReadValue(event.at or ""),
        "tracking_company": ReadValue(event.company or ""),
        "order": ReadValue(event.order or ""),
        "on_return": ReadValue(settings.on_return),
    }


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
            "the parcel has no lines, so Backhaul does not know what was shipped"
        )
    return tuple(map(_line, found))


def _line(found: Any) -> Line:
    line = found if isinstance(found, dict) else {}
    sku = article(line.get("sku"), is_text=True)
    if not sku:
        raise Unusable(
            "a line of the parcel has no SKU, so Backhaul does not know what was"
            " shipped"
        )
    quantity = shipped_units(line.get("quantity", 1), decimal="system")
    return Line(sku=sku, quantity=quantity)


def raw_of(message: Any) -> str:
    """Return a message in the form that is stored."""
    return json.dumps(message, ensure_ascii=False)[:MOST_RAW]
