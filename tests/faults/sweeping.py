"""Commands between a real platform and the real way out, on a clock that leaps."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, product
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from loguru import logger

from backhaul.app.wiring import build_client, build_sender
from backhaul.core.identity import tag
from backhaul.core.lifecycle import OPEN
from backhaul.demo.comparison import compare_effects
from backhaul.demo.daemon_rows import read_daemon_rows
from backhaul.demo.effect_checks import StoreBooks, effects_of
from backhaul.push.resolver import IdempotencySupport
from backhaul.push.response_classifier import interrupted
from backhaul.runtime.signals import StoreContext
from backhaul.settings import Settings
from backhaul.store.matching import NewCommand
from backhaul.store.records import Matched, NewRecord
from backhaul_reference.platform.quirks import NONE, parse
from faults.capturing import set_quirks
from scenes import payloads
from scenes.clock import START, VirtualClock, run_ready_tasks
from scenes.databases import append_and_fold, started_store
from scenes.faulty_network import CommandFault, FaultyTransport, faulty_transport
from scenes.killed_programs import KillableStore, KillableTransport, KillPoint
from scenes.pushing import cancel_task
from scenes.reference_shop import cart
from scenes.stored import COMMANDS_AND_TARGETS, rows_of, value_of

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Sequence,
    )
    from datetime import datetime
    from pathlib import Path

    from backhaul.app.wiring import Sender
    from backhaul.demo.daemon_rows import Finding
    from backhaul.platform.client import StoreFacts
    from backhaul.store.sqlite.database import SqliteStore
    from scenes.reference_shop import Shop

STORE = "main"
CALM_ROUNDS = 3
"""Rounds without progress, after which only the clock can cause progress."""
SIZES = [{"title": size, "price": "100.00", "stock": 10} for size in ("S", "M")]
FOREVER_SECONDS = 7_200
STEPS = 60
"""The steps of time from the first check to the last."""
Planned: TypeAlias = tuple[str, dict[str, Any]]
"""The target of a command, and its payload."""
_NUMBERS = count(1)


@dataclass(slots=True)
class Stage:
    """A platform, a faulty network, and the database of a program that may restart."""

    path: Path
    shop: Shop
    quirks: tuple[str, ...]
    settings: Settings
    clock: VirtualClock
    wire: FaultyTransport
    facts: StoreFacts
    fates: dict[str, tuple[str, CommandFault]] = field(default_factory=dict)
    """The case of each command."""
    told: list[tuple[str, str]] = field(default_factory=list)

    async def plan_all(
        self, store: SqliteStore, kinds: Iterable[str], fates: Iterable[CommandFault]
    ) -> None:
        """Plan each kind with each fault; then set the platform's quirks."""
        await set_quirks(self.shop, NONE)
        for kind, fate in product(kinds, fates):
            await self.plan(store, kind, fate)
        await set_quirks(self.shop, parse(self.quirks))

    async def plan(self, store: SqliteStore, kind: str, fate: CommandFault) -> str:
        """Plan a command for a new object; its first request gets the fault `fate`."""
        number = next(_NUMBERS)
        plan = (PLANS | PREPARED)[kind]
        target, payload = await plan(self, store, number)
        name = "adjust" if kind in ADJUSTMENTS else KIND.get(kind, kind)
        lane = f"{'product' if name == 'adjust' else 'order'}:{target}"
        command = NewCommand(f"{number:032x}", name, target, lane, payload)
        record = NewRecord(f"key-{number}", b"null", "raw", "", f"file:{number}")
        self.fates[command.id] = (kind, fate)
        if fate is not CommandFault.THROUGH:
            self.wire.faults[command.id] = fate
        await store.records.accept(
            "courier", STORE, [record], None, lambda *_: Matched(command)
        )
        return command.id

    def states(self) -> dict[str, str]:
        return dict(rows_of(self.path, COMMANDS_AND_TARGETS, "id", "state"))

    def reason(self, command: str) -> str:
        return str(value_of(self.path, COMMANDS_AND_TARGETS, "reason", id=command))

    def open(self) -> list[str]:
        return [id_ for id_, state in self.states().items() if state in OPEN]

    async def ledger(self) -> list[Finding]:
        """Compare the platform's state with the program's commands."""
        books = read_daemon_rows(self.path, STORE, "bench")
        return compare_effects(await self.shop.state(), books)

    async def effects(self) -> dict[str, int]:
        """Count how often each command took effect, from the platform's history."""
        books = StoreBooks(await self.shop.state())
        commands = read_daemon_rows(self.path, STORE, "bench").commands
        return {row["id"]: effects_of(row, books).count for row in commands}

    async def order(self, store: SqliteStore, quantity: int) -> Any:
        lamp = await self.shop.product()
        placed = await self.shop.shopper("POST", "/orders", cart(lamp, quantity))
        order = (await self.shop.v1("GET", f"/orders/{placed.data['id']}")).data
        news = payloads.envelope("orders/create", order)
        assert await append_and_fold(store, news) == []
        return order

    async def plan_fulfill(self, store: SqliteStore, number: int) -> Planned:
        order = await self.order(store, 1)
        return order["id"], tracked(number, [])

    async def plan_part(self, store: SqliteStore, number: int) -> Planned:
        order = await self.order(store, 3)
        line = {"line_id": order["items"][0]["id"], "quantity": 1}
        return order["id"], tracked(number, [line])

    async def plan_cancel(self, store: SqliteStore, _: int) -> Planned:
        order = await self.order(store, 2)
        return order["id"], {"restock": True, "reason": "STAFF"}

    async def plan_too_late(self, store: SqliteStore, number: int) -> Planned:
        """Plan for an order that is cancelled, which the mirror does not show yet."""
        order = await self.order(store, 1)
        answer = await self.shop.v1("POST", f"/orders/{order['id']}/cancel", {})
        assert answer.status == 200, answer.body
        return order["id"], tracked(number, [])

    async def plan_again(self, store: SqliteStore, number: int) -> Planned:
        """Plan for an order that a pre-restore command of ours cancelled."""
        order = await self.order(store, 2)
        asked: dict[str, Any] = {"restock": True, "reason": "STAFF"}
        if NOTELESS.isdisjoint(self.quirks):
            asked["note"] = tag(f"{number:032x}")
        answer = await self.shop.v1("POST", f"/orders/{order['id']}/cancel", asked)
        assert answer.status == 200, answer.body
        return order["id"], {"restock": True, "reason": "STAFF"}

    async def plan_rest(self, store: SqliteStore, number: int) -> Planned:
        """Plan a restock of an order with two of five units shipped."""
        order = await self.order(store, 5)
        line = {"lineItemId": order["items"][0]["id"], "quantity": 2}
        parcel = {"trackingNumber": f"BD{number}", "items": [line]}
        answer = await self.shop.v1("POST", f"/orders/{order['id']}/fulfill", parcel)
        assert answer.status == 200, answer.body
        news = payloads.envelope("orders/fulfilled", answer.data)
        assert await append_and_fold(store, news) == []
        return order["id"], {"restock": True, "reason": "STAFF"}

    async def plan_adjust(self, _: SqliteStore, number: int) -> Planned:
        lamp = await self.shop.product(variants=SIZES)
        variant = lamp["variants"][0]["id"]
        return lamp["id"], moved(variant)

    async def plan_pool(self, _: SqliteStore, number: int) -> Planned:
        lamp = await self.shop.product(variants=SIZES)
        return lamp["id"], moved(None)


