"""Kills programs at a named step of their work.

Wrappers add a point before and after every method of the store's protocols and every
request to the platform. The program needs no code for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from backhaul.store.commands import Commands, HistoryTags, UncertainCommands
from backhaul.store.operations import KeyValues
from backhaul.store.records import Records
from backhaul.store.stock_targets import Targets

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from backhaul.store.sqlite.database import SqliteStore

PARTS: dict[str, type] = {
    "commands": Commands,
    "uncertain": UncertainCommands,
    "kv": KeyValues,
    "tags": HistoryTags,
}
"""The parts of the store that record the progress of a command."""
PLANNING: dict[str, type] = {"records": Records}
"""The part that plans commands."""
COUNTING: dict[str, type] = {"targets": Targets}
"""The part that applies stock counts."""
ON_THE_WIRE = ("POST:before", "POST:during", "POST:after", "GET:before", "GET:after")


def points() -> Iterator[str]:
    """Yield every point in the processing of a command."""
    yield from ON_THE_WIRE
    yield from points_around(PARTS)


def points_around(parts: Mapping[str, type]) -> Iterator[str]:
    """Yield a point before and after each method of these protocols."""
    for part, protocol in parts.items():
        for name, member in vars(protocol).items():
            if callable(member) and not name.startswith("_"):
                yield f"{part}.{name}:before"
                yield f"{part}.{name}:after"


@dataclass(slots=True)
class KillPoint:
    """Stops a program when it reaches a point for the `turn`-th time."""

    point: str = ""
    turn: int = 1
    dead: asyncio.Event = field(default_factory=asyncio.Event)
    counts: Counter[str] = field(default_factory=Counter)

    async def reach(self, point: str) -> None:
        self.counts[point] += 1
        if point == self.point and self.counts[point] == self.turn:
            self.dead.set()
        if self.dead.is_set():
            await asyncio.Event().wait()


class KillablePart:
    """One protocol's implementation, with a point before and after each call."""

    def __init__(self, inner: object, name: str, kill_point: KillPoint) -> None:
        self._inner = inner
        self._name = name
        self._mortality = kill_point

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        work = getattr(self._inner, method)
        point = f"{self._name}.{method}"

        async def call(*given: Any, **named: Any) -> Any:
            await self._mortality.reach(f"{point}:before")
            result = await work(*given, **named)
            await self._mortality.reach(f"{point}:after")
            return result

        return call


class KillableStore:
    """A store with only the parts that have points."""

    def __init__(self, store: SqliteStore, kill_point: KillPoint) -> None:
        self.parts = {
            name: KillablePart(getattr(store, name), name, kill_point)
            for name in PARTS | PLANNING | COUNTING
        }

    def __getattr__(self, name: str) -> KillablePart:
        assert name in self.parts, f"no failpoints around store.{name}: add it to PARTS"
        return self.parts[name]


class KillableTransport(httpx.AsyncBaseTransport):
    """A transport with points; a request that was sent continues after the kill."""

    def __init__(self, inner: httpx.AsyncBaseTransport, kill_point: KillPoint) -> None:
        self._inner = inner
        self._mortality = kill_point
        self._leaving: set[asyncio.Task[httpx.Response]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self._mortality.reach(f"{request.method}:before")
        leaving = asyncio.ensure_future(self._inner.handle_async_request(request))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._left)
        if request.method == "POST":
            await self._mortality.reach("POST:during")
        answer = await asyncio.shield(leaving)
        await self._mortality.reach(f"{request.method}:after")
        return answer

    def _left(self, task: asyncio.Task[httpx.Response]) -> None:
        self._leaving.discard(task)
        if not task.cancelled():
            task.exception()
