"""Deliveries of conformance tests: made of changes, claimed, and ended."""

# ruff: noqa: S101 - these are helpers of tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.core.lifecycle import Cause
from backhaul.store.deliveries import DeliveryOutcome, Subscriber
from backhaul.store.filters import Filter

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.deliveries import Outgoing
    from backhaul.store.read_records import ListedDelivery

ORDER_TOPICS = frozenset({"order.placed", "order.updated", "order.cancelled"})
OBJECT_TOPICS = frozenset({"product.updated", "product.deleted", "customer.updated"})
NOW = Subscriber(instance="books", store="main", topics=ORDER_TOPICS | OBJECT_TOPICS)
"""A connection that gets what changes from now on, and no stock."""
DONE = DeliveryOutcome(cause=Cause.CONFIRMED, reason="taken")


async def fan_out(store: Store, subscriber: Subscriber = NOW) -> None:
    """Turn all changes into deliveries of a connection."""
    while await store.deliveries.fan_out(subscriber, 1.0):
        pass


async def listed(store: Store, instance: str = "books") -> list[ListedDelivery]:
    """Return the deliveries of a connection, the oldest first."""
    wish = Filter(connector=instance)
    found = await store.read(lambda reader: reader.deliveries(wish, 99))
    return sorted(found, key=lambda delivery: delivery.seq)


async def planned(store: Store, subscriber: Subscriber = NOW) -> list[tuple[str, str]]:
    """Return the topic and object of each delivery that is to be sent."""
    await fan_out(store, subscriber)
    found = await listed(store, subscriber.instance)
    return [(row.topic, row.object_id) for row in found if row.state == "planned"]


async def claim(store: Store, subscriber: Subscriber = NOW) -> Outgoing:
    """Claim the next delivery, which must be there."""
    await fan_out(store, subscriber)
    found = await store.deliveries.claim(subscriber)
    assert found is not None
    return found


async def end(store: Store, delivery: Outgoing, cause: Cause = Cause.CONFIRMED) -> None:
    """Record the outcome of a delivery of the connection."""
    outcome = replace(DONE, cause=cause)
    assert await store.deliveries.record_outcome("books", delivery, outcome)


async def take(store: Store, subscriber: Subscriber = NOW) -> list[tuple[str, str]]:
    """Deliver everything that is due; return the topics and objects."""
    await fan_out(store, subscriber)
    taken = []
    while (found := await store.deliveries.claim(subscriber)) is not None:
        await store.deliveries.record_outcome(subscriber.instance, found, DONE)
        taken.append((found.topic, found.object_id))
    return taken
