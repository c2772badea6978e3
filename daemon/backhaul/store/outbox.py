"""What sending asks of a store: commands, what they met, and what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul.core.effect_proof import EffectOwner
    from backhaul.core.lifecycle import Cause, State
    from backhaul.store.contract import Command, MatchReader


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
