"""The first reading of a store, through the same inbox as its webhooks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.core.backoff import delay_seconds
from backhaul.core.clock import to_text
from backhaul.errors import Busy, Unusable
from backhaul.shop.client import ReadRefused
from backhaul.shop.transport import InDoubt, NotSent
from backhaul.store.contract import Arrival

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.shop.client import ShopClient
    from backhaul.store.contract import Inbox, Marks

LISTS: Mapping[str, str] = {
    "/products": "products/read",
    "/inventory": "inventory/read",
    "/orders": "orders/read",
}
"""What is read, and as which kind of event it is kept."""

RETRY_BASE_SECONDS = 1.0
RETRY_CAP_SECONDS = 60.0


class Backfill:
    """Reads a store once, whole; a mark remembers that it was done."""

    def __init__(
        self,
        store: str,
        client: ShopClient,
        inbox: Inbox,
        marks: Marks,
        clock: Clock,
        chance: Callable[[], float],
        arrived: Callable[[], None],
    ) -> None:
        self._store = store
        self._client = client
        self._inbox = inbox
        self._marks = marks
        self._clock = clock
        self._chance = chance
        self._arrived = arrived

    async def run(self) -> None:
        """Read everything unless it was done before; tries until it works."""
        mark = f"backfill:{self._store}"
        if await self._marks.get(mark):
            return
        began = to_text(self._clock.now())
        rows = {path: await self._insist(path) for path in LISTS}
        await self._marks.put(mark, began)
        logger.bind(action="backfill.done", store=self._store).info(
            "store {}: read {}",
            self._store,
            ", ".join(f"{count} of {path[1:]}" for path, count in rows.items()),
        )

    async def _insist(self, path: str) -> int:
        failures = 0
        while True:
            try:
                return await self._read(path)
            except ReadRefused as error:
                if error.status in {403, 404, 405}:
                    self._tell("backfill.skipped", error)
                    return 0
                self._tell("backfill.failed", error)
            except (NotSent, InDoubt, Unusable, Busy) as error:
                self._tell("backfill.failed", error)
            failures += 1
            await self._clock.sleep(
                delay_seconds(
                    failures,
                    base_seconds=RETRY_BASE_SECONDS,
                    cap_seconds=RETRY_CAP_SECONDS,
                    chance=self._chance(),
                )
            )

    async def _read(self, path: str) -> int:
        count = 0
        began = to_text(self._clock.now())
        async for rows in self._client.pages(path):
            await asyncio.gather(
                *(self._inbox.append(self._arrival(path, row, began)) for row in rows)
            )
            self._arrived()
            count += len(rows)
            began = to_text(self._clock.now())
        return count

    def _arrival(self, path: str, row: bytes, began: str) -> Arrival:
        return Arrival(self._store, "read", LISTS[path], began, b"{}", row)

    def _tell(self, action: str, error: Exception) -> None:
        logger.bind(action=action, store=self._store).warning(
            "store {}: {}", self._store, error
        )
