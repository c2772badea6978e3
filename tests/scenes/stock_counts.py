"""A back office that counts, beside a real platform that sells: targets at work."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from aiohttp import web
from loguru import logger

from backhaul.app.wiring import (
    build_client,
    build_reconciler,
    build_sender,
    build_target_worker,
)
from backhaul.connect.record_matching import Matcher, encode
from backhaul.core.clock import SystemClock, to_text
from backhaul.ingest.fold_worker import FoldWorker
from backhaul.runtime.signals import StoreContext
from backhaul.settings import Settings
from backhaul.store.commands import Decision
from backhaul.store.inbox import Arrival
from backhaul.store.records import NewRecord
from backhaul_reference.platform.quirks import NONE, parse
from backhaul_reference.platform.state.webhook_outbox import TOPICS
from backhaul_sdk import StockAdjustment, StockLevel
from faults.capturing import become
from scenes.databases import started_store
from scenes.pushing import killed
from scenes.reference_shop import cart, open_shop
from scenes.stored import rows_of, value_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from backhaul.app.wiring import Sender
    from backhaul.platform.client import StoreFacts
    from backhaul.platform.transport import Transport
    from backhaul.push.stock_targets import TargetWorker
    from backhaul.store import Place, Store
    from backhaul_sdk import Record
    from scenes.reference_shop import Shop

STORE = "main"
ERP = "erp"
Counts: TypeAlias = "Mapping[str, Mapping[str, Any]]"
"""How the counts of each connector are meant."""
SOON = {"check_after": ["0s", "100ms", "200ms"]}
_KEYS = count(1)


def now() -> str:
    return to_text(SystemClock().now())


@dataclass(slots=True)
class House:
    """A shop and the program beside it; `deaf` loses the platform's news."""

    place: Place
    shop: Shop
    store: Store
    drain: FoldWorker
    sender: Sender
    target_worker: TargetWorker
    matcher: Matcher
    transport: Transport
    deaf: set[str] = field(default_factory=set)
    held: list[bytes] | None = None
    log: list[str] = field(default_factory=list)
    quirks: tuple[str, ...] = ()

    @asynccontextmanager
    async def runs(self, audited: bool) -> AsyncIterator[None]:
        """Run all of it; `audited`, nothing is sent before the history is read."""
        runs = [self.drain.run, self.sender.resolver.run, self.target_worker.run]
        runs.append(self.sender.dispatcher.run)
        if audited:
            runs.append(self.sender.auditor.run)
        else:
            self.sender.dispatcher.switch.release()
        try:
            async with _hooked(self), _running(runs):
                yield
        finally:
            await self.transport.close()

    async def hear(self, request: web.Request) -> web.Response:
        body = await request.read()
        topic = request.headers["X-Service-Topic"]
        if topic in self.deaf:
            return web.Response()
        if self.held is not None:
            self.held.append(body)
            return web.Response()
        await self.fold(body)
        return web.Response()

    async def fold(self, body: bytes) -> None:
        await self.store.inbox.append(
            Arrival(STORE, "delivery", "", now(), b"{}", body)
        )
        self.drain.wake()

    async def release(self) -> None:
        """Let the news come that was on its way."""
        waiting, self.held = self.held or [], None
        for body in waiting:
            await self.fold(body)

    async def lamp(self, stock: int = 10, **values: Any) -> Any:
        sku = f"LAMP-{next(_KEYS)}"
        await become(self.shop, NONE)
        made = await self.shop.product(stock, **({"sku": sku} | values))
        await become(self.shop, parse(self.quirks))
        await until(lambda: self.knows(made["id"]), "the product is mirrored")
        return made

    def knows(self, product: str) -> bool:
        return bool(rows_of(self.place, "inventory_levels", product_id=product))

    async def sell(self, lamp: Any, quantity: int = 1) -> str:
        sold = await self.shop.shopper("POST", "/orders", cart(lamp, quantity))
        assert sold.status < 300, sold.body
        order = sold.body.get("data", sold.body)
        # What is told as of a whole second may be later than a count of that second.
        if order["placedAt"].endswith(".000Z"):
            await until(lambda: now()[:19] > order["placedAt"][:19], "another second")
        return str(order["id"])

    async def count(
        self, lamp: Any, quantity: int, as_of: str = "", at: int = 0, by: str = ERP
    ) -> str:
        """Hand in a count; return the target's id."""
        sku = lamp["variants"][at]["sku"]
        key = f"count-{next(_KEYS)}"
        level = StockLevel(key=key, sku=sku, quantity=quantity, as_of=as_of or now())
        await self.hand_in(level, by)
        return self.command_of(key)

    async def adjust(self, lamp: Any, delta: int) -> str:
        key = f"adjust-{next(_KEYS)}"
        sku = lamp["variants"][0]["sku"]
        await self.hand_in(StockAdjustment(key=key, sku=sku, delta=delta))
        return self.command_of(key)

    async def hand_in(self, record: Record, by: str = ERP) -> None:
        new = NewRecord(record.key, encode(record), "", "", record.key)
        await self.store.records.accept(by, STORE, [new], None, self.matcher)
        self.sender.context.signals.command_changed.emit()

    async def mend(self) -> None:
        """Let the platform do from now on what it is asked to."""
        await become(self.shop, NONE)

    def hold(self) -> None:
        """Let no adjustment leave that is planned from now on."""
        self.sender.dispatcher.pause("adjust", now())

    def let_go(self) -> None:
        self.sender.dispatcher.pause("adjust", None)

    async def decide(self, command: str, verb: str) -> None:
        await self.store.decisions.decide(Decision(command, verb, "kim", "seen"))
        self.sender.context.signals.command_changed.emit()

    def command_of(self, key: str) -> str:
        found = rows_of(self.place, "records", "command_id", key=key)
        return str(found[0][0])

    def column(self, name: str, command: str) -> Any:
        return value_of(self.place, "commands_and_targets", name, id=command)

    def state(self, command: str) -> str:
        return str(self.column("state", command))

    def reason(self, command: str) -> str:
        return str(self.column("reason", command))

    def steps(self, target: str) -> list[tuple[str, int]]:
        """Return the adjustments that were planned for a target, with their states."""
        planned = [
            (state, json.loads(payload))
            for state, payload in rows_of(
                self.place, "commands_and_targets", "state", "payload", kind="adjust"
            )
        ]
        return [(s, p["delta"]) for s, p in planned if p.get("target") == target]

    async def reaches(self, command: str, state: str) -> None:
        await until(
            lambda: (
                self.state(command) not in {"planned", "sending", state}
                or self.state(command) == state
            ),
            f"{command} is {state}",
        )
        assert self.state(command) == state, (self.reason(command), self.log)

    async def stock(self, lamp: Any, at: int = 0) -> int:
        variant = lamp["variants"][at]["id"]
        state = await self.shop.state()
        levels = {v["id"]: v["stock"] for p in state["products"] for v in p["variants"]}
        return int(levels[variant])


