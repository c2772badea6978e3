"""What happens to a cluster: deaths, freezes, broken links, lost primaries."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import quantiles
from typing import TYPE_CHECKING

from loguru import logger

from scenes.cluster import HOLD_SECONDS, TTL_SECONDS
from scenes.waiting import until

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Sequence

    from scenes.balancer import Refusal
    from scenes.cluster import Cluster, Member
    from scenes.postgres import Postgres

SHARES = {
    "owner killed": 12,
    "other daemon killed": 8,
    "owner frozen": 14,
    "other daemon frozen": 6,
    "link cut": 8,
    "link half open": 7,
    "link cut after COMMIT": 8,
    "replica of the database killed": 6,
    "walsender stalled": 5,
    "primary lost": 18,
    "primary lost while a walsender is stalled": 8,
}
"""How often each happens, out of a hundred."""
CALM_SECONDS = (0.3, 1.5)
FREEZE_TTLS = (0.5, 5.0)
CUT_SECONDS = (0.2, 4.0)
HALF_OPEN_SECONDS = (0.5, 12.0)
AWAY_SECONDS = (0.2, 3.0)
NOTICE_SECONDS = (0.1, 1.5)
"""How long nobody notices that the primary is lost."""
COMMIT = b"COMMIT"
MINUTES = float(os.environ.get("MINUTES", "inf"))
"""After so long nothing more happens, whatever is left."""
MARGIN_SECONDS = 3.0
"""Within so much less than the hold an outage must refuse nothing."""
TAKEN_OVER_TTLS = 2.0
"""A longer freeze of the owner is a takeover without a doubt."""


def chosen(count: int, rng: random.Random) -> list[str]:
    """Return events in the shares above, in random order; each share is rounded."""
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
    rng: random.Random
    takeovers: list[float] = field(default_factory=list)
    """Seconds from an owner's death or freeze until another daemon owns the store."""
    pauses: list[float] = field(default_factory=list)
    """The same until the next command, before which the new owner reads the history."""
    outages: list[float] = field(default_factory=list)
    """Seconds from the loss of a primary until another accepts writes."""
    done: Counter[str] = field(default_factory=Counter)
    excused: list[Refusal] = field(default_factory=list)
    """Refusals while the database was away for longer than webhooks are held."""
    refused: list[Refusal] = field(default_factory=list)
    """Refusals that must not be."""

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
        }
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
            self.done[name] += 1
            self.cluster.forget_requests()

    def _sort_refusals(self, away: float) -> None:
        """Excuse what was refused if the database was `away` for too long."""
        found = self.cluster.balancer.refusals
        is_excused = away > HOLD_SECONDS - MARGIN_SECONDS
        (self.excused if is_excused else self.refused).extend(found)
        found.clear()

    def table(self) -> str:
        """Return what was done and measured, in a few lines."""
        rows = [f"{number:5} {name}" for name, number in sorted(self.done.items())]
        rows.append(f"{sum(self.done.values()):5} events")
        for name, found in (
            ("takeover", self.takeovers),
            ("nothing sent", self.pauses),
            ("no primary", self.outages),
            ("answer to a webhook", self.cluster.balancer.seconds),
        ):
            rows.append(f"{name}: {_quantiles(found)}")
        counts = dict(self.cluster.balancer.counts)
        rows.append(f"refused {len(self.refused)}, excused {len(self.excused)}")
        rows.append(f"webhooks without an answer: {counts}")
        rows += [f"ended {n} times: {how}" for how, n in self.cluster.exits.items()]
        return "\n".join(rows)

    async def _kill_owner(self) -> float:
        owner = await self.cluster.owner()
        began = time.monotonic()
        owner.replica.kill()
        await self._note_takeover(began)
        return 0.0

    async def _kill_other(self) -> float:
        (await self._other()).replica.kill()
        return 0.0

    async def _freeze_owner(self) -> float:
        owner = await self.cluster.owner()
        ttls = self.rng.uniform(*FREEZE_TTLS)
        began = time.monotonic()
        thaw = asyncio.create_task(self._freeze(owner, ttls * TTL_SECONDS))
        if ttls >= TAKEN_OVER_TTLS:
            await self._note_takeover(began)
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

    async def _note_takeover(self, began: float) -> None:
        """Measure a takeover; a command that had left before is not counted."""
        await self.cluster.owner()
        self.takeovers.append(time.monotonic() - began)
        sent = await self.cluster.sent_after(began + TTL_SECONDS / 4)
        self.pauses.append(sent - began)

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
        member = self._any()
        for relay in member.relays.values():
            relay.counted, relay.seen, relay.cut_after = COMMIT, 0, COMMIT
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
        away = time.monotonic() - began
        self.outages.append(away)
        await asyncio.to_thread(self._rejoin, lost)
        return away

    async def _lose_behind_stall(self) -> float:
        behind = self.rng.choice(self.cluster.nodes.standbys)
        await asyncio.to_thread(self.cluster.nodes.stall, behind)
        await self._pause(AWAY_SECONDS)
        return await self._lose_primary()

    def _rejoin(self, lost: Postgres) -> None:
        self.cluster.nodes.rejoin(lost)

    async def _other(self) -> Member:
        owner = await self.cluster.owner()
        return self.rng.choice([m for m in self.cluster.members if m is not owner])

    def _any(self) -> Member:
        return self.rng.choice(self.cluster.members)

    async def _pause(self, between: tuple[float, float]) -> None:
        await asyncio.sleep(self.rng.uniform(*between))


def _quantiles(found: Sequence[float]) -> str:
    if len(found) < 2:
        return f"{len(found)} times {[round(each, 2) for each in found]} s"
    cuts = quantiles(found, n=100, method="inclusive")
    worst = max(found)
    return (
        f"{len(found)} times, p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s,"
        f" longest {worst:.2f} s"
    )
