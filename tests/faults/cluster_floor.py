"""People who work on a cluster all the while: they buy, scan, and hand in files."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sqlite_utils import Database

from backhaul.demo import workers
from backhaul.demo.back_office_checks import NOT_TOLD
from backhaul.demo.comparison import compare_sides
from backhaul.demo.daemon_rows import Kind, read_daemon_rows, read_progress
from backhaul.demo.demo_folder import COURIER, ERP, SCANNER
from backhaul.demo.effect_checks import StoreBooks
from backhaul.demo.workers import Clerk, Handheld, SoldOut, Storefront, fill_cart
from backhaul.errors import BackhaulError
from scenes.cluster_stores import DEVICES
from scenes.stored import bodies

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.daemon_rows import Cause, DaemonRows, Finding, Placement
    from backhaul.demo.mirror_checks import State
    from backhaul.demo.workers import Article
    from scenes.cluster import Cluster
    from scenes.cluster_stores import ClusterStore

News: TypeAlias = tuple[str, str]
"""A topic and an order of a notification to the ERP."""
SHOPPERS = 2
SHOPPER_SECONDS = (1.0, 4.0)
PAPER_SECONDS = 0.3
COUNT_SECONDS = 1.0
CUSTOMERS = 40
FATES = {"scan": 40, "courier": 20, "house": 15, "cancel": 10, "leave": 15}
"""The shares of what happens to an order, in percent."""
STILL_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Said:
    """An acknowledged input, its time, and how to repeat it."""

    at: float
    cause: Cause
    order: Placement | None = None
    """The order of a scan."""


@dataclass(slots=True)
class Floor:
    """The inputs of one store's back office, and the running workers."""

    cluster: Cluster
    store: ClusterStore
    rng: random.Random
    clock: Clock
    said: list[Said] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    _packed: asyncio.Queue[Placement] = field(default_factory=asyncio.Queue)
    _articles: Sequence[Article] = ()
    _counted: int = 0
    _closed: bool = False
    _spare: Handheld | None = None
    _clerks: tuple[Clerk, ...] = ()
    _selling: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        forms = workers.FULFILLMENTS, workers.CANCELLATIONS, workers.STOCK_DELTAS
        self._clerks = tuple(
            Clerk(self.store.drop, form, self._note_said) for form in forms
        )

    @property
    def causes(self) -> list[Cause]:
        """Return acknowledged causes, with the names of the cluster's connections."""
        return [self.store.cause(each.cause) for each in self.said]

    def _note_said(self, cause: Cause, order: Placement | None = None) -> None:
        self.said.append(Said(time.monotonic(), cause, order))

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Work within the block, then finish all started inputs."""
        storefront = Storefront(self.store.access, self.clock)
        handheld, self._spare = map(self._device, DEVICES)
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
            await self._spare.close()
        for clerk in self._clerks:
            clerk.hand_in()

    def _device(self, name: str) -> Handheld:
        connection = self.store.connection(SCANNER)
        url = f"{self.cluster.balancer.url}/connect/{connection}"
        token = self.store.device_tokens[name]
        return Handheld(name, token, url, self.clock)

    async def say_again(self, since: float, until: float) -> None:
        """Repeat every input that was acknowledged in this time, as after a restore.

        What the database still knows must not be done twice. A file or a row of the
        ERP that nobody has taken yet is only waiting.
        """
        said = [each for each in self.said if since <= each.at <= until]
        scans = [each for each in said if each.cause.instance == SCANNER]
        for each in scans:
            assert self._spare is not None
            assert each.order is not None
            await self._spare.pack(each.order)
        places = [e.cause.locator for e in said if e.cause.instance == COURIER]
        for name in sorted({place.partition(":")[0] for place in places}):
            self._hand_in_again(name)
        rows = [e.cause.locator for e in said if e.cause.instance == ERP]
        numbers = [int(place.split()[1]) for place in rows]
        await asyncio.to_thread(_offer_again, self.store.erp_file, numbers)

    def _hand_in_again(self, name: str) -> None:
        """Put a processed file into the folder again."""
        place = self.store.drop / name
        taken = [path for path in self.store.drop.glob(f"*/{name}") if path.is_file()]
        if taken and not place.exists():
            taken[0].rename(place)

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
            self._note_said(await self._ship(order))
        elif fate == "courier":
            courier.note(*workers.parcel(order))
        elif fate == "cancel":
            office.note(*workers.cancellation(order))

    async def _ship(self, order: Placement) -> Cause:
        """Write to the ERP; a frozen daemon may hold its lock for a while."""
        while True:
            try:
                return await asyncio.to_thread(self.store.erp.ship, order)
            except sqlite3.OperationalError:
                await self.clock.sleep(1.0)

    async def _pack(self, handheld: Handheld) -> None:
        while True:
            order = await self._packed.get()
            self._note_said(await handheld.pack(order), order)
            self._packed.task_done()

    async def _count(self) -> None:
        """Submit adjustments continuously, so there is always a command to send."""
        while not self._closed:
            self._note_count(self.rng.choice((-1, 1, 2, 12)))
            await self.clock.sleep(COUNT_SECONDS)

    def _note_count(self, delta: int) -> None:
        self._counted += 1
        article = self.rng.choice(self._articles)
        document = f"COUNT-{self._counted:05}"
        self._clerks[2].note(*workers.count(document, article.sku, delta))


@asynccontextmanager
async def all_at_work(floors: Sequence[Floor]) -> AsyncIterator[None]:
    """Let the back offices of all stores work."""
    async with AsyncExitStack() as stack:
        for floor in floors:
            await stack.enter_async_context(floor.at_work())
        yield


def _offer_again(erp: Path, rows: Sequence[int]) -> None:
    """Let the connector read rows of the ERP again."""
    database = Database(erp)
    try:
        with database.conn:
            for row in rows:
                database.table("shipments").update(row, {"taken_at": None})
    finally:
        database.close()


@dataclass(frozen=True, slots=True)
class Loss:
    """A period whose commits were lost, because a wrong replica was promoted.

    What was acknowledged between `began` and `ended` may be missing: its webhooks are
    excused if the mirror is equal, and its causes are said again. What the ERP was
    `told` in this time it may be told again. Nothing may take effect twice.
    """

    began: float
    ended: float
    told: Mapping[str, AbstractSet[News]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The final state of everything that was acknowledged for one store."""

    store: str
    findings: Sequence[Finding]
    lost_webhooks: int
    excused_webhooks: int
    told_again: int
    webhooks: int
    causes: int
    orders: int

    def _of(self, *kinds: Kind) -> list[Finding]:
        return [each for each in self.findings if each.kind in kinds]

    @property
    def gaps(self) -> int:
        """Return changes of the feed that were not delivered to the ERP."""
        return sum(each.what == NOT_TOLD for each in self._of(Kind.LOST))

    @property
    def lost(self) -> int:
        """Return missing webhooks, scans, rows of files, and orders in the ERP."""
        return self.lost_webhooks + len(self._of(Kind.LOST)) - self.gaps

    @property
    def doubled(self) -> int:
        return len(self._of(Kind.DOUBLED))

    @property
    def differing(self) -> int:
        """Return rows that differ from the platform."""
        return len(self._of(Kind.DIFFERING, Kind.UNEXPECTED))

    @property
    def parked(self) -> int:
        return len(self._of(Kind.PARKED))

    def __str__(self) -> str:
        lost = ""
        if self.excused_webhooks or self.told_again:
            lost = (
                f"; by wrong promotions {self.excused_webhooks} webhooks lost,"
                f" {self.told_again} notifications told again"
            )
        return (
            f"{self.store}: {self.orders} orders, {self.webhooks} webhooks and"
            f" {self.causes} commands acknowledged:"
            f" {self.lost} lost, {self.doubled} doubled, {self.gaps} gaps,"
            f" {self.differing} rows differ, {self.parked} parked{lost}"
        )

    def faults(self) -> list[str]:
        """Return all errors; a parked command is none."""
        found = [
            f"{self.store}: {each}"
            for each in self.findings
            if each.kind is not Kind.PARKED
        ]
        lost = f"{self.store}: {self.lost_webhooks} webhooks lost"
        return [*([lost] if self.lost_webhooks else []), *found]


