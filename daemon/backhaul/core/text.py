"""Formats text for people: safe for terminals, and durations in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import from_text

if TYPE_CHECKING:
    from datetime import datetime


def printable(text: str) -> str:
    """Escape what could end the line or steer the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def storable(text: str) -> str:
    """Return text with a mark for lone surrogates: they are no text to a database.

    Odd file names have them, and JSON that was cut amid an emoji.
    """
    return text if text.isascii() else text.encode(errors="replace").decode()


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
