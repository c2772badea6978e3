"""What the ledger can find wrong."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """How the two sides disagree."""

    LOST = "lost"
    """Acknowledged, yet without effect and without a command that still owes it."""
    DOUBLED = "doubled"
    """In effect more than once."""
    UNEXPECTED = "unexpected"
    """In effect although nobody asked for it."""
    DIFFERING = "differing"
    """On both sides, but not the same."""
    PARKED = "parked"
    """Waits for a person: it may have had its effect once, or not at all."""


class Finding(Struct, frozen=True):
    """One disagreement: about what, and in which way."""

    kind: Kind
    subject: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}: {self.what}"
