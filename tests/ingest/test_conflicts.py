"""A conflicting object is refetched from the platform, and never guessed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store.sql.inbox.refetch_queue import PARENTS_BATCH
from scenes import payloads
from scenes.databases import (
    append_and_fold,
    count,
    fold_all,
    fold_in_turn,
    started_store,
)
from scenes.payloads import arrival, envelope, read
from scenes.stored import documents, rows_of, value_of, values_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.store import Place, Store
    from backhaul.store.inbox import Arrival


async def asked(store: Store) -> list[tuple[str, str]]:
    found = await store.refetch_queue.next("main", 99)
    return [(row.kind, row.object_id) for row in found]


def state(store: Store) -> Any:
    return rows_of(store.place, "events", "state", "detail")[-1]


def order(note: str, at: int = 0, sequence: int = 0, **members: Any) -> Arrival:
    document = payloads.order(at=at, note=note, **members)
    return arrival(envelope("orders/updated", document, sequence=sequence))


def noted(store: Store) -> str:
    (order,) = documents(store.place, "orders")
    return str(order["note"])


DELIVERED = [order("a", sequence=3), order("b", sequence=5)]
AGAIN = read("orders/read", payloads.order(note="b"))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_content_that_came_twice_keeps_its_higher_version(
    order: tuple[int, ...], store: Store
) -> None:
    """Within one second: A (3), B (5), and B read again without a sequence number."""
    arrivals = [*DELIVERED, AGAIN]
    await fold_in_turn(store, *(arrivals[index] for index in order))
    versions = await store.mirror.versions("order", "main", ["ord_1"])
    assert (noted(store), versions["ord_1"].sequence) == ("b", 5)


@pytest.mark.parametrize("notes", ["ab", "ba"])
async def test_an_unequal_tie_requests_one_refetch(notes: str, store: Store) -> None:
    await fold_in_turn(store, *(order(note) for note in notes))
    assert await asked(store) == [("order", "ord_1")]
    assert "order ord_1" in state(store)[1]
    await fold_in_turn(store, read("orders/reread", payloads.order(note="b"), at=40))
    assert noted(store) == "b"


@pytest.mark.parametrize("changes", ["changes", "shipment", "trigger"])
async def test_fields_that_describe_the_event_make_no_tie(
    changes: str, store: Store
) -> None:
    told = payloads.order(note="a") | {changes: {"x": 1}}
    await fold_in_turn(store, order("a"), arrival(envelope("orders/updated", told)))
    assert await asked(store) == []
    assert state(store) == ("duplicate", None)


CANCELLED = {
    "status": "CANCELLED",
    "cancellation": {"cancelledAt": payloads.instant(1)},
}
REGRESSIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (CANCELLED, {}),
    ({"fulfillmentStatus": "FULFILLED"}, {}),
    ({"fulfillmentStatus": "FULFILLED"}, {"fulfillmentStatus": "PARTIALLY_FULFILLED"}),
    ({"financialStatus": "PAID"}, {}),
    ({"financialStatus": "REFUNDED"}, {"financialStatus": "PAID"}),
]


@pytest.mark.parametrize(("before", "after"), REGRESSIONS, ids=repr)
@pytest.mark.parametrize("kind", ["delivery", "read"])
async def test_status_goes_back_only_when_a_refetch_says_so(
    before: dict[str, Any], after: dict[str, Any], kind: str, store: Store
) -> None:
    back = payloads.order(at=5, note="after", **after)
    said = order("after", at=5, sequence=9, **after)
    came = said if kind == "delivery" else read("orders/read", back, at=31)
    await fold_in_turn(store, order("before", sequence=1, **before), came)
    assert noted(store) == "before"
    assert await asked(store) == [("order", "ord_1")]
    assert state(store)[0] == "stale"
    await fold_in_turn(store, read("orders/reread", back, at=32))
    assert noted(store) == "after"
    assert state(store) == ("folded", None)


async def test_a_time_of_the_future_is_lowered_by_a_refetch(store: Store) -> None:
    older = read("orders/read", payloads.order(note="true"), at=29)
    await fold_in_turn(store, order("forged", at=3_000), older)
    assert noted(store) == "forged"
    assert await asked(store) == []  # the read began before the delivery arrived
    await fold_in_turn(store, read("orders/read", payloads.order(note="true"), at=31))
    assert noted(store) == "forged"
    assert await asked(store) == [("order", "ord_1")]
    await fold_in_turn(store, read("orders/reread", payloads.order(note="true"), at=32))
    assert noted(store) == "true"
    newer = envelope("orders/updated", payloads.order(at=1, note="newer"))
    await fold_in_turn(store, arrival(newer, at=33))
    assert noted(store) == "newer"


async def test_a_deleted_product_is_restored_only_by_a_read(
    store: Store,
) -> None:
    await append_and_fold(store, envelope("products/delete", payloads.deletion(at=9)))
    late = payloads.product(at=20)
    await fold_in_turn(store, arrival(envelope("products/update", late), at=31))
    assert rows_of(store.place, "products", "status") == [("deleted",)]
    assert count(store.place, "inventory_levels") == 0
    assert await asked(store) == [("product", "prod_1")]
    await fold_in_turn(store, read("products/reread", late, at=32))
    assert rows_of(store.place, "products", "status") == [("active",)]
    assert rows_of(store.place, "inventory_levels", "stock") == [(12,)]


async def test_a_product_that_is_not_there_leaves_a_tombstone(
    store: Store,
) -> None:
    await append_and_fold(store, envelope("products/create", payloads.product()))
    await fold_in_turn(store, read("products/gone", {"id": "prod_1"}, at=31))
    assert rows_of(store.place, "products", "status") == [("deleted",)]
    assert count(store.place, "variants") == count(store.place, "inventory_levels") == 0


@pytest.mark.parametrize("first", ["told", "read"])
async def test_the_platforms_own_deletion_is_kept(first: str, store: Store) -> None:
    told = arrival(envelope("products/delete", payloads.deletion()), at=31)
    gone = read("products/gone", {"id": "prod_1"}, at=31)
    for one in (told, gone) if first == "told" else (gone, told):
        await fold_in_turn(store, one)
    found = rows_of(store.place, "products", "title", "updated_at", "deleted_at")
    assert found == [("Linen shirt", payloads.instant(9), payloads.instant(9))]


@pytest.mark.parametrize("kind", ["order", "customer"])
async def test_a_deleted_object_leaves_the_mirror_and_may_come_back(
    kind: str, store: Store
) -> None:
    shown = payloads.order() if kind == "order" else payloads.customer()
    topic, table = f"{kind}s", f"{kind}s"
    await fold_in_turn(store, read(f"{topic}/read", shown))
    await fold_in_turn(store, read(f"{topic}/gone", {"id": shown["id"]}, at=31))
    children = ("order_items",) if kind == "order" else ()
    for name in (table, *children):
        assert count(store.place, name) == 0
    assert count(store.place, "tombstones") == 1
    delayed = arrival(envelope(f"{topic}/create", shown), at=32)
    await fold_in_turn(store, delayed)
    assert count(store.place, table) == 0
    await fold_in_turn(store, read(f"{topic}/reread", shown, at=33))
    assert count(store.place, table) == 1
    assert count(store.place, "tombstones") == 0


def stock(value: int, at: int = 1, sequence: int = 0) -> Arrival:
    change = payloads.stock_change(at, value, adjustment_id=f"adj_{at}_{value}")
    return arrival(envelope("inventory/level_update", change, sequence=sequence))


def level(value: int, at: int = 1) -> dict[str, Any]:
    return {
        "productId": "prod_1",
        "variantId": "var_1",
        "stock": value,
        "updatedAt": payloads.instant(at),
    }


def held(store: Store) -> tuple[int, str]:
    """Return the stock of the only variant, and the time of that stock."""
    (found,) = rows_of(store.place, "inventory_levels", "stock", "updated_at")
    stock, since = found
    return stock, since


async def test_a_tie_of_stock_refetches_the_levels_of_the_product(
    store: Store,
) -> None:
    await fold_in_turn(store, stock(10), stock(9))
    assert await asked(store) == [("level", "prod_1")]
    assert count(store.place, "stock_ledger") == 2
    await fold_in_turn(store, read("inventory/reread", level(9), at=31))
    assert held(store) == (9, payloads.instant(1))


async def test_a_product_that_shows_another_stock_refetches_its_levels(
    store: Store,
) -> None:
    await fold_in_turn(store, stock(10, sequence=1))
    shown = payloads.product(variants=[payloads.variant(stock=7)])
    await fold_in_turn(store, read("products/read", shown, at=29))
    assert await asked(store) == []  # the product was read before the stock changed
    await fold_in_turn(store, read("products/read", shown, at=31))
    assert await asked(store) == [("level", "prod_1")]
    assert held(store) == (10, payloads.instant(1))
    await fold_in_turn(store, read("inventory/shown/reread", shown, at=32))
    assert held(store) == (7, payloads.instant(1))


async def test_a_refetch_that_decides_nothing_is_repeated_after_a_pause(
    store: Store,
) -> None:
    """The clock was set back, so the mirror's copy is newer than the read."""
    await fold_in_turn(store, order("a"))
    await fold_in_turn(store, read("orders/reread", payloads.order(note="b"), at=20))
    assert await asked(store) == []
    assert await store.refetch_queue.next_due("main") is not None


