"""Formats text for people: safe for terminals, and durations in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import from_text

if TYPE_CHECKING:
    from datetime import datetime


def printable(text: str) -> str:
    """Escape characters that could end the line or control the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def storable(text: str) -> str:
    """Return text with lone surrogates replaced, which no database stores.

    They occur in odd file names, and in JSON that was cut within an emoji.
    """
    return text if text.isascii() else text.encode(errors="replace").decode()


_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def ago(text: str | None, now: datetime) -> str:
    """Return the time since or until `text`, a time as the database stores it."""
    if not text:
        return "never"
    seconds = (now - from_text(text)).total_seconds()
    said = span(abs(seconds))
    if said is None:
        return "now"
    return f"{said} ago" if seconds > 0 else f"in {said}"


def span(seconds: float) -> str | None:
    """Return a duration in its largest whole unit; None below a second."""
    for length, unit in _SPANS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return None