async def close(floors: Sequence[Floor], losses: Sequence[Loss] = ()) -> list[Ledger]:
    """Wait until both sides are idle, and compare them for each store."""
    before: object = None
    cluster, clock = floors[0].cluster, floors[0].clock
    while True:
        try:
            busy, now = await asyncio.to_thread(_standing, cluster)
        except BackhaulError:
            busy, now = ["the database is away"], None
        if not busy and now == before:
            break
        before = now
        await clock.sleep(STILL_SECONDS)
    return await asyncio.to_thread(_all_compared, floors, losses)


def _standing(cluster: Cluster) -> tuple[list[str], object]:
    """Return the open work, and a state that changes while there is progress."""
    progress = read_progress(cluster.url)
    waiting = Counter({"work of the daemon": progress.waiting})
    sequences = []
    for store in cluster.stores:
        state = cluster.platform.state(store.access.subdomain)
        waiting["files"] += len(list(store.drop.glob("*.csv")))
        waiting["rows of the ERP"] += store.erp.untaken()
        waiting["webhooks"] += state["deliveries"]["PENDING"]
        sequences.append(state["sequence"])
    busy = [f"{what}: {number}" for what, number in waiting.items() if number]
    return busy, (progress, sequences)


def _all_compared(floors: Sequence[Floor], losses: Sequence[Loss]) -> list[Ledger]:
    received = Counter(bodies(floors[0].cluster.url, "delivery"))
    return [_compared(floor, received, losses) for floor in floors]


