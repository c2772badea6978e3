"""Several daemons on one PostgreSQL database: who joins, stands by and takes over."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from loguru import logger

from backhaul.app import public_http, sockets
from backhaul.app.control_socket import SOCKET_NAME
from backhaul.app.forwarding import reachable_url
from backhaul.app.public_http import RequestLimits
from backhaul.app.requests import standby_site
from backhaul.errors import BackhaulError, Busy, ConfigurationError
from backhaul.runtime.loop import wait_for_event
from backhaul.store import database_at
from backhaul.store.ownership import new_member

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Coroutine

    from aiohttp import web

    from backhaul.app.monitoring import Status
    from backhaul.app.schedule import Schedule
    from backhaul.app.wiring import Receiving
    from backhaul.core.clock import Clock
    from backhaul.observe.metrics import Metrics
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.ownership import Member, Ownership


TAKE_SECONDS = 1.0
"""How often a standby tries to take over; it can once the owner is silent."""


class Standby:
    """Serves webhooks on the listeners of a daemon that is not the owner."""

    def __init__(
        self, settings: Settings, store: Store, clock: Clock, receiving: Receiving
    ) -> None:
        self._settings = settings
        self._roles = settings.cluster.roles
        self._store = store
        self._clock = clock
        self._receiving = receiving
        self._served = AsyncExitStack()
        self._socket = settings.state_dir / SOCKET_NAME

    async def __aenter__(self) -> None:
        """Begin with nothing served."""

    async def __aexit__(self, *_: object) -> None:
        await self.end()
        self._socket.unlink(missing_ok=True)

    async def end(self) -> None:
        """Stop the listeners, once those of the owner serve. Safe to call twice."""
        await self._served.aclose()

    async def take(self) -> bool:
        """Take the right to write; return False if another daemon has it.

        A daemon that is no worker never takes it.
        """
        if "worker" not in self._roles:
            return False
        try:
            return await self._store.ownership.take(list(self._settings.stores))
        except Busy as error:
            logger.bind(action="owner.busy").warning("{}", error)
            return False

    async def wait_until_owner(self, stopping: asyncio.Event) -> bool:
        """Return True once this daemon is the owner, False if it has to stop."""
        while not stopping.is_set():
            if await self.take():
                return True
            await wait_for_event(stopping, TAKE_SECONDS, self._clock)
        return False

    async def serve(
        self,
        routes: list[web.RouteDef],
        public: socket.socket | None,
        admin: socket.socket,
        status: Callable[[], Status],
        metrics: Metrics,
        schedule: Schedule,
    ) -> None:
        """Serve webhooks, the dashboard and the commands on copies of the sockets.

        `status` is what this daemon knows about itself.

        The owner's own listeners may start on the sockets before `end`, so that no
        request is refused when a standby becomes the owner.
        """
        dashboard, control = standby_site(
            self._settings, self._store, status, self._clock, metrics, schedule
        )
        own = self._settings.public
        limits = RequestLimits.of(own, self._receiving.answers.add_at)
        app = public_http.build(routes, own.max_body_bytes, limits)
        listeners = [
            (
                sockets.Listener(app, own.max_connections, limits),
                None if public is None else public.dup(),
            ),
            (sockets.Listener(dashboard), admin.dup()),
            (sockets.Listener(control), sockets.bind_unix(self._socket)),
        ]
        await self._served.enter_async_context(sockets.serving(listeners))
        waits = "another daemon owns the database; this one takes over if the owner"
        logger.bind(action="daemon.standby").info(
            "roles of this daemon: {}; {}",
            ", ".join(self._roles),
            f"{waits} gives no sign of life"
            if "worker" in self._roles
            else "other daemons do the work of the stores",
        )


CHECK_SECONDS = 60.0
STANDBYS = "pg_stat_replication"
"""What shows that no standby confirms now: commits wait then, and lose nothing."""
RECOVERY = "pg_is_in_recovery()"
"""What shows that a server is a standby: during a failover it may be for a moment."""


def joining(
    settings: Settings, public_url: str = "", admin_url: str = ""
) -> Member | None:
    """Return this run as a member of its database's cluster; None for a file.

    Raises ConfigurationError if the server may lose what it confirms, BackhaulError.
    """
    if not isinstance(settings.place, str):
        return None
    require_durability(settings)
    given = settings.cluster
    reached = partial(reachable_url, place=settings.place, address=given.address)
    public_url = reached(public_url, settings.public.host)
    admin_url = reached(admin_url, settings.admin.host)
    return new_member(public_url, admin_url, given.ttl, given.hold)


def require_durability(settings: Settings) -> None:
    """Check how the server keeps commits. Raises ConfigurationError, BackhaulError.

    With `durability = "single"` it only warns.
    """
    quorum = settings.cluster.durability == "quorum"
    found = database_at(settings.place).durability(quorum=quorum)
    lasting = [each for each in found if each.key not in {STANDBYS, RECOVERY}]
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
async def kept(ownership: Ownership) -> AsyncIterator[None]:
    """Give signs of life meanwhile."""
    async with _running(ownership.keep()):
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
