"""What is measured on either engine, a process of its own: `python -m bench.engines`.

A place is the path of a file that is not there yet, or the URL of an empty database.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer
import uvloop

from backhaul.core.clock import SystemClock, to_text
from backhaul.store import database_at, open_store
from backhaul.store.inbox import Arrival
from bench import machine, orders
from bench.draining import Timer, append, fold_all
from bench.orders import STORE, bodies
from scenes.processes import family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import TypeAlias

    from backhaul.store import Place, Store


class Taken(msgspec.Struct):
    """Seconds of the clock, and of the processor: this process and the server."""

    seconds: float
    client_seconds: float
    server_seconds: float = 0.0

    @property
    def busy_seconds(self) -> float:
        """Return the processor time of both."""
        return self.client_seconds + self.server_seconds


class Done(msgspec.Struct):
    """What was measured, and the rows of each table at the end."""

    taken: Taken
    rows: dict[str, int]


class Work(msgspec.Struct, frozen=True):
    """How many events, from how many producers at once; numbers of orders to change.

    Every `step`th of the orders that the mirror holds is changed, from `first` on.
    """

    count: int
    producers: int = 64
    first: int = 0
    step: int = 1


Measured: TypeAlias = "Callable[[Store, Work, int], Coroutine[None, None, Taken]]"


async def _append(store: Store, work: Work, server: int) -> Taken:
    """Append from the producers; each waits until its event is durable."""
    waiting = bodies(work.count)
    now = to_text(SystemClock().now())

    async def produce(events: Iterator[bytes]) -> None:
        for body in events:
            arrival = Arrival(STORE, "delivery", "orders/create", now, b"{}", body)
            await store.inbox.append(arrival)

    # The connection is open, and its stream has begun.
    await store.inbox.append(Arrival(STORE, "delivery", "", now, b"{}", b""))
    timer, before = Timer(), server_seconds(server)
    await asyncio.gather(*(produce(waiting) for _ in range(work.producers)))
    return Taken(*timer.read(), server_seconds(server) - before)


async def _fold(store: Store, work: Work, server: int) -> Taken:
    await append(store, "orders/create", bodies(work.count, orders.FIRST + work.first))
    return await _folded(store, server)


async def _change(store: Store, work: Work, server: int) -> Taken:
    numbers = (orders.FIRST + work.first + work.step * n for n in range(work.count))
    await append(store, "orders/updated", orders.changes(numbers))
    return await _folded(store, server)


async def _folded(store: Store, server: int) -> Taken:
    before = server_seconds(server)
    seconds, client = await fold_all(store)
    return Taken(seconds, client, server_seconds(server) - before)


def server_seconds(pid: int) -> float:
    """Return the processor time that a server and its processes have had; 0 without."""
    if not pid:
        return 0.0
    return machine.ended_children_seconds(pid) + sum(
        map(machine.processor_seconds, family_of(pid))
    )


async def _nothing(_: Store, __: Work, ___: int) -> Taken:
    return Taken(0, 0)


MEASURED: dict[str, Measured] = {
    "append": _append,
    "fold": _fold,
    "change": _change,
    "none": _nothing,
}


async def _measure(what: str, place: Place, work: Work, server: int) -> Done:
    store = open_store(place, SystemClock())
    store.start()
    try:
        taken = await MEASURED[what](store, work, server)
    finally:
        await store.stop()
    return Done(taken, database_at(place).row_counts())


def main(what: str, place: str, work: str, server: int = 0) -> None:
    """Append or fold events; print JSON. `server` is the process of a database."""
    where = place if "://" in place else Path(place)
    wanted = msgspec.json.decode(work, type=Work)
    found = uvloop.run(_measure(what, where, wanted, server))
    typer.echo(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    typer.run(main)
