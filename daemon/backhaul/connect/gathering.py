"""Records that are emitted one by one, handed to the database many at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from backhaul.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul.store.contract import NewRecord, RecordOutcome

    Accept: TypeAlias = Callable[
        [Sequence[NewRecord]], Awaitable[Sequence[RecordOutcome]]
    ]
    Waiting: TypeAlias = tuple[NewRecord, asyncio.Future[RecordOutcome]]

MOST_AT_ONCE = 200
"""A webhook that comes meanwhile waits for all of them."""


class Gathering:
    """Accepts together what came while the last records were on their way to the disk.

    One unit of work for each record would wake the writer's thread as often, and each
    wake is a fight for the interpreter lock.
    """

    def __init__(self, accept: Accept) -> None:
        self._accept = accept
        self._waiting: list[Waiting] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, record: NewRecord) -> asyncio.Future[RecordOutcome]:
        """Accept one record; resolves after its commit. Waiting may raise Busy."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[RecordOutcome] = loop.create_future()
        self._waiting.append((record, future))
        if self._task is None:
            self._task = loop.create_task(self._work())
        return future

    async def _work(self) -> None:
        try:
            while group := self._waiting[:MOST_AT_ONCE]:
                del self._waiting[: len(group)]
                await self._take(group)
        finally:
            self._task = None

    async def _take(self, group: list[Waiting]) -> None:
        """Accept a group, or else one by one: what cannot be kept fails alone."""
        try:
            outcomes = await self._accept([record for record, _ in group])
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            if len(group) == 1 or isinstance(error, Busy):
                _tell([future for _, future in group], error)
                return
            for waiting in group:
                await self._take([waiting])
            return
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)


def _tell(futures: list[asyncio.Future[RecordOutcome]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
