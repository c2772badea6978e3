"""A running dispatcher with a real store, a scripted platform and a virtual clock."""

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
from scenes.clock import START, VirtualClock, run_ready_tasks
from scenes.databases import append_and_fold, started_store
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
DELAYED_SECONDS = 30.0
"""The client's timeout in tests that delay a response: machines are slow."""
LONGEST_ANSWER = 100_000
_KEYS = count(1)

Answer: TypeAlias = "bytes | Behave"


def applied_response(request: Request) -> bytes:
    """Return the response with which the platform accepts a command."""
    asked = request.json()
    if request.path == "/inventory/adjust":
        level = {"variantId": asked.get("variantId"), "stock": 1}
        done = {"adjustmentId": "adj_1", "productId": asked["productId"]}
        return document({"data": done | {"levels": [level]}})
    _, _, order, kind = request.path.split("/")
    return document({"data": order_after(order, kind, asked)})


def order_after(id_: str, kind: str, asked: dict[str, Any]) -> payloads.Document:
    """Return the order as it is after a command of this kind."""
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
    """Gives each path its scripted responses in turn, and repeats the last one.

    Without a script it accepts commands, lists are empty, and an object is a 404.
    """

    responses: dict[str, list[Answer]] = field(default_factory=dict)

    def respond(self, path: str, *answers: Answer) -> None:
        self.responses[path] = list(answers)

    async def __call__(self, request: Request, connection: Connection) -> None:
        answer = self._answer(request)
        if isinstance(answer, bytes):
            await connection.send(answer)
        else:
            await answer(request, connection)

    def _answer(self, request: Request) -> Answer:
        script = self.responses.get(request.path)
        if script:
            return script.pop(0) if len(script) > 1 else script[0]
        if request.method == "POST":
            return applied_response(request)
        if request.path in LISTS:
            return document({"data": []})
        return document({"code": "NOT_FOUND"}, 404)


@dataclass(slots=True)
class Scene:
    """The parts of the daemon that send commands, and what tests read of them."""

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
    """Each job that reported its end, with its result."""

    async def plan(self, kind: str, target: str, **members: Any) -> str:
        """Plan a command as a connector's record does; return its id."""
        return await self.plan_as(f"{next(_KEYS):032x}", kind, target, **members)

    async def plan_as(self, id_: str, kind: str, target: str, **members: Any) -> str:
        """Plan a command with the given id."""
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

    async def await_state(self, command: str, state: str) -> None:
        await until(lambda: self.state(command) == state, f"{command} is {state}")

    async def await_parked(self, command: str) -> None:
        """Let time pass until the command is parked because no check found evidence."""

        unresolved = {"uncertain", "parked"}
        await until(
            lambda: self.state(command) in unresolved, f"{command} is uncertain"
        )
        while self.state(command) != "parked":
            await self.pass_time(60)
            await self.run_pending()

    def first_attempt_reason(self, command: str) -> str:
        """Return the reason that is stored for the first attempt."""
        return str(values_of(self.place, "attempts", "reason", command_id=command)[0])

    def open_window(self, kind: str) -> None:
        """Open the send window of a kind now, as the job does."""
        self.dispatcher.open(kind, to_text(self.clock.now()))

    async def await_commands(self, number: int) -> None:
        """Wait until the platform received this many commands, and no more follow."""
        await until(lambda: len(self.server.commands) >= number, f"{number} commands")
        await self.run_pending()
        assert len(self.server.commands) == number

    async def run_pending(self) -> None:
        """Let the dispatcher poll twice, so that it sends whatever it can send now."""
        for _ in range(2):
            self.dispatcher.wake()
            await run_ready_tasks()
            await self.store.kv.get("whatever")
            await run_ready_tasks()

    async def pass_time(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        self.dispatcher.wake()
        self.resolver.wake()

    async def fold(self, order: payloads.Document) -> None:
        """Receive and fold an `orders/updated` webhook."""
        assert (
            await append_and_fold(
                self.store, payloads.envelope("orders/updated", order)
            )
            == []
        )
        self.dispatcher.wake()

    def logged(self, action: str) -> list[str]:
        return [text for said, text in self.log if said == action]

    def sent_bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self.server.commands]


class BrokenTransport(httpx.AsyncBaseTransport):
    """An HTTP transport that raises an exception for each request."""

    def __init__(self, error: Exception) -> None:
        self.error, self.requests = error, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += request.method == "POST"
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
    dry_run: Sequence[str] = (),
    start: datetime = START,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncIterator[Scene]:
    """Set everything up; nothing is sent before `working`.

    `keyed`: the platform supports idempotency keys. `dry_run`: the connectors whose
    commands are planned and not sent. `start`: the clock's time. `patience_seconds`:
    the timeout of a request, by the machine's clock.
    """
    platform, clock, log = Platform(), VirtualClock(start), list[tuple[str, str]]()
    sink = logger.add(lambda m: log.append(_line(m)), level="TRACE")
    limits = Limits(2.0, patience_seconds, LONGEST_ANSWER)
    async with started_store(place, clock) as store, serving(platform) as server:
        reports: list[tuple[str, str]] = []

        async def report(job: str, _: str, said: str) -> None:
            reports.append((job, said))

        context = StoreContext(
            "main", clock, lambda: 0.5, report=report, open_work=store.open_work
        )
        address, signals = url or server.url, context.signals
        transport = Transport(address, API_KEY, limits, clock, http, signals)
        client, dialect = PlatformClient(transport), Dialect()
        switch, push = SendSwitch(context, client), push or Push()
        commands = DryRunCommands(store.commands, dry_run, dialect)
        dispatcher = Dispatcher(
            context, commands, store.uncertain, client, dialect, push, switch
        )
        idempotency = IdempotencySupport("main", client, store.kv, clock)
        if keyed:
            platform.respond("/store", document({"data": {"features": [KEYED_ONCE]}}))
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
    """Run the dispatcher and the resolver; stop the dispatcher as a signal does."""
    task = asyncio.ensure_future(stage.dispatcher.run())
    resolving = asyncio.ensure_future(rerun_while_busy(stage.resolver.run))
    try:
        yield
    finally:
        await cancel_task(resolving)
        stage.dispatcher.stop()
        done, _ = await asyncio.wait([task], timeout=5)
        if not done:
            await cancel_task(task)
            raise AssertionError("the dispatcher did not stop")
        await task


async def rerun_while_busy(run: Callable[[], Awaitable[None]]) -> None:
    """Run a loop, and run it again if a locked database ends it, as the daemon does."""
    while True:
        with suppress(Busy):
            await run()
        await asyncio.sleep(0)


@asynccontextmanager
async def working_with_audit(stage: Scene) -> AsyncIterator[None]:
    """Run the auditor and the dispatcher; commands are on hold until the audit ends."""
    stage.auditor.hold_for_audit()
    auditing = asyncio.ensure_future(rerun_while_busy(stage.auditor.run))
    try:
        async with working(stage):
            yield
    finally:
        await cancel_task(auditing)


async def cancel_task(task: asyncio.Future[None]) -> None:
    """Cancel a task wherever it is, as the end of a process would."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
