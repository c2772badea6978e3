"""A dispatcher at work: a real store, a real server, and a clock of the test's own."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx
from loguru import logger

from backhaul.core.clock import to_text
from backhaul.errors import Busy
from backhaul.platform.client import LISTS, PlatformClient, StoreFacts
from backhaul.platform.requests import Dialect
from backhaul.platform.transport import Limits, Transport
from backhaul.push.dispatcher import Dispatcher
from backhaul.push.dry_run import DryRunCommands
from backhaul.push.effect_verification import EffectVerifier
from backhaul.push.history_audit import Auditor
from backhaul.push.resolver import KEYED_ONCE, IdempotencySupport, KeyedResend, Resolver
from backhaul.push.send_switch import SendSwitch
from backhaul.runtime.signals import StoreContext
from backhaul.settings import Push
from backhaul.store.matching import NewCommand
from backhaul.store.records import Matched, NewRecord
from scenes import payloads
from scenes.clock import START, VirtualClock, settle_down
from scenes.databases import started_store, take
from scenes.scripted_platform import (
    Behave,
    Connection,
    Request,
    Server,
    document,
    serving,
)
from scenes.stored import rows_of, value_of, values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from datetime import datetime

    from backhaul.store import Place, Store

API_KEY = "svc_live_dispatcher0123456789"
PATIENCE_SECONDS = 2.0
HELD_SECONDS = 30.0
"""How long an answer is waited for that a test holds back: machines are slow."""
LONGEST_ANSWER = 100_000
_KEYS = count(1)

Answer: TypeAlias = "bytes | Behave"


def applied(request: Request) -> bytes:
    """Answer a command as the platform does when it takes it."""
    asked = request.json()
    if request.path == "/inventory/adjust":
        level = {"variantId": asked.get("variantId"), "stock": 1}
        done = {"adjustmentId": "adj_1", "productId": asked["productId"]}
        return document({"data": done | {"levels": [level]}})
    _, _, order, kind = request.path.split("/")
    return document({"data": ordered(order, kind, asked)})


def ordered(id_: str, kind: str, asked: dict[str, Any]) -> payloads.Document:
    """Return the order as a command of this kind leaves it."""
    if kind == "cancel":
        restocked = {"restocked": asked["restock"]}
        when = {"cancelledAt": payloads.instant(50)}
        return payloads.order(id_, at=50, cancellation=restocked | when)
    parcel = payloads.shipment(
        trackingCompany=asked.get("trackingCompany"),
        trackingNumber=asked.get("trackingNumber"),
        items=asked.get("items"),
    )
    return payloads.order(id_, at=50, shipments=[parcel])


@dataclass(slots=True)
class Platform:
    """Says by path what a test wants said, one after the other, the last for ever.

    Without a script a command is taken, a list is empty and any object is 404.
    """

    said: dict[str, list[Answer]] = field(default_factory=dict)

    def says(self, path: str, *answers: Answer) -> None:
        self.said[path] = list(answers)

    async def __call__(self, request: Request, connection: Connection) -> None:
        answer = self._answer(request)
        if isinstance(answer, bytes):
            await connection.send(answer)
        else:
            await answer(request, connection)

    def _answer(self, request: Request) -> Answer:
        script = self.said.get(request.path)
        if script:
            return script.pop(0) if len(script) > 1 else script[0]
        if request.method == "POST":
            return applied(request)
        if request.path in LISTS:
            return document({"data": []})
        return document({"code": "NOT_FOUND"}, 404)


@dataclass(slots=True)
class Scene:
    """What a test of sending needs at hand."""

    place: Place
    store: Store
    clock: VirtualClock
    server: Server
    platform: Platform
    dispatcher: Dispatcher
    resolver: Resolver
    auditor: Auditor
    dialect: Dialect
    log: list[tuple[str, str]]
    reports: list[tuple[str, str]]
    """Each job whose end was reported, with what it said."""

    async def plan(self, kind: str, target: str, **members: Any) -> str:
        """Plan a command as a connector's record does; return its id."""
        return await self.plan_as(f"{next(_KEYS):032x}", kind, target, **members)

    async def plan_as(self, id_: str, kind: str, target: str, **members: Any) -> str:
        """Plan a command with an id of the test's own."""
        lane = f"{'product' if kind == 'adjust' else 'order'}:{target}"
        payload = PAYLOADS[kind] | members
        command = NewCommand(id_, kind, target, lane, payload)
        record = NewRecord(f"key-{id_}", b"null", "raw", "", f"file:{id_}")
        await self.store.records.accept(
            "courier", "main", [record], None, lambda *_: Matched(command)
        )
        return command.id

    def column(self, name: str, command: str) -> Any:
        return value_of(self.place, "commands", name, id=command)

    def state(self, command: str) -> str:
        return str(self.column("state", command))

    def reason(self, command: str) -> str:
        return str(self.column("reason", command))

    def attempts(self, command: str) -> list[tuple[Any, ...]]:
        columns = ("number", "outcome", "status", "finished_at")
        found = rows_of(self.place, "attempts", *columns, command_id=command)
        return sorted((*seen, finished is not None) for *seen, finished in found)

    async def reaches(self, command: str, state: str) -> None:
        await until(lambda: self.state(command) == state, f"{command} is {state}")

    async def parks(self, command: str) -> None:
        """Let all looks pass, in a platform that shows nothing to go by."""
        doubts = {"uncertain", "parked"}
        await until(lambda: self.state(command) in doubts, f"{command} is in doubt")
        while self.state(command) != "parked":
            await self.pass_time(60)
            await self.quiet()

    def answered(self, command: str) -> str:
        """Return what the first attempt met, in words."""
        return str(values_of(self.place, "attempts", "reason", command_id=command)[0])

    def open(self, kind: str) -> None:
        """Open a gate now, as its job does."""
        self.dispatcher.open(kind, to_text(self.clock.now()))

    async def arrive(self, number: int) -> None:
        """Wait until so many commands have arrived, and show that no more come."""
        await until(lambda: len(self.server.commands) >= number, f"{number} commands")
        await self.quiet()
        assert len(self.server.commands) == number

    async def quiet(self) -> None:
        """Let the dispatcher look twice more: what it would send is on its way."""
        for _ in range(2):
            self.dispatcher.wake()
            await settle_down()
            await self.store.kv.get("whatever")
            await settle_down()

    async def pass_time(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        self.dispatcher.wake()
        self.resolver.wake()

    async def fold(self, order: payloads.Document) -> None:
        """Let the platform's news of an order come in."""
        assert await take(self.store, payloads.envelope("orders/updated", order)) == []
        self.dispatcher.wake()

    def told(self, action: str) -> list[str]:
        return [text for said, text in self.log if said == action]

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self.server.commands]


