"""Text of strangers, made fit for a line of a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape what could end the line or steer the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
