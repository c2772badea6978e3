"""The stores that this daemon owns, alone or as one of several on one database."""

from __future__ import annotations

import asyncio
from contextlib import (
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from loguru import logger

from backhaul.app.forwarding import reachable_url
from backhaul.errors import (
    BackhaulError,
    Busy,
    ConfigurationError,
    DatabaseUnavailable,
    Fatal,
    ReadFailed,
)
from backhaul.runtime.loop import (
    UnderWay,
    retry_while_busy,
    unless,
    wait_for_event,
)
from backhaul.store import database_at
from backhaul.store.ownership import DATABASE, PASSING, new_member

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Coroutine,
        Iterator,
    )

    from backhaul.app.store_runtime import StoreRuntime
    from backhaul.app.wiring import Receiving, Shop
    from backhaul.core.clock import Clock
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.ownership import Member, Ownership, Shift


BALANCE_SECONDS = 0.5
"""How often a member checks whether others are silent, or own more or fewer stores."""
FIRST_CONTACT_SECONDS = 10.0
"""How long a daemon with others beside it waits for its stores before it is ready."""
LEAST_BALANCE_SECONDS = 0.02
"""The pause before the check at which another member counts as silent."""


class OwnedStores:
    """Takes stores, runs their parts, and gives up those that others shall have.

    `build` builds the parts of a store. `on_database` begins the duties of the whole
    database, once, before the parts of any store.
    """

    def __init__(
        self,
        ownership: Ownership,
        clock: Clock,
        build: Callable[[str], StoreRuntime],
        on_database: Callable[[], Awaitable[None]],
        stopping: asyncio.Event,
    ) -> None:
        self._ownership = ownership
        self._clock = clock
        self._build = build
        self._on_database = on_database
        self._stopping = stopping
        self._stops: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_ready: set[str] = set()
        self._became_ready = asyncio.Event()
        self._leaving: set[str] = set()
        self._requests = UnderWay()
        self._group: asyncio.TaskGroup | None = None
        self.runtimes: dict[str, StoreRuntime] = {}
        """The parts of each store that is owned here."""
        self.shops: dict[str, Shop] = {}

    async def start(self) -> None:
        """Take the stores that nobody owns.

        Without other daemons the events of all stores are folded from the start, so
        their parts are made ready first.
        """
        await self._take(await retry_while_busy(self._balance, self._clock))
        if not self._ownership.is_shared:
            stop = self._stopping
            await asyncio.gather(*(self._make_ready(n, stop) for n in self.runtimes))

    async def _balance(self) -> Shift:
        try:
            return await self._ownership.balance()
        except ReadFailed as error:
            raise Busy(str(error)) from None

    async def _take(self, shift: Shift) -> None:
        if DATABASE in shift.taken:
            await retry_while_busy(self._on_database, self._clock)
        for name in shift.taken:
            if name != DATABASE:
                runtime = self.runtimes[name] = self._build(name)
                self.shops[name] = runtime.shop

    async def _make_ready(self, name: str, stop: asyncio.Event) -> None:
        """Make the parts of a store ready, unless stopped before.

        Only then its events may be folded.
        """
        runtime = self.runtimes[name]

        async def work() -> None:
            await retry_while_busy(runtime.prepare, self._clock)
            await runtime.connect()

        await unless(stop, work())
        if stop.is_set():
            return
        self._is_ready.add(name)
        self._became_ready.set()
        self._ownership.begin_folding(name)
        if self._ownership.is_shared:
            logger.bind(action="store.taken", store=name).info(
                "this daemon owns store {}", name
            )

    async def wait_ready(self) -> None:
        """Wait for the stores of the start, but not long for a platform that hangs."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_CONTACT_SECONDS):
                await unless(self._stopping, self._all_ready())

    async def _all_ready(self) -> None:
        while self.runtimes.keys() - self._is_ready:
            self._became_ready.clear()
            await self._became_ready.wait()

    async def run(self) -> None:
        """Run the parts of the stores until the stop; take and give up stores.

        Returns once every store has finished what was under way.
        """
        async with asyncio.TaskGroup() as self._group:
            self._run_new()
            seconds = BALANCE_SECONDS
            while not self._stopping.is_set():
                await wait_for_event(self._stopping, seconds, self._clock)
                if not self._stopping.is_set():
                    seconds = await retry_while_busy(self._change, self._clock)
            for stop in self._stops.values():
                stop.set()

    async def _change(self) -> float:
        """Take and give up stores; return the seconds until the next check."""
        shift = await self._balance()
        await self._take(shift)
        self._run_new()
        assert self._group is not None  # noqa: S101 - it runs
        # What was read may be older than the release of a store that it names.
        for name in self.runtimes.keys() & shift.surplus:
            if name not in self._leaving:
                self._leaving.add(name)
                self._group.create_task(self._give_up(name))
        return min(shift.silent_seconds + LEAST_BALANCE_SECONDS, BALANCE_SECONDS)

    def _run_new(self) -> None:
        assert self._group is not None  # noqa: S101 - it runs
        for name in self.runtimes.keys() - self._tasks.keys():
            stop = self._stops[name] = asyncio.Event()
            self._tasks[name] = self._group.create_task(self._run_store(name, stop))

    async def _run_store(self, name: str, stop: asyncio.Event) -> None:
        """Run one store. A platform that hangs holds up no other store."""
        if name not in self._is_ready:
            await self._make_ready(name, stop)
        if not stop.is_set():
            runtime = self.runtimes[name]
            runtime.wake()
            await runtime.run(stop)

    @contextmanager
    def using(self, store: str) -> Iterator[None]:
        """Keep a store here until the block ends. Raises Busy if another gets it."""
        if store in self._leaving:
            raise Busy(
                f"nothing was changed, because another daemon takes store {store}"
                " just now. Try again in some seconds"
            )
        with self._requests.one(store):
            yield

    async def _give_up(self, name: str) -> None:
        """End the parts of one store; the others keep on working meanwhile.

        Waits for the requests of operators that are under way. At a stop of the
        daemon, all stores end together.
        """
        await unless(self._stopping, self._requests.idle([name]))
        if self._stopping.is_set():
            return
        runtime = self.runtimes[name]
        await runtime.disconnect()
        self._stops.pop(name).set()
        await self._tasks[name]
        await runtime.close()
        del self.runtimes[name], self.shops[name], self._tasks[name]
        self._is_ready.discard(name)
        give_up = partial(self._ownership.give_up, name)
        await unless(self._stopping, retry_while_busy(give_up, self._clock))
        self._leaving.remove(name)
        logger.bind(action="store.given_up", store=name).info(
            "another daemon takes store {}", name
        )

    async def close(self) -> None:
        """Close what the parts of all stores have opened."""
        for runtime in self.runtimes.values():
            await runtime.close()


CHECK_SECONDS = 60.0
WITNESS = "confirmed-rounds"
"""The file of `state_dir` from which a daemon knows after its end what it confirmed."""


def joining(
    settings: Settings,
    public_url: str = "",
    admin_url: str = "",
    roles: tuple[str, ...] = (),
) -> Member | None:
    """Return this run as a member of its database's cluster; None for a file.

    `roles` are those of the settings if there are none. Raises ConfigurationError if
    the server may lose what it confirms, and DatabaseUnavailable.
    """
    if not isinstance(settings.place, str):
        return None
    try:
        require_durability(settings)
    except Fatal:
        raise
    except BackhaulError as error:
        raise DatabaseUnavailable(str(error)) from None
    given = settings.cluster
    reached = partial(reachable_url, place=settings.place, address=given.address)
    public_url = reached(public_url, settings.public.host)
    admin_url = reached(admin_url, settings.admin.host)
    witness = None if roles else settings.state_dir / WITNESS
    return new_member(
        public_url,
        admin_url,
        given.ttl,
        given.hold,
        roles or given.roles,
        witness,
        quorum=given.durability == "quorum",
    )


async def join(
    ownership: Ownership, settings: Settings, clock: Clock, stopping: asyncio.Event
) -> bool:
    """Join the members of the cluster; return False if the stop came first.

    It waits while the database is away.
    """
    once = partial(ownership.join, settings.stores, settings.pins)
    await unless(stopping, retry_while_busy(once, clock))
    return not stopping.is_set()


def require_durability(settings: Settings) -> None:
    """Check how the server keeps commits. Raises ConfigurationError, BackhaulError.

    With `durability = "single"` it only warns.
    """
    quorum = settings.cluster.durability == "quorum"
    found = database_at(settings.place).durability(quorum=quorum)
    lasting = [each for each in found if each.key not in PASSING]
    if lasting and quorum:
        raise ConfigurationError(lasting)
    for each in found:
        logger.bind(action="database.durability").warning("{}", each)


@asynccontextmanager
async def receiving(parts: Receiving) -> AsyncIterator[None]:
    """Forward the spool, accept new secrets and forward requests meanwhile."""
    async with AsyncExitStack() as stack:
        if parts.spool is not None:
            await parts.spool.start()
            stack.push_async_callback(parts.spool.stop)
            await stack.enter_async_context(_running(parts.spool.run()))
        if parts.forwarder is not None:
            await stack.enter_async_context(parts.forwarder.opened())
        if parts.watch is not None:
            await parts.watch.start()
            await stack.enter_async_context(_running(parts.watch.run()))
        yield


@asynccontextmanager
async def kept(store: Store) -> AsyncIterator[None]:
    """Give signs of life meanwhile. Raises what ends the writer of the database.

    Without the writer every write is refused as if the database were busy.
    """
    async with _running(store.watch()), _running(store.ownership.keep()):
        yield


@asynccontextmanager
async def _running(endless: Coroutine[Any, Any, NoReturn]) -> AsyncIterator[None]:
    """Run something meanwhile. Its error ends the body, and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(endless)
            try:
                yield
            finally:
                keeping.cancel()
    except BaseExceptionGroup as found:
        if len(found.exceptions) == 1:
            raise found.exceptions[0] from None
        raise


async def watch_durability(settings: Settings, clock: Clock) -> NoReturn:
    """Check again each minute: somebody may change the server while this runs.

    The step of an upgrade that waited for an older daemon is applied as well.
    """
    while True:
        await clock.sleep(CHECK_SECONDS)
        if isinstance(settings.place, str):
            try:
                await asyncio.to_thread(require_durability, settings)
                await asyncio.to_thread(database_at(settings.place).finish_upgrade)
            except ConfigurationError:
                raise
            except BackhaulError as error:
                # It is away, as during a failover; the parts that need it say so.
                logger.bind(action="database.unreachable").warning("{}", error)
