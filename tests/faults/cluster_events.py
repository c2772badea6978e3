"""What happens to a cluster: deaths, freezes, broken links, lost primaries."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loguru import logger

from faults.cluster_figures import Figures
from faults.wrong_promotion import make_good, promote_wrong
from scenes.cluster import HOLD_SECONDS, TTL_SECONDS
from scenes.cluster_logs import ClusterLogs
from scenes.postgres_nodes import COMMIT_ALONE, END_OF_COPY
from scenes.waiting import until

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Sequence

    from faults.cluster_floor import Floor, Loss
    from scenes.balancer import Refusal
    from scenes.cluster import Cluster, Member
    from scenes.cluster_stores import ClusterStore
    from scenes.postgres import Postgres

WRONG = "wrong replica promoted"
SHARES = {
    "owner killed": 12,
    "other daemon killed": 7,
    "owner frozen": 13,
    "other daemon frozen": 6,
    "link cut": 8,
    "link half open": 6,
    "link cut after COMMIT": 8,
    "replica of the database killed": 6,
    "walsender stalled": 4,
    "primary lost": 18,
    "primary lost while a walsender is stalled": 8,
    WRONG: 4,
}
"""How often each happens, out of a hundred."""
CALM_SECONDS = (0.3, 1.5)
FREEZE_TTLS = (0.5, 5.0)
CUT_SECONDS = (0.2, 4.0)
HALF_OPEN_SECONDS = (0.5, 12.0)
AWAY_SECONDS = (0.2, 3.0)
NOTICE_SECONDS = (0.1, 1.5)
"""How long nobody notices that the primary is lost."""
COMMITS = (COMMIT_ALONE, END_OF_COPY)
"""What commits a unit of work, and a batch of events."""
MINUTES = float(os.environ.get("MINUTES", "inf"))
"""After so long nothing more happens, whatever is left."""
MARGIN_SECONDS = 3.0
"""Within so much less than the hold an outage must refuse nothing."""
TAKEN_OVER_TTLS = 2.0
"""A longer freeze of the owner is a takeover without a doubt."""


ONLY = os.environ.get("ONLY", "")
"""A part of the names of the only events that happen, to look into one kind."""


def chosen(count: int, rng: random.Random) -> list[str]:
    """Return events in the shares above, in random order; each share is rounded."""
    if ONLY:
        return rng.choices([name for name in SHARES if ONLY in name], k=count)
    found = [
        name
        for name, share in SHARES.items()
        for _ in range(round(count * share / 100))
    ]
    names = list(SHARES)
    while len(found) < count:
        found.append(rng.choices(names, weights=[*SHARES.values()])[0])
    rng.shuffle(found)
    return found[:count]


@dataclass(slots=True)
class Torture:
    """Does one thing after another to a cluster, and measures what it costs."""

    cluster: Cluster
    floors: Sequence[Floor]
    rng: random.Random
    logs: ClusterLogs = field(init=False)
    figures: Figures = field(init=False)
    losses: list[Loss] = field(default_factory=list)
    excused: list[Refusal] = field(default_factory=list)
    """Refusals while the database was away for longer than webhooks are held."""
    refused: list[Refusal] = field(default_factory=list)
    """Refusals that must not be."""

    def __post_init__(self) -> None:
        self.logs = ClusterLogs(self.cluster)
        self.figures = Figures(self.cluster, self.logs)

    async def run(self, events: Sequence[str]) -> None:
        does: dict[str, Callable[[], Awaitable[float]]] = {
            "owner killed": self._kill_owner,
            "other daemon killed": self._kill_other,
            "owner frozen": self._freeze_owner,
            "other daemon frozen": self._freeze_other,
            "link cut": self._cut,
            "link half open": self._silence,
            "link cut after COMMIT": self._cut_after_commit,
            "replica of the database killed": self._kill_replica,
            "walsender stalled": self._stall,
            "primary lost": self._lose_primary,
            "primary lost while a walsender is stalled": self._lose_behind_stall,
            WRONG: self._promote_wrong,
        }
        self.cluster.balancer.restart_measurement()
        end = time.monotonic() + MINUTES * 60
        for number, name in enumerate(events, 1):
            if time.monotonic() > end:
                break
            await self._pause(CALM_SECONDS)
            logger.bind(action="torture.event").info("{}: {}", number, name)
            self.cluster.balancer.during = name
            away = await does[name]()
            logger.bind(action="torture.done").info("{}: {:.1f} s", number, away)
            await self.cluster.until_whole()
            self._sort_refusals(away)
            self.figures.done[name] += 1
            self.cluster.clear_requests()

    def _sort_refusals(self, away: float) -> None:
        """Excuse what was refused if the database was `away` for too long."""
        found = self.cluster.balancer.refusals
        is_excused = away > HOLD_SECONDS - MARGIN_SECONDS
        (self.excused if is_excused else self.refused).extend(found)
        found.clear()

    def table(self) -> str:
        """Return what was done and measured, in a few lines."""
        refused = f"refused {len(self.refused)}, excused {len(self.excused)}"
        return f"{self.figures.table()}\n{refused}"

    async def _kill_owner(self) -> float:
        owner = await self._owner()
        began = time.monotonic()
        owner.replica.kill()
        stores = await self._stores_of(owner)
        await self.figures.note_takeovers(stores, began, began)
        return 0.0

    async def _kill_other(self) -> float:
        (await self._other()).replica.kill()
        return 0.0

    async def _freeze_owner(self) -> float:
        owner = await self._owner()
        ttls = self.rng.uniform(*FREEZE_TTLS)
        began = time.monotonic()
        thaw = asyncio.create_task(self._freeze(owner, ttls * TTL_SECONDS))
        stores = await self._stores_of(owner)
        if ttls >= TAKEN_OVER_TTLS:
            sends_until = began + TTL_SECONDS / 4
            await self.figures.note_takeovers(stores, began, sends_until)
        await thaw
        return 0.0

    async def _freeze_other(self) -> float:
        ttls = self.rng.uniform(*FREEZE_TTLS)
        await self._freeze(await self._other(), ttls * TTL_SECONDS)
        return 0.0

    async def _freeze(self, member: Member, seconds: float) -> None:
        member.is_held_down = True
        member.replica.freeze()
        await asyncio.sleep(seconds)
        member.replica.thaw()
        member.is_held_down = False

    async def _cut(self) -> float:
        member, began = self._any(), time.monotonic()
        await member.cut()
        await self._pause(CUT_SECONDS)
        await member.restore_link()
        return time.monotonic() - began

    async def _silence(self) -> float:
        """Let a link be half open; a driver may take very long to give it up."""
        member = self._any()
        member.silence()
        await self._pause(HALF_OPEN_SECONDS)
        await member.restore_link()
        return float("inf")

    async def _cut_after_commit(self) -> float:
        """Break the link of a daemon whose commit has happened, unknown to it."""
        member, commit = self._any(), self.rng.choice(COMMITS)
        for relay in member.relays.values():
            relay.counted, relay.seen, relay.cut_after = commit, 0, commit
        relays = member.relays.values()
        await until(lambda: any(relay.seen for relay in relays), "a commit is sent")
        for relay in member.relays.values():
            relay.cut_after = None
        return 0.0

    async def _kill_replica(self) -> float:
        replica = self.rng.choice(self.cluster.nodes.standbys)
        await asyncio.to_thread(replica.kill)
        await self._pause(AWAY_SECONDS)
        await asyncio.to_thread(self.cluster.nodes.back, replica)
        return 0.0

    async def _stall(self) -> float:
        """Let one replica fall behind: the other one confirms."""
        behind = self.rng.choice(self.cluster.nodes.standbys)
        await asyncio.to_thread(self.cluster.nodes.stall, behind)
        await self._pause(AWAY_SECONDS)
        self.cluster.nodes.resume(behind)
        return 0.0

    async def _lose_primary(self) -> float:
        began = time.monotonic()
        lost = await asyncio.to_thread(self.cluster.nodes.kill_primary)
        await self._pause(NOTICE_SECONDS)
        await asyncio.to_thread(self.cluster.nodes.promote)
        promoted = time.monotonic()
        rejoin = asyncio.create_task(asyncio.to_thread(self._rejoin, lost))
        await self.figures.note_failover(began, promoted)
        await rejoin
        return promoted - began

    async def _lose_behind_stall(self) -> float:
        behind = self.rng.choice(self.cluster.nodes.standbys)
        await asyncio.to_thread(self.cluster.nodes.stall, behind)
        await self._pause(AWAY_SECONDS)
        return await self._lose_primary()

    def _rejoin(self, lost: Postgres) -> None:
        self.cluster.nodes.rejoin(lost)

    async def _promote_wrong(self) -> float:
        loss = await promote_wrong(self.cluster, self.logs, self.rng)
        self.figures.promotions += 1
        self.losses.append(loss)
        await make_good(self.floors, loss)
        return float("inf")

    async def _owner(self) -> Member:
        """Return the owner of any store."""
        return await self.cluster.owner(self.rng.choice(self.cluster.stores).name)

    async def _stores_of(self, member: Member) -> list[ClusterStore]:
        """Return what a daemon owns that stands still, so that it cannot change."""
        owners = await asyncio.to_thread(self.cluster.owners)
        port = member.replica.admin_port
        return [s for s in self.cluster.stores if owners.get(s.name) == port]

    async def _other(self) -> Member:
        owner = await self._owner()
        return self.rng.choice([m for m in self.cluster.members if m is not owner])

    def _any(self) -> Member:
        return self.rng.choice(self.cluster.members)

    async def _pause(self, between: tuple[float, float]) -> None:
        await asyncio.sleep(self.rng.uniform(*between))
