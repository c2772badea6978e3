"""Stock counts of a back office, and a platform that sells meanwhile."""

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
from faults.capturing import set_quirks
from scenes.databases import started_store
from scenes.pushing import cancel_task
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
"""The setting `counts` of each connector."""
EARLY_CHECKS = {"check_after": ["0s", "100ms", "200ms"]}
_KEYS = count(1)


def now() -> str:
    return to_text(SystemClock().now())


@dataclass(slots=True)
class StockSystem:
    """A reference store, and the parts of the daemon that apply stock counts.

    Webhooks of `dropped_topics` are lost; with `delayed` they wait in that list.
    """

    place: Place
    shop: Shop
    store: Store
    fold_worker: FoldWorker
    sender: Sender
    target_worker: TargetWorker
    matcher: Matcher
    transport: Transport
    dropped_topics: set[str] = field(default_factory=set)
    delayed: list[bytes] | None = None
    log: list[str] = field(default_factory=list)
    quirks: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self, audited: bool) -> AsyncIterator[None]:
        """Run all parts; with `audited` nothing is sent before the history was read."""
        runs = [self.fold_worker.run, self.sender.resolver.run, self.target_worker.run]
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

    async def receive_webhook(self, request: web.Request) -> web.Response:
        body = await request.read()
        topic = request.headers["X-Service-Topic"]
        if topic in self.dropped_topics:
            return web.Response()
        if self.delayed is not None:
            self.delayed.append(body)
            return web.Response()
        await self.fold(body)
        return web.Response()

    async def fold(self, body: bytes) -> None:
        await self.store.inbox.append(
            Arrival(STORE, "delivery", "", now(), b"{}", body)
        )
        self.fold_worker.wake()

    async def deliver_delayed(self) -> None:
        """Deliver the webhooks that were delayed."""
        waiting, self.delayed = self.delayed or [], None
        for body in waiting:
            await self.fold(body)

    async def add_product(self, stock: int = 10, **values: Any) -> Any:
        sku = f"LAMP-{next(_KEYS)}"
        await set_quirks(self.shop, NONE)
        product = await self.shop.product(stock, **({"sku": sku} | values))
        await set_quirks(self.shop, parse(self.quirks))
        await until(lambda: self.has_mirrored(product["id"]), "the product is mirrored")
        return product

    def has_mirrored(self, product: str) -> bool:
        return bool(rows_of(self.place, "inventory_levels", product_id=product))

    async def sell(self, product: Any, quantity: int = 1) -> str:
        sold = await self.shop.shopper("POST", "/orders", cart(product, quantity))
        assert sold.status < 300, sold.body
        order = sold.body.get("data", sold.body)
        # A time without fractions may be later than a count within that second.
        if order["placedAt"].endswith(".000Z"):
            await until(lambda: now()[:19] > order["placedAt"][:19], "another second")
        return str(order["id"])

    async def submit_count(
        self, product: Any, quantity: int, as_of: str = "", at: int = 0, by: str = ERP
    ) -> str:
        """Submit a stock count; return the id of its stock target."""
        sku = product["variants"][at]["sku"]
        key = f"count-{next(_KEYS)}"
        level = StockLevel(key=key, sku=sku, quantity=quantity, as_of=as_of or now())
        await self.submit(level, by)
        return self.command_of(key)

    async def submit_adjustment(self, product: Any, delta: int) -> str:
        key = f"adjust-{next(_KEYS)}"
        sku = product["variants"][0]["sku"]
        await self.submit(StockAdjustment(key=key, sku=sku, delta=delta))
        return self.command_of(key)

    async def submit(self, record: Record, by: str = ERP) -> None:
        new = NewRecord(record.key, encode(record), "", "", record.key)
        await self.store.records.accept(by, STORE, [new], None, self.matcher)
        self.sender.context.signals.command_changed.emit()

    async def remove_quirks(self) -> None:
        """Let the platform behave without quirks from now on."""
        await set_quirks(self.shop, NONE)

    def pause_adjustments(self) -> None:
        """Do not send adjustments that are planned from now on."""
        self.sender.dispatcher.pause("adjust", now())

    def resume_adjustments(self) -> None:
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

    def adjustments(self, target: str) -> list[tuple[str, int]]:
        """Return the adjustments that were planned for a target, with their states."""
        planned = [
            (state, json.loads(payload))
            for state, payload in rows_of(
                self.place, "commands_and_targets", "state", "payload", kind="adjust"
            )
        ]
        return [(s, p["delta"]) for s, p in planned if p.get("target") == target]

    async def await_state(self, command: str, state: str) -> None:
        await until(
            lambda: (
                self.state(command) not in {"planned", "sending", state}
                or self.state(command) == state
            ),
            f"{command} is {state}",
        )
        assert self.state(command) == state, (self.reason(command), self.log)

    async def stock(self, product: Any, at: int = 0) -> int:
        variant = product["variants"][at]["id"]
        state = await self.shop.state()
        levels = {v["id"]: v["stock"] for p in state["products"] for v in p["variants"]}
        return int(levels[variant])


@asynccontextmanager
async def stock_system(
    place: Place,
    folder: Path,
    quirks: tuple[str, ...] = (),
    counts: Counts | None = None,
    push: dict[str, Any] | None = None,
) -> AsyncIterator[StockSystem]:
    """Start a store with its quirks, and the parts that apply stock counts.

    `place` is the database, `folder` has the store's data.
    """
    async with open_shop(folder / "shop") as shop:
        await set_quirks(shop, parse(quirks))
        async with working(
            place, shop, counts or {ERP: {}}, push or EARLY_CHECKS
        ) as system:
            system.quirks = quirks
            yield system


@asynccontextmanager
async def working(
    place: Place,
    shop: Shop,
    counts: Counts,
    push: dict[str, Any] = EARLY_CHECKS,
    *,
    audited: bool = False,
) -> AsyncIterator[StockSystem]:
    """Run the parts that apply stock counts; `audited`: hold commands for the audit."""
    log: list[str] = []
    sink = logger.add(lambda m: log.append(_line(m)), level="INFO")
    async with started_store(place) as store:
        settings = _settings(shop, counts, push)
        system = await _program(place, shop, store, settings)
        system.log = log
        async with system.running(audited):
            yield system
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


async def _program(
    place: Place, shop: Shop, store: Store, settings: Settings
) -> StockSystem:
    clock = SystemClock()
    context = StoreContext(STORE, clock, lambda: 0.5, open_work=store.open_work)
    signals = context.signals
    transport, client = build_client(settings, STORE, clock, None, signals)
    facts = {STORE: await client.facts()}
    fold_worker = FoldWorker(store.inbox, clock, facts)

    def known() -> StoreFacts:
        return facts[STORE]

    sender = build_sender(settings, context, store, client)
    await sender.idempotency.record(facts[STORE])
    reconciler = build_reconciler(settings, context, store, client, fold_worker, known)
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
    return StockSystem(
        place, shop, store, fold_worker, sender, target_worker, matcher, transport
    )


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
                await cancel_task(task)
        failed = [t.exception() for t in tasks if t.done() and not t.cancelled()]
    assert failed == []


@asynccontextmanager
async def _hooked(system: StockSystem) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_post("/hook", system.receive_webhook)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    body = {"address": url, "topics": list(TOPICS)}
    reply = await system.shop.v1("POST", "/webhooks", body)
    assert reply.status == 201, reply.body
    try:
        yield
    finally:
        await runner.cleanup()
