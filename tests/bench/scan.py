"""Row `scan`: from the scan of a packed order until the store has shipped it."""

from __future__ import annotations

import asyncio
import random
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import uvloop

from backhaul.core.clock import SystemClock
from backhaul.demo.daemon_rows import read_progress
from backhaul.demo.demo_folder import DEVICES
from backhaul.demo.program_pair import open_pair
from backhaul.demo.runner import until_quiet
from backhaul.demo.workers import Handheld, Storefront, fill_cart
from bench import machine
from bench.results import CountsDisagreeError, Rounds, agree

if TYPE_CHECKING:
    from backhaul.demo.daemon_rows import Placement
    from backhaul.demo.program_pair import Pair
    from bench.results import Scale

SHARE = 100
"""Scans of a round: so much less than the orders of a fold."""
LOOK_SECONDS = 0.002
REST_SECONDS = 0.1
"""Between two scans: both programs have long had nothing to do."""
PATIENCE_SECONDS = 30.0
CLOCK = SystemClock()


def scan(scale: Scale) -> Rounds:
    """Scan one order after the other beside two programs that rest in between."""
    rounds = Rounds()
    count = max(scale.orders // SHARE, 2)
    for _ in range(scale.rounds):
        busy = machine.core_seconds()
        began = perf_counter()
        with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
            taken = uvloop.run(_scan_in_turn(Path(folder, "pair"), count))
        share = (machine.core_seconds() - busy) / (perf_counter() - began)
        rounds.add("scan to fulfilled, p50", "ms", _percentile(taken, 0.5) * 1e3)
        rounds.add("scan to fulfilled, p99", "ms", _percentile(taken, 0.99) * 1e3)
        rounds.add("longest", "ms", max(taken) * 1e3)
        rounds.add("core taken, by all programs", "%", share * 100)
    return rounds


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[round((len(values) - 1) * share)]


async def _scan_in_turn(folder: Path, count: int) -> list[float]:
    """Return how long each scan took until the store's answer was kept."""
    async with AsyncExitStack() as stack:
        with machine.measured_core():
            pair = await stack.enter_async_context(open_pair(folder, CLOCK))
        device = DEVICES[0]
        token = pair.device_tokens[device]
        handheld = Handheld(
            device, token, f"{pair.public_url}/connect/{pair.scanner}", CLOCK
        )
        stack.push_async_callback(handheld.close)
        orders = await _buy(pair, count)
        taken = [await _scan(pair, handheld, order) for order in orders]
        state, _ = await until_quiet(pair, CLOCK, PATIENCE_SECONDS)
        shipped = sum(bool(order["shipments"]) for order in state["orders"])
        agree("orders shipped at the store", count, shipped)
        return taken


async def _buy(pair: Pair, count: int) -> list[Placement]:
    """Place orders, and wait until both sides have nothing left to do."""
    rng = random.Random(count)  # noqa: S311 - fills carts, guards nothing
    storefront = Storefront(pair.access, CLOCK)
    articles = await storefront.articles()
    placed = [
        await storefront.place(fill_cart(rng, articles, count), f"bench-{number}")
        for number in range(count)
    ]
    await storefront.close()
    _, busy = await until_quiet(pair, CLOCK, PATIENCE_SECONDS)
    agree("what moves before the first scan", [], busy)
    return placed


async def _scan(pair: Pair, handheld: Handheld, order: Placement) -> float:
    database = pair.home.database
    before = read_progress(database).fulfilled
    await asyncio.sleep(REST_SECONDS)
    began = perf_counter()
    await handheld.pack(order)
    while read_progress(database).fulfilled == before:
        if perf_counter() - began > PATIENCE_SECONDS:
            raise CountsDisagreeError(f"order {order.number} is not fulfilled")
        await asyncio.sleep(LOOK_SECONDS)
    return perf_counter() - began
