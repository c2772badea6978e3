"""Signals: how one part of the daemon lets others react, without knowing them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import TypeAlias

    from backhaul.core.clock import Clock
    from backhaul.runtime.loop import OpenStores, OpenWork
    from backhaul.runtime.tracing import Tracer

    Report: TypeAlias = "Callable[..., Awaitable[None]]"

P = ParamSpec("P")


class Signal(Generic[P]):
    """An event that any number of handlers react to.

    `emit` calls the handlers at once, in the order in which they were connected, and
    returns after the last one. A handler must not wait: most wake a worker.
    """

    def __init__(self) -> None:
        self._handlers: list[Callable[P, object]] = []

    def connect(self, *handlers: Callable[P, object]) -> None:
        """Call these handlers too, after those that are connected already."""
        self._handlers += handlers

    @contextmanager
    def connected(self, *handlers: Callable[P, object]) -> Iterator[None]:
        """Call these handlers too, until the block ends."""
        self.connect(*handlers)
        try:
            yield
        finally:
            for handler in handlers:
                self._handlers.remove(handler)

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all handlers."""
        for handler in [*self._handlers]:
            handler(*args, **kwargs)


class StoreSignals:
    """What the parts of one store tell each other."""

    def __init__(self) -> None:
        self.command_changed = Signal[[]]()
        """Commands were planned or have a new state: their ordering key may be free."""
        self.adjustment_planned = Signal[[]]()
        """The target worker planned a command; it needs no wake itself."""
        self.command_uncertain = Signal[[]]()
        self.state_reached = Signal[[str, str]]()
        """A command of a kind reached a state."""
        self.command_sent = Signal[[str, float]]()
        """A command of a kind was sent for the first time, so old in seconds."""
        self.records_accepted = Signal[[]]()
        """Records of a connection were accepted, or wait for their order."""
        self.record_stored = Signal[[str, str]]()
        """A record of a connection was stored; with the connection and its state."""
        self.delivery_ended = Signal[[str, str]]()
        """An attempt to deliver ended; with the connection and the new state."""
        self.events_arrived = Signal[[]]()
        """A read of the platform is in the inbox."""
        self.refetch_queued = Signal[[]]()
        self.sending_resumed = Signal[[]]()
        """The send switch opened, or the history audit released its hold."""
        self.other_store_found = Signal[[str]]()
        """The platform is another store than the mirror's; with the reason."""
        self.key_refused = Signal[[str]]()
        """The platform answered 401; with its words."""
        self.platform_failing = Signal[[]]()
        """A request failed while the circuit is open."""
        self.pause_began = Signal[[Any]]()
        """The platform's rate limit lets nothing through for more than a minute."""
        self.request_ended = Signal[[str, str, float]]()
        """A request ended: its method, status and seconds."""


class SharedSignals:
    """What the parts that serve all stores tell the others."""

    def __init__(self) -> None:
        self.events_folded = Signal[[]]()
        """The mirror has changed."""
        self.conflict_found = Signal[[]]()
        """Objects wait to be fetched again."""
        self.records_accepted = Signal[[]]()
        """Records that had waited for their order were accepted."""
        self.operator_decided = Signal[[]]()
        """An operator decided about a command, a delivery or a quarantined row."""
        self.search_changed = Signal[[]]()
        """The search index is to be built again."""


class Lease(Protocol):
    """Says until when a claimed command may be sent.

    A daemon that shares its database with others may be replaced while it stands still.
    No request may leave after that, because the next owner may have looked for its
    effect already.
    """

    def now(self) -> float:
        """Return the seconds of a clock that also counts while the machine sleeps."""
        ...

    def allows(self, claimed_at: float) -> bool:
        """Return whether what was claimed at a time of `now` may leave now."""
        ...


class Unlimited:
    """The lease of a daemon that alone can open its database."""

    def now(self) -> float:
        return 0.0

    def allows(self, claimed_at: float) -> bool:
        return True


async def no_report(*_: object, **__: object) -> None:
    """Report nothing: no job waits for the end of the work."""


class StoreContext(Struct, frozen=True):
    """What every part of one store is given.

    `report` stores the end of a job's run: it takes the job, when the run began, and
    what it did. `lease` says until when a claimed command may be sent. `tracer` is None
    where traces are off. Without `open_work` every worker checks for its work itself.
    """

    name: str
    clock: Clock
    chance: Callable[[], float]
    signals: StoreSignals = field(default_factory=StoreSignals)
    report: Report = no_report
    lease: Lease = Unlimited()
    tracer: Tracer | None = None
    open_work: OpenWork | None = None

    async def open_stores(self) -> OpenStores | None:
        """Return which stores have work that waits; None if that is not known."""
        return None if self.open_work is None else await self.open_work.now()

    async def has_work(self) -> bool:
        """Return False if no command, count or fetch of this store waits."""
        found = await self.open_stores()
        return found is None or self.name in found.names
