"""How long takeovers and failovers took, for each store, from logs and requests."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import quantiles
from typing import TYPE_CHECKING

from scenes.cluster_logs import SILENT, TAKEN, ClusterLogs
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scenes.cluster import Cluster
    from scenes.cluster_stores import ClusterStore

DETECTED = "owner lost until it counts as silent"
PREPARED = "silent until the store is owned"
OWNED = "owner lost until the store is owned"
SENT = "owner lost until a command is sent"
RESUMED = "primary promoted until a command is sent"
RETAKEN = "primary lost until another daemon owns the store"
AWAY = "primary lost until another accepts writes"
LOOK_SECONDS = 0.2
"""The interval of polls; the times themselves come from the logs."""
BY_STORE = (OWNED, SENT, RESUMED, RETAKEN)


@dataclass(slots=True)
class Figures:
    """Measured seconds, by name and store."""

    cluster: Cluster
    logs: ClusterLogs
    seconds: dict[tuple[str, str], list[float]] = field(
        default_factory=lambda: defaultdict(list)
    )
    done: Counter[str] = field(default_factory=Counter)
    promotions: int = 0

    async def note_takeovers(
        self, stores: Collection[ClusterStore], began: float, own_sends_until: float
    ) -> None:
        """Measure the takeover of these stores, whose owner was lost.

        `began` is a time of `time.monotonic`. Requests until `own_sends_until` may come
        from the previous owner.
        """
        wall = _wall(began)
        names = {each.name for each in stores}
        taken = await self._until_taken(names, wall)
        silent = [each.at for each in self.logs.since(wall, SILENT)]
        for store in stores:
            owned = taken[store.name]
            noticed = [at for at in silent if at <= owned]
            if noticed:
                self._note(DETECTED, store, noticed[-1] - wall)
                self._note(PREPARED, store, owned - noticed[-1])
            self._note(OWNED, store, owned - wall)
            sent = await self.cluster.sent_after(max(began, own_sends_until), store)
            self._note(SENT, store, sent - began)

    async def _until_taken(self, stores: set[str], wall: float) -> dict[str, float]:
        """Wait until each store has an owner; return the times."""
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                found = await asyncio.to_thread(self.logs.since, wall, TAKEN)
                taken = {each.store: each.at for each in reversed(found)}
                if stores <= taken.keys():
                    return taken
                await asyncio.sleep(LOOK_SECONDS)

    async def note_failover(self, lost: float, promoted: float) -> None:
        """Measure how all stores continue after a primary was lost and replaced."""
        self.promotions += 1
        self.seconds[AWAY, ""].append(promoted - lost)
        stores = self.cluster.stores
        sent = [self.cluster.sent_after(promoted, each) for each in stores]
        for store, at in zip(stores, await asyncio.gather(*sent), strict=True):
            self._note(RESUMED, store, at - promoted)
        wall = _wall(lost)
        taken = await asyncio.to_thread(self.logs.since, wall, TAKEN)
        for store in stores:
            for each in [e for e in taken if e.store == store.name][:1]:
                self._note(RETAKEN, store, each.at - wall)

    def _note(self, what: str, store: ClusterStore, seconds: float) -> None:
        self.seconds[what, store.name].append(seconds)

    def table(self) -> str:
        """Return the events and measurements as a short table."""
        rows = [f"{number:5} {name}" for name, number in sorted(self.done.items())]
        rows.append(f"{sum(self.done.values()):5} events, {self.promotions} promotions")
        for what in dict.fromkeys(what for what, _ in self.seconds):
            every = [
                s for (w, _), found in self.seconds.items() if w == what for s in found
            ]
            rows.append(f"{what}: {in_words(every)}")
            if what in BY_STORE:
                rows += [
                    f"    {store.name}: {in_words(self.seconds[what, store.name])}"
                    for store in self.cluster.stores
                ]
        balancer = self.cluster.balancer
        rows.append(f"answer to a webhook: {in_words(balancer.seconds)}")
        rows.append(f"longest time without an answer: {balancer.longest_silence:.1f} s")
        rows.append(f"webhooks without an answer: {dict(balancer.counts)}")
        rows += [f"ended {n} times: {how}" for how, n in self.cluster.exits.items()]
        return "\n".join(rows)


def _wall(moment: float) -> float:
    """Return a time of `time.monotonic` as a time of the logs, in whole ms."""
    at = time.time() - (time.monotonic() - moment)
    return int(at * 1_000) / 1_000


def in_words(found: Sequence[float]) -> str:
    if len(found) < 2:
        return f"{len(found)} times {[round(each, 2) for each in found]} s"
    cuts = quantiles(found, n=100, method="inclusive")
    return (
        f"{len(found)} times, p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s,"
        f" longest {max(found):.2f} s"
    )
