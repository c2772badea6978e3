"""What a change of stock that bears one of our tags means, as a table."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from backhaul.core.lifecycle import State


class Meaning(Enum):
    """What was found about a tagged adjustment."""

    OWN = "own"
    """The effect that its command is known to have, or one that is known to be too
    much."""
    OPEN = "open"
    """Its command is under way or in doubt: the settler tells. Or it landed behind a
    count whose step is."""
    LINKED = "linked"
    """A person said that it was applied; this is the effect."""
    LATE = "late"
    """Its command was given up, or is to be sent again: it has landed after all."""
    UNSENT = "unsent"
    """Its command was never sent from this database: somebody else did."""
    BEHIND = "behind"
    """It has landed after all, behind a count that was reckoned without it."""
    DOUBLED = "doubled"
    """Its command has another effect already."""
    UNKNOWN = "unknown"
    """Nobody here planned such a command."""


LANDS = frozenset({Meaning.LINKED, Meaning.LATE, Meaning.BEHIND, Meaning.UNSENT})
"""What becomes the effect of its command."""
FOREIGN = frozenset({Meaning.UNSENT, Meaning.UNKNOWN})
"""What this database, as it is, did not send."""


class Known(Struct, frozen=True):
    """What is known of the command with the tag; `doubled` are effects too many."""

    kind: str
    state: State
    attempts: int
    effect_id: str | None
    doubled: tuple[str, ...] = ()


def meaning(known: Known | None, adjustment_id: str) -> Meaning:
    """Tell what an adjustment with a command's tag means."""
    if known is None:
        return Meaning.UNKNOWN
    # An order's tag may be shown beside the stock that its cancellation gave back.
    if known.kind != "adjust" or adjustment_id in {known.effect_id, *known.doubled}:
        return Meaning.OWN
    if known.effect_id is not None:
        return Meaning.DOUBLED
    if known.state in {State.SENDING, State.UNCERTAIN}:
        return Meaning.OPEN
    if known.state is State.APPLIED:
        return Meaning.LINKED
    return Meaning.LATE if known.attempts else Meaning.UNSENT
