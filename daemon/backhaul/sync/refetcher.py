"""Fetches objects with conflicting versions again, one by one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from loguru import logger
from msgspec import Struct

from backhaul.core import strict_json
from backhaul.core.backoff import delay_seconds
from backhaul.core.clock import from_text, to_text
from backhaul.errors import Unusable
from backhaul.platform import decoding, responses
from backhaul.platform.client import ReadRefused
from backhaul.platform.transport import InDoubt, NotSent, TooLong
from backhaul.store.contract import Arrival
from backhaul.store.rereads import LONGEST_REST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul.core.clock import Clock
    from backhaul.platform.client import ShopClient
    from backhaul.store.contract import Inbox
    from backhaul.store.rereads import Reread, Rereads

BATCH = 50
LOOK_SECONDS = 30.0
"""Rest while nothing is asked for; then children without a parent are looked for."""
BASE_SECONDS = 1.0
CAP_SECONDS = LONGEST_REST_SECONDS
CLOSED_SECONDS = LONGEST_REST_SECONDS
"""How long a kind of object is left alone that the key may not read."""
_CLOSED = frozenset({401, 403, 405})

LISTS: Mapping[str, str] = {
    "order": "/orders",
    "product": "/products",
    "customer": "/customers",
    "level": "/inventory",
}
"""Where each kind is read; its topics are called as its list."""


_READERS: Mapping[str, Callable[[Mapping[str, Any], ShopClient], object]] = {
    "orders/reread": lambda data, client: decoding.order(data, client.tracking),
    "products/reread": lambda data, _: decoding.product(data, ""),
    "customers/reread": lambda data, _: decoding.customer(data),
    "inventory/reread": lambda data, _: decoding.level(data),
    "inventory/shown/reread": lambda data, _: decoding.product(data, ""),
}
"""How each answer will be read when it is folded."""


class _Read(Struct, frozen=True):
    """What was learnt of an object: the rest of a topic, and bodies for the inbox."""

    topic: str
    bodies: list[bytes]


class Refetcher:
    """Works off one store's queue of doubts, in its order, one read at a time.

    A row leaves the queue after its answer is durable, and not when it was asked for
    again meanwhile: what was read may be older than that doubt.
    """

    def __init__(
        self,
        store: str,
        client: ShopClient,
        inbox: Inbox,
        rereads: Rereads,
        clock: Clock,
        chance: Callable[[], float],
        arrived: Callable[[], None],
    ) -> None:
        self._store = store
        self._client = client
        self._inbox = inbox
        self._rereads = rereads
        self._clock = clock
        self._chance = chance
        self._arrived = arrived
        self._wake = asyncio.Event()
        self._mirror_is_whole = False
        self._failures = 0
        self._closed_until: dict[str, float] = {}

    def wake(self) -> None:
        """Tell that an object may have been asked for."""
        self._wake.set()

    def release(self) -> None:
        """Tell that the mirror is filled: a parent that is missing now is missing."""
        self._mirror_is_whole = True
        self.wake()

    async def run(self) -> None:
        """Read for ever. Cancel to stop: the queue is a table and remembers."""
        while True:
            self._wake.clear()
            if self._mirror_is_whole:
                await self._rereads.ask_for_parents(self._store)
            while await self.work_off():
                pass
            await self._rest()

    async def work_off(self) -> int:
        """Read what is due; return how many objects that were."""
        due = await self._rereads.next(self._store, BATCH)
        for reread in due:
            await self._settle(reread)
        return len(due)

    async def _rest(self) -> None:
        """Sleep until woken, or until the next object is due."""
        due = await self._rereads.next_due(self._store)
        seconds = LOOK_SECONDS
        if due is not None:
            wait = (from_text(due) - self._clock.now()) / timedelta(seconds=1)
            seconds = min(max(wait, 0.0), LOOK_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _settle(self, reread: Reread) -> None:
        if self._clock.monotonic() < self._closed_until.get(reread.kind, 0.0):
            await self._postpone(reread, CLOSED_SECONDS)
            return
        began = to_text(self._clock.now())
        try:
            found = await self._read(reread)
        except ReadRefused as error:
            await self._refused(reread, error)
        except (Unusable, TooLong) as error:
            await self._cannot_be_read(reread, error)
        except (NotSent, InDoubt) as error:
            await self._failed(reread, error)
        else:
            await self._take(reread, found, began)

    async def _take(self, reread: Reread, found: _Read, began: str) -> None:
        """Keep an answer that can be read; one that cannot is quarantined once."""
        problem = self._problem(found)
        if problem is None:
            await self._keep(reread, found, began)
            return
        if reread.failures == 0:
            await self._append(found, began)
        await self._cannot_be_read(reread, problem)

    def _problem(self, found: _Read) -> Unusable | None:
        read = _READERS.get(found.topic)
        try:
            for body in found.bodies:
                if read is not None:
                    read(strict_json.decode_object(body), self._client)
        except Unusable as error:
            return error
        return None

    async def _append(self, found: _Read, began: str) -> None:
        arrivals = [
            Arrival(self._store, "read", found.topic, began, b"{}", body)
            for body in found.bodies
        ]
        await asyncio.gather(*(self._inbox.append(arrival) for arrival in arrivals))
        self._arrived()

    async def _keep(self, reread: Reread, found: _Read, began: str) -> None:
        await self._append(found, began)
        await self._rereads.done(reread)
        if self._failures:
            self._failures = 0
            self._tell("reread.resumed", "objects in doubt can be read again")

    async def _read(self, reread: Reread) -> _Read:
        if reread.kind == "level":
            return await self._read_levels(reread.object_id)
        path, object_id = LISTS[reread.kind], reread.object_id
        answer = await self._client.find(path, object_id)
        if answer is None:
            return _gone(path, object_id)
        return _Read(f"{path[1:]}/reread", [responses.read_object(answer, object_id)])

    async def _read_levels(self, product_id: str) -> _Read:
        """Read the levels of a product; what lists none may show them with it."""
        answer = await self._client.ask(LISTS["level"], product_id)
        if answer.ok:
            return _Read("inventory/reread", responses.rows(answer))
        if answer.status != 404 and answer.status not in _CLOSED:
            raise ReadRefused(f"/inventory/{product_id}", answer)
        path = LISTS["product"]
        shown = await self._client.find(path, product_id)
        if shown is None:
            return _gone(path, product_id)
        return _Read(
            "inventory/shown/reread", [responses.read_object(shown, product_id)]
        )

    async def _refused(self, reread: Reread, error: ReadRefused) -> None:
        if error.status == 429 or error.status >= 500:
            await self._failed(reread, error)
            return
        if error.status not in _CLOSED:
            await self._cannot_be_read(reread, error)
            return
        until = self._clock.monotonic() + CLOSED_SECONDS
        self._closed_until[reread.kind] = until
        self._tell("reread.refused", f"{error}; tried again in {CLOSED_SECONDS:.0f} s")
        await self._postpone(reread, CLOSED_SECONDS)

    async def _cannot_be_read(self, reread: Reread, error: Exception) -> None:
        """Let one object rest, and go on with the others: it is this one alone."""
        if reread.failures == 0:
            self._tell("reread.failed", f"{reread.kind} {reread.object_id}: {error}")
        await self._postpone(reread, self._delay(reread.failures + 1))

    async def _failed(self, reread: Reread, error: Exception) -> None:
        """Let the row rest, and everything else too: it may be the platform."""
        self._failures += 1
        if self._failures == 1:
            self._tell("reread.failed", f"{reread.kind} {reread.object_id}: {error}")
        await self._postpone(reread, self._delay(reread.failures + 1))
        await self._clock.sleep(self._delay(self._failures))

    def _delay(self, attempt: int) -> float:
        return delay_seconds(
            attempt,
            base_seconds=BASE_SECONDS,
            cap_seconds=CAP_SECONDS,
            chance=self._chance(),
        )

    async def _postpone(self, reread: Reread, seconds: float) -> None:
        due_at = to_text(self._clock.now() + timedelta(seconds=seconds))
        await self._rereads.postpone(reread, due_at)

    def _tell(self, action: str, words: str) -> None:
        logger.bind(action=action, store=self._store).warning(
            "store {}: {}", self._store, words
        )


def _gone(path: str, object_id: str) -> _Read:
    """Say that an object is not there although its list can be read."""
    return _Read(f"{path[1:]}/gone", [strict_json.encode({"id": object_id})])
