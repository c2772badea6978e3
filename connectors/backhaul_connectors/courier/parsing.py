"""Parses courier webhooks and API rows into tracking events."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jmespath
from jmespath.exceptions import JMESPathError
from msgspec import Struct
from msgspec.structs import replace

from backhaul_sdk.fields import Unusable, plain
from backhaul_sdk.times import parse_time, rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul_connectors.courier.settings import Settings

MILLISECONDS_SINCE = 100_000_000_000
"""A larger number of seconds is in milliseconds."""


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
    kind = _text(message, "description") or ""
    if not isinstance(result, dict) or not kind.startswith(("tracker.", "shipment.")):
        return []
    return [easypost_row(settings, result, _text(message, "id") or "")]


def easypost_row(settings: Settings, row: Any, key: str = "") -> TrackingEvent:
    """Parse a Tracker or a Shipment."""
    details = _member(row, "tracking_details")
    last = details[-1] if isinstance(details, list) and details else {}
    rate = _member(row, "selected_rate")
    return TrackingEvent(
        key=key,
        tracking_number=_required(row, "tracking_code"),
        word=_required(row, "status"),
        at=moment(_member(last, "datetime") or _member(row, "updated_at")),
        company=_text(row, "carrier") or _text(rate, "carrier"),
        order=_text(row, "reference"),
    )


def _aftership(settings: Settings, message: Any) -> list[TrackingEvent]:
    row = _member(message, "msg")
    if _member(message, "event") != "tracking_update" or not isinstance(row, dict):
        return []
    event = aftership_row(settings, row, _text(message, "event_id") or "")
    return [event]


def aftership_row(settings: Settings, row: Any, key: str = "") -> TrackingEvent:
    """Parse a tracking."""
    points = _member(row, "checkpoints")
    last = points[-1] if isinstance(points, list) and points else {}
    checked = moment(_member(last, "checkpoint_time"))
    return TrackingEvent(
        key=key,
        tracking_number=_required(row, "tracking_number"),
        word=_required(row, "tag"),
        at=checked or moment(_member(row, "updated_at")),
        company=_text(row, "slug"),
        order=_text(row, "order_number") or _text(row, "order_id"),
        comes_back=_member(row, "return_to_sender") is True,
    )


def _sendcloud(settings: Settings, message: Any) -> list[TrackingEvent]:
    parcel = _member(message, "parcel")
    if _member(message, "action") != "parcel_status_changed" or not parcel:
        return []
    time = _text(message, "timestamp") or ""
    said = _text(_member(parcel, "status"), "message") or ""
    key = ":".join([_text(parcel, "id") or "", said, time])
    row = sendcloud_row(settings, parcel, key if time else "")
    changed = _member(message, "carrier_status_change_timestamp")
    return [_at(row, moment(changed) or moment(_member(message, "timestamp")))]


def sendcloud_row(settings: Settings, row: Any, key: str = "") -> TrackingEvent:
    """Parse a parcel."""
    return TrackingEvent(
        key=key,
        tracking_number=_required(row, "tracking_number"),
        word=_required(_member(row, "status"), "message"),
        at=moment(_member(row, "date_updated")),
        company=_text(_member(row, "carrier"), "code"),
        order=_text(row, "order_number"),
        lines=_member(row, "parcel_items") or None,
        comes_back=_member(row, "is_return") is True,
    )


def _generic(settings: Settings, message: Any) -> list[TrackingEvent | UnreadableEvent]:
    rows = find(settings.events.items, message)
    if not isinstance(rows, list):
        raise Unusable(
            f"the message has no list of events at {settings.events.items!r}"
        )
    return [event_of(settings, row) for row in rows]


def generic_row(settings: Settings, row: Any, key: str = "") -> TrackingEvent:
    """Parse an event whose members the settings locate."""
    where = settings.events
    found = {
        name: _plain(find(getattr(where, name), row))
        for name in ("key", "tracking_number", "status", "tracking_company", "order")
    }
    if not found["tracking_number"] or not found["status"]:
        raise Unusable("an event has no tracking number, or no status")
    return TrackingEvent(
        key=found["key"] or key,
        tracking_number=found["tracking_number"],
        word=found["status"],
        at=moment(find(where.at, row)),
        company=found["tracking_company"],
        order=found["order"],
        lines=find(where.lines, row),
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


def find(expression: str, document: Any) -> Any:
    """Return the value at a path of a document. Raises Unusable."""
    try:
        return _compiled(expression)(document)
    except JMESPathError as error:
        raise Unusable(
            f"the expression {expression} cannot be applied: {error}"
        ) from None


@lru_cache(maxsize=64)
def _compiled(expression: str) -> Any:
    return jmespath.compile(expression).search


def moment(value: Any) -> str | None:
    """Return a time in UTC; None for no time, and for a time without a zone.

    Seconds and milliseconds since 1970 are times too.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value >= MILLISECONDS_SINCE else value
            found = datetime.fromtimestamp(seconds, UTC)
        else:
            found = parse_time(str(value))
        if found.tzinfo is None:
            return None
        return rfc3339(found)
    except (ValueError, OverflowError, OSError):
        return None


def digest_of(message: Any) -> str:
    """Return a short digest of a message, the same for equal messages."""
    text = json.dumps(message, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _at(event: TrackingEvent, at: str | None) -> TrackingEvent:
    return replace(event, at=at or event.at)


def _member(document: Any, name: str) -> Any:
    return document.get(name) if isinstance(document, dict) else None


def _text(document: Any, name: str) -> str | None:
    return _plain(_member(document, name))


def _plain(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = plain(str(value))
    return text if text and len(text) <= 200 and text.isprintable() else None


def _required(document: Any, name: str) -> str:
    text = _text(document, name)
    if text is None:
        raise Unusable(f"{name} is missing or not a text")
    return text
