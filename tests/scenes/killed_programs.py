"""Programs that die at one named step, without knowing of it themselves.

What a program works with is wrapped from outside: every method of the protocols it
writes and reads by, and its way to the platform, has a point before and one after.
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
"""What of the store a command's life is written by."""
PLANNING: dict[str, type] = {"records": Records}
"""What it is planned by."""
COUNTING: dict[str, type] = {"targets": Targets}
"""What counts are made true by."""
ON_THE_WIRE = ("POST:before", "POST:during", "POST:after", "GET:before", "GET:after")


def points() -> Iterator[str]:
    """Yield every point of a command's life."""
    yield from ON_THE_WIRE
    yield from points_around(PARTS)


def points_around(parts: Mapping[str, type]) -> Iterator[str]:
    """Yield the points of these protocols, those of their newest method too."""
    for part, protocol in parts.items():
        for name, member in vars(protocol).items():
            if callable(member) and not name.startswith("_"):
                yield f"{part}.{name}:before"
                yield f"{part}.{name}:after"


@dataclass(slots=True)
class KillPoint:
    """Ends a program when it meets a point for the `turn`-th time: nothing moves on."""

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

    def __init__(self, inner: object, name: str, mortality: KillPoint) -> None:
        self._inner = inner
        self._name = name
        self._mortality = mortality

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
    """What may be used of the store: the parts with points, and no other."""

    def __init__(self, store: SqliteStore, mortality: KillPoint) -> None:
        self.parts = {
            name: KillablePart(getattr(store, name), name, mortality)
            for name in PARTS | PLANNING | COUNTING
        }

    def __getattr__(self, name: str) -> KillablePart:
        assert name in self.parts, f"no failpoints around store.{name}: add it to PARTS"
        return self.parts[name]


class KillableTransport(httpx.AsyncBaseTransport):
    """A way to the platform with points; what has left goes on by itself."""

    def __init__(self, inner: httpx.AsyncBaseTransport, mortality: KillPoint) -> None:
        self._inner = inner
        self._mortality = mortality
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
