"""Connectors that receive change notifications, and workers that deliver them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backhaul.connect.delivery_worker import DeliveryWorker
from backhaul.connect.health import Health
from backhaul.store.deliveries import Subscriber
from backhaul_sdk import Applied, Change, Connector, Found, Unknown
from backhaul_sdk.contract import TOPICS
from scenes.back_office import Options, ScriptedConnector
from scenes.stored import rows_of

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.runtime.tracing import Tracer
    from backhaul.store import Store
    from backhaul_sdk import LookedUp, Pushed


class PushOnly(Connector[Options]):
    """Records each change, or returns a scripted outcome; has no `lookup`."""

    spec = ScriptedConnector.spec

    def __init__(self, instance: str = "books") -> None:
        super().__init__(instance, Options())
        self.changes: list[Change] = []
        self.outcomes: deque[Any] = deque()

    async def push(self, change: Change) -> Pushed:
        said = self.outcomes.popleft() if self.outcomes else Applied("r1")
        if isinstance(said, Applied):
            self.changes.append(change)
        answer: Pushed = _answer(said)
        return answer

    def received(self) -> list[tuple[str, str]]:
        return [(change.topic, change.object_id) for change in self.changes]


class Deduplicating(PushOnly):
    """Recognises repeated ids, so that uncertain deliveries can be sent again."""

    spec = replace(ScriptedConnector.spec, takes_once=True)

    def __init__(self, instance: str = "books") -> None:
        super().__init__(instance)
        self.received_ids: list[str] = []

    async def push(self, change: Change) -> Pushed:
        self.received_ids.append(change.id)
        return await super().push(change)


class WithLookup(PushOnly):
    """Also has a `lookup`."""

    def __init__(self, instance: str = "books") -> None:
        super().__init__(instance)
        self.lookup_outcomes: deque[Any] = deque()
        self.lookups: list[str] = []

    async def lookup(self, change: Change) -> LookedUp:
        self.lookups.append(change.id)
        said = (
            self.lookup_outcomes.popleft()
            if self.lookup_outcomes
            else Unknown("who knows")
        )
        if isinstance(said, Found):
            self.changes.append(change)
        answer: LookedUp = _answer(said)
        return answer


def _answer(said: Any) -> Any:
    if isinstance(said, BaseException):
        raise said
    return said


def delivery_worker(
    books: Connector[Any],
    store: Store,
    clock: Clock,
    *,
    topics: frozenset[str] = frozenset(TOPICS),
    tracer: Tracer | None = None,
    **members: Any,
) -> DeliveryWorker:
    """Return the worker that delivers the store's changes to a connector."""
    instance = books.instance
    subscriber = Subscriber(instance=instance, store="main", topics=topics, **members)
    health = Health(instance, "", clock, lambda: 1.0)
    deliveries = store.deliveries
    return DeliveryWorker(
        books, subscriber, deliveries, health, books.open, tracer=tracer
    )


async def deliver_all(sink: DeliveryWorker) -> None:
    """Let the worker deliver everything that it can deliver now."""
    while await sink.step():
        pass


def deliveries_of(store: Store, topic: str = "order.") -> list[tuple[Any, ...]]:
    """Return the deliveries whose topic starts with this text."""
    return [
        row
        for row in rows_of(store.place, "deliveries", "topic", "object_id", "state")
        if row[0].startswith(topic)
    ]
