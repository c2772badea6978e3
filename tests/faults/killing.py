"""Plays the shop floor while one of the two programs is killed again and again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock
from backhaul.demo.daemon_rows import Kind, damage
from backhaul.demo.program_pair import open_pair
from backhaul.demo.runner import beside, conclude, floor_for
from backhaul.demo.simulation import Pace
from scenes.loop_guard import on_purpose
from scenes.stored import bodies

if TYPE_CHECKING:
    from backhaul.demo.processes import Program
    from backhaul.demo.runner import Result

RETRIES = f"0,0.2,0.5,1,2{',5' * 60}"
"""Enough retries, so that no webhook is given up while the receiver is down.

When three such runs shared two cores, 18 retries 5 s apart were not enough: webhooks
that only a later full sync would find were counted as lost.
"""
READINGS = ((), ("no-idempotency",))
"""Platforms in turn: one supports keys, on the other uncertain commands are checked."""
LOOKS = '[push]\ncheck_after = ["0s", "2s", "6s"]'
"""Less than ten minutes: on one machine no request is in flight for longer."""
CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Siege:
    """How often a program is killed, and the pace of the back office."""

    orders_per_kill: int
    shopper_pause: tuple[float, float]
    lives: tuple[float, float]
    """The least and the most seconds before a kill."""

    def pace(self, kills: int) -> Pace:
        orders = self.orders_per_kill * kills
        return Pace(orders, 4, self.shopper_pause, (0.0, 0.05), 0.25)


BURST = Siege(40, (0.0, 0.2), (0.0, 0.8))
STEADY = Siege(50, (0.2, 0.3), (0.0, 5.0))
"""More than 20 webhooks and 10 effects a second, if the machine can keep up."""
DENSE = Siege(12, (0.8, 1.2), (0.0, 2.0))
"""Kills in quick succession; each interrupts the work on an order."""


@dataclass(slots=True)
class Lives:
    """The seconds of each restart until the program was ready, and of the whole run."""

    recovery_seconds: list[float] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run, with details for the analysis."""

    folder: Path
    seed: int
    quirks: tuple[str, ...]
    kills: int
    result: Result
    damaged: tuple[str, ...]
    lives: Lives
    webhooks: int

    @property
    def parked(self) -> int:
        return len(self.result.report.of(Kind.PARKED))

    @property
    def passes(self) -> bool:
        return self.result.passes(may_park=True) and not self.damaged

    def __str__(self) -> str:
        told = [
            *self.result.busy,
            *self.damaged,
            *map(str, self.result.report.findings),
        ]
        head = (
            f"seed {self.seed} {' '.join(self.quirks)}, {self.kills} kills,"
            f" everything is in {self.folder}"
        )
        return "\n".join([head, *told])


def _children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in children.read_text().split()]


class _Receiver:
    """A receiver process of a daemon, which the daemon starts again itself."""

    def __init__(self, daemon: Program, seed: int) -> None:
        self._daemon = daemon
        self._rng = random.Random(seed)  # noqa: S311 - chooses one of them

    async def kill(self) -> None:
        with on_purpose(), suppress(ProcessLookupError):
            if found := _children(self._daemon.pid):
                os.kill(self._rng.choice(found), signal.SIGKILL)

    async def restart(self) -> None:
        """Let the daemon restart the process."""


async def play_with_kills(
    folder: Path,
    victim: str,
    kills: int,
    seed: int,
    siege: Siege = BURST,
    quirks: tuple[str, ...] = (),
    receivers: int = 0,
) -> Outcome:
    """Kill `daemon`, `receiver` or `reference` at random moments of one busy run.

    `receivers` is the setting of that name in `[public]`.
    """
    lives = Lives()
    async with open_pair(folder, CLOCK, retry_schedule=RETRIES, quirks=quirks) as pair:
        # read at the first start after a kill: before it no command is uncertain
        text = pair.home.config.read_text()
        assert "[push]" in text
        text = text.replace("[push]", LOOKS)
        text = text.replace("[public]", f"[public]\nreceivers = {receivers}")
        pair.home.config.write_text(text)
        if receivers:
            await pair.daemon.restart()
        floor = floor_for(pair, siege.pace(kills), seed, CLOCK)
        programs = {"daemon": pair.daemon, "reference": pair.reference}
        program = programs.get(victim) or _Receiver(pair.daemon, seed)
        async with beside(pair.daemon.watch(), pair.reference.watch()):
            began = CLOCK.monotonic()
            async with asyncio.TaskGroup() as group:
                group.create_task(floor.play())
                group.create_task(kill_often(program, kills, seed, siege, lives))
            lives.seconds = CLOCK.monotonic() - began
            result = await conclude(pair, floor, CLOCK)
        database = pair.home.database
        with on_purpose():
            webhooks = len(bodies(database, "delivery"))
            damaged = tuple(damage(database))
    return Outcome(folder, seed, quirks, kills, result, damaged, lives, webhooks)


async def kill_often(
    program: Program | _Receiver, kills: int, seed: int, siege: Siege, lives: Lives
) -> None:
    """Kill and restart with pauses that depend on the seed alone."""
    rng = random.Random(seed)  # noqa: S311 - chooses moments, guards nothing
    for _ in range(kills):
        await CLOCK.sleep(rng.uniform(*siege.lives))
        await program.kill()
        await CLOCK.sleep(rng.uniform(0.0, 0.2))
        began = CLOCK.monotonic()
        await program.restart()
        lives.recovery_seconds.append(CLOCK.monotonic() - began)
