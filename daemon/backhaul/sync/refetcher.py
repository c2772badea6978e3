"""Fetches objects with conflicting versions again, one by one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from loguru import logger
from msgspec import Struct

from backhaul.core import strict_json
from backhaul.core.backoff_and_circuit import delay_seconds
from backhaul.core.clock import to_text
from backhaul.errors import Unusable
from backhaul.platform import decoding, responses
from backhaul.platform.client import ReadRefused
from backhaul.platform.transport import NotSent, OutcomeUnknown, ResponseTooLong
from backhaul.runtime.loop import Loop, seconds_until
from backhaul.store.inbox import LONGEST_REST_SECONDS, Arrival

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul.platform.client import PlatformClient
    from backhaul.runtime.signals import StoreContext
    from backhaul.store.inbox import Inbox, Refetch, RefetchQueue

BATCH = 50
BASE_SECONDS = 1.0
CAP_SECONDS = LONGEST_REST_SECONDS
CLOSED_SECONDS = LONGEST_REST_SECONDS
"""How long a kind of object rests after a refusal that concerns all of its kind."""
_CLOSED = frozenset({401, 403, 405})

LISTS: Mapping[str, str] = {
    "order": "/orders",
    "product": "/products",
    "customer": "/customers",
    "level": "/inventory",
}
"""The path of each kind; its topics begin with the same name."""


_READERS: Mapping[str, Callable[[Mapping[str, Any], PlatformClient], object]] = {
    "orders/reread": lambda data, client: decoding.order(data, client.tracking),
    "products/reread": lambda data, _: decoding.product(data, ""),
    "customers/reread": lambda data, _: decoding.customer(data),
    "inventory/reread": lambda data, _: decoding.level(data),
    "inventory/shown/reread": lambda data, _: decoding.product(data, ""),
}
"""How the fold will decode each answer."""


class _Read(Struct, frozen=True):
    """The result of a fetch: the topic and the bodies for the inbox."""

    topic: str
    bodies: list[bytes]


class Refetcher:
    """Fetches the conflicting objects of one store's queue in order, one at a time.

    A row leaves the queue after its answer is durable. It stays if the object was
    queued again meanwhile: the answer may be older than the new conflict.
    """

    def __init__(
        self,
        context: StoreContext,
        client: PlatformClient,
        inbox: Inbox,
        refetch_queue: RefetchQueue,
    ) -> None:
        self._store = context.name
        self._clock = context.clock
        self._chance = context.chance
        self._events_arrived = context.signals.events_arrived
        self._client = client
        self._inbox = inbox
        self._refetch_queue = refetch_queue
        self._context = context
        self._loop = Loop(context.clock, has_work=self._has_work)
        context.signals.refetch_queued.connect(self.wake)
        self._mirror_is_whole = False
        self._scanned = -1
        """Up to this change, the mirror was scanned for missing parents."""
        self._failures = 0
        self._closed_until: dict[str, float] = {}

    def wake(self) -> None:
        """Check the queue now: an object may have been added."""
        self._loop.wake()

    def release(self) -> None:
        """Start to fetch missing parents: the backfill has ended."""
        self._mirror_is_whole = True
        self.wake()

    async def run(self) -> None:
        """Fetch until cancelled. The queue is a table, so a stop loses nothing."""
        await self._loop.run(self._refetch_all)

    async def _has_work(self) -> bool:
        found = await self._context.open_stores()
        if found is None or found.newest_change > self._scanned:
            return True
        return self._store in found.names

    async def _refetch_all(self) -> float:
        """Queue missing parents and fetch all that is due; return the rest."""
        if self._mirror_is_whole:
            found = await self._context.open_stores()
            await self._refetch_queue.enqueue_parents(self._store)
            self._scanned = -1 if found is None else found.newest_change
        while await self.work_off():
            pass
        return seconds_until(
            await self._refetch_queue.next_due(self._store), self._clock
        )

    async def work_off(self) -> int:
        """Fetch the objects that are due; return how many."""
        due = await self._refetch_queue.next(self._store, BATCH)
        for refetch in due:
            await self._refetch(refetch)
        return len(due)

    async def _refetch(self, refetch: Refetch) -> None:
        if self._clock.monotonic() < self._closed_until.get(refetch.kind, 0.0):
            await self._postpone(refetch, CLOSED_SECONDS)
            return
        began = to_text(self._clock.now())
        try:
            found = await self._read(refetch)
        except ReadRefused as error:
            await self._refused(refetch, error)
        except (Unusable, ResponseTooLong) as error:
            await self._object_unreadable(refetch, error)
        except (NotSent, OutcomeUnknown) as error:
            await self._failed(refetch, error)
        else:
            await self._take(refetch, found, began)

    async def _take(self, refetch: Refetch, found: _Read, began: str) -> None:
        """Store a readable answer; quarantine an unreadable one, only once."""
        problem = self._problem(found)
        if problem is None:
            await self._keep(refetch, found, began)
            return
        if refetch.failures == 0:
            await self._append(found, began)
        await self._object_unreadable(refetch, problem)

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
        self._events_arrived.emit()

    async def _keep(self, refetch: Refetch, found: _Read, began: str) -> None:
        await self._append(found, began)
        await self._refetch_queue.done(refetch)
        if self._failures:
            self._failures = 0
            self._warn("refetch.resumed", "conflicting objects can be fetched again")

    async def _read(self, refetch: Refetch) -> _Read:
        if refetch.kind == "level":
            return await self._read_levels(refetch.object_id)
        path, object_id = LISTS[refetch.kind], refetch.object_id
        answer = await self._client.find(path, object_id)
        if answer is None:
            return _gone(path, object_id)
        return _Read(f"{path[1:]}/reread", [responses.read_object(answer, object_id)])

    async def _read_levels(self, product_id: str) -> _Read:
        """Read a product's levels, from the product if the platform lists no levels."""
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

    async def _refused(self, refetch: Refetch, error: ReadRefused) -> None:
        if error.status == 429 or error.status >= 500:
            await self._failed(refetch, error)
            return
        if error.status not in _CLOSED:
            await self._object_unreadable(refetch, error)
            return
        until = self._clock.monotonic() + CLOSED_SECONDS
        self._closed_until[refetch.kind] = until
        self._warn("refetch.refused", f"{error}; retry in {CLOSED_SECONDS:.0f} s")
        await self._postpone(refetch, CLOSED_SECONDS)

    async def _object_unreadable(self, refetch: Refetch, error: Exception) -> None:
        """Postpone one object and continue with the others."""
        if refetch.failures == 0:
            self._warn("refetch.failed", _failure(refetch, error))
        await self._postpone(refetch, self._delay(refetch.failures + 1))

    async def _failed(self, refetch: Refetch, error: Exception) -> None:
        """Postpone the object and pause the queue: the platform may be down."""
        self._failures += 1
        if self._failures == 1:
            self._warn("refetch.failed", _failure(refetch, error))
        await self._postpone(refetch, self._delay(refetch.failures + 1))
        await self._clock.sleep(self._delay(self._failures))

    def _delay(self, attempt: int) -> float:
        return delay_seconds(
            attempt,
            base_seconds=BASE_SECONDS,
            cap_seconds=CAP_SECONDS,
            chance=self._chance(),
        )

    async def _postpone(self, refetch: Refetch, seconds: float) -> None:
        due_at = to_text(self._clock.now() + timedelta(seconds=seconds))
        await self._refetch_queue.postpone(refetch, due_at)

    def _warn(self, action: str, words: str) -> None:
        logger.bind(action=action, store=self._store).warning(
            "store {}: {}", self._store, words
        )


def _failure(refetch: Refetch, error: Exception) -> str:
    what = f"{refetch.kind} {refetch.object_id}"
    return f"{what} could not be fetched again: {error}; Backhaul keeps retrying"


def _gone(path: str, object_id: str) -> _Read:
    """Return the event of an object that does not exist, although its list does."""
    return _Read(f"{path[1:]}/gone", [strict_json.encode({"id": object_id})])
