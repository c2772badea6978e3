"""JSON in a column, read so that a damaged row stands in nobody's way.

SQLite ends a whole query at the first value that is no JSON; here it has no members.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Damaged(ValueError):
    """What is needed to decide about a row cannot be read; the text says of what."""


def member(column: str, path: str) -> str:
    """Return SQL for a member, NULL of what is damaged; `path` as in `$.delta`."""
    return f"iif(json_valid({column}), json_extract({column}, '{path}'), NULL)"


def whole(column: str) -> str:
    """Return SQL for a document, an empty one instead of a damaged one or NULL."""
    return f"iif(json_valid({column}), {column}, '{{}}')"


def document_of(text: str | bytes | None) -> dict[str, Any]:
    """Return a document; it is empty where it is damaged, or where there is none."""
    return _read(text or b"{}") or {}


def is_document(text: str | bytes) -> bool:
    """Tell a document from what is damaged; it may be empty."""
    return _read(text) is not None


def _read(text: str | bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
