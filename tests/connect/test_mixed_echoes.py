"""An event that shows our own effect and another change is delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.lifecycle import Cause
from backhaul.store.commands import Attempt, Sendable, Transition
from scenes import payloads
from scenes.damaged_rows import insert_command
from scenes.databases import append_and_fold
from scenes.notifications import WithLookup, deliver_all, delivery_worker
from scenes.payloads import envelope, instant
from scenes.stored import rows_of, value_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from scenes.clock import VirtualClock

CANCELLED = instant(302)
PARCEL = ("fulfill", "own", "shp_1")
CANCELLATION = ("cancel", "own", f"ord_9@{CANCELLED}")
OF_ANOTHER = ("fulfill", "other", "shp_2")
SENT = payloads.shipment("shp_1")
DONE = {
    "shipments": [SENT],
    "status": "CONFIRMED",
    "fulfillmentStatus": "FULFILLED",
    "items": [payloads.item("li_9", fulfilledQuantity=2)],
}
ENDED = {
    "cancellation": {"cancelledAt": CANCELLED, "restocked": True},
    "status": "CANCELLED",
    "financialStatus": "VOIDED",
    "fulfillmentStatus": "RESTOCKED",
    "items": [payloads.item("li_9", restockedQuantity=2)],
    "payment": {"method": "COD", "paidAt": None, "amountDue": "0.00"},
}
PAID = {"method": "COD", "paidAt": instant(301), "amountDue": "0.00"}
STRANGE = payloads.shipment("shp_9", trackingNumber="XX9")
UPDATED, GONE = ["order.updated"], ["order.cancelled"]
MIXES: dict[str, tuple[list[tuple[str, ...]], dict[str, Any], list[str]]] = {
    "its parcel alone": ([PARCEL], DONE, []),
    "its cancellation alone": ([CANCELLATION], ENDED, []),
    "both": ([PARCEL, CANCELLATION], {**DONE, **ENDED}, []),
    "its parcel and a stranger's": (
        [PARCEL],
        {**DONE, "shipments": [SENT, STRANGE]},
        UPDATED,
    ),
    "its parcel and another instance's": (
        [PARCEL, OF_ANOTHER],
        {**DONE, "shipments": [SENT, payloads.shipment("shp_2")]},
        UPDATED,
    ),
    "its parcel and a payment": (
        [PARCEL],
        {**DONE, "financialStatus": "PAID"},
        UPDATED,
    ),
    "its parcel and a new address": (
        [PARCEL],
        {**DONE, "shippingAddress": {"city": "Pune"}},
        UPDATED,
    ),
    "its parcel and another number of items": (
        [PARCEL],
        {**DONE, "items": [payloads.item("li_9", quantity=3, fulfilledQuantity=2)]},
        UPDATED,
    ),
    "its parcel and a customer's cancellation": ([PARCEL], {**DONE, **ENDED}, GONE),
    "its cancellation and a stranger's parcel": (
        [CANCELLATION],
        {**ENDED, "shipments": [STRANGE]},
        GONE,
    ),
    "its cancellation and a payment": (
        [CANCELLATION],
        {**ENDED, "payment": PAID},
        GONE,
    ),
}


def updated(at: int, **members: Any) -> bytes:
    shown = {
        "placedAt": instant(300),
        "payment": {"method": "COD", "paidAt": None, "amountDue": "2998.00"},
    }
    order = payloads.order("ord_9", at, number=9, **(shown | members))
    return envelope("orders/updated", order)


async def deliveries(
    store: Store,
    clock: VirtualClock,
    commands: list[tuple[str, ...]],
    shown: dict[str, Any],
) -> dict[str, list[str]]:
    """Return the deliveries to two connections after one event with all changes."""
    offices = {name: WithLookup(name) for name in ("own", "other")}
    sinks = [delivery_worker(books, store, clock) for books in offices.values()]
    for sink in sinks:
        await sink.subscribe()
    await append_and_fold(store, updated(300))
    for sink in sinks:
        await deliver_all(sink)
    for number, (kind, instance, effect) in enumerate(commands):
        done = {"instance": instance, "effect_id": effect}
        insert_command(store.place, f"c{number}", kind, "ord_9", "applied", **done)
    await append_and_fold(store, updated(303, **shown))
    for sink in sinks:
        await deliver_all(sink)
    return {
        name: [topic for topic, _ in books.received() if topic != "order.placed"]
        for name, books in offices.items()
    }


@pytest.mark.parametrize("name", MIXES)
async def test_only_our_own_effect_alone_is_withheld(
    name: str, store: Store, clock: VirtualClock
) -> None:
    commands, shown, expected = MIXES[name]
    offices = await deliveries(store, clock, commands, shown)
    assert offices["own"] == expected
    assert offices["other"] == (GONE if "cancellation" in shown else UPDATED)


async def test_the_echo_is_known_whatever_came_with_it(
    store: Store, clock: VirtualClock
) -> None:
    await deliveries(store, clock, *MIXES["its parcel and a payment"][:2])
    assert rows_of(store.place, "echoes", "effect", "command_id") == [("shp_1", "c0")]


async def test_two_parcels_before_the_answer_are_delivered(
    store: Store, clock: VirtualClock
) -> None:
    """The response names one of them; the other one is foreign."""
    books = WithLookup("own")
    sink = delivery_worker(books, store, clock)
    await sink.subscribe()
    await append_and_fold(store, updated(300))
    insert_command(store.place, "c0", "fulfill", "ord_9", "planned", instance="own")
    ((command, _),) = await store.commands.claim(
        "main", {"fulfill": "9999"}, 1, lambda *_: Sendable(b"{}", "")
    )
    await append_and_fold(store, updated(303, **DONE | {"shipments": [SENT, STRANGE]}))
    step = Transition((Cause.CONFIRMED,), "200", effect_id="shp_1")
    await store.commands.record_attempt(command, Attempt("", "x", 200, "", None), step)
    await deliver_all(sink)
    assert books.received() == [("order.placed", "ord_9"), ("order.updated", "ord_9")]


STOCKS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "its step alone": ({"stock": 8, "adjustment": -2}, []),
    "its step behind a sale that was not told": ({"stock": 7, "adjustment": -2}, [7]),
    "its step without how much it was": ({"stock": 8, "adjustment": 0}, []),
}


@pytest.mark.parametrize("name", STOCKS)
async def test_a_sale_that_only_our_own_adjustment_shows_is_delivered(
    name: str, store: Store, clock: VirtualClock
) -> None:
    """The webhook of the sale is lost, or arrives too late."""
    step, expected = STOCKS[name]
    offices = {instance: WithLookup(instance) for instance in ("own", "other")}
    sinks = [delivery_worker(books, store, clock) for books in offices.values()]
    for sink in sinks:
        await sink.subscribe()

    async def moves(at: int, **members: Any) -> None:
        change = payloads.stock_change(at=at, **members)
        assert (
            await append_and_fold(store, envelope("inventory/level_update", change))
            == []
        )
        for sink in sinks:
            await deliver_all(sink)

    await moves(300, stock=10, adjustment_id="adj_0")
    done = {"instance": "own", "effect_id": "adj_1"}
    insert_command(store.place, "c0", "adjust", "prod_1", "applied", **done)
    await moves(302, **step)
    await moves(301, stock=9, adjustment=-1, adjustment_id="adj_2", orderId="ord_1")
    stocks = {
        instance: [change.document["stock"] for change in books.changes]
        for instance, books in offices.items()
    }
    assert stocks == {"own": [10, *expected], "other": [10, step["stock"]]}
    assert value_of(store.place, "echoes", "effect") == "adj_1"
