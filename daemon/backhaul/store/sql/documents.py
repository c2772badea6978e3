"""Documents kept as JSON in a column, read so that a damaged one stops nothing."""

from __future__ import annotations

from typing import Any

import msgspec


class Damaged(ValueError):
    """What is needed to decide about a row cannot be read; the text says of what."""


def document_of(text: str | bytes | None) -> dict[str, Any]:
    """Return a document; it is empty where it is damaged, or where there is none."""
    return _read(text or b"{}") or {}


def is_document(text: str | bytes) -> bool:
    """Tell a document from what is damaged; it may be empty."""
    return _read(text) is not None


def as_bytes(text: str) -> bytes:
    """Return the bytes of a document; none if it is damaged text."""
    return text.encode() if type(text) is str else b""


def intact(text: str) -> str:
    """Return a key of a document as it is. Raises Damaged if it is no whole text."""
    if type(text) is not str:
        raise Damaged(f"{text!r} is damaged")
    return text


def is_damaged(value: object) -> bool:
    """Return True if a value of a column is damaged text."""
    return isinstance(value, str) and type(value) is not str


def _read(text: str | bytes) -> dict[str, Any] | None:
    if is_damaged(text):
        return None
    try:
        found = msgspec.json.decode(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
