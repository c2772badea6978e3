"""Webhooks in any order, any number of times, give the same mirror."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.ingest.topics import decode_event
from backhaul.store.inbox import StoredEvent
from scenes import payloads
from scenes.captures import captured
from scenes.databases import (
    append,
    count,
    event_states,
    fold_all,
    mirror_of,
    started_store,
)
from scenes.payloads import envelope
from scenes.stored import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Place, Store
    from backhaul.store.inbox import Decoded
    from scenes.databases import Row
    from scenes.receiver import Served

SEEDS = range(60)


def fold(event: StoredEvent) -> Decoded:
    return decode_event(event, store_id=captured().store_id, currency="INR")


async def mirrored(place: Place, bodies: Sequence[bytes]) -> dict[str, list[Row]]:
    """Return the mirror after these deliveries, which are folded in parts."""
    async with started_store(place) as store:
        for first in range(0, len(bodies), 7):
            await append(store, bodies[first : first + 7])
            await store.inbox.fold(fold, 1.0)
        while (await store.inbox.fold(fold, 1.0)).more:
            pass
    outcomes = rows_of(place, "events", "state", "detail")
    assert [(state, detail) for state, detail in outcomes if detail is not None] == []
    return mirror_of(place)


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    path = tmp_path_factory.mktemp("in_order") / "b.db"
    return asyncio.run(mirrored(path, captured().bodies))


def test_the_run_shows_every_topic() -> None:
    topics = {json.loads(body)["topic"] for body in captured().bodies}
    assert len(topics) == 9
    assert len(captured().bodies) > 35


def test_in_order_the_mirror_equals_the_shop(in_order: dict[str, list[Row]]) -> None:
    documents = {row[1]: json.loads(row[-1]) for row in in_order["orders"]}
    assert documents == {order["id"]: shown(order) for order in captured().orders}
    levels = {row[2]: row[3] for row in in_order["inventory_levels"]}
    assert levels == {level["variantId"]: level["stock"] for level in captured().levels}
    alive = {row[1]: row[3] for row in in_order["products"] if row[7] is None}
    assert alive == {p["id"]: p["title"] for p in captured().products}
    assert len(in_order["products"]) == len(alive) + 1
    prices = {row[1]: row[6] for row in in_order["variants"]}
    assert prices == {
        v["id"]: int(v["price"].replace(".", ""))
        for p in captured().products
        for v in p["variants"]
    }


def shown(order: dict[str, Any]) -> dict[str, Any]:
    """Return an order as in its last event.

    To delete a product changes the lines of its orders without an event.
    """
    last = [
        document["data"]
        for document in map(json.loads, captured().bodies)
        if document["data"].get("id") == order["id"]
    ][-1]
    return {
        k: v for k, v in last.items() if k not in {"changes", "shipment", "trigger"}
    }


@pytest.mark.parametrize("seed", SEEDS)
async def test_any_order_and_any_repetition_give_the_same_mirror(
    seed: int, in_order: dict[str, list[Row]], database: Place
) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable, and nothing secret
    bodies = [
        body for body in captured().bodies for _ in range(chance.choice((1, 1, 2, 3)))
    ]
    chance.shuffle(bodies)
    found = await mirrored(database, bodies)
    for table, expected in in_order.items():
        assert found[table] == expected, f"seed {seed}: {table}"


async def test_the_last_event_first_is_as_good(
    in_order: dict[str, list[Row]], database: Place
) -> None:
    found = await mirrored(database, captured().bodies[::-1])
    assert found == in_order


async def test_fifty_at_once_are_one(receiver: Served, store: Store) -> None:
    body = envelope("inventory/level_update", payloads.stock_change())
    replies = await asyncio.gather(*(receiver.post(body) for _ in range(50)))
    assert {reply.status for reply in replies} == {200}
    await fold_all(store)
    assert sorted(event_states(store.place)) == ["duplicate"] * 49 + ["folded"]
    assert count(store.place, "stock_ledger") == count(store.place, "changes") == 1


def test_digests_are_in_the_order_of_the_events_numbers() -> None:
    """Otherwise each event would change a page of its own in a table of millions."""

    def digest(body: bytes) -> bytes:
        event = StoredEvent(1, "main", "delivery", "", payloads.instant(0), body)
        concerned = decode_event(event, store_id=None, currency="INR").concerned
        assert concerned is not None
        assert concerned.digest is not None
        return concerned.digest

    def order(note: str, number: int) -> bytes:
        data = payloads.order(note=note)
        return envelope("orders/updated", data, id="evt_1", sequence=number)

    found = [digest(order("a", 70_000 + number)) for number in range(40)]
    assert sorted(found) == found
    assert digest(order("a", 70_000)) == found[0]
    assert digest(order("b", 70_000)) != found[0]
    assert len(digest(order("a", 0))) == len(digest(order("a", 2**63 - 1))) - 8
