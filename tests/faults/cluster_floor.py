"""People who work on a cluster all the while: they buy, scan, and hand in files."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backhaul.demo import workers
from backhaul.demo.back_office_checks import NOT_TOLD
from backhaul.demo.comparison import compare_sides
from backhaul.demo.daemon_rows import Kind, read_daemon_rows, read_progress
from backhaul.demo.workers import Clerk, Handheld, SoldOut, Storefront, fill_cart
from backhaul.errors import BackhaulError
from scenes.stored import bodies

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Sequence

    from backhaul.core.clock import Clock
    from backhaul.demo.comparison import ComparisonReport
    from backhaul.demo.daemon_rows import Cause, Placement
    from backhaul.demo.workers import Article
    from scenes.cluster import Cluster

STORE, SCANNER = "main", "scanner"
SHOPPERS = 2
SHOPPER_SECONDS = (1.0, 4.0)
PAPER_SECONDS = 0.3
COUNT_SECONDS = 1.0
CUSTOMERS = 40
FATES = {"scan": 40, "courier": 20, "house": 15, "cancel": 10, "leave": 15}
"""What becomes of an order, out of a hundred."""
STILL_SECONDS = 0.3


@dataclass(slots=True)
class Floor:
    """What people did, and who still works; `causes` are acknowledged."""

    cluster: Cluster
    rng: random.Random
    clock: Clock
    causes: list[Cause] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    _packed: asyncio.Queue[Placement] = field(default_factory=asyncio.Queue)
    _articles: Sequence[Article] = ()
    _counted: int = 0
    _closed: bool = False
    _clerks: tuple[Clerk, ...] = ()
    _selling: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        forms = workers.FULFILLMENTS, workers.CANCELLATIONS, workers.STOCK_DELTAS
        self._clerks = tuple(
            Clerk(self.cluster.drop, form, self.causes.append) for form in forms
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Work until the end; then everything is said that was begun."""
        storefront = Storefront(self.cluster.access, self.clock)
        url = f"{self.cluster.balancer.url}/connect/{SCANNER}"
        token = self.cluster.device_token
        handheld = Handheld("handheld", token, url, self.clock)
        try:
            self._articles = await storefront.articles()
            async with asyncio.TaskGroup() as group:
                staff = [group.create_task(self._pack(handheld))]
                papers = [each.work(PAPER_SECONDS, self.clock) for each in self._clerks]
                staff += map(group.create_task, papers)
                selling = [
                    group.create_task(self._shop(storefront, number))
                    for number in range(SHOPPERS)
                ]
                selling.append(group.create_task(self._count()))
                yield
                self._closed = True
                await asyncio.gather(*selling)
                await self._packed.join()
                for task in staff:
                    task.cancel()
        finally:
            await storefront.close()
            await handheld.close()
        for clerk in self._clerks:
            clerk.hand_in()

    async def _shop(self, storefront: Storefront, number: int) -> None:
        attempt = 0
        while not self._closed:
            attempt += 1
            cart = fill_cart(self.rng, self._articles, CUSTOMERS)
            try:
                placed = await storefront.place(cart, f"shopper-{number}-{attempt}")
            except SoldOut:
                self._note_count(24)
            else:
                self.placements.append(placed)
                await self._hand_over(placed)
            await self.clock.sleep(self.rng.uniform(*SHOPPER_SECONDS))

    async def _hand_over(self, order: Placement) -> None:
        (fate,) = self.rng.choices(list(FATES), weights=list(FATES.values()))
        courier, office, _ = self._clerks
        if fate == "scan":
            self._packed.put_nowait(order)
        elif fate == "house":
            # It waits for the daemon's transaction, which may be frozen.
            said = await asyncio.to_thread(self.cluster.erp.ship, order)
            self.causes.append(said)
        elif fate == "courier":
            courier.note(*workers.parcel(order))
        elif fate == "cancel":
            office.note(*workers.cancellation(order))

    async def _pack(self, handheld: Handheld) -> None:
        while True:
            order = await self._packed.get()
            self.causes.append(await handheld.pack(order))
            self._packed.task_done()

    async def _count(self) -> None:
        """Correct stock all the time: something is to be sent at every moment."""
        while not self._closed:
            self._note_count(self.rng.choice((-1, 1, 2, 12)))
            await self.clock.sleep(COUNT_SECONDS)

    def _note_count(self, delta: int) -> None:
        self._counted += 1
        article = self.rng.choice(self._articles)
        document = f"COUNT-{self._counted:05}"
        self._clerks[2].note(*workers.count(document, article.sku, delta))


@dataclass(frozen=True, slots=True)
class Ledger:
    """What became of everything that was acknowledged."""

    report: ComparisonReport
    lost_webhooks: int
    webhooks: int
    causes: int

    @property
    def gaps(self) -> int:
        """Changes of the feed that the ERP was not told."""
        return sum(each.what == NOT_TOLD for each in self.report.of(Kind.LOST))

    @property
    def lost(self) -> int:
        """Webhooks, scans, rows of files and orders in the ERP that are missing."""
        return self.lost_webhooks + len(self.report.of(Kind.LOST)) - self.gaps

    @property
    def doubled(self) -> int:
        return len(self.report.of(Kind.DOUBLED))

    @property
    def differing(self) -> int:
        """Rows that are not the same at the platform."""
        kinds = Kind.DIFFERING, Kind.UNEXPECTED
        return sum(len(self.report.of(kind)) for kind in kinds)

    @property
    def parked(self) -> int:
        return len(self.report.of(Kind.PARKED))

    def __str__(self) -> str:
        return (
            f"{self.webhooks} webhooks and {self.causes} commands acknowledged:"
            f" {self.lost} lost, {self.doubled} doubled, {self.gaps} gaps,"
            f" {self.differing} rows differ, {self.parked} parked"
        )

    def faults(self) -> list[str]:
        """Return everything that must not be; a parked command may."""
        findings = self.report.findings
        found = [str(each) for each in findings if each.kind is not Kind.PARKED]
        lost = f"{self.lost_webhooks} webhooks lost"
        return [*([lost] if self.lost_webhooks else []), *found]


async def close(floor: Floor) -> Ledger:
    """Wait until nothing moves on either side, and compare the two."""
    cluster = floor.cluster
    before: object = None
    while True:
        try:
            busy, now = await asyncio.to_thread(_standing, cluster)
        except BackhaulError:
            busy, now = ["the database is away"], None
        if not busy and now == before:
            break
        before = now
        await floor.clock.sleep(STILL_SECONDS)
    return await asyncio.to_thread(_compared, floor)


def _standing(cluster: Cluster) -> tuple[list[str], object]:
    """Return what still moves, and a state that changes while anything does."""
    files = len(list(cluster.drop.glob("*.csv")))
    untaken = cluster.erp.untaken()
    progress = read_progress(cluster.url)
    state = cluster.platform.state()
    waiting = {
        "files": files,
        "rows of the ERP": untaken,
        "work of the daemon": progress.waiting,
        "webhooks": state["deliveries"]["PENDING"],
    }
    busy = [f"{what}: {number}" for what, number in waiting.items() if number]
    return busy, (progress, state["sequence"])


def _compared(floor: Floor) -> Ledger:
    cluster = floor.cluster
    state = cluster.platform.state()
    rows = read_daemon_rows(cluster.url, STORE, SCANNER)
    told = cluster.erp.received()
    report = compare_sides(state, rows, floor.causes, floor.placements, told)
    kept = cluster.balancer.kept
    lost = kept - set(bodies(cluster.url, "delivery"))
    return Ledger(report, len(lost), len(kept), len(floor.causes))