def _only_cancelled(state: State, rows: DaemonRows) -> frozenset[str]:
    """Return the placements of cancelled orders that no connection was to be told.

    After commits were lost, a connection may know an order that the database forgot. So
    it is told of a cancellation although the placement had not had its turn.
    """
    orders = StoreBooks(state).orders
    off = {f"order.placed of {id_}" for id_ in orders if orders[id_]["cancellation"]}
    planned = {f"{row['topic']} of {row['object_id']}" for row in rows.deliveries}
    return frozenset(off - planned)


def _compared(
    floor: Floor, received: Mapping[bytes, int], losses: Sequence[Loss]
) -> Ledger:
    cluster, store = floor.cluster, floor.store
    state = cluster.platform.state(store.access.subdomain)
    scanner = store.connection(SCANNER)
    rows = read_daemon_rows(cluster.url, store.name, scanner)
    told = store.erp.received()
    report = compare_sides(state, rows, floor.causes, floor.placements, told)
    kept = {
        body: each.at
        for body, each in cluster.balancer.kept.items()
        if each.store == store.name
    }
    lost = [at for body, at in kept.items() if body not in received]
    excused = sum(any(e.began <= at <= e.ended for e in losses) for at in lost)
    again = {
        f"{topic} of {order}"
        for loss in losses
        for topic, order in loss.told.get(store.name, ())
    }
    unknown = _only_cancelled(state, rows) if losses else frozenset[str]()
    findings = [
        each
        for each in report.findings
        if not (each.kind is Kind.DOUBLED and each.subject in again)
        and not (each.what == NOT_TOLD and each.subject in unknown)
    ]
    return Ledger(
        store=store.name,
        findings=findings,
        lost_webhooks=len(lost) - excused,
        excused_webhooks=excused,
        told_again=len({*again} & {each.subject for each in report.findings}),
        webhooks=len(kept),
        causes=len(floor.said),
        orders=report.orders,
    )
