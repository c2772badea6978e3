"""States of commands and of stock targets, and the transitions between them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = ("cancel", "fulfill", "adjust")
"""Kinds of command that are sent, the most urgent first."""


class Kind(StrEnum):
    """What a command requests, and a stock target, which is sent as adjustments."""

    FULFILL = "fulfill"
    CANCEL = "cancel"
    ADJUST = "adjust"
    TARGET = "target"


class State(StrEnum):
    """State of a command."""

    PLANNED = "planned"
    SENDING = "sending"
    APPLIED = "applied"
    REJECTED = "rejected"
    UNCERTAIN = "uncertain"
    PARKED = "parked"
    SUPERSEDED = "superseded"


class Cause(StrEnum):
    """Why a command changes its state."""

    SEND = "send"
    CONFIRMED = "confirmed"
    REFUSED = "refused"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"
    UNDECIDABLE = "undecidable"
    PROVED_APPLIED = "proved_applied"
    PROVED_ABSENT = "proved_absent"
    REPLACED = "replaced"
    PERSON_RESENDS = "person_resends"
    PERSON_CONFIRMS = "person_confirms"
    PERSON_DISCARDS = "person_discards"
    PERSON_PARKS = "person_parks"
    PERSON_ASKS = "person_asks"


TRANSITIONS: dict[tuple[State, Cause], State] = {
    (State.PLANNED, Cause.SEND): State.SENDING,
    (State.PLANNED, Cause.REPLACED): State.SUPERSEDED,
    (State.PLANNED, Cause.REFUSED): State.REJECTED,
    (State.SENDING, Cause.CONFIRMED): State.APPLIED,
    (State.SENDING, Cause.REFUSED): State.REJECTED,
    (State.SENDING, Cause.NOT_SENT): State.PLANNED,
    (State.SENDING, Cause.UNKNOWN): State.UNCERTAIN,
    (State.SENDING, Cause.UNDECIDABLE): State.PARKED,
    (State.SENDING, Cause.REPLACED): State.SUPERSEDED,
    (State.UNCERTAIN, Cause.PROVED_APPLIED): State.APPLIED,
    (State.UNCERTAIN, Cause.PROVED_ABSENT): State.PLANNED,
    (State.UNCERTAIN, Cause.UNKNOWN): State.UNCERTAIN,
    (State.UNCERTAIN, Cause.UNDECIDABLE): State.PARKED,
    (State.UNCERTAIN, Cause.PERSON_PARKS): State.PARKED,
    (State.UNCERTAIN, Cause.PERSON_ASKS): State.UNCERTAIN,
    (State.PLANNED, Cause.PERSON_PARKS): State.PARKED,
    (State.PLANNED, Cause.UNDECIDABLE): State.PARKED,
    (State.PLANNED, Cause.PROVED_APPLIED): State.APPLIED,
    (State.PLANNED, Cause.UNKNOWN): State.UNCERTAIN,
    (State.PARKED, Cause.PROVED_APPLIED): State.APPLIED,
    (State.REJECTED, Cause.PROVED_APPLIED): State.APPLIED,
    (State.SUPERSEDED, Cause.PROVED_APPLIED): State.APPLIED,
    (State.PARKED, Cause.PERSON_ASKS): State.UNCERTAIN,
    (State.PARKED, Cause.PERSON_RESENDS): State.PLANNED,
    (State.PARKED, Cause.PERSON_CONFIRMS): State.APPLIED,
    (State.PARKED, Cause.PERSON_DISCARDS): State.REJECTED,
    (State.REJECTED, Cause.PERSON_RESENDS): State.PLANNED,
}
"""Every transition of a command; one that is not listed is a bug."""

OPEN = frozenset({State.PLANNED, State.SENDING, State.UNCERTAIN})
"""States in which a command is not done and blocks its ordering key."""


def next_state(state: State, *causes: Cause) -> State:
    """Return a command's state after causes. Raises ValueError if one is not listed."""
    for cause in causes:
        if (state, cause) not in TRANSITIONS:
            raise ValueError(f"a {state} command cannot move by {cause}")
        state = TRANSITIONS[state, cause]
    return state


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
    PERSON_DISCARDS = "person_discards"
    PERSON_PARKS = "person_parks"


TARGET_TRANSITIONS: dict[tuple[TargetState, TargetCause], TargetState] = {
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
    (TargetState.PARKED, TargetCause.PERSON_DISCARDS): TargetState.DISCARDED,
    (TargetState.DISCARDED, TargetCause.REACHED): TargetState.APPLIED,
    (TargetState.DISCARDED, TargetCause.ADJUSTMENT_RESUMED): TargetState.ADJUSTING,
    (TargetState.DISCARDED, TargetCause.PERSON_RESENDS): TargetState.WAITING,
}
"""Every transition of a stock target; one that is not listed is a bug."""

OPEN_TARGETS = frozenset({TargetState.WAITING, TargetState.ADJUSTING, TargetState.HELD})
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


def next_target_state(state: TargetState, cause: TargetCause) -> TargetState:
    """Return a target's state after a cause. Raises ValueError if it is not listed."""
    if (state, cause) not in TARGET_TRANSITIONS:
        raise ValueError(f"a {state} stock target cannot move by {cause}")
    return TARGET_TRANSITIONS[state, cause]
