"""Text of strangers, made fit for a line of a terminal, and to be kept."""

from __future__ import annotations


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
