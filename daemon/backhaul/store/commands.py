"""Commands: claimed, sent, and resolved if their outcome is uncertain."""

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


class MentionedCustomer(Struct, frozen=True):
    """The customer that a response mentions, and `redacted`: it without them."""

    customer_id: str | None
    email_digest: bytes | None
    redacted: Callable[[], bytes]


class Attempt(Struct, frozen=True):
    """One finished attempt at a command, as operators see it."""

    finished_at: str
    outcome: str
    status: int | None
    reason: str
    response: bytes | None
    customer: MentionedCustomer | None = None


class Transition(Struct, frozen=True):
    """How a command changes its state: one or more causes of the lifecycle's table.

    `due_at` is when a planned command is sent again or an uncertain one is checked.
    `held` puts the command on hold until its order changes. `effect_id` is the
    adjustment or parcel that is proved to be the command's effect.
    """

    causes: tuple[Cause, ...]
    reason: str
    due_at: str | None = None
    held: bool = False
    counts_as_failure: bool = False
    evidence: dict[str, Any] = field(default_factory=dict)
    effect_id: str | None = None


class UncertainCommand(Struct, frozen=True):
    """An uncertain command, with what its outcome can be determined from.

    `request` are the exact bytes sent at `sent_at` with the key of `key_fingerprint`.
    `first_sent_at` is the first use of its idempotency key, `answer` how its last
    attempt ended, and `baseline` what the mirror knew of the object before the first
    send that may still take effect. `checks` counts the checks so far; this one was due
    at `due_at`. A command with `is_superseded` must not be sent again, whatever
    protects it.
    """

    command: Command
    request: bytes
    key_fingerprint: str
    baseline: dict[str, Any]
    planned_at: str
    sent_at: str
    first_sent_at: str
    due_at: str
    checks: int
    is_superseded: bool = False
    answer: str = ""


class Check(Struct, frozen=True):
    """One check of an uncertain command at the platform, as operators see it.

    `read` is what the check read, as plain JSON. A check that could not determine
    anything does not count.
    """

    at: str
    found: str
    reason: str
    read: Any = None
    counts: bool = True


class Sendable(Struct, frozen=True):
    """What `claim` commits before the first byte leaves.

    `payload` and `traceparent` replace those of the command; None keeps them.
    """

    request: bytes
    key_fingerprint: str
    payload: dict[str, Any] | None = None
    traceparent: str | None = None


Prepare: TypeAlias = "Callable[[Command, MatchReader], Sendable | Transition]"


class Commands(Protocol):
    """The commands that wait to be sent, and their attempts."""

    async def claim(
        self, store: str, windows: Mapping[str, str], limit: int, prepare: Prepare
    ) -> list[tuple[Command, Sendable]]:
        """Move due commands with a free ordering key to `sending`, and return them.

        `windows` names the kinds that may leave, in order of priority, each with the
        time by which a command must be planned. `prepare` returns the exact bytes to
        send, or a transition for a command that is not sent. Raises AlreadyRunning once
        another daemon has begun an epoch.
        """
        ...

    async def release_dry_run(self, store: str, dry_run: Sequence[str]) -> int:
        """Release some commands of dry runs that have ended; return their number.

        Send nothing before it is 0, or a newer command could leave before an older one
        of its ordering key. `dry_run` names the connections still in a dry run; `*`
        means all.
        """
        ...

    async def record_attempt(
        self, command: Command, attempt: Attempt, transition: Transition
    ) -> State:
        """Record an attempt and apply its transition. Returns the new state."""
        ...

    async def next_due(self, store: str, after: str) -> str | None:
        """Return when the next command is due after a time; None without any.

        `after` is the time of the last claim, so that no command due since is missed.
        """
        ...

    async def mark_interrupted_uncertain(
        self, transition: Transition, store: str | None = None
    ) -> list[str]:
        """After a start, apply a transition to every `sending` command.

        Returns the ids of these commands.
        """
        ...


