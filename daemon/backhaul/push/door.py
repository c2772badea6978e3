"""Whether a store takes commands at all: closed by a refusal, reopened by a read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.core.clock import Clock
    from backhaul.shop.client import ShopClient

PROBE_SECONDS = 30.0
PAUSE_SECONDS = 1.0
"""Wait after a 429 that names none."""
ALL = "everything"


class Door:
    """Closed for one kind (a scope is missing) or for all (key, address, proxy).

    A probe is a read, never a command. The person hears of it once when it closes and
    once when a command has been taken again: a read may work while the write does not.
    """

    def __init__(
        self, store: str, client: ShopClient, clock: Clock, opened: Callable[[], None]
    ) -> None:
        self._store = store
        self._client = client
        self._clock = clock
        self._opened = opened
        self._closed: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._not_before = 0.0
        self._changed = asyncio.Event()

    def lets_out(self, kind: str) -> bool:
        """Tell whether commands of this kind may be sent now."""
        if self._clock.monotonic() < self._not_before:
            return False
        return not self._closed.keys() & {kind, ALL}

    def reasons(self) -> dict[str, str]:
        """Return what is stopped, and why."""
        return dict(self._closed)

    def close(self, what: str, reason: str) -> None:
        """Stop sending a kind, or ALL."""
        self._closed[what] = reason
        self._changed.set()
        if self._told.get(what) != reason:
            self._told[what] = reason
            logger.bind(action="push.stopped", store=self._store).error(
                "store {}: {} waits: {}", self._store, what, reason
            )

    def proved(self, kind: str) -> None:
        """A command of this kind was taken: say so if the person heard otherwise."""
        if self._told.pop(kind, None) or self._told.pop(ALL, None):
            logger.bind(action="push.resumed", store=self._store).info(
                "store {}: {} is taken again", self._store, kind
            )

    def pause(self, seconds: float | None) -> None:
        """Send nothing for a while: the platform asked for it."""
        until = self._clock.monotonic() + (seconds or PAUSE_SECONDS)
        self._not_before = max(self._not_before, until)
        self._changed.set()

    async def watch(self) -> None:
        """Open the door again when its time has come. Runs until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._outlast_pause()
            while self._closed:
                await self._clock.sleep(PROBE_SECONDS)
                if await self._client.opens():
                    self._closed.clear()
                    self._opened()

    async def _outlast_pause(self) -> None:
        while (wait := self._not_before - self._clock.monotonic()) > 0:
            await self._clock.sleep(wait)
        self._opened()
