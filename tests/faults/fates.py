"""What a command comes to whose first request meets a fate."""

from __future__ import annotations

from dataclasses import dataclass

from faults.sweeping import ADJUSTMENTS
from scenes.faulty_network import CommandFault

KEYLESS = "no-idempotency"
"""A platform without idempotency keys: uncertain commands are checked by reads."""
DECIDED = frozenset({CommandFault.THROUGH, CommandFault.PROXY_403})
"""Faults after which the program knows the outcome at once."""
REPEATED = frozenset({"part", "adjust", "pool"})
"""Commands that a platform without keys applies twice if they are sent twice."""
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
"""Faults that are tested with keys too, because a key makes a difference."""
CASES = [(*reading, KEYLESS) for reading in READINGS] + [READINGS[n] for n in KEYED]
"""The platforms on which every fault is tested."""


@dataclass(frozen=True, slots=True)
class Case:
    """One command's case: its kind, and the fault of its first request.

    `acquainted` is True if an adjustment of ours was applied there before.
    """

    quirks: frozenset[str]
    kind: str
    fate: CommandFault
    acquainted: bool = True

    @property
    def refused(self) -> str:
        """Return the state of a command that is refused for an unknown member."""
        if "strict-body" in self.quirks:
            return {"part": "rejected", "adjust": "parked"}.get(self.kind, "")
        return ""

    @property
    def hidden(self) -> bool:
        """Return True if the platform shows no evidence of the effect."""
        # without notes, a row is recognised by our key's name, once it was seen
        unsigned = "no-note" in self.quirks and not self.acquainted
        unseen = "no-history" in self.quirks or unsigned
        return unseen and KEYLESS in self.quirks and self.kind in ADJUSTMENTS

    @property
    def undecidable(self) -> bool:
        """Return True if neither a response nor evidence shows the outcome."""
        return self.hidden and self.fate not in DECIDED

    @property
    def state(self) -> str:
        return self.refused or ("parked" if self.undecidable else "applied")

    @property
    def effects(self) -> int:
        """Return how often it takes effect: once, except after the last check."""
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
        """Return True if it takes effect again after the resend."""
        late = self.fate is CommandFault.LATE_AFTER_LAST and self.kind in REPEATED
        return late and KEYLESS in self.quirks

    def allows(self, state: str, effects: int, *, undecided: bool) -> bool:
        """Return True if this result is possible after a kill of the program.

        `undecided`: according to the network's log no response showed the outcome.
        """
        if self.refused:
            return (state, effects) == (self.refused, 0)
        most = 2 if self.too_late else 1
        if state == "parked":
            # two equal changes without a response: it cannot be known which is ours
            return (self.hidden or self.too_late) and undecided and effects <= most
        return state == "applied" and 1 <= effects <= most
