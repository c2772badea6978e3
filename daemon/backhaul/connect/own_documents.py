"""Gives a connector its documents in the database, and the rows of its old files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from backhaul.store import query_file

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from backhaul.store.records import ConnectorDocuments
    from backhaul_sdk import Documents

T = TypeVar("T")
MOST_WORKS = 64
"""Most works of one connection in a commit; a webhook waits for all of them."""


class OwnDocuments:
    """The documents of one connection: implements `backhaul_sdk.DocumentStore`.

    `store` returns the store whose mirror can be read now, or None.
    """

    def __init__(
        self,
        documents: ConnectorDocuments,
        instance: str,
        store: Callable[[], str | None],
    ) -> None:
        self._documents = documents
        self._instance = instance
        self._store = store
        self._waiting: list[tuple[Callable[[Documents], Any], asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None

    def transact(self, work: Callable[[Documents], T]) -> Awaitable[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append((work, future))
        if self._task is None:
            self._task = loop.create_task(self._run())
        return future

    async def _run(self) -> None:
        """Do some works at a time, so that a flood of them delays no other write."""
        try:
            while group := self._waiting[:MOST_WORKS]:
                del self._waiting[: len(group)]
                works = (self._do(work) for work, _ in group)
                results = await asyncio.gather(*works, return_exceptions=True)
                for (_, future), result in zip(group, results, strict=True):
                    _resolve(future, result)
        finally:
            self._task = None

    async def _do(self, work: Callable[[Documents], T]) -> T:
        return await self._documents.transact(self._instance, self._store(), work)


def _resolve(future: asyncio.Future[Any], result: object) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)


async def read_sqlite(
    file: Path, query: str, values: Sequence[Any]
) -> Sequence[tuple[Any, ...]]:
    """Run a query on a file; implements `backhaul_sdk.database.ReadSqlite`."""
    return await asyncio.to_thread(query_file, file, query, values)
