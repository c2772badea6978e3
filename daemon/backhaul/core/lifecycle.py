"""States of a command and the transitions between them, as a table."""

from __future__ import annotations

from enum import StrEnum

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
    PERSON_DROPS = "person_drops"
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
    (State.PARKED, Cause.PERSON_DROPS): State.REJECTED,
    (State.REJECTED, Cause.PERSON_RESENDS): State.PLANNED,
}
"""Every transition; one that is not listed is a bug."""

OPEN = frozenset({State.PLANNED, State.SENDING, State.UNCERTAIN})
"""States in which a command is not done and blocks its ordering key."""


def next_state(state: State, *causes: Cause) -> State:
    """Return the state after some causes. Raises ValueError if one is not listed."""
    for cause in causes:
        if (state, cause) not in TRANSITIONS:
            raise ValueError(f"a {state} command cannot move by {cause}")
        state = TRANSITIONS[state, cause]
    return state
