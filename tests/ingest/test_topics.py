"""Each of the nine topics changes the mirror as the platform defines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.webhook import TOPICS as SUBSCRIBED
from backhaul.ingest.topics import TOPICS
from backhaul_reference.platform.state.webhook_outbox import TOPICS as PROMISED
from scenes import payloads
from scenes.damaged_rows import insert_command
from scenes.databases import append_and_fold, count, event_states, fold_all
from scenes.payloads import arrival, envelope, instant
from scenes.stored import documents, rows_of, values_of

if TYPE_CHECKING:
    from backhaul.store import Place, Store


def one(place: Place, table: str, *columns: str) -> Any:
    (row,) = rows_of(place, table, *columns)
    return row


def levels(store: Store) -> list[tuple[Any, ...]]:
    return rows_of(store.place, "inventory_levels", "variant_id", "stock")


async def test_an_order_is_mirrored_with_lines_and_parcels(store: Store) -> None:
    order = payloads.order(
        externalId="POS-9",
        status="confirmed",
        confirmation={"required": True, "confirmedAt": None},
        shipments=[payloads.shipment()],
        totals={"total": "2778.20"},
    )
    await append_and_fold(store, envelope("orders/create", order))
    assert one(
        store.place,
        "orders",
        *("store", "id", "number", "name", "external_id", "awaiting_confirmation"),
        *("status", "financial_status", "fulfillment_status"),
        *("total_minor", "currency", "customer_id"),
    ) == (
        *("main", "ord_1", 1001, "#1001", "POS-9", 1, "CONFIRMED", "PENDING"),
        *("UNFULFILLED", 277820, "INR", "cus_1"),
    )
    assert one(
        store.place,
        "order_items",
        *("id", "order_id", "product_id", "variant_id", "sku", "quantity"),
        *("fulfilled_quantity", "unit_price_minor"),
    ) == ("li_1", "ord_1", "prod_1", "var_1", "LS-S", 2, 0, 149900)
    assert one(
        store.place,
        "shipments",
        *("id", "order_id", "tracking_company", "tracking_number", "shipped_at"),
    ) == ("shp_1", "ord_1", "BlueDart", "BD1", instant(5))


async def test_a_changed_order_keeps_only_lines_that_stay(
    store: Store,
) -> None:
    lines = [payloads.item(f"li_{number}") for number in range(3)]
    await append_and_fold(store, envelope("orders/create", payloads.order(items=lines)))
    await append_and_fold(store, envelope("orders/create", payloads.order("ord_9")))
    left = [lines[0], {**lines[1], "quantity": 7}]
    await append_and_fold(
        store, envelope("orders/updated", payloads.order(at=1, items=left))
    )
    assert values_of(store.place, "orders", "id") == ["ord_1", "ord_9"]
    assert rows_of(store.place, "order_items", "id", "quantity", order_id="ord_1") == [
        ("li_0", 2),
        ("li_1", 7),
    ]


@pytest.mark.parametrize(
    ("topic", "members", "expected"),
    [
        ("orders/updated", {"financialStatus": "PAID"}, ("PENDING", "PAID", None)),
        (
            "orders/fulfilled",
            {"status": "CONFIRMED", "shipments": [payloads.shipment()]},
            ("CONFIRMED", "PENDING", None),
        ),
        (
            "orders/cancelled",
            {"status": "CANCELLED", "cancellation": {"cancelledAt": instant(8)}},
            ("CANCELLED", "PENDING", instant(8)),
        ),
        # A refund emits orders/cancelled for an order that is not cancelled.
        (
            "orders/cancelled",
            {"financialStatus": "REFUNDED"},
            ("PENDING", "REFUNDED", None),
        ),
    ],
)
async def test_the_fields_of_an_order_count_and_not_the_topic(
    topic: str, members: dict[str, Any], expected: Any, store: Store
) -> None:
    await append_and_fold(store, envelope("orders/create", payloads.order()))
    await append_and_fold(store, envelope(topic, payloads.order(at=8, **members)))
    columns = ("status", "financial_status", "cancelled_at")
    assert one(store.place, "orders", *columns) == expected


@pytest.mark.parametrize("topic", ["products/create", "products/update"])
async def test_a_product_is_mirrored_with_variants_and_levels(
    topic: str, store: Store
) -> None:
    variants = [payloads.variant(), payloads.variant("var_2", 3, sku=None, price="0.5")]
    await append_and_fold(store, envelope(topic, payloads.product(variants=variants)))
    assert one(
        store.place, "products", "id", "handle", "title", "status", "deleted_at"
    ) == ("prod_1", "linen-shirt", "Linen shirt", "active", None)
    assert rows_of(
        store.place, "variants", "id", "product_id", "sku", "price_minor", "currency"
    ) == [
        ("var_1", "prod_1", "LS-S", 149900, "INR"),
        ("var_2", "prod_1", None, 50, "INR"),
    ]
    assert levels(store) == [("var_1", 12), ("var_2", 3)]


async def test_stock_is_kept_in_the_levels_only(store: Store) -> None:
    await append_and_fold(store, envelope("products/create", payloads.product()))
    (document,) = documents(store.place, "products")
    assert "stock" not in document["variants"][0]


async def test_a_stock_change_moves_the_level_and_the_ledger(
    store: Store,
) -> None:
    await append_and_fold(store, envelope("products/create", payloads.product()))
    await append_and_fold(
        store, envelope("inventory/level_update", payloads.stock_change())
    )
    assert levels(store) == [("var_1", 10)]
    assert one(
        store.place,
        "stock_ledger",
        *("product_id", "variant_id", "adjustment", "stock_after", "reason"),
        *("cause", "at"),
    ) == ("prod_1", "var_1", -2, 10, "MANUAL_ADJUSTMENT", "adj_1", instant(1))


async def test_the_ledger_has_an_adjustment_once(store: Store) -> None:
    change = payloads.stock_change()
    for _ in range(3):
        await append_and_fold(store, envelope("inventory/level_update", change))
    assert count(store.place, "stock_ledger") == 1
    late = payloads.stock_change(at=0, stock=12, adjustment_id="adj_0")
    await append_and_fold(store, envelope("inventory/level_update", late))
    assert count(store.place, "stock_ledger") == 2
    assert event_states(store.place) == ["folded", "duplicate", "duplicate", "stale"]
    assert levels(store) == [("var_1", 10)]


async def test_a_customer_is_mirrored(store: Store) -> None:
    await append_and_fold(store, envelope("customers/create", payloads.customer()))
    found = one(store.place, "customers", "id", "name", "email", "phone")
    assert found == ("cus_1", "Asha Rao", "asha@example.com", None)


async def test_a_deleted_product_leaves_a_tombstone_only(store: Store) -> None:
    await append_and_fold(
        store,
        envelope("products/create", payloads.product()),
        envelope("products/delete", payloads.deletion()),
    )
    columns = ("id", "handle", "title", "status", "deleted_at")
    assert one(store.place, "products", *columns) == (
        *("prod_1", "linen-shirt", "Linen shirt", "deleted", instant(9)),
    )
    assert count(store.place, "variants") == 0
    assert count(store.place, "inventory_levels") == 0


async def test_a_late_event_does_not_restore_a_deleted_object(store: Store) -> None:
    await append_and_fold(store, envelope("products/delete", payloads.deletion(at=9)))
    await append_and_fold(
        store,
        envelope("inventory/level_update", payloads.stock_change(at=8)),
        envelope("products/update", payloads.product(at=7)),
        envelope("products/create", payloads.product(at=0)),
    )
    assert one(store.place, "products", "status") == ("deleted",)
    assert count(store.place, "variants") == 0
    assert count(store.place, "inventory_levels") == 0


async def test_a_level_of_a_variant_that_is_gone_stays_away(
    store: Store,
) -> None:
    await append_and_fold(
        store,
        envelope(
            "products/update",
            payloads.product(at=5, variants=[payloads.variant("var_2", 4)]),
        ),
        envelope("inventory/level_update", payloads.stock_change(at=3)),
    )
    assert levels(store) == [("var_2", 4)]


@pytest.mark.parametrize("older_first", [True, False])
async def test_older_never_overwrites_newer(older_first: bool, store: Store) -> None:
    old = envelope("orders/create", payloads.order(at=1))
    new = envelope("orders/updated", payloads.order(at=2, financialStatus="PAID"))
    await append_and_fold(store, *((old, new) if older_first else (new, old)))
    found = one(store.place, "orders", "financial_status", "updated_at")
    assert found == ("PAID", instant(2))
    assert event_states(store.place)[1] == ("folded" if older_first else "stale")


async def test_within_one_time_the_sequence_decides(store: Store) -> None:
    paid = payloads.order(at=1, financialStatus="PAID")
    await append_and_fold(
        store,
        envelope("orders/updated", paid, sequence=9_002),
        envelope("orders/create", payloads.order(at=1), sequence=9_001),
    )
    assert one(store.place, "orders", "financial_status") == ("PAID",)


async def test_unknown_members_are_kept_and_transient_ones_not(
    store: Store,
) -> None:
    extra: dict[str, Any] = {
        "loyalty": {"points": 12, "rate": 0.10},
        "shipment": payloads.shipment(),
    }
    extra |= {"changes": {"status": {"from": "A", "to": "B"}}, "trigger": "CANCEL"}
    await append_and_fold(store, envelope("orders/updated", payloads.order(**extra)))
    (document,) = documents(store.place, "orders")
    assert document["loyalty"] == {"points": 12, "rate": 0.1}
    assert document.keys() & {"shipment", "changes", "trigger"} == set()


@pytest.mark.parametrize(
    "changed", [{"id": "ord_1\0"}, {"shipments": [payloads.shipment(id="shp\0")]}]
)
async def test_an_id_with_a_zero_byte_is_refused(
    changed: dict[str, Any], store: Store
) -> None:
    """No statement could find a row with such an id."""
    body = envelope("orders/create", payloads.order(**changed))
    ((_, folded),) = await append_and_fold(store, body)
    assert folded.state == "quarantined"
    assert "contains a zero byte" in str(folded.detail)
    assert count(store.place, "orders") == 0


async def test_an_event_of_another_store_is_not_ours(store: Store) -> None:
    foreign = envelope("orders/create", payloads.order(), storeId="sto_other")
    ((_, folded),) = await append_and_fold(store, foreign)
    assert folded.state == "unhandled"
    assert folded.detail == "belongs to another store sto_other"
    assert count(store.place, "orders") == 0


async def test_equal_bytes_fold_once_however_often_they_come(
    store: Store,
) -> None:
    body = envelope("orders/create", payloads.order())
    await append_and_fold(store, *[body] * 50)
    assert event_states(store.place) == ["folded", *["duplicate"] * 49]
    assert count(store.place, "changes") == 1


async def test_two_stores_may_say_the_same(store: Store) -> None:
    body = envelope("orders/create", payloads.order())
    for name in ("main", "second"):
        await store.inbox.append(arrival(body, store=name))
    await fold_all(store)
    assert event_states(store.place) == ["folded", "folded"]
    assert rows_of(store.place, "orders", "store") == [("main",), ("second",)]


async def test_each_change_is_in_the_feed_once(store: Store) -> None:
    await append_and_fold(
        store,
        envelope("products/create", payloads.product()),
        envelope("orders/create", payloads.order(at=1)),
        envelope("orders/create", payloads.order(at=0)),
        envelope("inventory/level_update", payloads.stock_change()),
        envelope("customers/create", payloads.customer()),
        envelope("products/delete", payloads.deletion()),
    )
    assert rows_of(store.place, "changes", "event", "kind", "object_id", "change") == [
        (1, "product", "prod_1", "products/create"),
        (2, "order", "ord_1", "orders/create"),
        (4, "level", "prod_1", "inventory/level_update"),
        (5, "customer", "cus_1", "customers/create"),
        (6, "product", "prod_1", "products/delete"),
    ]


async def test_an_order_that_changes_wakes_records_that_wait_for_it(
    store: Store,
) -> None:
    await append_and_fold(store, envelope("orders/create", payloads.order()))
    for id_ in ("ord_1", "ord_2"):
        held = {"hold_reason": "order", "instance": "courier"}
        insert_command(store.place, id_, "fulfill", id_, "planned", **held)
    await append_and_fold(store, envelope("orders/updated", payloads.order(at=2)))
    assert sorted(rows_of(store.place, "commands", "lane", "hold_reason")) == [
        ("order:ord_1", None),
        ("order:ord_2", "order"),
    ]


async def test_a_read_only_fills_gaps_of_stock(
    store: Store,
) -> None:
    shown = json.dumps(payloads.product(variants=[payloads.variant(stock=99)])).encode()
    await store.inbox.append(arrival(shown, "products/read", kind="read"))
    await fold_all(store)
    assert levels(store) == [("var_1", 99)]
    await append_and_fold(
        store, envelope("inventory/level_update", payloads.stock_change())
    )
    later = json.dumps(payloads.product(at=20)).encode()
    await store.inbox.append(arrival(later, "products/read", kind="read"))
    await fold_all(store)
    assert levels(store) == [("var_1", 10)]


def test_every_topic_of_the_specification_is_known() -> None:
    assert set(TOPICS) == set(PROMISED) == set(SUBSCRIBED)
    assert len(TOPICS) == len(SUBSCRIBED) == 9