class AllCommands(Commands, Protocol):
    """The commands, with those of a dry run."""

    async def begin_epoch(self) -> None:
        """Let only this daemon send from the database, and none that started before.

        The lock file separates two daemons on one machine, but not two machines that
        share the folder and do not see each other's locks.
        """
        ...

    async def claim(
        self,
        store: str,
        windows: Mapping[str, str],
        limit: int,
        prepare: Prepare,
        dry_run: Sequence[str] = (),
    ) -> list[tuple[Command, Sendable]]:
        """Claim commands, but none of the connections in `dry_run`; `*` means all."""
        ...

    async def hold_for_dry_run(
        self, store: str, windows: Mapping[str, str], limit: int, dry_run: Sequence[str]
    ) -> list[Command]:
        """Put due commands of a dry run on hold, and return them.

        The arguments are those of `claim`; `release_dry_run` ends the hold.
        """
        ...


class UncertainCommands(Protocol):
    """The uncertain commands, and the checks of them."""

    async def due(self, store: str, limit: int) -> list[UncertainCommand]:
        """Return the commands whose check is due, the longest due first.

        At most one of an ordering key, and none while another of it is being sent.
        """
        ...

    async def next_due(self, store: str) -> str | None:
        """Return when the next check is due, which may be past; None without any."""
        ...

    async def record_check(
        self, uncertain: UncertainCommand, check: Check, transition: Transition
    ) -> State:
        """Record a check and apply its transition. Returns the command's state.

        A command keeps its state if an operator has moved it, or it was sent again,
        since: the check was of its earlier attempt.
        """
        ...

    async def is_still_uncertain(self, uncertain: UncertainCommand) -> bool:
        """Return True if that attempt is still uncertain; operators decide any time."""
        ...

    async def sibling_fulfillments(self, command: Command) -> list[Command]:
        """Return other fulfillments of the order that may own an unknown parcel.

        They are uncertain, or were and ended without a known parcel. Of the damaged
        ones, those that are uncertain are parked and left out, and so are others that
        cannot be read.
        """
        ...

    async def known_before(self, command: Command) -> dict[str, Any] | None:
        """Return what was known before the first attempt that may have taken effect.

        None if no attempt may have. The attempt being classified does not count, unless
        it sent the same bytes again.
        """
        ...

    async def owners(
        self, store: str, adjustment_ids: Sequence[str]
    ) -> Mapping[str, EffectOwner]:
        """Return the command behind each of our adjustments, and how it was sent."""
        ...

    async def last_adjusted(self, store: str) -> str | None:
        """Return the product of our newest known adjustment."""
        ...

    async def postpone(
        self, store: str, seconds: float, longest_seconds: float
    ) -> None:
        """Postpone checks by as much as the clock was set forward.

        A check due more than `longest_seconds`, the longest wait, after the previous
        time stays: it was planned with the new clock.
        """
        ...

    async def count_competing_adjustments(
        self, command: Command, effective_at: str
    ) -> int:
        """Count other adjustments that may have made a change like this command's.

        These were sent at least once, and have no known effect. `effective_at` is the
        platform's time of the change, "" if unknown: an adjustment that was given up
        long before it does not count.
        """
        ...


class TaggedAdjustment(Struct, frozen=True):
    """An adjustment on the platform with a command's reference tag."""

    command: str
    adjustment_id: str
    moves: tuple[Move, ...]


def restored_mark(store: str) -> str:
    """Return the name under which the time of a database's last restore is kept."""
    return f"restored:{store}"


def audited_mark(store: str) -> str:
    """Return the name under which the end of the last history audit is kept."""
    return f"audited:{store}"