class Broken(httpx.AsyncBaseTransport):
    """Fails as no HTTP library should."""

    def __init__(self, error: Exception) -> None:
        self.error, self.asked = error, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += request.method == "POST"
        raise self.error


PAYLOADS: dict[str, dict[str, Any]] = {
    "fulfill": {"tracking_company": "BlueDart", "tracking_number": "BD1", "lines": []},
    "cancel": {"restock": True, "reason": "STAFF"},
    "adjust": {"variant_id": "var_1", "delta": -2, "reason": "DAMAGED"},
}


@asynccontextmanager
async def scene(
    place: Place,
    push: Push | None = None,
    url: str = "",
    http: httpx.AsyncBaseTransport | None = None,
    keyed: bool = False,
    rehearsed: Sequence[str] = (),
    start: datetime = START,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncIterator[Scene]:
    """Set everything up; nothing is sent before `working`.

    `keyed`: the platform is known to take each Idempotency-Key once. `rehearsed`: the
    connectors whose commands are held back in a dry run. `start`: the clock's time.
    `patience_seconds`: how long an answer is waited for, by the machine's clock.
    """
    platform, clock, log = Platform(), VirtualClock(start), list[tuple[str, str]]()
    sink = logger.add(lambda m: log.append(_line(m)), level="TRACE")
    limits = Limits(2.0, patience_seconds, LONGEST_ANSWER)
    async with started_store(place, clock) as store, serving(platform) as server:
        reports: list[tuple[str, str]] = []

        async def report(job: str, _: str, said: str) -> None:
            reports.append((job, said))

        context = StoreContext("main", clock, lambda: 0.5, report=report)
        address, signals = url or server.url, context.signals
        transport = Transport(address, API_KEY, limits, clock, http, signals)
        client, dialect = PlatformClient(transport), Dialect()
        switch, push = SendSwitch(context, client), push or Push()
        commands = DryRunCommands(store.commands, rehearsed, dialect)
        dispatcher = Dispatcher(
            context, commands, store.uncertain, client, dialect, push, switch
        )
        idempotency = IdempotencySupport("main", client, store.kv, clock)
        if keyed:
            platform.says("/store", document({"data": {"features": [KEYED_ONCE]}}))
            await idempotency.record(StoreFacts(features=(KEYED_ONCE,)))
        honoured = idempotency.is_honoured
        replay = KeyedResend(client, switch, dispatcher.windows, honoured)
        verifier = EffectVerifier(context, client, store.uncertain, store.kv)
        resolver = Resolver(context, store.uncertain, verifier, replay, push)
        auditor = Auditor(context, client, store.tags, store.kv, verifier, switch, push)
        yield Scene(
            place,
            store,
            clock,
            server,
            platform,
            dispatcher,
            resolver,
            auditor,
            dialect,
            log,
            reports,
        )
        await transport.close()
    logger.remove(sink)


def _line(message: Any) -> tuple[str, str]:
    record = message.record
    return record["extra"].get("action", ""), record["message"]


@asynccontextmanager
async def working(stage: Scene) -> AsyncIterator[None]:
    """Run the dispatcher; at the end it is stopped as a signal stops it."""
    task = asyncio.ensure_future(stage.dispatcher.run())
    looking = asyncio.ensure_future(kept(stage.resolver.run))
    try:
        yield
    finally:
        await killed(looking)
        stage.dispatcher.stop()
        done, _ = await asyncio.wait([task], timeout=5)
        if not done:
            await killed(task)
            raise AssertionError("the dispatcher did not stop")
        await task


async def kept(run: Callable[[], Awaitable[None]]) -> None:
    """Run again what a locked database ended, as the daemon does."""
    while True:
        with suppress(Busy):
            await run()
        await asyncio.sleep(0)


@asynccontextmanager
async def audited(stage: Scene) -> AsyncIterator[None]:
    """Run the auditor beside the dispatcher, behind the fence of a start."""
    stage.auditor.hold_for_audit()
    auditing = asyncio.ensure_future(kept(stage.auditor.run))
    try:
        async with working(stage):
            yield
    finally:
        await killed(auditing)


async def killed(task: asyncio.Future[None]) -> None:
    """End a task where it stands, as a dead process would."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
