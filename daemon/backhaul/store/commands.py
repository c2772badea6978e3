"""Commands: planned, sent, and resolved where the outcome is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct, field

from backhaul.core.lifecycle import TRANSITIONS, Cause
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul.core.effect_proof import EffectOwner, Move, TagMeaning
    from backhaul.core.lifecycle import State
    from backhaul.store.matching import Command, MatchReader


class Told(Struct, frozen=True):
    """Whom an answer is about: an id, a digest of the e-mail, and it `without` them."""

    customer_id: str | None
    address: bytes | None
    without: Callable[[], bytes]


class Attempt(Struct, frozen=True):
    """One finished try at a command, as it is kept for a person."""

    finished_at: str
    outcome: str
    status: int | None
    reason: str
    response: bytes | None
    told: Told | None = None


class Settlement(Struct, frozen=True):
    """How a command moves on: one or more steps of the lifecycle's table.

    `due_at` is set where it goes on later; `held` where it waits for its order;
    `effect_id` names the adjustment or parcel that is proved to be the command's own.
    """

    causes: tuple[Cause, ...]
    reason: str
    due_at: str | None = None
    held: bool = False
    counts_as_failure: bool = False
    evidence: dict[str, Any] = field(default_factory=dict)
    effect_id: str | None = None


class Doubt(Struct, frozen=True):
    """A command whose fate is not known, with what it can be told from.

    It was planned at `planned_at`. `request` are the exact bytes sent at `sent_at` with
    the key of `key_fingerprint`; `first_sent_at` is when its idempotency key was used
    first, `answer` how its last attempt ended, `baseline` what the mirror knew of the
    object before the first send that may yet take effect; `looks` counts those taken;
    `is_overtaken` where it must not be sent again, whatever protects it.
    """

    command: Command
    request: bytes
    key_fingerprint: str
    baseline: dict[str, Any]
    planned_at: str
    sent_at: str
    first_sent_at: str
    looks: int
    is_overtaken: bool = False
    answer: str = ""


class Look(Struct, frozen=True):
    """One look at the platform for the fate of a command, as it is kept for a person.

    `read` is what was read, as plain JSON; a look that could tell nothing does not
    count.
    """

    at: str
    found: str
    reason: str
    read: Any = None
    counts: bool = True


class Sendable(Struct, frozen=True):
    """What `claim` needs to commit before the first byte leaves.

    `payload` replaces the command's own, None leaves it.
    """

    request: bytes
    key_fingerprint: str
    payload: dict[str, Any] | None = None


Prepare: TypeAlias = "Callable[[Command, MatchReader], Sendable | Settlement]"


class Commands(Protocol):
    """The outbox."""

    async def claim(
        self, store: str, gates: Mapping[str, str], limit: int, prepare: Prepare
    ) -> list[tuple[Command, Sendable]]:
        """Move due commands with a free lane to `sending`, durably, and return them.

        `gates` says, in order of priority, which kinds may leave and up to which time
        of planning. `prepare` gives the exact bytes to be sent, or
        settles the command unsent. Raises AlreadyRunning once another daemon has begun
        an epoch.
        """
        ...

    async def resume(self, store: str, rehearsed: Sequence[str]) -> int:
        """Take back some of which the dry run is over; return how many these were.

        None may leave before it is 0, or one would leave before an older one of its
        lane. `rehearsed` names the connectors of which nothing is sent, `*` all.
        """
        ...

    async def settle(
        self, command: Command, attempt: Attempt, settlement: Settlement
    ) -> State:
        """Record an attempt and move its command. Returns where it stands now."""
        ...

    async def next_due(self, store: str, after: str) -> str | None:
        """Return when, after that moment, the next command comes due that may leave."""
        ...

    async def doubt_interrupted(self, settlement: Settlement) -> list[str]:
        """After a start, move every `sending` command on. Returns their ids."""
        ...


class Doubts(Protocol):
    """The commands in doubt of the outbox."""

    async def due(self, store: str, limit: int) -> list[Doubt]:
        """Return what is to be looked at now, the longest due first.

        Of a lane that is one, and none while another of it is being sent.
        """
        ...

    async def next_due(self, store: str) -> str | None:
        """Return when the next look is due (it may be past); None without any."""
        ...

    async def settle(self, doubt: Doubt, look: Look, settlement: Settlement) -> State:
        """Keep a look and move its command on. Returns where it stands now.

        A command that a person has moved meanwhile stays where it is.
        """
        ...

    async def stands(self, doubt: Doubt) -> bool:
        """Tell whether that attempt is in doubt still: a person may decide any time."""
        ...

    async def beside(self, command: Command) -> list[Command]:
        """Return the order's other fulfillments that may own a parcel nobody knows of.

        They are in doubt as well, or were and were given up or called done unseen.
        """
        ...

    async def known_before(self, command: Command) -> dict[str, Any] | None:
        """Return what was known before the first attempt that may have taken effect.

        None where none may have. The attempt whose answer is being judged is not
        counted, unless that was to the same bytes sent again.
        """
        ...

    async def owners(
        self, store: str, adjustment_ids: Sequence[str]
    ) -> Mapping[str, EffectOwner]:
        """Return the command of each adjustment that is ours, and how it was sent."""
        ...

    async def last_adjusted(self, store: str) -> str | None:
        """Return the product of the newest adjustment that is known to be ours."""
        ...

    async def postpone(
        self, store: str, seconds: float, longest_seconds: float
    ) -> None:
        """Put off looks by as much as the clock was set forward.

        A look that is due later than `longest_seconds`, the longest wait there is,
        after the time by the clock of before stays: it was put off by the new one.
        """
        ...

    async def rivals(self, command: Command, landed_at: str) -> int:
        """Count the adjustments that may have made a change that looks like its own.

        Those are without a known effect, and were sent at least once. `landed_at` is
        the change's time on the platform, "" where that is not known.
        """
        ...


class Tagged(Struct, frozen=True):
    """An adjustment on the platform that bears a command's tag; `moves` as read."""

    command: str
    adjustment_id: str
    moves: tuple[Move, ...]


def restored_mark(store: str) -> str:
    """Name the mark of when a database was found, or made, older than its sends."""
    return f"restored:{store}"


def audited_mark(store: str) -> str:
    """Name the mark of up to when the platform's history was read."""
    return f"audited:{store}"


class Tags(Protocol):
    """What the platform's history tells of commands, by their tags."""

    async def sighted(
        self, store: str, found: Sequence[Tagged], *, adopt: bool
    ) -> list[TagMeaning]:
        """Take in, in one transaction, what adjustments with our tags mean.

        What landed is applied, what is too much is kept with its command; so is what
        landed behind a count, once that one's step is under way no more. `adopt`
        takes what is foreign for our own from before a restore: it is kept, and all
        that is open is put in doubt. Otherwise what is foreign changes nothing.
        """
        ...

    async def parcels_twice(self, store: str) -> list[tuple[str, str]]:
        """Keep which parcels left twice by commands that were sent again.

        Returns each command with the parcel too many, once. A parcel without a tracking
        number cannot be told from one that a person sent.
        """
        ...

    async def shift(self, store: str, seconds: float, longest_seconds: float) -> None:
        """Move the times of open commands back by as much as the clock went back.

        A look due within `longest_seconds`, the longest wait there is, stays.
        """
        ...

    async def catch_up(self, store: str, longest_seconds: float) -> None:
        """Let no open command wait for a clock that was set back while nobody looked.

        No wait is longer than `longest_seconds`. What is in doubt is looked for late
        rather than early.
        """
        ...


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