@asynccontextmanager
async def house(
    place: Place,
    folder: Path,
    quirks: tuple[str, ...] = (),
    counts: Counts | None = None,
    push: dict[str, Any] | None = None,
) -> AsyncIterator[House]:
    """Open the shop, with its quirks, and run what makes counts true.

    `place` has the database, `folder` the shop's data.
    """
    async with open_shop(folder / "shop") as shop:
        await become(shop, parse(quirks))
        async with working(place, shop, counts or {ERP: {}}, push or SOON) as made:
            made.quirks = quirks
            yield made


@asynccontextmanager
async def working(
    place: Place,
    shop: Shop,
    counts: Counts,
    push: dict[str, Any] = SOON,
    *,
    audited: bool = False,
) -> AsyncIterator[House]:
    """Run what makes counts true beside an open shop; `audited`, behind its fence."""
    log: list[str] = []
    sink = logger.add(lambda m: log.append(_line(m)), level="INFO")
    async with started_store(place) as store:
        settings = _settings(shop, counts, push)
        made = await _program(place, shop, store, settings)
        made.log = log
        async with made.runs(audited):
            yield made
    logger.remove(sink)


def _line(message: Any) -> str:
    record = message.record
    return f"{record['extra'].get('action', '')}: {record['message']}"


def _settings(shop: Shop, counts: Counts, push: dict[str, Any]) -> Settings:
    access = shop.running.access
    store = {"base_url": access.public_url, "api_key": access.api_key}
    return Settings.model_validate(
        {
            "stores": {STORE: store},
            "connectors": {
                name: {"type": "file_drop", "counts": how}
                for name, how in counts.items()
            },
            "push": push,
            "reconcile": {"grace": "1ms"},
        }
    )


async def _program(place: Place, shop: Shop, store: Store, settings: Settings) -> House:
    clock = SystemClock()
    context = StoreContext(STORE, clock, lambda: 0.5)
    signals = context.signals
    transport, client = build_client(settings, STORE, clock, None, signals)
    facts = {STORE: await client.facts()}
    drain = FoldWorker(store.inbox, clock, facts)

    def known() -> StoreFacts:
        return facts[STORE]

    sender = build_sender(settings, context, store, client)
    await sender.idempotency.record(facts[STORE])
    reconciler = build_reconciler(settings, context, store, client, drain, known)
    target_worker = build_target_worker(
        settings,
        context,
        store,
        client,
        reconciler.repair,
        known,
        lambda: reconciler.poll(["orders"]),
        sender.dispatcher.switch,
    )
    matcher = Matcher(clock, 600.0)
    return House(place, shop, store, drain, sender, target_worker, matcher, transport)


@asynccontextmanager
async def _running(
    runs: Sequence[Callable[[], Awaitable[None]]],
) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(run()) for run in runs]
    try:
        yield
    finally:
        for task in tasks:
            with suppress(Exception):
                await killed(task)
        failed = [t.exception() for t in tasks if t.done() and not t.cancelled()]
    assert failed == []


@asynccontextmanager
async def _hooked(made: House) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_post("/hook", made.hear)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    body = {"address": url, "topics": list(TOPICS)}
    reply = await made.shop.v1("POST", "/webhooks", body)
    assert reply.status == 201, reply.body
    try:
        yield
    finally:
        await runner.cleanup()