async def test_a_refetch_pauses_even_where_its_row_is_still_queued(
    store: Store,
) -> None:
    """Otherwise it would be read endlessly after the clock was set back."""
    await fold_in_turn(store, order("a"), order("b"))
    (row,) = await store.refetch_queue.next("main", 9)
    await fold_in_turn(store, read("orders/reread", payloads.order(note="c"), at=20))
    await store.refetch_queue.done(row)
    assert await asked(store) == []
    assert await store.refetch_queue.next_due("main") is not None


OVERTAKEN: dict[str, tuple[dict[str, Arrival], Callable[[Store], object], object]] = {
    "order": (
        {
            "x": order("forged", at=3_000),
            "r": read("orders/reread", payloads.order(note="true"), at=32),
            "q": arrival(
                envelope("orders/updated", payloads.order(note="true")), at=33
            ),
        },
        noted,
        "true",
    ),
    "level": (
        {
            "x": stock(7, at=3_000),
            "r": read("inventory/reread", level(5), at=32),
            "q": arrival(
                envelope("inventory/level_update", payloads.stock_change(1, 5)), at=33
            ),
        },
        lambda store: value_of(store.place, "inventory_levels", "stock"),
        5,
    ),
}


@pytest.mark.parametrize("sequence", ["xrq", "xqr", "rxq", "rqx", "qxr", "qrx"])
@pytest.mark.parametrize("case", OVERTAKEN)
async def test_a_confirming_read_counts_whenever_it_comes(
    sequence: str, case: str, store: Store
) -> None:
    """An older copy never wins, even if the read changes nothing."""
    arrivals, shown, expected = OVERTAKEN[case]
    await fold_in_turn(store, *(arrivals[name] for name in sequence))
    assert shown(store) == expected


