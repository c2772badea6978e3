"""Takes messages from a broker, and acknowledges them after the host's commit."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from backhaul_sdk.files import in_thread
from backhaul_sdk.messages.broker import BrokerFailed
from backhaul_sdk.messages.reading import read_all
from backhaul_sdk.messages.tasks import close_soon

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul_sdk.contract import Emit
    from backhaul_sdk.messages.broker import Message, Subscription
    from backhaul_sdk.messages.reading import MessageReader
    from backhaul_sdk.records import Bad, Record

FIRST_REST_SECONDS = 0.2
LONGEST_REST_SECONDS = 5.0
STORE_AGAIN_SECONDS = 1.0
FINISH_SECONDS = 2.0
STORED_AT_ONCE = 1_000
THREAD_BYTES = 32_768
"""More than that is read in a thread: the loop has other work to do."""


class Receiver:
    """Takes the messages of one source, for as long as it is started.

    `problem` says why the broker cannot be used; it is empty while it can be.
    """

    def __init__(
        self, subscribe: Callable[[], Awaitable[Subscription]], reader: MessageReader
    ) -> None:
        self._subscribe = subscribe
        self._reader = reader
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = self._is_cancelled = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._tried = asyncio.Event()
        self.problem = ""
        self.subscribed = asyncio.Event()

    def start(self, emit: Emit) -> None:
        """Begin to receive; an unreachable broker is retried forever."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._run(emit))

    async def stop(self) -> None:
        """Stop; the broker keeps what is not acknowledged. Safe to call twice.

        What has arrived is stored and acknowledged first, if that takes a moment only.
        """
        if self._task is None:
            return
        self._is_stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                await self._idle.wait()
        # A second cancellation would interrupt the end of the connection.
        if not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()
        await asyncio.wait([self._task])
        self._task, self._is_stopping, self._is_cancelled = None, False, False

    async def tried(self) -> None:
        """Wait until the first attempt to subscribe has succeeded or failed."""
        if self._task is not None:
            await self._tried.wait()

    async def _run(self, emit: Emit) -> None:
        rest = FIRST_REST_SECONDS
        while True:
            try:
                await self._receive(emit)
            except BrokerFailed as error:
                self._failed(str(error))
            except Exception as error:  # noqa: BLE001 - the end of a task is not awaited
                self._failed(f"receiving failed: {type(error).__name__}: {error}")
            if self.subscribed.is_set():
                self.subscribed.clear()
                rest = FIRST_REST_SECONDS
            await asyncio.sleep(rest)
            rest = min(rest * 2, LONGEST_REST_SECONDS)

    def _failed(self, problem: str) -> None:
        self.problem = problem
        self._tried.set()

    async def _receive(self, emit: Emit) -> None:
        subscription = await self._subscribe()
        try:
            self.problem = ""
            self.subscribed.set()
            self._tried.set()
            while not self._is_stopping:
                messages = await subscription.next()
                self._idle.clear()
                await self._take(messages, emit)
                self._idle.set()
        finally:
            self._idle.set()
            await close_soon(subscription.close)

    async def _take(self, messages: Sequence[Message], emit: Emit) -> None:
        """Store what the messages contain, then acknowledge them."""
        records = await self._read(messages)
        for start in range(0, len(records), STORED_AT_ONCE):
            chunk = records[start : start + STORED_AT_ONCE]
            await asyncio.gather(*map(partial(self._store, emit), chunk))
        for message in messages:
            await message.acknowledge()

    async def _read(self, messages: Sequence[Message]) -> Sequence[Record | Bad]:
        if sum(len(message.body) for message in messages) > THREAD_BYTES:
            return await in_thread(read_all, self._reader, messages)
        return read_all(self._reader, messages)

    async def _store(self, emit: Emit, record: Record | Bad) -> None:
        """Store a record. While the host cannot, the broker keeps the message."""
        while True:
            try:
                await emit(record)
            except Exception as error:  # noqa: BLE001 - whatever it is, keep the message
                self.problem = (
                    "a record could not be stored and is tried again:"
                    f" {type(error).__name__}: {error}"
                )
            else:
                self.problem = ""
                return
            await asyncio.sleep(STORE_AGAIN_SECONDS)
