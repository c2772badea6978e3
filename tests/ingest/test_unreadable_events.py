"""An event that cannot be read names its object: a refetch follows, commands wait."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.errors import Unusable
from backhaul.store.commands import Sendable
from backhaul.store.inbox import Selection
from scenes import payloads
from scenes.commands import plan
from scenes.databases import (
    append_and_fold,
    count,
    event_states,
    fold_all,
    fold_as_demo,
    fold_in_turn,
)
from scenes.payloads import arrival, envelope, read
from scenes.stored import rows_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.matching import Command, MatchReader

CASES = Path(__file__).parent / "cases"
GATES = dict.fromkeys(("cancel", "fulfill", "adjust"), "9999")


def case(name: str) -> bytes:
    return (CASES / name).read_bytes()


def prepare(command: Command, _: MatchReader) -> Sendable:
    return Sendable(command.id.encode(), "mark")


async def claimed(store: Store) -> list[str]:
    found = await store.commands.claim("main", GATES, 99, prepare)
    return [command.target for command, _ in found]


async def asked(store: Store) -> list[tuple[str, str]]:
    found = await store.refetch_queue.next("main", 99)
    return [(row.kind, row.object_id) for row in found]


def order_event(at: int = 30, **members: Any) -> Any:
    body = envelope("orders/cancelled", payloads.order(at=9) | members)
    return arrival(body, at=at)


UNREADABLE: list[dict[str, Any]] = [
    {"status": None},
    {"items": [payloads.item(quantity="two")]},
    {"items": None},
    {"shipments": "none"},
    {"updatedAt": "yesterday"},
    {"cancellation": "perhaps"},
    {"fulfillmentStatus": []},
]


@pytest.mark.parametrize("members", UNREADABLE, ids=str)
async def test_an_unreadable_event_holds_the_commands_of_its_order(
    members: dict[str, Any], store: Store
) -> None:
    await append_and_fold(store, envelope("orders/create", payloads.order()))
    await plan(store, "fulfill", "ord_1", lane="order:ord_1")
    await plan(store, "fulfill", "ord_2", lane="order:ord_2")
    await store.inbox.append(order_event(**members))
    ((_, folded),) = await fold_all(store)
    assert (folded.state, folded.kind, folded.object_id) == (
        "quarantined",
        "order",
        "ord_1",
    )
    assert "order #1001 (ord_1)" in (folded.detail or "")
    assert ("order", "ord_1") in await asked(store)
    assert await claimed(store) == ["ord_2"]


async def test_only_a_read_that_began_later_lets_the_commands_go(
    store: Store,
) -> None:
    await append_and_fold(store, envelope("orders/create", payloads.order()))
    await plan(store, "fulfill", "ord_1", lane="order:ord_1")
    await store.inbox.append(order_event(at=30, status=None))
    await fold_all(store)
    shown = payloads.order(at=9)
    await fold_in_turn(store, read("orders/reread", shown, at=29))
    assert await claimed(store) == []
    await fold_in_turn(
        store, arrival(envelope("orders/updated", payloads.order(at=10)))
    )
    assert await claimed(store) == []
    await fold_in_turn(store, read("orders/read", payloads.order(at=11), at=40))
    assert await claimed(store) == []
    await fold_in_turn(store, read("orders/reread", payloads.order(at=11), at=41))
    assert await claimed(store) == ["ord_1"]
    assert count(store.place, "unreadable_orders") == 0


async def test_an_unreadable_refetch_decides_nothing(store: Store) -> None:
    await append_and_fold(store, envelope("orders/create", payloads.order()))
    await plan(store, "fulfill", "ord_1", lane="order:ord_1")
    await store.inbox.append(order_event(at=30, status=None))
    await store.inbox.append(read("orders/reread", payloads.order(status=None), at=35))
    await fold_all(store)
    assert await claimed(store) == []
    await fold_in_turn(store, read("orders/reread", payloads.order(), at=34))
    assert await claimed(store) == []
    await fold_in_turn(store, read("orders/reread", payloads.order(), at=36))
    assert await claimed(store) == ["ord_1"]


async def test_an_order_that_is_gone_holds_nothing(store: Store) -> None:
    await plan(store, "fulfill", "ord_1", lane="order:ord_1")
    await store.inbox.append(order_event(at=30, status=None))
    await fold_all(store)
    await fold_in_turn(store, read("orders/gone", {"id": "ord_1"}, at=31))
    assert await claimed(store) == ["ord_1"]


async def test_the_event_itself_lets_go_once_it_can_be_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example after an update of Backhaul that can read the member's new form."""
    await plan(store, "fulfill", "ord_1", lane="order:ord_1")
    await store.inbox.append(order_event(at=30, status="ONLY-NOW"))
    with monkeypatch.context() as patched:
        patched.setattr("backhaul.platform.decoding.word", _refuse)
        await fold_all(store)
    assert await claimed(store) == []
    everything = Selection(state="quarantined")
    await store.reprocessing.reprocess(
        fold_as_demo, everything, 0, 1.0, confirming=False
    )
    assert await claimed(store) == ["ord_1"]


