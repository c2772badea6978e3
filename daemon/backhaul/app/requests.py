"""Lets any member of a cluster show what the owner knows, and act through it.

The owner publishes its status, and carries out what the others ask. On a file the
daemon is alone: nothing of this module runs.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from loguru import logger

from backhaul.admin import routes
from backhaul.app.actions import STORE_ACTIONS, actions, store_of, user_actions
from backhaul.app.monitoring import (
    Monitoring,
    merged,
    split,
    unpublished,
)
from backhaul.app.store_runtime import ShopsView
from backhaul.errors import BackhaulError, Busy
from backhaul.platform import schemas
from backhaul.store.operators import (
    BEGIN_SECONDS,
    WHOLE,
    Claimed,
    Request,
    RequestState,
)
from backhaul.sync.on_demand import SyncEndpoint
from backhaul.sync.resource_types import SyncRequest

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Mapping,
        Sequence,
    )

    from aiohttp import web

    from backhaul.app.actions import Action, ActionContext, Answer
    from backhaul.app.monitoring import Status
    from backhaul.app.schedule import Schedule
    from backhaul.app.wiring import Shop
    from backhaul.core.clock import Clock
    from backhaul.observe.metrics import Metrics
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.operators import Progress, PublishedState, Requests
    from backhaul.sync.on_demand import Line

Run: TypeAlias = "Callable[[], Coroutine[Any, Any, None]]"
WATCH_SECONDS = 0.25
"""How often the owner checks for requests, and a member for the answer."""
LOST_SECONDS = 15.0
"""How long a member that began a request may give no sign of life."""
PUBLISH_SECONDS = 1.0
LINES_SECONDS = 0.5
SYNC = "stores/sync"
DELIVERIES = "stores/deliveries"
"""Verbs that no form and no command names; they come from a page and a stream."""


class Relay:
    """Asks the owner of a store to carry out an action, and waits for its answer."""

    def __init__(self, store: Store, requests: Requests, clock: Clock) -> None:
        self._store = store
        self._requests = requests
        self._clock = clock

    async def act(
        self,
        verb: str,
        asked: Mapping[str, Any],
        store: str = WHOLE,
        show: Callable[[Line], None] = lambda _: None,
    ) -> Answer:
        """Let the owner act, and show each line of its progress.

        Raises BackhaulError as the action does, and Busy. The owner acts once; it does
        not act later if no owner began in time.
        """
        who, host = str(asked.get("who", "")), socket.gethostname()
        request = Request(store, verb, asked, who, host)
        number = await self._requests.ask(request, BEGIN_SECONDS)
        ended = await self._end_of(number, request, show)
        await self._delete(number)
        if ended.state is RequestState.DONE:
            return dict(ended.answer)
        error = ended.answer.get("error")
        if ended.state is RequestState.UNKNOWN or error is None:
            raise BackhaulError(_lost(request, ended.host))
        raise (Busy if ended.state is RequestState.BUSY else BackhaulError)(error)

    async def _end_of(
        self, number: int, request: Request, show: Callable[[Line], None]
    ) -> Progress:
        """Wait until a request has ended, was not begun in time, or its owner is gone.

        Raises Busy and BackhaulError for the last two.
        """
        asked_at = seen_at = self._clock.monotonic()
        shown, host, is_begun = 0, None, False
        while True:
            now = self._clock.monotonic()
            if (found := await self._poll(number, shown)) is not None:
                for line in found.lines:
                    show(dict(line))
                shown += len(found.lines)
                is_begun = found.state is not RequestState.WAITING
                if is_begun and found.state is not RequestState.BEGUN:
                    return found
                if found.is_alive:
                    seen_at, host = now, found.host
            if not is_begun and now - asked_at > BEGIN_SECONDS:
                if await self._requests.cancel(number):
                    raise Busy(await self._not_begun(request))
                is_begun, seen_at = True, now
            if is_begun and now - max(seen_at, asked_at) > LOST_SECONDS:
                raise BackhaulError(_lost(request, host))
            await self._clock.sleep(WATCH_SECONDS)

    async def _poll(self, number: int, after: int) -> Progress | None:
        try:
            return await self._requests.follow(number, after)
        except Busy as error:  # as during a failover
            logger.bind(action="request.busy").debug("{}", error)
            return None

    async def _delete(self, number: int) -> None:
        try:
            await self._requests.delete(number)
        except Busy as error:  # the owner deletes it after some minutes
            logger.bind(action="request.busy").debug("{}", error)

    async def _not_begun(self, request: Request) -> str:
        where = "the database" if request.store == WHOLE else f"store {request.store}"
        members = await self._store.ownership.members()
        alive = [each.host for each in members if each.is_owner and each.is_alive]
        why = (
            f"the daemon on {alive[0]} owns {where} and did not begin"
            if alive
            else f"no daemon owns {where} now"
        )
        return (
            f"{request.verb} was not carried out: {why} within {BEGIN_SECONDS:g} s."
            " Nothing was changed, and nothing will be changed later. See backhaul"
            " status for the daemons, then try again"
        )


def _lost(request: Request, host: str | None) -> str:
    return (
        f"{request.verb} may have been carried out: the daemon"
        + (f" on {host}" if host else "")
        + " began it and ended before it answered. Check the audit log, then try again"
        " if it was not done"
    )


class RelayedSync(SyncEndpoint):
    """Takes sync requests for the owner, and shows the progress that it reports."""

    def __init__(self, stores: Collection[str], relay: Relay) -> None:
        super().__init__({})
        self.stores = stores
        self._relay = relay

    async def work(self, wanted: SyncRequest, send: Callable[[Line], None]) -> None:
        asked = {**msgspec.to_builtins(wanted), "who": ""}
        try:
            await self._relay.act(SYNC, asked, show=send)
        except BackhaulError as error:
            stores = ", ".join(wanted.stores or self.stores)
            kinds = ", ".join(wanted.kinds) or "all"
            send({"store": stores, "kind": kinds, "trouble": str(error)})


class RequestWorker:
    """Carries out what other members ask of this owner, each request once."""

    def __init__(
        self,
        requests: Requests,
        actions: Mapping[str, Action],
        sync: SyncEndpoint,
        clock: Clock,
    ) -> None:
        self._requests = requests
        self._actions = actions
        self._sync = sync
        self._clock = clock

    async def run(self) -> None:
        """Carry out requests until cancelled; several may run at the same time."""
        async with asyncio.TaskGroup() as group:
            while True:
                for claimed in await self._claimed():
                    group.create_task(self._carry_out(claimed))
                await self._clock.sleep(WATCH_SECONDS)

    async def _claimed(self) -> list[Claimed]:
        try:
            if await self._requests.is_waiting():
                return await self._requests.claim()
        except Busy as error:
            logger.bind(action="request.busy").debug("{}", error)
        return []

    async def _carry_out(self, claimed: Claimed) -> None:
        request = claimed.request
        logger.bind(action="request.begun", verb=request.verb).info(
            "{} is carried out for {} on {}", request.verb, request.who, request.host
        )
        state, answer = await self._result(claimed)
        while True:
            try:
                await self._requests.answer(claimed.id, state, answer)
            except Busy as error:
                logger.bind(action="request.busy").warning("{}", error)
                await self._clock.sleep(WATCH_SECONDS)
            else:
                return

    async def _result(self, claimed: Claimed) -> tuple[RequestState, Answer]:
        try:
            return RequestState.DONE, await self._act(claimed)
        except Busy as error:
            return RequestState.BUSY, {"error": str(error)}
        except (BackhaulError, ValueError) as error:
            return RequestState.REFUSED, {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - a request must not end the daemon
            verb = claimed.request.verb
            logger.bind(action="request.failed", verb=verb).opt(exception=error).error(
                "{} failed for a reason that nobody foresaw", verb
            )
            said = f"{verb} failed: {type(error).__name__}; see the log of the daemon"
            return RequestState.REFUSED, {"error": said}

    async def _act(self, claimed: Claimed) -> Answer:
        request = claimed.request
        if request.verb == SYNC:
            await self._synced(claimed)
            return {}
        action = self._actions.get(request.verb)
        if action is None:
            raise BackhaulError(f"no action is called {request.verb!r}")
        return await action(at_host(request.arguments, request.host))

    async def _synced(self, claimed: Claimed) -> None:
        wanted = msgspec.convert(claimed.request.arguments, SyncRequest)
        self._sync.check(wanted)
        lines: list[Line] = []
        errors: list[BackhaulError] = []

        async def work() -> None:
            try:
                await self._sync.work(wanted, lines.append)
            except BackhaulError as error:
                errors.append(error)

        async with asyncio.TaskGroup() as group:
            working, stored = group.create_task(work()), 0
            while stored < len(lines) or not working.done():
                await asyncio.wait((working,), timeout=LINES_SECONDS)
                if new := lines[stored:]:
                    stored += await self._add_lines(claimed.id, stored, new)
        for error in errors:
            raise error

    async def _add_lines(self, number: int, first: int, lines: Sequence[Line]) -> int:
        """Store lines of progress; return how many, 0 while the database refuses."""
        try:
            await self._requests.add_lines(number, first, lines)
        except Busy as error:  # as during a failover; the sync itself goes on
            logger.bind(action="request.busy").debug("{}", error)
            await self._clock.sleep(WATCH_SECONDS)
            return 0
        return len(lines)


def at_host(asked: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return what was asked, so that the audit log also names the machine."""
    who = asked.get("who")
    return {**asked, "who": f"{who} on {host}"} if who else dict(asked)


