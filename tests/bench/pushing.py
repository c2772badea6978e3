"""The measured process of row `push`: commands dispatched, and a bare loop of posts."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Annotated

import httpx
import msgspec
import typer
import uvloop
from loguru import logger

from backhaul.core.clock import SystemClock, to_text
from backhaul.core.lifecycle import Cause, State
from backhaul.platform import requests
from backhaul.platform.client import PlatformClient
from backhaul.platform.requests import Dialect
from backhaul.platform.transport import Limits, Transport
from backhaul.push.dispatcher import Dispatcher
from backhaul.push.send_switch import SendSwitch
from backhaul.runtime.signals import StoreContext
from backhaul.settings import Push
from backhaul.store.commands import Attempt, Sendable, Transition
from backhaul.store.filters import Filter
from backhaul.store.matching import Command, NewCommand
from backhaul.store.records import Matched, NewRecord
from backhaul.store.sqlite.opening import open_store
from bench import machine
from scenes.processes import memory_bytes
from scenes.stored import lists
from scenes.waiting import until

if TYPE_CHECKING:
    from backhaul.store.matching import MatchReader, WaitingRecord
    from backhaul.store.sqlite.database import SqliteStore

CLOCK = SystemClock()
STORE = "main"
KEY = "svc_live_bench"
BATCH = 1_000
PAYLOAD = {"variant_id": "var_1", "delta": -1, "reason": "DAMAGED"}
BLOCKED = "blocked"
"""The ordering key whose first command is uncertain."""
NEVER = "9999"
CLOSING = httpx.Limits(max_keepalive_connections=0)


class Took(msgspec.Struct):
    """Seconds by the wall clock, and of the processor."""

    seconds: float
    processor_seconds: float


class Stopwatch:
    """Measures from its making on."""

    def __init__(self) -> None:
        self._began = perf_counter(), process_time()

    def took(self) -> Took:
        wall, processor = self._began
        return Took(perf_counter() - wall, process_time() - processor)


class Pushed(msgspec.Struct):
    """What one round found."""

    bare: Took
    bare_kept_alive: Took
    push: Took
    backlog: Took
    blocked: Took
    memory_bytes: int
    applied: int
    applied_of_backlog: int
    applied_beside_blocked: int


class PushedFar(msgspec.Struct):
    """What one round found with a platform that is far away."""

    bare: Took
    new: Took
    kept: Took
    applied: int
    applied_kept: int


def command(number: int, product: str = "") -> NewCommand:
    """Return an adjustment of a product, without one of a product of its own."""
    product = product or f"prod_{number}"
    return NewCommand(f"{number:032x}", "adjust", product, product, PAYLOAD)


async def plan(store: SqliteStore, numbers: range, product: str = "") -> None:
    """Plan a command of each number, without a product each in a lane of its own."""

    def matched(record: WaitingRecord, _: MatchReader) -> Matched:
        return Matched(command(int(record.key), product))

    for start in range(0, len(numbers), BATCH):
        batch = numbers[start : start + BATCH]
        records = [NewRecord(str(n), b"null", "", "", "") for n in batch]
        await store.records.accept("bench", STORE, records, None, matched)


async def block(store: SqliteStore, numbers: range) -> None:
    """Plan commands of one ordering key whose first one stays uncertain."""
    await plan(store, numbers[:1], BLOCKED)

    def prepare(asked: Command, _: MatchReader) -> Sendable:
        return Sendable(requests.body(asked, Dialect()), "")

    gates = {"adjust": NEVER}
    for head, _ in await store.commands.claim(STORE, gates, 1, prepare):
        attempt = Attempt(to_text(CLOCK.now()), "uncertain", None, "", None)
        step = Transition((Cause.UNKNOWN,), "", due_at=NEVER)
        await store.commands.record_attempt(head, attempt, step)
    await plan(store, numbers[1:], BLOCKED)


async def dispatch(
    url: str,
    path: Path,
    planned: int,
    wanted: int,
    blocked: int = 0,
    *,
    kept: bool = False,
) -> tuple[Took, int]:
    """Return how long the first `wanted` commands took, and how many were applied.

    So many as `blocked` wait in one lane beside them, for all that time. `kept` is True
    if the platform honours Idempotency-Key, so that connections are kept.
    """
    store = open_store(path, CLOCK)
    store.start()
    await block(store, range(planned, planned + blocked))
    await plan(store, range(planned))
    context = StoreContext(STORE, CLOCK, lambda: 0.5)
    reached: Counter[str] = Counter()
    context.signals.state_reached.connect(lambda _, state: reached.update([state]))
    limits, signals = Limits(5.0, 30.0, 5_000_000), context.signals
    transport = Transport(url, KEY, limits, CLOCK, None, signals)
    transport.keep_connections(keep=kept)
    client = PlatformClient(transport)
    dispatcher = Dispatcher(
        context,
        store.commands,
        store.uncertain,
        client,
        Dialect(),
        Push(),
        SendSwitch(context, client),
    )
    watch = Stopwatch()
    sending = asyncio.ensure_future(dispatcher.run())
    await until(lambda: reached["applied"] >= wanted, "they are applied", 600)
    took = watch.took()
    dispatcher.stop()
    await sending
    await transport.close()
    await store.stop()
    with lists(path) as reader:
        return took, reader.count_commands(Filter(state="applied"))


async def post(url: str, count: int, limits: httpx.Limits) -> Took:
    """Post the same bodies with the same concurrency; return how long that took."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    bodies = iter([_body(number) for number in range(count)])
    async with httpx.AsyncClient(headers=headers, limits=limits) as client:

        async def send() -> None:
            for body in bodies:
                answer = await client.post(
                    f"{url}/api/v1/inventory/adjust", content=body
                )
                answer.raise_for_status()

        watch = Stopwatch()
        await asyncio.gather(*(send() for _ in range(Push().concurrency)))
        return watch.took()


