"""What operators decide: verbs on commands, and incidents to resolve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from backhaul.core.lifecycle import TRANSITIONS, Cause
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.core.lifecycle import State
    from backhaul.store.contract import Command


LONGEST_REASON = 500
"""In characters: a reason stands in lists."""
VERBS: Mapping[str, Cause] = {
    "settle": Cause.PERSON_ASKS,
    "settle --applied": Cause.PERSON_CONFIRMS,
    "park": Cause.PERSON_PARKS,
    "resend": Cause.PERSON_RESENDS,
    "drop": Cause.PERSON_DROPS,
}
"""Each decision, under the name that the audit log keeps, and what it does."""
TYPED: Mapping[str, str] = {
    "settle": "resolve",
    "settle --applied": "resolve --applied",
    "drop": "discard",
}
"""The decisions that `backhaul commands` calls by another word."""


RESTOCK_UNSHIPPED = "resend --restock-unshipped"
"""What one says of a cancellation to put back only what has not shipped."""


def cause_of(verb: str) -> Cause:
    """Return what a verb does to a command. Raises KeyError."""
    return Cause.PERSON_RESENDS if verb == RESTOCK_UNSHIPPED else VERBS[verb]


def can_restock_unshipped(kind: str, state: State, payload: Mapping[str, Any]) -> bool:
    """Return True for a cancellation with restock that can be sent again."""
    can_resend = (state, Cause.PERSON_RESENDS) in TRANSITIONS
    return can_resend and kind == "cancel" and bool(payload.get("restock"))


def possible(state: State) -> list[str]:
    """Return what a person may say of a command that stands there."""
    return [verb for verb, cause in VERBS.items() if (state, cause) in TRANSITIONS]


def typed(verb: str) -> str:
    """Return the words of `backhaul commands` for a decision."""
    return TYPED.get(verb, verb)


def require(command: Command, verb: str) -> None:
    """Raise BackhaulError that says what is possible instead."""
    may = possible(command.state)
    if can_restock_unshipped(command.kind, command.state, command.payload):
        may.append(RESTOCK_UNSHIPPED)
    if verb not in may:
        raise BackhaulError(
            f"command {command.id[:8]} is {command.state}, so {typed(verb)} cannot be "
            f"done; what can: {', '.join(map(typed, may)) or 'nothing'}"
        )


class Decision(Struct, frozen=True):
    """What a person says of the command with this whole id.

    `verb` is one of VERBS, or RESTOCK_UNSHIPPED.
    """

    command: str
    verb: str
    who: str
    reason: str


class Decisions(Protocol):
    """The moves that people make."""

    async def find(self, command: str) -> Command:
        """Return the command with this whole id. Raises BackhaulError."""
        ...

    async def decide(self, decision: Decision, shown: State | None = None) -> Command:
        """Move a command and write down who did it, in one step; return it as moved.

        `shown` is where it stood when the person looked. Raises BackhaulError where it
        stands elsewhere by now, or where the lifecycle has no such move.
        """
        ...


class Incident(Struct, frozen=True):
    """One incident of an order; `says` is what happened, in a sentence.

    `resolution` is what an operator wrote, None while the incident is open.
    """

    id: int
    store: str
    order_id: str
    command_id: str
    at: str
    says: str
    resolved_at: str | None = None
    resolved_by: str | None = None
    resolution: str | None = None


class Incidents(Protocol):
    """The incidents of every store."""

    async def resolve(self, id_: int, who: str, resolution: str) -> Incident:
        """Close an open incident, with an audit entry. Raises BackhaulError."""
        ...
