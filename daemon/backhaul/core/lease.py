"""The right to send: whether a request may still leave.

A daemon that shares its database with others may be replaced while it stands still.
A request must not leave after that: the next owner may have looked for its effect.
"""

from __future__ import annotations

from typing import Protocol


class Lease(Protocol):
    """Says until when a claimed command may be sent."""

    def now(self) -> float:
        """Return the seconds of a clock that also counts while the machine sleeps."""
        ...

    def allows(self, claimed_at: float) -> bool:
        """Return whether what was claimed at a time of `now` may leave now."""
        ...


class Unlimited:
    """The lease of a daemon that alone can open its database."""

    def now(self) -> float:
        return 0.0

    def allows(self, claimed_at: float) -> bool:
        return True