def tracked(number: int, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "tracking_company": "BlueDart",
        "tracking_number": f"BD{number}",
        "lines": list(lines),
    }


def moved(variant: str | None) -> dict[str, Any]:
    return {"variant_id": variant, "delta": -2, "reason": "MANUAL_ADJUSTMENT"}


PLANS = {
    "fulfill": Stage.plan_fulfill,
    "part": Stage.plan_part,
    "cancel": Stage.plan_cancel,
    "adjust": Stage.plan_adjust,
    "pool": Stage.plan_pool,
}
"""Variants of commands: a whole order or a part of it, one variant or all."""
NOTELESS = frozenset({"no-note", "strict-body"})
"""Quirks of a platform that stores none of our notes."""
TOO_LATE, AGAIN, REST = "too late", "again", "rest"
PREPARED = {
    TOO_LATE: Stage.plan_too_late,
    AGAIN: Stage.plan_again,
    REST: Stage.plan_rest,
}
"""Earlier changes of the object; the mirror shows only a partial shipment."""
ADJUSTMENTS = frozenset({"adjust", "pool"})
KIND = {"part": "fulfill", TOO_LATE: "fulfill", AGAIN: "cancel", REST: "cancel"}


@asynccontextmanager
async def stage(
    path: Path,
    shop: Shop,
    quirks: tuple[str, ...] = (),
    push: dict[str, Any] | None = None,
    start: datetime = START,
) -> AsyncIterator[Stage]:
    """Set up the platform and the network; no program runs yet.

    `start` is the time of the program's clock; the platform has real time.
    """
    access = shop.running.access
    store = {"base_url": access.public_url, "api_key": access.api_key}
    settings = Settings.model_validate({"stores": {STORE: store}, "push": push or {}})
    clock = VirtualClock(start)
    await set_quirks(shop, parse(quirks))
    async with faulty_transport(clock, settings.push.check_after[-1]) as wire:
        transport, client = build_client(settings, STORE, clock, wire)
        facts = await client.facts()
        await transport.close()
        made = Stage(path, shop, quirks, settings, clock, wire, facts)
        sink = logger.add(lambda m: made.told.append(_line(m)), level="TRACE")
        try:
            yield made
        finally:
            logger.remove(sink)


