"""What a command comes to whose first request meets a fate."""

from __future__ import annotations

from dataclasses import dataclass

from faults.sweeping import ADJUSTMENTS
from scenes.faulty_network import CommandFault

KEYLESS = "no-idempotency"
"""The platform takes no Idempotency-Key: what is in doubt is proved by reading."""
DECIDED = frozenset({CommandFault.THROUGH, CommandFault.PROXY_403})
"""Fates after which the program knows at once what became of its request."""
REPEATED = frozenset({"part", "adjust", "pool"})
"""What a platform without keys does twice when it is asked twice."""
READINGS = (
    (),
    ("no-history",),
    ("no-note",),
    ("strict-body",),
    ("ignore-variant",),
    ("strict-repeat",),
    ("refulfill-attaches",),
    ("pooled-stock",),
    ("bare-v1",),
    ("no-store-endpoint",),
    ("coarse-time", "plain-errors", "ack-202", "manual-reason"),
    ("coarse-time", "plain-errors", "refuse-fulfill-cancelled", "no-note"),
)
KEYED = (0, 1, 2, 3, 5, 6, 9)
"""Which of them are tried with keys too: there a key makes a difference."""
CASES = [(*reading, KEYLESS) for reading in READINGS] + [READINGS[n] for n in KEYED]
"""The platforms that every fate is met on."""


@dataclass(frozen=True, slots=True)
class Case:
    """One command's case: what it asks, and what became of its first request.

    `acquainted` is whether an adjustment of ours went through there before.
    """

    quirks: frozenset[str]
    kind: str
    fate: CommandFault
    acquainted: bool = True

    @property
    def refused(self) -> str:
        """The state of what the platform refuses for a member it does not know."""
        if "strict-body" in self.quirks:
            return {"part": "rejected", "adjust": "parked"}.get(self.kind, "")
        return ""

    @property
    def hidden(self) -> bool:
        """Whether nothing that the platform shows tells what it did."""
        # Without notes, a row is known by our key's name in it, once one was seen.
        unsigned = "no-note" in self.quirks and not self.acquainted
        unseen = "no-history" in self.quirks or unsigned
        return unseen and KEYLESS in self.quirks and self.kind in ADJUSTMENTS

    @property
    def undecidable(self) -> bool:
        """Whether neither an answer nor anything else tells what became of it."""
        return self.hidden and self.fate not in DECIDED

    @property
    def state(self) -> str:
        return self.refused or ("parked" if self.undecidable else "applied")

    @property
    def effects(self) -> int:
        """How often it takes effect: once but for what lands after all looks."""
        if self.refused:
            return 0
        if self.undecidable:
            never = {CommandFault.NEVER_ARRIVES, CommandFault.PROXY_502}
            return 0 if self.fate in never else 1
        return 2 if self.doubled else 1

    @property
    def doubled(self) -> bool:
        return self.too_late and self.state == "applied"

    @property
    def too_late(self) -> bool:
        """Whether it takes effect after it was sent again, and a second time so."""
        late = self.fate is CommandFault.LATE_AFTER_LAST and self.kind in REPEATED
        return late and KEYLESS in self.quirks

    def allows(self, state: str, effects: int, *, undecided: bool) -> bool:
        """Tell whether it may have come to this where the program died meanwhile.

        `undecided` is what the log of the way says: that no answer told it.
        """
        if self.refused:
            return (state, effects) == (self.refused, 0)
        most = 2 if self.too_late else 1
        if state == "parked":
            # Two changes alike, of which no answer told: which is ours, none can tell.
            return (self.hidden or self.too_late) and undecided and effects <= most
        return state == "applied" and 1 <= effects <= most
