"""From a seed to its world, and to what became of it."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import traceback
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.store.sqlite.opening import open_store
from backhaul_reference.platform.webhooks.sender import Envelope
from backhaul_reference.platform.webhooks.sender import headers as signed
from simulation import platform
from simulation.clock import SimulatedClock, scheduling_by
from simulation.loop import VirtualLoop
from simulation.platform import Shop, open_shop
from simulation.program import STORE, Program, settings_of
from simulation.weather import Network, Postman, Weather
from simulation.wire import request_bytes
from simulation.world import PATIENCE_SECONDS, Report, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from backhaul_reference.platform.state.database import Row

MEMORY = Path("/dev/shm")
QUIRKS = ("", "no-idempotency", "no-idempotency")
"""Platforms that take a key once protect us from ourselves; most are not like that."""
PORTS = re.compile(r"http://127\.0\.0\.1:\d+")
"""The only thing in the trace that this machine chooses."""


def chance_of(name: str) -> random.Random:
    """Return what draws for one part of a world, whatever the others draw."""
    return random.Random(name)  # noqa: S311 - repeatable, and guards nothing


def signer(shop: Shop) -> Callable[[Row, int], bytes]:
    """Return what puts a delivery together as the platform does."""

    def sign(row: Row, attempt: int) -> bytes:
        envelope = Envelope(
            row["id"],
            f"dlv_{row['seq']}_{attempt}",
            "whk_1",
            "demo",
            row["topic"],
            "2026-03-01T12:00:00.000Z",
            row["body"],
        )
        made = signed(envelope, [shop.secret], attempt, shop.clock.now_ms())
        named = [(name.encode(), value.encode()) for name, value in made.items()]
        return request_bytes("POST", f"/webhooks/{STORE}", named, row["body"])

    return sign


@asynccontextmanager
async def made(
    seed: int, loop: VirtualLoop, folder: Path, trace: list[str]
) -> AsyncIterator[World]:
    clock, chance = SimulatedClock(loop), chance_of(f"world {seed}")
    weather = Weather(chance_of(f"weather {seed}"))
    limits, quirk = chance.random() < 0.3, chance.choice(QUIRKS)
    async with open_shop(
        folder, clock, chance_of(f"ids {seed}"), limits=limits, quirk=quirk
    ) as shop:
        here: list[World] = []
        network = Network(loop, shop, weather, lambda text: here[0].note(text))
        program = Program(
            loop,
            folder,
            settings_of(folder, shop.secret),
            clock,
            chance_of(f"daemon {seed}"),
            network,
            lambda what: here[0].moment(what),
            lambda: here[0].no_moment(),
            lambda: here[0].give_up(),
        )
        postman = Postman(network, lambda: program.front_door, signer(shop))
        shop.listeners.append(postman.hear)
        world = World(
            seed,
            loop,
            folder,
            clock,
            chance,
            shop,
            weather,
            network,
            program,
            postman,
            trace,
        )
        here.append(world)
        with scheduling_by(clock):
            yield world
            program.kill()


class Template:
    """What every seed begins with, made once: a store with products, empty tables."""

    def __init__(self) -> None:
        self.folder = _scratch()
        loop = VirtualLoop()
        clock = SimulatedClock(loop)
        loop.run_until_complete(
            platform.prepare(self.folder, clock, chance_of("template"))
        )
        open_store(self.folder / "backhaul.db", clock)
        loop.close()

    def copy(self) -> Path:
        folder = _scratch()
        platform.copy(self.folder, folder)
        for name in ("state", "drop"):
            (folder / name).mkdir()
        shutil.copy(self.folder / "backhaul.db", folder / "state")
        return folder

    def remove(self) -> None:
        shutil.rmtree(self.folder)


def _scratch() -> Path:
    memory = MEMORY if MEMORY.is_dir() else None
    return Path(tempfile.mkdtemp(prefix="bhs-", dir=memory))


def simulate(
    seed: int, template: Template, patience_seconds: float = PATIENCE_SECONDS
) -> Report:
    """Run one seed from its beginning to its end."""
    folder, loop, trace = template.copy(), VirtualLoop(), list[str]()
    random.seed(seed)  # tenacity draws from this one
    sink = logger.add(lambda message: trace.append(_told(message, loop)), level="INFO")
    try:
        return loop.run_until_complete(
            _run(seed, loop, folder, trace, patience_seconds)
        )
    except Exception as error:  # noqa: BLE001 - told as what became of this seed
        trace.append("".join(traceback.format_exception(error)))
        return Report(seed, [f"the world broke: {error!r}"], "", trace)
    finally:
        logger.remove(sink)
        loop.close()
        shutil.rmtree(folder)


def _told(message: Any, loop: VirtualLoop) -> str:
    record = message.record
    said = f"{record['extra'].get('action', '')}: {record['message']}"
    said = PORTS.sub("", said)
    return f"{loop.seconds:.3f}   {said}"


async def _run(
    seed: int,
    loop: VirtualLoop,
    folder: Path,
    trace: list[str],
    patience_seconds: float,
) -> Report:
    async with made(seed, loop, folder, trace) as world:
        return await world.run(patience_seconds)