def _line(message: Any) -> tuple[str, str]:
    record = message.record
    return record["extra"].get("action", ""), record["extra"].get("command", "")


@dataclass(slots=True)
class Program:
    """The sending part of the daemon on an open store; a test starts it."""

    on: Stage
    store: SqliteStore
    mortality: KillPoint
    sender: Sender
    living: asyncio.Future[None] | None = None
    beside: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Other loops that run beside it."""
    working: set[asyncio.Future[Any]] = field(default_factory=set)
    """The database's pending work: the clock must not advance during it."""

    def watch_database(self) -> None:
        """Record the database's pending work from now on."""
        engine: Any = self.store.engine
        for name in ("write", "background", "read"):
            setattr(engine, name, self._noted(getattr(engine, name)))

    def _noted(
        self, run: Callable[[Any], Awaitable[Any]]
    ) -> Callable[[Any], asyncio.Future[Any]]:
        def run_noted(unit: Any) -> asyncio.Future[Any]:
            work = asyncio.ensure_future(run(unit))
            self.working.add(work)
            work.add_done_callback(self.working.discard)
            return work

        return run_noted

    @property
    def mortal_store(self) -> SqliteStore:
        """Return the store with a kill point around each call."""
        return cast("SqliteStore", KillableStore(self.store, self.mortality))

    async def run_out(self, wind_back_seconds: float = 0.0) -> None:
        """Let time pass until nothing is open or in flight, or until the kill.

        The wall clock may be set back soon after the start (or forward, if negative).
        """

        def is_done() -> bool:
            return not (self.on.open() or self.on.wire.in_flight)

        await self.run_until(is_done, wind_back_seconds)

    async def run_until(
        self, is_done: Callable[[], bool], wind_back_seconds: float = 0.0
    ) -> None:
        """Let time pass until the condition is true, or until the kill."""
        if self.living is None:
            self.living = asyncio.ensure_future(self._live())
        clock = self.on.clock
        end = clock.monotonic() + FOREVER_SECONDS
        step = self.on.settings.push.check_after[-1] / STEPS
        await self.calm()
        if wind_back_seconds:
            clock.set_back(wind_back_seconds)
            await clock.advance(step)
        while not (is_done() or self.mortality.dead.is_set()):
            assert not self.living.done(), self.living
            assert clock.monotonic() < end, f"still open: {self.on.open()}"
            await clock.advance(max(step, clock.until_next()))
            await self.calm()

    async def _live(self) -> None:
        await self.mortal_store.commands.mark_interrupted_uncertain(interrupted())
        sender = self.sender
        out = (sender.dispatcher.run, sender.resolver.run, sender.auditor.run)
        await asyncio.gather(*(run() for run in (*out, *self.beside)))

    async def calm(self) -> None:
        """Wait until only the clock can cause progress."""
        calm = 0
        while calm < CALM_ROUNDS:
            await run_ready_tasks()
            await self.store.kv.get("whatever")
            await run_ready_tasks()
            is_busy = self.on.wire.busy or self.working
            calm = 0 if is_busy else calm + 1


@asynccontextmanager
async def program(
    on: Stage, mortality: KillPoint | None = None
) -> AsyncIterator[Program]:
    """Prepare the sending part; kill it at the end."""
    mortality = mortality or KillPoint()
    async with started_store(on.path, on.clock) as store:
        way = KillableTransport(on.wire, mortality)
        context = StoreContext(STORE, on.clock, lambda: 0.5)
        signals = context.signals
        transport, client = build_client(on.settings, STORE, on.clock, way, signals)
        mortal = cast("SqliteStore", KillableStore(store, mortality))
        sender = build_sender(on.settings, context, mortal, client)
        # as the daemon does at its start; not a step of a command
        await IdempotencySupport(STORE, client, store.kv, on.clock).record(on.facts)
        made = Program(on, store, mortality, sender)
        made.watch_database()
        try:
            yield made
        finally:
            if made.living is not None:
                await cancel_task(made.living)
            await transport.close()