def _body(number: int) -> bytes:
    new = command(number)
    asked = Command(
        seq=number,
        id=new.id,
        store=STORE,
        kind=new.kind,
        target=new.target,
        lane=new.lane,
        state=State.PLANNED,
        payload=new.payload,
        attempts=0,
        failures=0,
        instance="bench",
    )
    return requests.body(asked, Dialect())


async def measure(url: str, directory: str, commands: int, backlog: int) -> Pushed:
    bare = await post(url, commands, CLOSING)
    kept_alive = await post(url, commands, httpx.Limits())
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        push, of_all = await dispatch(url, Path(folder, "p.db"), commands, commands)
        waiting, of_backlog = await dispatch(
            url, Path(folder, "b.db"), backlog, commands
        )
        memory = memory_bytes(os.getpid(), "VmHWM")
        beside, of_beside = await dispatch(
            url, Path(folder, "l.db"), commands, commands, backlog // 2
        )
    return Pushed(
        bare, kept_alive, push, waiting, beside, memory, of_all, of_backlog, of_beside
    )


async def measure_far(url: str, directory: str, commands: int) -> PushedFar:
    bare = await post(url, commands, httpx.Limits())
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        new, of_new = await dispatch(url, Path(folder, "n.db"), commands, commands)
        kept, of_kept = await dispatch(
            url, Path(folder, "k.db"), commands, commands, kept=True
        )
    return PushedFar(bare, new, kept, of_new, of_kept)


def main(
    url: str,
    directory: str,
    commands: int,
    backlog: int,
    far: Annotated[bool, typer.Option("--far")] = False,
    core: Annotated[int | None, typer.Option()] = None,
) -> None:
    """Post, then dispatch; print JSON."""
    machine.pin(core)
    logger.remove()
    found: Pushed | PushedFar
    if far:
        found = uvloop.run(measure_far(url, directory, commands))
    else:
        found = uvloop.run(measure(url, directory, commands, backlog))
    typer.echo(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    typer.run(main)
