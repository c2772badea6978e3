"""How long ago something was, or how soon it will be, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import from_text

if TYPE_CHECKING:
    from datetime import datetime

_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def ago(text: str | None, now: datetime) -> str:
    """Return how long it is since then, or until then; `text` is as the database's."""
    if not text:
        return "never"
    seconds = (now - from_text(text)).total_seconds()
    said = span(abs(seconds))
    if said is None:
        return "now"
    return f"{said} ago" if seconds > 0 else f"in {said}"


def span(seconds: float) -> str | None:
    """Return a time by its largest whole unit, None below a second."""
    for length, unit in _SPANS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return None
