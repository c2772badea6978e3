"""What a record asks for, and how two records under one key differ."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.store.sql.documents import document_of

if TYPE_CHECKING:
    import sqlite3

NOT_ASKED = (
    *("locator", "shipped_at", "listed_at", "note"),
    *("everything", "parts", "beside", "by_content", "question"),
)
"""Members of a record that do not change what is sent; `everything` follows from its
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


def record_of(payload: bytes) -> dict[str, Any]:
    """Return the members of a record; none of one that is damaged."""
    found = document_of(payload).get("record")
    return found if isinstance(found, dict) else {}


def content_of(payload: bytes) -> object:
    """Return what a record asks for: neither where it stood, nor when it was shipped.

    That time is the ERP's, changes with every touch of its row, and is not sent. What
    is damaged says nothing that another could say.
    """
    try:
        document = msgspec.json.decode(payload)
    except ValueError:
        return payload
    if isinstance(document, dict):
        document.pop("asked", None)
        for name in NOT_ASKED:
            document.get("record", {}).pop(name, None)
    return document


def is_spelled_otherwise(before: bytes, after: bytes) -> bool:
    """Tell whether two shipments differ in how the same is written, and in no more.

    `#1001` and `1001`, `JD 1` and `jd1`: a program writes its export in another way.
    Articles must be the same: a store may have `a1` beside `A1`.
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
    """Return a short name of what a record asks for."""
    content = msgspec.json.encode(content_of(payload), order="sorted")
    return sha256(content).hexdigest()[:12]


def difference(before: bytes, after: bytes) -> str:
    """Return in words how a shipment differs from the one known under its key.

    Empty for all other records.
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


def note_question(connection: sqlite3.Connection, id_: int) -> None:
    """Keep that an operator was asked: when they retry the record, that is decided."""
    connection.execute(
        """
        UPDATE records SET payload = iif(json_valid(payload),
            json_set(payload, '$.asked', json('true')), payload)
        WHERE id = ?
        """,
        (id_,),
    )