class HistoryTags(Protocol):
    """What the platform's stock history shows about commands, by their tags."""

    async def record_tags(
        self, store: str, found: Sequence[TaggedAdjustment], *, adopt: bool
    ) -> list[TagMeaning]:
        """Record what adjustments with our tags mean, in one transaction.

        A command that took effect becomes applied; a duplicate effect is kept in its
        evidence, and so is an effect behind a count whose adjustment has ended. With
        `adopt`, foreign adjustments are taken for our own from before a restore: they
        are kept, and every open command becomes uncertain. Otherwise they change
        nothing.
        """
        ...

    async def record_double_parcels(self, store: str) -> list[tuple[str, str]]:
        """Record parcels that left twice by commands that were sent again.

        Returns each command with its extra parcel, once. Parcels without a tracking
        number are left out: an operator may have sent them.
        """
        ...

    async def shift(self, store: str, seconds: float, longest_seconds: float) -> None:
        """Move the times of open commands back by as much as the clock went back.

        A check due within `longest_seconds`, the longest wait, stays.
        """
        ...

    async def catch_up(self, store: str, longest_seconds: float) -> None:
        """Limit the waits of open commands after the clock was set back unnoticed.

        No wait is longer than `longest_seconds`. An uncertain command is checked late
        rather than early.
        """
        ...


LONGEST_REASON = 500
"""In characters, because lists show reasons."""
VERBS: Mapping[str, Cause] = {
    "resolve": Cause.PERSON_ASKS,
    "resolve --applied": Cause.PERSON_CONFIRMS,
    "park": Cause.PERSON_PARKS,
    "resend": Cause.PERSON_RESENDS,
    "discard": Cause.PERSON_DISCARDS,
}
"""Each decision, by its name in the audit log and on the command line."""

RESTOCK_UNSHIPPED = "resend --restock-unshipped"
"""The decision to send a cancellation that restocks only what has not shipped."""


def cause_of(verb: str) -> Cause:
    """Return the cause of a decision. Raises KeyError."""
    return Cause.PERSON_RESENDS if verb == RESTOCK_UNSHIPPED else VERBS[verb]


def can_restock_unshipped(kind: str, state: State, payload: Mapping[str, Any]) -> bool:
    """Return True for a cancellation with restock that can be sent again."""
    can_resend = (state, Cause.PERSON_RESENDS) in TRANSITIONS
    return can_resend and kind == "cancel" and bool(payload.get("restock"))


def possible_verbs(state: State) -> list[str]:
    """Return the decisions that are possible in a state."""
    return [verb for verb, cause in VERBS.items() if (state, cause) in TRANSITIONS]


def require_possible(command: Command, verb: str) -> None:
    """Raise BackhaulError with the possible decisions if this one is not."""
    verbs = possible_verbs(command.state)
    if can_restock_unshipped(command.kind, command.state, command.payload):
        verbs.append(RESTOCK_UNSHIPPED)
    if verb not in verbs:
        raise BackhaulError(
            f"command {command.id[:8]} is {command.state}, so the action"
            f" {verb} is not possible. Possible actions:"
            f" {', '.join(verbs) or 'none'}"
        )


class Decision(Struct, frozen=True):
    """What an operator decides about the command with this whole id.

    `verb` is one of VERBS, or RESTOCK_UNSHIPPED.
    """

    command: str
    verb: str
    who: str
    reason: str

    def in_words(self) -> str:
        """Return the reason of the command's new state."""
        detail = f": {self.reason}" if self.reason else ""
        return f"{self.verb} by {self.who}{detail}"


class Decisions(Protocol):
    """The transitions that operators decide."""

    async def find(self, command: str) -> Command:
        """Return the command with this whole id. Raises BackhaulError."""
        ...

    async def decide(self, decision: Decision, shown: State | None = None) -> Command:
        """Apply a decision and add its audit entry; return the command as it is then.

        `shown` is the state that the operator saw. Raises BackhaulError if the state
        has changed since, or the lifecycle has no such transition.
        """
        ...


class Incident(Struct, frozen=True):
    """One incident of an order; `says` describes it in a sentence.

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
