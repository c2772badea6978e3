"""A daemon and a platform, each a process of its own, with a proxy in between."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backhaul.core.clock import from_text
from backhaul.core.lifecycle import OPEN
from backhaul.demo.comparison import compare_effects
from backhaul.demo.daemon_rows import damage, read_daemon_rows
from scenes.daemon import DaemonProcess, office_of
from scenes.fault_proxy import fault_proxy
from scenes.reference_process import start_reference
from scenes.stored import command_counts, count, rows_of, values_of
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from backhaul.demo.daemon_rows import Finding
    from scenes.daemon import Office
    from scenes.fault_proxy import FaultProxy
    from scenes.reference_process import ReferenceProcess

READ_SECONDS = 2
OFFICE_PUSH = '[push]\nretry_base = "50ms"'
PUSH = f'{OFFICE_PUSH}\nread_seconds = {READ_SECONDS}\ncheck_after = ["0s", "1s", "2s"]'
PLENTY = 100_000
NO_SWEEPS = """
[jobs.reconcile_incremental]
enabled = false
[jobs.reconcile_full]
enabled = false
"""
"""No scheduled syncs, so that only the reads for commands are counted."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A command's first attempt."""

    outcome: str
    seconds: float
    ended: str


@dataclass(slots=True)
class Line:
    """The daemon, the platform, and the proxy between them."""

    platform: ReferenceProcess
    proxy: FaultProxy
    office: Office
    daemon: DaemonProcess
    skus: dict[str, str]
    fresh: list[str]
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def store_id(self) -> str:
        return self.platform.store().id

    def products(self, number: int) -> list[str]:
        """Return the products whose last command is the oldest."""
        taken, self.fresh = self.fresh[:number], self.fresh[number:]
        self.fresh += taken
        return taken

    async def start_again(self) -> None:
        """Start a new daemon on the database of the last one."""
        self.daemon = DaemonProcess(self.office)
        await asyncio.to_thread(self.daemon.await_ready)

    async def posted(self, number: int) -> None:
        """Wait until this many commands reached the proxy."""

        def look() -> bool:
            return len(self.proxy.requests("POST")) >= number

        await until(look, f"{number} commands are sent")

    async def drained(self, seconds: float = HANG_SECONDS) -> None:
        await until(lambda: not self.open(), "all is settled", seconds)

    def mirrored(self) -> bool:
        return count(self.office.database, "variants") == len(self.skus)

    def adjust(self, *products: str) -> None:
        """Submit an adjustment for each product; each becomes a command."""
        number = next(self.numbers)
        # all files differ, because a repeated file would be skipped
        lines = [f"{self.skus[product]},{-1 - number},DAMAGED" for product in products]
        self.office.put(f"stock-deltas-{number}.csv", "sku,adjustment,reason", *lines)

    def first(self, product: str) -> Tried | None:
        database = self.office.database
        commands = set(values_of(database, "commands", "id", target=product))
        names = ("outcome", "started_at", "finished_at")
        attempts = rows_of(database, "attempts", *names, command_id=commands, number=1)
        for outcome, began, ended in attempts:
            if ended is not None:
                taken = from_text(ended) - from_text(began)
                return Tried(outcome, taken.total_seconds(), ended)
        return None

    async def tried(self, product: str) -> Tried:
        found = await until(lambda: self.first(product), f"{product} is tried")
        assert found is not None
        return found

    def state(self, product: str) -> str:
        found = values_of(self.office.database, "commands", "state", target=product)
        return str(found[0]) if found else "not planned"

    def open(self) -> int:
        found = command_counts(self.office.database)
        return sum(number for state, number in found.items() if state in OPEN)

    async def applied(self, *products: str, seconds: float = HANG_SECONDS) -> None:
        def look() -> bool:
            return all(self.state(product) == "applied" for product in products)

        await until(look, "all are applied", seconds)

    async def findings(self) -> list[Finding | str]:
        """Compare the daemon's commands with the platform's history."""
        return await asyncio.to_thread(self._findings)

    def _findings(self) -> list[Finding | str]:
        state = self.platform.state()
        books = read_daemon_rows(self.office.database, "main", "bench")
        return [*compare_effects(state, books), *damage(self.office.database)]


def stock(platform: ReferenceProcess, number: int) -> dict[str, str]:
    """Create products; return their SKUs."""
    skus = {}
    for sku in (f"SKU-{number}" for number in range(number)):
        body = {"title": sku, "price": "10.00", "stock": PLENTY, "sku": sku}
        skus[str(platform.v1("POST", "/products", body).data()["id"])] = sku
    return skus


@asynccontextmanager
async def proxied(
    folder: Path,
    products: int,
    *,
    push: str = PUSH,
    more: str = NO_SWEEPS,
    keyed: bool = False,
    host: str = "127.0.0.1",
    wrapped: Sequence[str] = (),
) -> AsyncIterator[Line]:
    """Start both; without idempotency keys, effects are proved by reads.

    The daemon reaches the proxy by the name `host`, and runs `wrapped` in a command.
    """
    platform = await asyncio.to_thread(start_reference, folder, fixture="empty")
    quirks = [] if keyed else ["no-idempotency"]
    try:
        platform.control("PUT", "/stores/demo/quirks", {"quirks": quirks})
        skus = await asyncio.to_thread(stock, platform, products)
        async with fault_proxy(platform.public_url) as proxy:
            with office_of(platform, more) as office:
                office.base_url = proxy.url.replace("127.0.0.1", host)
                office.write(
                    **{OFFICE_PUSH: push, 'level = "TRACE"': 'level = "DEBUG"'}
                )
                daemon = DaemonProcess(office, wrapped=wrapped)
                line = Line(platform, proxy, office, daemon, skus, list(skus))
                try:
                    await asyncio.to_thread(daemon.await_ready)
                    await until(line.mirrored, "every product is mirrored")
                    yield line
                finally:
                    await asyncio.to_thread(line.daemon.kill)
    finally:
        await asyncio.to_thread(platform.terminate)
