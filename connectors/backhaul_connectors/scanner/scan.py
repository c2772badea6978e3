"""A scan, and its parser for the messages of devices."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from backhaul_sdk.fields import Unusable, key, moment, shipped_units

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT = 200
MIN_SCAN_ID = 16
"""Shorter ids of two scans could be the same by chance."""
MODES = ("count", "pack", "pick", "receive")
SEPARATOR = "\x1d"
"""The separator between two elements of a GS1 code; it is not printable."""


_SCANNED = ("code", "order", "trackingNumber")
_FIELDS = (
    *("mode", "code", "order", "quantity", "trackingCompany", "trackingNumber"),
    *("sequence", "scanId", "device", "at"),
)
_OTHER_NAMES = {
    "qty": "quantity",
    "carrier": "trackingCompany",
    "tracking": _SCANNED[2],
}
_OTHER_SPELLINGS = {name.casefold(): name for name in _FIELDS} | _OTHER_NAMES
"""Other spellings of a field, without case and underscores, and the field."""


class ScanRefused(Exception):
    """The scan cannot be used; the text is for the person with the scanner."""

    def __init__(self, status: int, what: str) -> None:
        self.status = status
        super().__init__(what)


class Scan(NamedTuple):
    """What a device read: `quantity` counts units, `at` is RFC 3339 in UTC.

    `mode` is empty if the device sends none. `raw` is the original message. `scan_id`
    is an id that no other scan of any device has.
    """

    device: str
    sequence: str | None
    mode: str
    code: str
    order: str | None
    quantity: int | None
    tracking_company: str | None
    tracking_number: str | None
    at: str | None
    raw: str = ""
    scan_id: str | None = None

    @property
    def locator(self) -> str:
        number = "" if self.sequence is None else f" {self.sequence}"
        return f"scan{number} of {self.device}"

    @property
    def identity(self) -> str:
        """The common part of two messages about one scan."""
        content = [
            # A device whose token was replaced may send such a scan under a new name.
            "" if self.scan_id else self.device,
            self.mode,
            self.code,
            self.order,
            self.quantity,
            self.tracking_company,
            self.tracking_number,
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]

    @property
    def key(self) -> str | None:
        """The key of a scan from a device that numbers its scans, or gives them ids.

        It includes the code: a device that counts from 1 again after a reset sends new
        scans, not old ones.
        """
        if self.scan_id is not None:
            return f"scan::{self.scan_id}:{self.identity}"
        if self.sequence is None:
            return None
        return f"scan:{self.device}:{self.sequence}:{self.identity}"


def read_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object. Raises ScanRefused."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise ScanRefused(400, "the message is not JSON") from None
    if not isinstance(document, dict):
        raise ScanRefused(
            400, 'the message must be a JSON object such as {"mode": "pack"}'
        )
    return document


def read_line(line: bytes) -> dict[str, Any]:
    """Return the JSON object; any other line is a code."""
    if line.lstrip().startswith(b"{"):
        return read_json(line)
    try:
        return {"code": line.decode()}
    except UnicodeDecodeError:
        raise ScanRefused(400, "the line is not UTF-8 text") from None


def scan_of(document: Mapping[str, Any], device: str, raw: str) -> Scan:
    """Return the scan in a message; unknown members are ignored. Raises ScanRefused.

    A misspelled member is refused: a parcel would leave without its number.
    """
    _refuse_spellings(document)
    named = _text(document, "device")
    if named is not None and named != device:
        raise ScanRefused(422, f"this device is {device}, not {named}")
    mode, code = (_text(document, "mode") or "").lower(), _text(document, "code")
    if mode and mode not in MODES:
        raise ScanRefused(422, f"mode must be one of: {', '.join(MODES)}")
    if code is None:
        raise ScanRefused(422, "code is missing; code is the text that was scanned")
    quantity = document.get("quantity")
    try:
        return Scan(
            device=device,
            sequence=_sequence(document),
            mode=mode,
            code=code,
            order=_text(document, "order"),
            quantity=None
            if quantity is None
            else shipped_units(quantity, decimal="system"),
            tracking_company=_text(document, "trackingCompany"),
            tracking_number=_text(document, "trackingNumber"),
            at=moment(document.get("at"), "at"),
            raw=raw,
            scan_id=_scan_id(document),
        )
    except Unusable as error:
        raise ScanRefused(422, str(error)) from None


def _refuse_spellings(document: Mapping[str, Any]) -> None:
    for name in document.keys() - _OTHER_SPELLINGS.values():
        meant = _OTHER_SPELLINGS.get(name.casefold().replace("_", "").replace("-", ""))
        if meant is not None and meant not in document:
            raise ScanRefused(422, f"{name[:60]} is not a field; write {meant}")


def bare(order: str) -> str:
    """Return the common form of an order's names: `#1001` and `1001`."""
    return order.casefold().lstrip("#")


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ScanRefused(422, f"{name} must be text in quotation marks")
    # Scanners end a code with a line end or a tab.
    text = value.strip(" \t\r\n\x00\x02\x03")
    shown = text.replace(SEPARATOR, "") if name in _SCANNED else text
    if len(text) > MAX_TEXT or not shown.isprintable():
        raise ScanRefused(
            422, f"{name} is too long, or contains characters that cannot be printed"
        )
    return text or None


def _sequence(document: Mapping[str, Any], name: str = "sequence") -> str | None:
    """Return the device's number of the scan; a placeholder would equal others."""
    value = document.get(name)
    is_given = value is not None and (not isinstance(value, str) or value.strip())
    return key(value, name, required=True) if is_given else None


def _scan_id(document: Mapping[str, Any]) -> str | None:
    found = _sequence(document, "scanId")
    if found is not None and len(found) < MIN_SCAN_ID:
        raise ScanRefused(
            422,
            f"scanId must have at least {MIN_SCAN_ID} characters, such as a UUID; send"
            " the device's own number of the scan as sequence",
        )
    return found
