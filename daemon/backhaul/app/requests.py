"""Lets any member of a cluster show what the owners know, and act through them.

The owner of a store publishes its status, and carries out what the others ask. An
action on all stores goes to each owner for its own stores: see `Router`. On a file the
daemon is alone, and carries out everything itself.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from loguru import logger
from msgspec.structs import replace

from backhaul.admin import routes
from backhaul.app.actions import (
    STORE_ACTIONS,
    actions,
    at_host,
    combined,
    parts_by_store,
    store_of,
    user_actions,
)
from backhaul.app.monitoring import StatePublisher
from backhaul.app.store_runtime import ShopsView
from backhaul.errors import BackhaulError, Busy
from backhaul.platform import schemas
from backhaul.settings.jobs import polling_job
from backhaul.store.operators import (
    BEGIN_SECONDS,
    Claimed,
    Request,
    RequestState,
)
from backhaul.store.ownership import DATABASE
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
    from contextlib import AbstractContextManager

    from aiohttp import web

    from backhaul.app.actions import Action, ActionContext, Answer
    from backhaul.app.monitoring import Monitoring, Status
    from backhaul.app.wiring import Shop
    from backhaul.core.clock import Clock
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.operators import Progress, Requests
    from backhaul.sync.on_demand import Line

Run: TypeAlias = "Callable[[], Coroutine[Any, Any, None]]"
Using: TypeAlias = "Callable[[str], AbstractContextManager[None]]"
"""Keeps a store here until the block ends. Raises Busy if another daemon gets it."""
WATCH_SECONDS = 0.25
"""How often the owner checks for requests, and a member for the answer."""
LOST_SECONDS = 15.0
"""How long a member that began a request may give no sign of life."""
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
        store: str = DATABASE,
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
        where = (
            "the database" if request.store == DATABASE else f"store {request.store}"
        )
        owners = await self._store.ownership.owners([request.store])
        alive = [each.host for each in owners if each.is_alive]
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
    """Takes sync requests for all stores, and lets the owner of each carry them out.

    `own` carries out those of this member.
    """

    def __init__(
        self,
        stores: Collection[str],
        relay: Relay,
        own: SyncEndpoint,
        owns: Callable[[str], bool],
        using: Using,
    ) -> None:
        super().__init__({})
        self.stores = stores
        self._relay = relay
        self._own = own
        self._owns = owns
        self._using = using

    async def work(self, wanted: SyncRequest, send: Callable[[Line], None]) -> None:
        names = wanted.stores or tuple(self.stores)
        await asyncio.gather(*(self._of(name, wanted, send) for name in names))

    async def _of(
        self, name: str, wanted: SyncRequest, send: Callable[[Line], None]
    ) -> None:
        wanted = replace(wanted, stores=(name,))
        try:
            if self._owns(name):
                self._own.check(wanted)
                with self._using(name):
                    await self._own.work(wanted, send)
            else:
                asked = {**msgspec.to_builtins(wanted), "who": ""}
                await self._relay.act(SYNC, asked, name, send)
        except (BackhaulError, ValueError) as error:
            kinds = ", ".join(wanted.kinds) or "all"
            send({"store": name, "kind": kinds, "trouble": str(error)})


class RequestWorker:
    """Carries out what other members ask of this owner, each request once."""

    def __init__(
        self,
        requests: Requests,
        actions: Mapping[str, Action],
        sync: SyncEndpoint,
        using: Using,
        clock: Clock,
    ) -> None:
        self._requests = requests
        self._actions = actions
        self._sync = sync
        self._using = using
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
        with self._using(request.store):
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


class Router:
    """Carries an action out here, or lets the owner of its store do it.

    Without a store, a job or the held stock counts of all stores are changed by the
    owner of each store, and each owner folds the events of its stores again. All else
    without a known store concerns the whole database, and so does its one owner.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        relay: Relay,
        own: Mapping[str, Action],
        using: Using,
    ) -> None:
        self._connectors = {n: each.store for n, each in settings.connectors.items()}
        polled = {polling_job(n): store for n, store in self._connectors.items()}
        self._jobs: dict[str, list[tuple[str, str]]] = {}
        for name, at in settings.planned_jobs():
            places = self._jobs.setdefault(name, [])
            places.append((at, at or polled.get(name, DATABASE)))
        self._stores = tuple(settings.stores)
        self._store = store
        self._relay = relay
        self._own = own
        self._using = using
        self._owns = store.ownership.owns

    def actions(self) -> dict[str, Action]:
        """Return every action; its audit entry names the machine."""
        host, of_users = socket.gethostname(), user_actions(self._store)

        def here(action: Action) -> Action:
            async def act(asked: Mapping[str, Any]) -> Answer:
                return await action(at_host(asked, host))

            return act

        routed = {verb: partial(self._act, verb) for verb in STORE_ACTIONS}
        return routed | {name: here(action) for name, action in of_users.items()}

    async def _act(self, verb: str, asked: Mapping[str, Any]) -> Answer:
        """Let the owners act one after another, all of them if one fails.

        Raises what the first of them raised; the error then says where it was done.
        """
        parts = await self._parts(verb, asked)
        answers: list[Answer] = []
        done: list[str] = []
        errors: dict[str, BackhaulError] = {}
        for at, part in parts:
            try:
                answers.append(await self._part(verb, part, at))
                done.append(at)
            except BackhaulError as error:
                errors[at] = error
        if errors:
            raise _partly(errors, done) if done else next(iter(errors.values()))
        return combined(answers)

    async def _part(self, verb: str, asked: Mapping[str, Any], store: str) -> Answer:
        if not self._owns(store):
            return await self._relay.act(verb, asked, store)
        with self._using(store):
            return await self._own[verb](at_host(asked, socket.gethostname()))

    async def _parts(
        self, verb: str, asked: Mapping[str, Any]
    ) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return the stores whose owners shall act, and what each is asked for."""
        read = partial(store_of, verb, asked, self._connectors)
        if (found := await self._store.read(read)) in self._stores:
            return [(found, asked)]
        if found is None and verb.startswith("jobs/"):
            places = self._jobs.get(asked["name"], [])
            if places:
                return [(at, {**asked, "store": own}) for own, at in places]
        parts = parts_by_store(verb, asked, self._stores, self._connectors)
        if found is None and parts:
            return parts
        if verb == "events/reprocess":
            return [(store, asked) for store in await self._one_of_each()]
        if verb == "search/rebuild":  # the other owners only index their stores again
            only = {**asked, "only_wake": True}
            others = await self._one_of_each()
            return [(DATABASE, asked), *((store, only) for store in others)]
        return [(DATABASE, asked)]

    async def _one_of_each(self) -> Collection[str]:
        """Return one store of each owner, and those that nobody owns."""
        owners = await self._store.ownership.owners(self._stores)
        return {each.member or each.store: each.store for each in owners}.values()


def _partly(errors: Mapping[str, BackhaulError], done: Sequence[str]) -> BackhaulError:
    """Return an error for an action that not all owners have carried out."""
    said = "; ".join(f"{store}: {error}" for store, error in errors.items())
    is_busy = all(isinstance(error, Busy) for error in errors.values())
    return (Busy if is_busy else BackhaulError)(
        f"not done for all stores: {said}. It was done for {', '.join(done)}"
    )


def site(
    settings: Settings,
    given: ActionContext,
    shops: Mapping[str, Shop],
    using: Using,
    monitoring: Monitoring,
    status: Callable[[], Awaitable[Status]],
    is_ready: Callable[[], bool],
) -> tuple[tuple[web.Application, web.Application], list[Run]]:
    """Return the admin application, that of the control socket, and loops.

    In the loops it serves the other members. `status` is of what runs here.
    """
    store, asked = given.store, given.store.requests

    def state() -> str:
        if not is_ready():
            return routes.STARTING
        return routes.READY if shops or asked is None else routes.STANDBY

    changes = actions(given)
    deliveries: Mapping[str, Any] = ShopsView(shops, _deliveries)
    sync = SyncEndpoint(ShopsView(shops, lambda shop: shop.reconciler))
    if asked is None:
        return monitoring.applications(state, changes, deliveries, sync), []
    carried_out = changes | _delivery_action(deliveries)
    worker = RequestWorker(asked, carried_out, sync, using, given.clock)
    publisher = StatePublisher(settings, store, asked, status, given.clock)
    relay = Relay(store, asked, given.clock)

    async def read(name: str) -> Sequence[Any]:
        if store.ownership.owns(name):
            with using(name):
                found = await carried_out[DELIVERIES]({"store": name})
        else:
            found = await relay.act(DELIVERIES, {"store": name}, name)
        return msgspec.convert(found["rows"], list[schemas.Delivery])

    names = settings.stores if settings.public.url else ()
    applications = monitoring.applications(
        state,
        Router(settings, store, relay, changes, using).actions(),
        {name: partial(read, name) for name in names},
        RelayedSync(settings.stores, relay, sync, store.ownership.owns, using),
    )
    return applications, [worker.run, publisher.run]


def _delivery_action(
    deliveries: Mapping[str, Callable[[], Awaitable[Sequence[Any]]]],
) -> dict[str, Action]:
    """Return the action that reads a store's webhook deliveries at the platform."""

    async def read(asked: Mapping[str, Any]) -> Answer:
        found = deliveries.get(asked["store"])
        if found is None:
            raise BackhaulError(
                f"the owner of store {asked['store']} has no webhook subscription of it"
            )
        return {"rows": msgspec.to_builtins(await found())}

    return {DELIVERIES: read}


def _deliveries(shop: Shop) -> Callable[[], Awaitable[Sequence[Any]]] | None:
    """Return what reads the platform's list of webhook deliveries, if it can."""
    return None if shop.subscription is None else shop.subscription.deliveries
