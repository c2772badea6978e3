"""From the JSON that a device posts to a record."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from backhaul_sdk import Fulfillment, Line, StockAdjustment
from backhaul_sdk.records import MAX_DELTA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul_sdk import Record

MAX_TEXT = 200


class Refused(Exception):
    """The scan cannot be used; the text is for the person with the scanner."""

    def __init__(self, status: int, what: str) -> None:
        self.status = status
        super().__init__(what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a device read: `quantity` counts units, `at` is RFC 3339 in UTC."""

    device: str
    sequence: str | None
    mode: str
    code: str
    order: str | None
    quantity: int | None
    tracking_company: str | None
    tracking_number: str | None
    at: str | None

    @property
    def locator(self) -> str:
        number = "" if self.sequence is None else f" {self.sequence}"
        return f"scan{number} of {self.device}"

    @property
    def identity(self) -> str:
        """What two messages about one scan have in common."""
        content = [
            self.device,
            self.mode,
            self.code,
            self.order,
            self.quantity,
            self.tracking_company,
            self.tracking_number,
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Action:
    """What a scan does, and how a person calls it; `record` takes key and raw text."""

    record: Callable[[str, str], Record]
    what: str


def read_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object. Raises Refused."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "the message is not JSON") from None
    if not isinstance(document, dict):
        raise Refused(400, 'the message must be a JSON object such as {"mode": "pack"}')
    return document


def scan_of(document: Mapping[str, Any], device: str) -> Scan:
    """Read the members; those that are not known are passed over. Raises Refused."""
    named = _text(document, "device")
    if named is not None and named != device:
        raise Refused(422, f"this token belongs to another device than {named}")
    mode, code = _text(document, "mode"), _text(document, "code")
    if mode is None or mode.lower() not in MODES:
        raise Refused(422, f"mode must be one of: {', '.join(sorted(MODES))}")
    if code is None:
        raise Refused(422, "code is missing: it is what was scanned")
    return Scan(
        device=device,
        sequence=_sequence(document),
        mode=mode.lower(),
        code=code,
        order=_text(document, "order"),
        quantity=_quantity(document),
        tracking_company=_text(document, "trackingCompany"),
        tracking_number=_text(document, "trackingNumber"),
        at=_moment(document),
    )


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Refused(422, f"{name} must be text in quotation marks")
    # Scanners end what they read with a line end or a tab.
    text = value.strip()
    if len(text) > MAX_TEXT or not text.isprintable():
        raise Refused(422, f"{name} is too long or has characters that do not print")
    return text or None


def _sequence(document: Mapping[str, Any]) -> str | None:
    value = document.get("sequence")
    if isinstance(value, int) and not isinstance(value, bool) and value < 10**18:
        return str(value)
    if value is not None and not isinstance(value, str):
        raise Refused(422, "sequence must be a whole number or text")
    return _text(document, "sequence")


def _quantity(document: Mapping[str, Any]) -> int | None:
    value = document.get("quantity")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(422, "quantity must be a whole number")
    if not 1 <= value <= MAX_DELTA:
        raise Refused(422, f"quantity must be from 1 to {MAX_DELTA}")
    return value


def _moment(document: Mapping[str, Any]) -> str | None:
    text = _text(document, "at")
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise Refused(422, "at needs its time zone, such as 2026-03-31T14:05:00Z")
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise Refused(422, "at is no time such as 2026-03-31T14:05:00Z") from None


def _pack(scan: Scan) -> Action:
    """Pack a whole order, or the units of one article that were scanned for it.

    Shipping cannot be undone: where both order and article are named, only what was
    scanned is shipped, never the rest.
    """
    order = scan.order or scan.code
    if _names_the_parcel(scan):
        lines, what = _everything_left(scan, order)
    else:
        line = Line(sku=scan.code, quantity=scan.quantity or 1)
        lines = (line,)
        what = f"{line.quantity} x {line.sku} of order {order} packed"
    return Action(
        lambda key, raw: Fulfillment(
            key=key,
            order=order,
            tracking_company=scan.tracking_company,
            tracking_number=scan.tracking_number,
            lines=lines,
            shipped_at=scan.at,
            locator=scan.locator,
            raw=raw,
        ),
        what,
    )


def _names_the_parcel(scan: Scan) -> bool:
    """Tell whether the code is the order's own or the parcel's label, no article."""
    if scan.order is None or scan.code == scan.tracking_number:
        return True
    return _bare(scan.code) == _bare(scan.order)


def _everything_left(scan: Scan, order: str) -> tuple[tuple[Line, ...], str]:
    if scan.quantity is not None:
        raise Refused(
            422,
            "a quantity needs an article: put its SKU into code and the order's "
            "number into order",
        )
    return (), f"order {order} packed"


def _bare(order: str) -> str:
    return order.casefold().lstrip("#")


def _receive(scan: Scan) -> Action:
    """Put what came in on the shelf: a difference, never a level."""
    units = scan.quantity or 1
    return Action(
        lambda key, raw: StockAdjustment(
            key=key,
            sku=scan.code,
            delta=units,
            reason="RECEIVED",
            locator=scan.locator,
            raw=raw,
        ),
        f"{units} x {scan.code} received",
    )


MODES: Mapping[str, Callable[[Scan], Action]] = {"pack": _pack, "receive": _receive}


def action_of(scan: Scan) -> Action:
    """Return what the scan does. Raises Refused."""
    return MODES[scan.mode](scan)
