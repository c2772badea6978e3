"""The JSON document in which a change notification leaves Backhaul."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_sdk.contract import Change

PLACEHOLDERS = ("{topic}", "{store}", "{object_id}")
"""What a template of a subject or routing key may contain."""
_NO_TOKEN = re.compile(r"[^A-Za-z0-9_=-]+")
_UNKNOWN = re.compile(r"\{[^{}]*\}|[{}]")


def document_of(change: Change) -> bytes:
    """Return the change as JSON, the same for every way on which it is sent."""
    message = {
        "type": change.topic,
        "timestamp": change.occurred_at,
        "data": change.document,
        "store": change.store,
    }
    return as_json(message)


def as_json(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON without blanks, in UTF-8."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def checked_template(template: str) -> str:
    """Return a template if all its placeholders are known. Raises ValueError."""
    rest = template
    for placeholder in PLACEHOLDERS:
        rest = rest.replace(placeholder, "x")
    if unknown := _UNKNOWN.search(rest):
        raise ValueError(
            f"{template!r} contains {unknown[0]}, which is not a placeholder; the"
            f" placeholders are {', '.join(PLACEHOLDERS)}"
        )
    return template


def filled(template: str, change: Change) -> str:
    """Return a template with the values of a change; a store or id is one token."""
    values = (change.topic, _token(change.store), _token(change.object_id))
    for placeholder, value in zip(PLACEHOLDERS, values, strict=True):
        template = template.replace(placeholder, value)
    return template


def _token(text: str) -> str:
    # Dots, blanks and wildcards have a meaning in subjects and routing keys.
    return _NO_TOKEN.sub("_", text)
