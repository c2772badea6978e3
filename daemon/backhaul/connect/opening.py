"""Opens a connector, and waits for that no longer than it may take."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from backhaul.connect.guarding import bounded, guarded

if TYPE_CHECKING:
    from backhaul_sdk import Connector

OPEN_SECONDS = 30.0
"""Longer than the limits that connectors have of their own: their words tell more."""
FAREWELL_SECONDS = 2.0


class Opening:
    """One connector's way to being open.

    A try that takes too long is cancelled, but not waited for: in a thread, at a share
    that is gone, it may hang on. No second one is begun beside it; it is waited for
    again, and begun anew once it has ended.
    """

    def __init__(self, connector: Connector[Any]) -> None:
        self.done = False
        self._connector = connector
        self._turn = asyncio.Lock()
        self._trying: asyncio.Task[None] | None = None

    async def within(self, seconds: float) -> None:
        """Open the connector unless it is open. Raises ConnectorFailed, and Busy."""
        async with self._turn:
            if self.done:
                return
            if self._trying is None or self._trying.done():
                loop = asyncio.get_running_loop()
                self._trying = loop.create_task(guarded(self._connector.open()))
            await bounded(seconds, self._trying, "to open")
            self.done = True

    async def stop(self) -> None:
        """Leave nothing under way that ends when it is asked to."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.wait([self._trying], timeout=FAREWELL_SECONDS)
