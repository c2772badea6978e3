"""What a record requests, and how two records under one key differ."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from backhaul.store.sql.dialect import document_of

NOT_ASKED = (
    *("locator", "shipped_at", "listed_at", "note"),
    *("everything", "parts", "beside", "by_content", "question"),
)
"""Members of a record that do not change the request. `everything` follows from the
lines, and older versions did not write it."""
CHOICES = (
    "If the row is a further parcel, retry ships that parcel too. If the row"
    " corrects the first parcel, discard the row and change the parcel in the"
    " store's dashboard"
)
_SPOKEN = {
    "order": "the order",
    "tracking_company": "the carrier",
    "tracking_number": "the number",
    "lines": "the content",
}


def record_of(payload: str | bytes) -> dict[str, Any]:
    """Return the members of a record, none if it is damaged."""
    found = document_of(payload).get("record")
    return found if isinstance(found, dict) else {}


def content_of(payload: bytes) -> object:
    """Return what a record requests, without its place and its time of shipment.

    The ERP changes that time with every change of the row, and it is not sent. The
    content of a damaged record equals no other.
    """
    try:
        document = msgspec.json.decode(payload)
    except ValueError:
        return payload
    if isinstance(document, dict):
        document.pop("asked", None)
        document.pop("read_as", None)
        for name in NOT_ASKED:
            document.get("record", {}).pop(name, None)
    return document


def is_spelled_otherwise(before: bytes, after: bytes) -> bool:
    """Return True if two shipments differ only in the spelling of their values.

    `#1001` and `1001`, `JD 1` and `jd1`: a program exports the same in another way.
    SKUs must be the same, because a store may have `a1` beside `A1`.
    """
    if document_of(after).get("kind") != "fulfill":
        return False
    return _unspelled(content_of(before)) == _unspelled(content_of(after))


def _unspelled(content: object) -> object:
    if isinstance(content, dict):
        return {
            name: value if name == "lines" else _unspelled(value)
            for name, value in content.items()
        }
    if isinstance(content, str):
        return "".join(content.casefold().split()).lstrip("#")
    return content


def digest_of(payload: bytes) -> str:
    """Return a short digest of what a record requests."""
    content = msgspec.json.encode(content_of(payload), order="sorted")
    return sha256(content).hexdigest()[:12]


def difference(before: str | bytes, after: str | bytes) -> str:
    """Return in words how a shipment differs from the known one under its key.

    Returns nothing for other kinds of records.
    """
    if document_of(after).get("kind") != "fulfill":
        return ""
    was, is_ = record_of(before), record_of(after)
    changed = [
        f"{said} was {_shown(was.get(name))}, is {_shown(is_.get(name))}"
        for name, said in _SPOKEN.items()
        if was.get(name) != is_.get(name)
    ]
    return f": {'; '.join(changed)}. {CHOICES}"


def _shown(value: object) -> str:
    if isinstance(value, list):
        lines = ", ".join(f"{line['quantity']} x {line['sku']}" for line in value[:5])
        return lines or "everything"
    return repr(value) if value else "empty"
