"""A full sync uses the spare rate budget of the platform, and no more than that."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from backhaul.core.rate_limit import Priority
from backhaul.platform.client import PAGE_ROWS, PlatformClient
from backhaul.platform.transport import Limits, Transport
from backhaul.sync.deletion_check import DeletionCheck
from backhaul.sync.diff_repair import MirrorRepair
from backhaul.sync.full_sync import FullSync
from backhaul.sync.resource_types import BACKFILL, ORDERS
from scenes.clock import JumpingClock
from scenes.databases import count, started_store

if TYPE_CHECKING:
    from backhaul.store import Place, Store

LONG = os.environ.get("FAULTS") == "long"
ORDERS_LISTED = 1_000_000 if LONG else 20_000
SECONDS_FOR_A_MILLION = 45 * 60
BURST, PER_SECOND = 40, 4.0
TIME = "2026-03-01T12:00:00.000Z"


@dataclass(slots=True)
class Platform:
    """Serves orders page by page, at the contract's rate limit."""

    clock: JumpingClock
    listed: int
    latency_seconds: float
    left: float = BURST
    at: float = 0.0
    answered: int = 0
    throttled: int = 0
    least_left: float = BURST
    commands: list[float] = field(default_factory=list)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        now = self.clock.monotonic()
        self.left = min(self.left + (now - self.at) * PER_SECOND, BURST)
        self.at = now
        if self.left < 1:
            self.throttled += 1
            return httpx.Response(429, headers={"Retry-After": "1"})
        self.left -= 1
        self.answered += 1
        self.least_left = min(self.least_left, self.left)
        headers = {
            "RateLimit-Policy": '"key";q=240;w=60',
            "RateLimit": f'"key";r={int(self.left)};t={int(-(self.left - BURST) // 4)}',
        }
        await self.clock.sleep(self.latency_seconds)
        return httpx.Response(200, content=self.page(request), headers=headers)

    def page(self, request: httpx.Request) -> bytes:
        number = int(request.url.params["page"])
        end = min(number * PAGE_ROWS, self.listed)
        rows = [
            {"id": f"ord_{n}", "updatedAt": TIME}
            for n in range((number - 1) * PAGE_ROWS, end)
        ]
        meta = {"total": self.listed, "hasMore": end < self.listed}
        return json.dumps({"data": rows, "meta": meta}).encode()


async def full_sync(platform: Platform, store: Store) -> Any:
    clock = platform.clock
    limits = Limits(5.0, 30.0, 5_000_000)
    mock = httpx.MockTransport(platform)
    transport = Transport("http://shop", "svc_live_budget", limits, clock, mock)
    client = PlatformClient(transport)

    async def nothing() -> None:
        """Fold nothing."""

    repair = MirrorRepair(
        "main", store.mirror, store.inbox, lambda: "INR", lambda: None, nothing
    )
    absence = DeletionCheck(
        client,
        repair,
        store.passes,
        store.refetch_queue,
        lambda: None,
        clock,
        Priority.SWEEP,
    )
    work = FullSync(
        BACKFILL,
        ORDERS,
        client,
        repair,
        store.passes,
        absence,
        clock,
        Priority.SWEEP,
    )
    ended = await work.run()
    await transport.close()
    return ended


@pytest.mark.timeout(1_800 if LONG else 600)
@pytest.mark.parametrize("latency", [0.0, 0.8])
async def test_a_full_sync_uses_the_spare_budget(
    latency: float, database: Place
) -> None:
    clock = JumpingClock()
    platform = Platform(clock, ORDERS_LISTED, latency)
    async with started_store(database) as store:
        ended = await full_sync(platform, store)
        assert ended.read == count(store.place, "inbox") == ORDERS_LISTED
    seconds = clock.monotonic()
    assert seconds <= SECONDS_FOR_A_MILLION * ORDERS_LISTED / 1_000_000
    assert platform.answered >= 0.95 * PER_SECOND * seconds
    assert platform.throttled == 0
    assert platform.least_left >= BURST * Priority.REREAD.value