async def test_topics_of_reads_are_not_accepted_from_outside(store: Store) -> None:
    await fold_in_turn(store, order("a"))
    for topic in ("orders/gone", "orders/reread"):
        await store.inbox.append(arrival(envelope(topic, payloads.order(note="b"))))
        ((_, folded),) = await fold_all(store)
        assert folded.state == "unhandled"
    assert noted(store) == "a"


async def test_parents_are_requested_once(store: Store) -> None:
    await fold_in_turn(store, read("orders/read", payloads.order()), stock(3))
    assert await store.refetch_queue.enqueue_parents("main")
    assert sorted(await asked(store)) == [("customer", "cus_1"), ("product", "prod_1")]
    for row in await store.refetch_queue.next("main", 9):
        await store.refetch_queue.done(row)
    assert not await store.refetch_queue.enqueue_parents("main")
    await fold_in_turn(store, read("orders/read", payloads.order("ord_2", number=2)))
    assert await store.refetch_queue.enqueue_parents("main")
    assert await asked(store) == [("customer", "cus_1")]


async def test_a_parent_that_an_update_names_is_requested(store: Store) -> None:
    nobody = payloads.order(customer=None)
    await fold_in_turn(store, read("orders/read", nobody))
    assert not await store.refetch_queue.enqueue_parents("main")
    named = payloads.order(at=5, customer={"id": "cus_7"})
    await fold_in_turn(store, arrival(envelope("orders/updated", named), at=31))
    assert await store.refetch_queue.enqueue_parents("main")
    assert await asked(store) == [("customer", "cus_7")]


async def test_a_removal_hides_no_parent(store: Store) -> None:
    """The next order moves to the position of the deleted one."""
    await fold_in_turn(store, read("orders/read", payloads.order(customer=None)))
    assert not await store.refetch_queue.enqueue_parents("main")
    await fold_in_turn(
        store,
        read("orders/gone", {"id": "ord_1"}, at=31),
        read("orders/read", payloads.order("ord_2", customer={"id": "cus_7"})),
    )
    assert await store.refetch_queue.enqueue_parents("main")
    assert await asked(store) == [("customer", "cus_7")]


async def test_parents_of_many_and_of_one_store_are_requested(
    store: Store,
) -> None:
    many = PARENTS_BATCH + 7
    named = [
        envelope("orders/create", payloads.order(f"o{n}", customer={"id": f"c{n}"}))
        for n in range(many)
    ]
    await append_and_fold(store, *named)
    other = envelope("orders/create", payloads.order(customer={"id": "theirs"}))
    await fold_in_turn(store, arrival(other, store="other"))
    assert await store.refetch_queue.enqueue_parents("main")
    found = await store.refetch_queue.next("main", 2 * many)
    assert {row.object_id for row in found} == {f"c{n}" for n in range(many)}
    assert await store.refetch_queue.enqueue_parents("other")
    assert not await store.refetch_queue.enqueue_parents("other")


async def test_parents_that_are_known_or_deleted_are_not_requested(
    store: Store,
) -> None:
    await fold_in_turn(
        store,
        read("customers/gone", {"id": "cus_1"}),
        read("customers/read", payloads.customer("cus_2")),
        read("products/read", payloads.product()),
        read("orders/read", payloads.order()),
        read("orders/read", payloads.order("ord_2", customer={"id": "cus_2"})),
        read("orders/read", payloads.order("ord_3", customer=None)),
        stock(3),
    )
    assert not await store.refetch_queue.enqueue_parents("main")


async def test_a_refetch_request_and_its_event_share_one_transaction(
    database: Place,
) -> None:
    async with started_store(database) as store:
        await fold_in_turn(store, order("a"), order("b"))
    async with started_store(database) as store:
        (row,) = await store.refetch_queue.next("main", 99)
        assert (row.kind, row.object_id, row.asks) == ("order", "ord_1", 1)
        assert row.reason in values_of(store.place, "events", "detail")[1]
