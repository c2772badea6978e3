"""What a command comes to whose first request meets a fate."""

from __future__ import annotations

from dataclasses import dataclass

from faults.sweeping import ADJUSTMENTS
from support.wire import Fate

KEYLESS = "no-idempotency"
"""The platform takes no Idempotency-Key: what is in doubt is proved by reading."""
DECIDED = frozenset({Fate.THROUGH, Fate.PROXY_403})
"""Fates after which the program knows at once what became of its request."""
REPEATED = frozenset({"part", "adjust", "pool"})
"""What a platform without keys does twice when it is asked twice."""


@dataclass(frozen=True, slots=True)
class Case:
    """One command's case: what it asks, and what became of its first request."""

    quirks: frozenset[str]
    kind: str
    fate: Fate

    @property
    def refused(self) -> str:
        """The state of what the platform refuses for a member it does not know."""
        if "strict-body" in self.quirks:
            return {"part": "rejected", "adjust": "parked"}.get(self.kind, "")
        return ""

    @property
    def undecidable(self) -> bool:
        """Whether nothing that can be read tells what became of the request."""
        unseen = {"no-history", KEYLESS} <= self.quirks
        return unseen and self.kind in ADJUSTMENTS and self.fate not in DECIDED

    @property
    def state(self) -> str:
        return self.refused or ("parked" if self.undecidable else "applied")

    @property
    def effects(self) -> int:
        """How often it takes effect: once but for what lands after all looks."""
        if self.refused:
            return 0
        if self.undecidable:
            never = {Fate.NEVER_ARRIVES, Fate.PROXY_502}
            return 0 if self.fate in never else 1
        return 2 if self.doubled else 1

    @property
    def doubled(self) -> bool:
        late = self.fate is Fate.LATE_AFTER_LAST and self.kind in REPEATED
        return late and KEYLESS in self.quirks and self.state == "applied"