class Router:
    """Carries an action out here, or lets the owner of its store do it."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        relay: Relay,
        own: Mapping[str, Action],
        owns: Callable[[str], bool],
    ) -> None:
        self._connectors = {n: each.store for n, each in settings.connectors.items()}
        self._store = store
        self._relay = relay
        self._own = own
        self._owns = owns

    def actions(self) -> dict[str, Action]:
        """Return every action; its audit entry names the machine."""
        host, of_users = socket.gethostname(), user_actions(self._store)

        def here(action: Action) -> Action:
            async def act(asked: Mapping[str, Any]) -> Answer:
                return await action(at_host(asked, host))

            return act

        async def act(verb: str, asked: Mapping[str, Any]) -> Answer:
            read = partial(store_of, verb, asked, self._connectors)
            store = await self._store.read(read) or WHOLE
            if self._owns(store):
                return await self._own[verb](at_host(asked, host))
            return await self._relay.act(verb, asked, store)

        routed = {verb: partial(act, verb) for verb in STORE_ACTIONS}
        return routed | {name: here(action) for name, action in of_users.items()}


class StatePublisher:
    """Publishes the owner's status, a row for each store, when it has changed."""

    def __init__(
        self,
        settings: Settings,
        requests: Requests,
        status: Callable[[], Awaitable[dict[str, Any]]],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._requests = requests
        self._status = status
        self._clock = clock
        self._published: dict[str, bytes] = {}

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            parts = split(self._settings, await self._status())
            states = {store: msgspec.json.encode(each) for store, each in parts.items()}
            changed = dict(states.items() - self._published.items())
            if changed:
                try:
                    await self._requests.publish(changed)
                except Busy as error:
                    logger.bind(action="request.busy").debug("{}", error)
                else:
                    self._published |= changed
            await self._clock.sleep(PUBLISH_SECONDS)


async def _never() -> None:
    await asyncio.Event().wait()


def standby_site(
    settings: Settings,
    store: Store,
    own: Callable[[], Status],
    clock: Clock,
    metrics: Metrics,
    schedule: Schedule,
) -> tuple[web.Application, web.Application]:
    """Return the admin application of a standby, and that of its control socket.

    `own` is what this daemon knows about itself.
    """
    requests = store.requests
    if requests is None:
        raise RuntimeError("a database with one daemon has no standby")

    async def status() -> Status:
        published: Sequence[PublishedState] = ()
        with suppress(Busy):  # what this daemon knows of itself is wanted most then
            published = await requests.published()
        return merged(published, unpublished(settings) | own())

    relay = Relay(store, requests, clock)

    async def deliveries(name: str) -> Sequence[Any]:
        found = await relay.act(DELIVERIES, {"store": name}, name)
        return msgspec.convert(found["rows"], list[schemas.Delivery])

    monitoring = Monitoring(settings, store, _never, status, metrics, clock, schedule)
    changes = Router(settings, store, relay, {}, lambda _: False).actions()
    names = settings.stores if settings.public.url else ()
    return monitoring.applications(
        lambda: routes.STANDBY,
        changes,
        {name: partial(deliveries, name) for name in names},
        RelayedSync(settings.stores, relay),
    )


def owner_site(
    settings: Settings,
    given: ActionContext,
    shops: Mapping[str, Shop],
    monitoring: Monitoring,
    status: Callable[[], Awaitable[Status]],
    is_ready: Callable[[], bool],
) -> tuple[tuple[web.Application, web.Application], list[Run]]:
    """Return the admin application of an owner, that of its control socket, and loops.

    In the loops it serves the other members.
    """

    def state() -> str:
        return routes.READY if is_ready() else routes.STARTING

    changes, loops = actions(given), []
    deliveries = ShopsView(shops, _deliveries)
    sync = SyncEndpoint(ShopsView(shops, lambda shop: shop.reconciler))
    if (asked := given.store.requests) is not None:
        carried_out = changes | _delivery_action(deliveries)
        worker = RequestWorker(asked, carried_out, sync, given.clock)
        publisher = StatePublisher(settings, asked, status, given.clock)
        loops = [worker.run, publisher.run]
        relay = Relay(given.store, asked, given.clock)
        changes = Router(
            settings, given.store, relay, changes, lambda _: True
        ).actions()
    return monitoring.applications(state, changes, deliveries, sync), loops


def _delivery_action(
    deliveries: Mapping[str, Callable[[], Awaitable[Sequence[Any]]]],
) -> dict[str, Action]:
    """Return the action that reads a store's webhook deliveries at the platform."""

    async def read(asked: Mapping[str, Any]) -> Answer:
        found = deliveries.get(asked["store"])
        if found is None:
            raise BackhaulError(f"the owner has no subscription of {asked['store']}")
        return {"rows": msgspec.to_builtins(await found())}

    return {DELIVERIES: read}


def _deliveries(shop: Shop) -> Callable[[], Awaitable[Sequence[Any]]] | None:
    """Return what reads the platform's list of webhook deliveries, if it can."""
    return None if shop.subscription is None else shop.subscription.deliveries
