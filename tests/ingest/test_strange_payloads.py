"""A malformed payload affects only its own webhook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenes import payloads
from scenes.databases import append_and_fold, count, event_states, started_store
from scenes.payloads import Document, envelope
from scenes.stored import bodies, rows_of, values_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from scenes.databases import NewDatabase

SAMPLES: dict[str, Document] = {
    "orders/create": payloads.order(
        shipments=[payloads.shipment()], cancellation={"cancelledAt": None}
    ),
    "orders/fulfilled": payloads.order(shipment=payloads.shipment()),
    "products/update": payloads.product(),
    "products/delete": payloads.deletion(),
    "inventory/level_update": payloads.stock_change(orderId="ord_1"),
    "customers/create": payloads.customer(),
}
BAD: list[tuple[str, str, Any]] = [
    ("orders/create", "id", None),
    ("orders/create", "id", ["ord_1"]),
    ("orders/create", "items", None),
    ("orders/create", "items", {}),
    ("orders/create", "items", [payloads.item(quantity=10**30)]),
    ("orders/create", "items", [payloads.item(quantity="two")]),
    ("orders/create", "items", [payloads.item(id=None)]),
    ("orders/create", "items", [payloads.item(fulfilledQuantity=1.5)]),
    ("orders/create", "items", [payloads.item(quantity=-1)]),
    ("orders/create", "items", [payloads.item(quantity="-2.0")]),
    ("orders/create", "items", [payloads.item(fulfilledQuantity=-1)]),
    ("orders/create", "items", [payloads.item(" ")]),
    ("orders/create", "id", ""),
    ("orders/create", "id", " \t"),
    ("products/update", "id", ""),
    ("products/update", "variants", [payloads.variant("")]),
    ("inventory/level_update", "productId", " "),
    ("customers/create", "id", ""),
    ("orders/create", "id", "ord\0_1"),
    ("orders/create", "shipments", [payloads.shipment("shp\0_1")]),
    ("products/update", "variants", [payloads.variant("var\0_1")]),
    ("inventory/level_update", "productId", "prod\0_1"),
    ("inventory/level_update", "adjustmentId", "adj\0_1"),
    ("orders/create", "status", None),
    ("orders/create", "financialStatus", 5),
    ("orders/create", "updatedAt", "yesterday"),
    ("orders/create", "updatedAt", None),
    ("orders/create", "shipments", [{"id": None}]),
    ("orders/create", "shipments", "none"),
    ("orders/create", "cancellation", "yes"),
    ("orders/create", "confirmation", "yes"),
    ("products/update", "variants", [payloads.variant(stock=2**64)]),
    ("products/update", "variants", "none"),
    ("products/delete", "deletedAt", 5),
    ("inventory/level_update", "levels", [{"variantId": "v", "stock": 2**63}]),
    ("inventory/level_update", "levels", [{"variantId": "v", "stock": None}]),
    ("inventory/level_update", "productId", None),
    ("customers/create", "updatedAt", []),
]
"""Members without which the current state of the object is unknown."""


@pytest.mark.parametrize(("topic", "member", "value"), BAD, ids=repr)
async def test_a_used_member_of_another_type_sets_that_event_aside(
    topic: str, member: str, value: Any, store: Store
) -> None:
    bad = envelope(topic, SAMPLES[topic] | {member: value})
    good = envelope("customers/create", payloads.customer("cus_good"))
    await append_and_fold(store, bad, good)
    assert event_states(store.place) == ["quarantined", "folded"]
    ((raw, locator),) = rows_of(store.place, "quarantine", "raw", "locator")
    assert (raw, locator) == (bad, "event 1")
    assert count(store.place, "orders") == count(store.place, "products") == 0
    assert count(store.place, "stock_ledger") == 0


@pytest.mark.parametrize("topic", SAMPLES)
@pytest.mark.parametrize("data", ["x", 5, [], [payloads.order()], None, "{}"], ids=repr)
async def test_the_id_of_an_event_is_not_used_as_that_of_an_object(
    topic: str, data: Any, store: Store
) -> None:
    await append_and_fold(store, envelope(topic, data))
    found = rows_of(store.place, "events", "state", "object_id")
    assert found == [("quarantined", None)]
    assert count(store.place, "refetch_queue") == 0


ODD: list[tuple[str, str, Any]] = [
    ("orders/create", "number", "A-1001"),
    ("orders/create", "number", 2**63),
    ("orders/create", "items", [payloads.item(unitPrice="1e999999")]),
    ("orders/create", "items", [payloads.item(unitPrice=[])]),
    ("orders/create", "items", [payloads.item(title={})]),
    ("orders/create", "totals", {"total": "1e999999"}),
    ("orders/create", "totals", {"total": "1.001"}),
    ("orders/create", "totals", {"total": "-1e30"}),
    ("orders/create", "totals", {"total": "NaN"}),
    ("orders/create", "totals", {"total": True}),
    ("orders/create", "placedAt", "soon"),
    ("products/update", "title", ["x"]),
    ("products/update", "variants", [payloads.variant(price="cheap")]),
    ("customers/create", "email", ["a"]),
]


@pytest.mark.parametrize(("topic", "member", "value"), ODD, ids=repr)
async def test_a_member_that_decides_nothing_is_left_out_and_named(
    topic: str, member: str, value: Any, store: Store
) -> None:
    await append_and_fold(store, envelope(topic, SAMPLES[topic] | {member: value}))
    ((state, detail),) = rows_of(store.place, "events", "state", "detail")
    assert state == "folded"
    assert "left out" in detail or "rounded" in detail


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b'{"a":NaN}',
        b'{"a":1e999999999}',
        b'{"a":"\\ud800"}',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"data":' * 50_000 + b"{}" + b"}" * 50_000,
        b'{"topic":"orders/create","data":[]}',
        b'{"topic":"orders/create","data":null}',
        b'{"topic":5,"data":{}}',
        b'{"topic":"orders/create","data":{}}',
        b'{"topic":"orders/create","data":{"id":"\\ud800"}}',
        b'{"topic":"orders/create","sequence":1e400,"data":{}}',
        b'{"id":5,"storeId":[],"topic":"orders/create","data":{}}',
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
async def test_a_body_of_another_shape_stops_nothing(body: bytes, store: Store) -> None:
    await append_and_fold(store, body, envelope("orders/create", payloads.order()))
    assert event_states(store.place) in (
        ["quarantined", "folded"],
        ["unhandled", "folded"],
    )


async def test_an_order_with_half_an_emoji_is_folded_and_kept_as_it_came(
    store: Store,
) -> None:
    """Stores truncate texts by UTF-16 units, in webhooks and in responses."""
    order = payloads.order(name="#1001 \ud83d", note="tea \ud83d")
    body = json.dumps({"topic": "orders/create", "data": order}).encode()
    assert rb"tea \ud83d" in body
    await append_and_fold(store, body)
    await store.inbox.append(payloads.read("orders/read", order))
    await append_and_fold(store)
    assert event_states(store.place) == ["folded", "duplicate"]
    ((name, document),) = rows_of(store.place, "orders", "name", "document")
    assert name == "#1001 \N{REPLACEMENT CHARACTER}"
    assert json.loads(document)["note"] == "tea \N{REPLACEMENT CHARACTER}"
    assert bodies(store.place)[0] == body


async def test_a_huge_sequence_does_not_matter(store: Store) -> None:
    for number in (10**30, -1, "5", None, True, 1.5):
        body = envelope("orders/create", payloads.order(), sequence=number)
        await append_and_fold(store, body)
    assert count(store.place, "orders") == 1


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(10**25), max_value=10**25),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["1e999999", "\ud800", "\0", "2026-02-30T00:00:00Z", "9" * 5_000]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every member and row of a document."""
    if isinstance(node, dict):
        pairs = list(node.items())
    else:
        pairs = list(enumerate(node)) if isinstance(node, list) else []
    deeper = [path for key, value in pairs for path in places(value, (*at, key))]
    return [(*at, key) for key, _ in pairs] + deeper


@st.composite
def disturbed(draw: st.DrawFn) -> bytes:
    """Draw a delivery with some members changed, removed or added."""
    topic = draw(st.sampled_from(sorted(SAMPLES)))
    document = json.loads(envelope(topic, SAMPLES[topic]))
    for _ in range(draw(st.integers(1, 3))):
        spot = draw(st.sampled_from(places(document)))
        holder = document
        for key in spot[:-1]:
            holder = holder[key]
        if isinstance(holder, dict) and draw(st.booleans()):
            holder.pop(spot[-1])
        else:
            holder[spot[-1]] = draw(VALUES)
    return json.dumps(document).encode()


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(told=st.lists(disturbed(), min_size=20, max_size=40))
async def test_disturbed_deliveries_never_stop_the_fold(
    told: list[bytes], new_database: NewDatabase
) -> None:
    place = new_database()
    async with started_store(place) as store:
        await append_and_fold(
            store, *told, envelope("orders/create", payloads.order("ord_ok"))
        )
    found = event_states(place)
    assert len(found) == len(told) + 1
    assert set(found) <= {"folded", "stale", "duplicate", "unhandled", "quarantined"}
    assert values_of(place, "orders", "id", id="ord_ok") == ["ord_ok"]
