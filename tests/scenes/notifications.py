"""A back office that is told news, and what brings them there."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backhaul.connect.delivery_worker import DeliveryWorker
from backhaul.connect.health import Health
from backhaul.store.deliveries import Subscriber
from backhaul_sdk import Applied, Change, Connector, Found, Unknown
from backhaul_sdk.contract import TOPICS
from scenes.back_office import Desk, Options
from scenes.stored import rows_of

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.runtime.tracing import Tracer
    from backhaul.store import Store
    from backhaul_sdk import LookedUp, Pushed


class Mute(Connector[Options]):
    """Writes news down, or does as told; cannot be asked what it has."""

    spec = Desk.spec

    def __init__(self, instance: str = "books") -> None:
        super().__init__(instance, Options())
        self.told: list[Change] = []
        self.says: deque[Any] = deque()

    async def push(self, change: Change) -> Pushed:
        said = self.says.popleft() if self.says else Applied("r1")
        if isinstance(said, Applied):
            self.told.append(change)
        answer: Pushed = _answer(said)
        return answer

    def heard(self) -> list[tuple[str, str]]:
        return [(change.topic, change.object_id) for change in self.told]


class Receiver(Mute):
    """Takes each id once, and hears again what may have been lost."""

    spec = replace(Desk.spec, takes_once=True)

    def __init__(self, instance: str = "books") -> None:
        super().__init__(instance)
        self.came: list[str] = []

    async def push(self, change: Change) -> Pushed:
        self.came.append(change.id)
        return await super().push(change)


class Books(Mute):
    """Can be asked, too."""

    def __init__(self, instance: str = "books") -> None:
        super().__init__(instance)
        self.finds: deque[Any] = deque()
        self.looked: list[str] = []

    async def lookup(self, change: Change) -> LookedUp:
        self.looked.append(change.id)
        said = self.finds.popleft() if self.finds else Unknown("who knows")
        if isinstance(said, Found):
            self.told.append(change)
        answer: LookedUp = _answer(said)
        return answer


def _answer(said: Any) -> Any:
    if isinstance(said, BaseException):
        raise said
    return said


def sink_of(
    books: Connector[Any],
    store: Store,
    clock: Clock,
    *,
    topics: frozenset[str] = frozenset(TOPICS),
    tracer: Tracer | None = None,
    **members: Any,
) -> DeliveryWorker:
    """Return what carries the store's news to a connector."""
    instance = books.instance
    subscriber = Subscriber(instance=instance, store="main", topics=topics, **members)
    health = Health(instance, "", clock, lambda: 1.0)
    deliveries = store.deliveries
    return DeliveryWorker(
        books, subscriber, deliveries, health, books.open, tracer=tracer
    )


async def deliver(sink: DeliveryWorker) -> None:
    """Let the sink do all that it can do now."""
    while await sink.step():
        pass


def owed(store: Store, topic: str = "order.") -> list[tuple[Any, ...]]:
    """Return the deliveries of topics that begin so."""
    return [
        row
        for row in rows_of(store.place, "deliveries", "topic", "object_id", "state")
        if row[0].startswith(topic)
    ]
