"""Tells the pages that are open which kinds of things have changed.

One loop reads the changes once a second, for all streams of this daemon, and only while
there are streams. The changes are read from the database, so a page on any replica
learns what all daemons do. A stream keeps a set of kinds until its browser takes them:
a slow browser costs no memory, and delays nobody.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct, field

from backhaul.admin.following import ROWS, Follower
from backhaul.errors import Busy, ReadFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store import Store

POLL_SECONDS = 1.0
FIGURES_SECONDS = 5.0
"""How often the figures and problems of the overview are said to have changed."""
FIGURES = "figures"
BEGIN = "begin"
"""Is said once, when a stream begins to miss nothing: the page may be older."""
MOST_STREAMS = 64
MOST_OF_SESSION = 8
"""A page in a hidden tab has no stream, so a person needs one for each window."""


class Listener(Struct, eq=False):
    """One stream: the kinds that its browser has not heard of yet."""

    kinds: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, kinds: set[str]) -> None:
        """Remember kinds, and wake the stream."""
        self.kinds |= kinds
        self.changed.set()

    def take(self) -> list[str]:
        """Return the kinds since the last call, in their order."""
        kinds, self.kinds = sorted(self.kinds), set()
        self.changed.clear()
        return kinds


class LiveUpdates:
    """All streams of this daemon's dashboard."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: set[Listener] = set()
        self._sessions: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._follows = False
        self.has_ended = False

    def has_room(self, session: str) -> bool:
        """Return whether a session may open one more stream."""
        is_open = not self.has_ended and len(self._listeners) < MOST_STREAMS
        return is_open and self._sessions[session] < MOST_OF_SESSION

    @contextmanager
    def listening(self, session: str) -> Iterator[Listener]:
        """Yield a listener that hears of all changes from now on."""
        listener = Listener()
        self._listeners.add(listener)
        self._sessions[session] += 1
        if self._follows:
            listener.add({BEGIN})
        if self._task is None:
            self._task = asyncio.create_task(self._follow())
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
            self._sessions -= Counter({session: 1})  # drops the session at 0
            if not self._listeners:
                self._stop()

    async def end(self, _: object = None) -> None:
        """End all streams: the listener stops."""
        self.has_ended = True
        self._notify(set())
        self._stop()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task, self._follows = None, False

    def _notify(self, kinds: set[str]) -> None:
        for listener in self._listeners:
            listener.add(kinds)

    async def _follow(self) -> None:
        """Read the changes and wake the streams, until cancelled."""
        follower: Follower | None = None
        loop = asyncio.get_running_loop()
        figures_at = loop.time()
        while True:
            try:
                if follower is None:
                    follower = await self._begin()
                    self._follows = True
                    self._notify({BEGIN})
                elif kinds := await self._changes(follower):
                    self._notify(kinds)
            except (Busy, ReadFailed):  # as during a failover
                pass
            except Exception as error:  # noqa: BLE001 - pages would stand still unseen
                logger.bind(action="dashboard.live_failed").opt(exception=error).error(
                    "reading the changes for the live pages failed; it begins again"
                )
                follower = None
            if loop.time() - figures_at >= FIGURES_SECONDS:
                figures_at = loop.time()
                self._notify({FIGURES})
            await asyncio.sleep(POLL_SECONDS)

    async def _begin(self) -> Follower:
        places = await self._store.read(lambda reader: reader.change_places())
        return Follower(places)

    async def _changes(self, follower: Follower) -> set[str]:
        found = await self._store.read(
            lambda reader: reader.recent_changes(follower.places, ROWS)
        )
        now = asyncio.get_running_loop().time()
        return {change.type for change in follower.take(found, now)}
