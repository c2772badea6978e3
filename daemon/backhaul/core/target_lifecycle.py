"""States of a stock target and the transitions between them, as a table."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from backhaul.core.lifecycle import State

if TYPE_CHECKING:
    from collections.abc import Mapping


class TargetState(StrEnum):
    """State of a stock target."""

    WAITING = "waiting"
    ADJUSTING = "adjusting"
    HELD = "held"
    APPLIED = "applied"
    PARKED = "parked"
    DISCARDED = "discarded"
    SUPERSEDED = "superseded"


class TargetCause(StrEnum):
    """Why a stock target changes its state."""

    ADJUSTED = "adjusted"
    REACHED = "reached"
    RECALCULATED = "recalculated"
    REPLACED = "replaced"
    UNDECIDABLE = "undecidable"
    UNEXPLAINED = "unexplained"
    RELEASED = "released"
    ADJUSTMENT_PARKED = "adjustment_parked"
    ADJUSTMENT_REJECTED = "adjustment_rejected"
    ADJUSTMENT_RESUMED = "adjustment_resumed"
    PERSON_RESENDS = "person_resends"
    PERSON_CONFIRMS = "person_confirms"
    PERSON_DROPS = "person_drops"
    PERSON_PARKS = "person_parks"


TRANSITIONS: dict[tuple[TargetState, TargetCause], TargetState] = {
    (TargetState.WAITING, TargetCause.ADJUSTED): TargetState.ADJUSTING,
    (TargetState.WAITING, TargetCause.REACHED): TargetState.APPLIED,
    (TargetState.WAITING, TargetCause.REPLACED): TargetState.SUPERSEDED,
    (TargetState.WAITING, TargetCause.UNDECIDABLE): TargetState.PARKED,
    (TargetState.WAITING, TargetCause.PERSON_PARKS): TargetState.PARKED,
    (TargetState.WAITING, TargetCause.UNEXPLAINED): TargetState.HELD,
    (TargetState.HELD, TargetCause.RELEASED): TargetState.WAITING,
    (TargetState.HELD, TargetCause.REPLACED): TargetState.SUPERSEDED,
    (TargetState.HELD, TargetCause.PERSON_PARKS): TargetState.PARKED,
    (TargetState.ADJUSTING, TargetCause.REACHED): TargetState.APPLIED,
    (TargetState.ADJUSTING, TargetCause.RECALCULATED): TargetState.WAITING,
    (TargetState.ADJUSTING, TargetCause.REPLACED): TargetState.SUPERSEDED,
    (TargetState.ADJUSTING, TargetCause.ADJUSTMENT_PARKED): TargetState.PARKED,
    (TargetState.ADJUSTING, TargetCause.ADJUSTMENT_REJECTED): TargetState.DISCARDED,
    (TargetState.ADJUSTING, TargetCause.PERSON_PARKS): TargetState.PARKED,
    (TargetState.PARKED, TargetCause.REACHED): TargetState.APPLIED,
    (TargetState.PARKED, TargetCause.ADJUSTMENT_RESUMED): TargetState.ADJUSTING,
    (TargetState.PARKED, TargetCause.ADJUSTMENT_REJECTED): TargetState.DISCARDED,
    (TargetState.PARKED, TargetCause.PERSON_RESENDS): TargetState.WAITING,
    (TargetState.PARKED, TargetCause.PERSON_CONFIRMS): TargetState.APPLIED,
    (TargetState.PARKED, TargetCause.PERSON_DROPS): TargetState.DISCARDED,
    (TargetState.DISCARDED, TargetCause.REACHED): TargetState.APPLIED,
    (TargetState.DISCARDED, TargetCause.ADJUSTMENT_RESUMED): TargetState.ADJUSTING,
    (TargetState.DISCARDED, TargetCause.PERSON_RESENDS): TargetState.WAITING,
}
"""Every transition; one that is not listed is a bug."""

OPEN = frozenset({TargetState.WAITING, TargetState.ADJUSTING, TargetState.HELD})
"""States in which a stock target is not done."""

SHOWN_AS: Mapping[TargetState, State] = {
    TargetState.WAITING: State.PLANNED,
    TargetState.ADJUSTING: State.PLANNED,
    TargetState.HELD: State.PLANNED,
    TargetState.APPLIED: State.APPLIED,
    TargetState.PARKED: State.PARKED,
    TargetState.DISCARDED: State.REJECTED,
    TargetState.SUPERSEDED: State.SUPERSEDED,
}
"""The state of a command under which a list of both shows a stock target."""


def next_state(state: TargetState, cause: TargetCause) -> TargetState:
    """Return the state after a cause. Raises ValueError if it is not listed."""
    if (state, cause) not in TRANSITIONS:
        raise ValueError(f"a {state} stock target cannot move by {cause}")
    return TRANSITIONS[state, cause]