def _refuse(value: object) -> str:
    raise Unusable(f"{value!r} is not a status")


NAMED: list[tuple[str, Any, tuple[str, str]]] = [
    ("products/update", payloads.product() | {"variants": 5}, ("product", "prod_1")),
    ("products/delete", {"id": "prod_1", "deletedAt": "?"}, ("product", "prod_1")),
    ("customers/create", payloads.customer() | {"updatedAt": 5}, ("customer", "cus_1")),
    (
        "inventory/level_update",
        payloads.stock_change(levels=[{"variantId": "var_1", "stock": None}]),
        ("level", "prod_1"),
    ),
]


@pytest.mark.parametrize(("topic", "data", "named"), NAMED, ids=str)
async def test_every_kind_of_object_is_fetched_when_its_event_is_unreadable(
    topic: str, data: Any, named: tuple[str, str], store: Store
) -> None:
    ((_, folded),) = await append_and_fold(store, envelope(topic, data))
    assert (folded.state, folded.topic) == ("quarantined", topic)
    assert (folded.kind, folded.object_id) == named
    assert await asked(store) == [named]
    assert count(store.place, "unreadable_orders") == 0


async def test_a_topic_is_kept_from_the_envelope(store: Store) -> None:
    await store.inbox.append(arrival(envelope("orders/create", {"id": None}), ""))
    ((_, folded),) = await fold_all(store)
    assert folded.topic == "orders/create"


async def test_a_cancellation_with_a_null_title_cancels(store: Store) -> None:
    opened, cancelled = (
        case("01a-order-open.json"),
        (case("01b-same-order-cancelled-null-title.json")),
    )
    assert await append_and_fold(store, opened, cancelled) == []
    assert rows_of(store.place, "orders", "status", "cancelled_at", number=7001) == [
        ("CANCELLED", "2026-03-01T12:05:00.000Z")
    ]
    assert rows_of(store.place, "order_items", "title") == [("",)]


@pytest.mark.parametrize(
    "name",
    [
        "02-new-order-shipments-null.json",
        "02-new-order-time-lower-z.json",
        "02-new-order-title-null.json",
        "10a-topic-upper-case.json",
    ],
)
async def test_an_order_in_another_form_is_mirrored(name: str, store: Store) -> None:
    assert await append_and_fold(store, case(name)) == []
    assert rows_of(store.place, "events", "state", "topic") == [
        ("folded", "orders/create")
    ]
    assert count(store.place, "orders") == 1


TOPICLESS: list[tuple[str, Any, tuple[str, str]]] = [
    ("", json.loads(case("09-bare-order.json")), ("order", "ord_CASE7009")),
    ("orders/edited", {"id": "ord_1"}, ("order", "ord_1")),
    ("orders/delete", {"id": 77}, ("order", "77")),
    ("products/published", payloads.product(), ("product", "prod_1")),
    ("inventory/set", {"productId": "prod_1"}, ("level", "prod_1")),
    ("", payloads.product(), ("product", "prod_1")),
    ("", payloads.stock_change(), ("level", "prod_1")),
    ("", payloads.customer(), ("customer", "cus_1")),
    ("shop/news", payloads.order(), ("order", "ord_1")),
]


@pytest.mark.parametrize(("topic", "data", "named"), TOPICLESS, ids=str)
async def test_an_object_that_an_unknown_topic_names_is_fetched(
    topic: str, data: Any, named: tuple[str, str], store: Store
) -> None:
    await store.inbox.append(arrival(json.dumps(data).encode(), topic))
    ((_, folded),) = await fold_all(store)
    assert (folded.state, folded.kind, folded.object_id) == ("unhandled", *named)
    assert await asked(store) == [named]
    assert count(store.place, "orders") == 0


@pytest.mark.parametrize(
    "data", [{}, {"id": 5}, {"title": "x"}, {"id": [], "items": [], "totals": {}}]
)
async def test_an_event_that_names_no_object_is_only_kept(
    data: Any, store: Store
) -> None:
    await store.inbox.append(arrival(json.dumps(data).encode(), "some/thing"))
    await fold_all(store)
    assert event_states(store.place) == ["unhandled"]
    assert await asked(store) == []


async def test_a_test_delivery_is_no_problem(store: Store) -> None:
    assert await append_and_fold(store, envelope("webhooks/test", {"id": "wh_1"})) == []
    assert event_states(store.place) == ["folded"]


@pytest.mark.parametrize("cancellation", [None, {}, "yes", {"reason": "CUSTOMER"}])
async def test_an_order_cancelled_by_its_status_alone_is_no_open_order(
    cancellation: Any, store: Store
) -> None:
    members = {"status": "CANCELLED", "cancellation": cancellation}
    await append_and_fold(
        store,
        payloads.envelope("orders/create", payloads.order()),
        payloads.envelope("orders/cancelled", payloads.order(at=9, **members)),
    )
    assert rows_of(store.place, "orders", "cancelled_at") == [(payloads.instant(9),)]
    assert rows_of(store.place, "open_orders", "id") == []
