"""Counts of a back office, made true on a clock that leaps."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx

from backhaul.app.wiring import build_client, build_repair, build_target_worker
from backhaul.connect.record_matching import Matcher, encode
from backhaul.core.identity import step_id
from backhaul.ingest.fold_worker import FoldWorker
from backhaul.store.records import NewRecord
from faults.sweeping import STORE, program
from scenes.killed_programs import KillableTransport
from scenes.stored import count, lists, value_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from backhaul_sdk import StockLevel
    from faults.sweeping import Program, Stage
    from scenes.faulty_network import CommandFault
    from scenes.killed_programs import KillPoint

ERP = "erp"
FAILING_READS = 10
"""More failures than the transport retries."""


class Stuttering(httpx.AsyncBaseTransport):
    """A transport whose first reads fail."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner, self._failed = inner, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._failed < FAILING_READS and request.method == "GET":
            self._failed += 1
            raise httpx.ConnectError("the cable is out")
        return await self._inner.handle_async_request(request)


@asynccontextmanager
async def counting(on: Stage, mortality: KillPoint) -> AsyncIterator[Program]:
    """Prepare a program that also applies stock counts; a test starts it."""
    async with program(on, mortality) as alive:
        way = Stuttering(KillableTransport(on.wire, mortality))
        transport, client = build_client(on.settings, STORE, on.clock, way)
        drain = FoldWorker(alive.store.inbox, on.clock, {STORE: on.facts})

        async def no_orders() -> None:
            return None

        target_worker = build_target_worker(
            on.settings,
            alive.sender.context,
            alive.mortal_store,
            client,
            build_repair(STORE, alive.store, drain, lambda: on.facts),
            lambda: on.facts,
            no_orders,
            alive.sender.dispatcher.switch,
        )
        alive.beside += [drain.run, target_worker.run]
        try:
            yield alive
        finally:
            await transport.close()


async def live(
    on: Stage,
    mortality: KillPoint,
    records: Sequence[StockLevel],
    fates: Mapping[str, CommandFault] | None = None,
) -> None:
    """Submit counts, and work until they are applied, or until the kill.

    `fates` are the faults of the adjustments' first requests, by record key.
    """
    async with counting(on, mortality) as alive:
        await hand_in(alive, records)
        for key, fate in (fates or {}).items():
            on.wire.faults[first_step(on, key)] = fate
        await make_true(alive)


async def make_true(alive: Program) -> None:
    """Work until every count is applied and refetched, or until the kill."""
    await alive.run_out()
    while has_unread(alive.on) and not alive.mortality.dead.is_set():
        await alive.on.clock.advance(1.0)
        await alive.calm()
    # the last commit may not be visible yet
    await alive.calm()


async def hand_in(alive: Program, records: Sequence[StockLevel]) -> None:
    """Let the back office submit counts."""
    new = [
        NewRecord(record.key, encode(record), "", "", record.key) for record in records
    ]
    matcher = Matcher(alive.on.clock, 600.0)
    await alive.store.records.accept(ERP, STORE, new, None, matcher)


def has_unread(on: Stage) -> bool:
    """Return True while a product must be refetched after its adjustment."""
    with lists(on.path) as reader:
        is_stopped = STORE in reader.stopped_targets()
    return not is_stopped and count(on.path, "stock_targets", unread=1) > 0


def target_of(on: Stage, key: str) -> str:
    """Return the id of a record's stock target."""
    return str(value_of(on.path, "records", "command_id", key=key))


def first_step(on: Stage, key: str) -> str:
    """Return the id of a count's first adjustment."""
    return step_id(STORE, ERP, target_of(on, key), 0)
