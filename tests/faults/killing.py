"""Plays the shop floor while one of the two programs is killed again and again."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock
from backhaul.demo.books import damage
from backhaul.demo.findings import Kind
from backhaul.demo.pair import open_pair
from backhaul.demo.playing import beside, conclude, floor_for
from backhaul.demo.shop_floor import Pace

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.demo.pair import Pair
    from backhaul.demo.playing import Result
    from backhaul.demo.programs import Program

FAST_RETRIES = "0,0.2,0.2,0.5,1,2,5,5,5,5"
ORDERS_PER_KILL = 40
CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, with what a person needs to look into it."""

    folder: Path
    seed: int
    kills: int
    result: Result
    damaged: tuple[str, ...]

    @property
    def parked(self) -> int:
        return len(self.result.ledger.of(Kind.PARKED))

    @property
    def passes(self) -> bool:
        return self.result.passes(may_park=True) and not self.damaged

    def __str__(self) -> str:
        told = [
            *self.result.busy,
            *self.damaged,
            *map(str, self.result.ledger.findings),
        ]
        head = f"seed {self.seed}, {self.kills} kills, everything is in {self.folder}"
        return "\n".join([head, *told])


async def play_with_kills(folder: Path, victim: str, kills: int, seed: int) -> Outcome:
    """Kill `daemon` or `reference` at random moments of one busy run."""
    pace = Pace(ORDERS_PER_KILL * kills, 4, (0.0, 0.2), (0.0, 0.05), 0.25)
    async with open_pair(folder, CLOCK, retry_schedule=FAST_RETRIES) as pair:
        floor = floor_for(pair, pace, seed, CLOCK)
        async with beside(pair.daemon.watch(), pair.reference.watch()):
            async with asyncio.TaskGroup() as group:
                group.create_task(floor.play())
                group.create_task(kill_often(victim_of(pair, victim), kills, seed))
            result = await conclude(pair, floor, CLOCK)
        damaged = damage(pair.home.database)
    return Outcome(folder, seed, kills, result, tuple(damaged))


def victim_of(pair: Pair, name: str) -> Program:
    return {"daemon": pair.daemon, "reference": pair.reference}[name]


async def kill_often(program: Program, kills: int, seed: int) -> None:
    """Kill and restart with pauses that depend on the seed alone."""
    rng = random.Random(seed)  # noqa: S311 - chooses moments, guards nothing
    for _ in range(kills):
        await CLOCK.sleep(rng.uniform(0.0, 0.8))
        await program.kill()
        await CLOCK.sleep(rng.uniform(0.0, 0.2))
        await program.restart()
