"""Which commands and quarantine rows result from records, with a store's mirror."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect.record_matching import Matcher
from backhaul_sdk import Cancellation, Fulfillment, Line, StockAdjustment
from scenes import payloads
from scenes.clock import VirtualClock
from scenes.commands import new
from scenes.databases import append_and_fold, started_store
from scenes.stored import count, rows_of, values_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from backhaul.store import Place, Store
    from backhaul.store.records import NewRecord, RecordOutcome
    from scenes.databases import NewDatabase

WAIT_SECONDS = 600.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def matcher(clock: VirtualClock) -> Matcher:
    return Matcher(clock, WAIT_SECONDS)


@pytest.fixture
async def store(database: Place, clock: VirtualClock) -> AsyncIterator[Store]:
    async with started_store(database, clock) as started:
        yield started


async def fold_orders(store: Store, *orders: payloads.Document) -> None:
    """Fold webhooks of these orders."""
    bodies = [payloads.envelope("orders/create", order) for order in orders]
    assert await append_and_fold(store, *bodies) == []


async def accept(
    store: Store,
    matcher: Matcher,
    *records: NewRecord,
) -> list[tuple[str, str]]:
    outcomes = await store.records.accept("courier", "main", records, None, matcher)
    return said(outcomes)


def said(outcomes: Sequence[RecordOutcome]) -> list[tuple[str, str]]:
    return [(outcome.state, outcome.reason) for outcome in outcomes]


def commands(store: Store) -> list[dict[str, Any]]:
    return [json.loads(text) for text in values_of(store.place, "commands", "payload")]


def quarantined(store: Store) -> list[tuple[Any, ...]]:
    return rows_of(store.place, "quarantine", "key", "raw", "reason", "locator")


def shipped(key: str = "BD1", order: str = "1001", **members: Any) -> NewRecord:
    members.setdefault("everything", not members.get("lines"))
    record = Fulfillment(key=key, order=order, tracking_number=key, **members)
    return new(record)


async def test_a_cause_makes_one_command_even_if_its_record_is_lost(
    store: Store, matcher: Matcher, new_database: NewDatabase
) -> None:
    """A daemon with an empty database reads the same row again."""
    await fold_orders(store, payloads.order())
    await accept(store, matcher, shipped())
    async with started_store(new_database()) as restored:
        await fold_orders(restored, payloads.order())
        await accept(restored, matcher, shipped())
        (one,) = values_of(store.place, "commands", "id")
        assert values_of(restored.place, "commands", "id") == [one]


async def test_unknown_order_is_waited_for(
    store: Store, matcher: Matcher, clock: VirtualClock
) -> None:
    assert await accept(store, matcher, shipped()) == [
        ("waiting", "order '1001' is not known")
    ]
    await clock.advance(1)
    assert said(await store.records.match(matcher, 9)) == [
        ("waiting", "order '1001' is not known")
    ]
    await fold_orders(store, payloads.order())
    await clock.advance(1)
    assert said(await store.records.match(matcher, 9)) == [
        ("accepted", "fulfill ord_1")
    ]
    assert said(await store.records.match(matcher, 9)) == []


async def test_a_record_that_waited_too_long_is_quarantined(
    store: Store, matcher: Matcher, clock: VirtualClock
) -> None:
    await accept(store, matcher, shipped(locator="file:7"))
    await clock.advance(WAIT_SECONDS - 1)
    assert [s for s, _ in said(await store.records.match(matcher, 9))] == ["waiting"]
    await clock.advance(1)
    reason = "order '1001' is not known"
    assert said(await store.records.match(matcher, 9)) == [("quarantined", reason)]
    assert quarantined(store) == [("BD1", "raw of BD1", reason, "file:7")]
    await fold_orders(store, payloads.order())
    await clock.advance(5)
    assert said(await store.records.match(matcher, 9)) == []
    assert count(store.place, "commands") == 0


async def test_a_clock_set_ahead_does_not_shorten_the_wait_of_a_record(
    store: Store, matcher: Matcher, clock: VirtualClock
) -> None:
    await accept(store, matcher, shipped())
    clock.set_back(-86_400)
    assert [s for s, _ in said(await store.records.match(matcher, 9))] == ["waiting"]
    await clock.advance(WAIT_SECONDS)
    done = said(await store.records.match(matcher, 9))
    assert [state for state, _ in done] == ["quarantined"]


TWO = (
    payloads.order("ord_1", number=1001, externalId="POS-1"),
    payloads.order("ord_2", number=1002, externalId="1001"),
)
NAMES = [("#1001", "ord_1"), ("ord_2", "ord_2"), ("POS-1", "ord_1"), ("1002", "ord_2")]


@pytest.mark.parametrize(("name", "order"), NAMES)
async def test_order_is_known_by_each_of_its_names(
    name: str, order: str, store: Store, matcher: Matcher
) -> None:
    await fold_orders(store, *TWO)
    done = await accept(store, matcher, shipped(order=name))
    assert done == [("accepted", f"fulfill {order}")]


async def test_a_name_of_two_orders_is_quarantined_with_both_named(
    store: Store, matcher: Matcher
) -> None:
    await fold_orders(store, *TWO)
    ((state, reason),) = await accept(store, matcher, shipped(order="1001"))
    assert state == "quarantined"
    assert reason == ("order '1001' could be any of #1001 (ord_1), #1002 (ord_2)")
    assert count(store.place, "commands") == 0


STRANGE_NAMES = [
    "9" * 19,
    "9" * 20,
    "9" * 5_000,
    "",
    "#",
    "\u0661",
    "' OR 1=1 --",
    "-1",
]


@pytest.mark.parametrize("name", STRANGE_NAMES, ids=lambda name: f"{name:.12}")
async def test_strange_name_waits_and_stops_no_other_record(
    name: str, store: Store, matcher: Matcher
) -> None:
    await fold_orders(store, payloads.order())
    done = await accept(store, matcher, shipped("odd", name), shipped())
    assert [state for state, _ in done] == ["waiting", "accepted"]


async def test_cancelled_order_is_not_fulfilled(store: Store, matcher: Matcher) -> None:
    gone = {"cancelledAt": payloads.instant(1)}
    await fold_orders(store, payloads.order(cancellation=gone))
    assert await accept(store, matcher, shipped()) == [
        ("quarantined", "order #1001 is cancelled")
    ]
    record = new(Cancellation(key="c", order="1001", restock=True, reason="STAFF"))
    await accept(store, matcher, record)
    assert commands(store) == [{"restock": True, "reason": "STAFF"}]


ITEMS = [
    payloads.item("li_1", sku="A", quantity=2, fulfilledQuantity=1),
    payloads.item("li_2", sku="A", quantity=3),
    payloads.item("li_3", sku="B", quantity=1, fulfilledQuantity=1),
    payloads.item("li_4", sku=None),
]
PICKED = [
    ([("A", 1)], [("li_1", 1)]),
    ([("A", 2)], [("li_1", 1), ("li_2", 1)]),
    ([("A", 4)], [("li_1", 1), ("li_2", 3)]),
    ([("A", 1), ("A", 1)], [("li_1", 1), ("li_2", 1)]),
    ([], []),
]
OVER = [
    ([("A", 5)], "has 4 open of SKU 'A', not 5"),
    ([("A", 2), ("A", 3)], "has 4 open of SKU 'A', not 5"),
    ([("B", 1)], "has 0 open of SKU 'B', not 1"),
    ([("C", 1)], "has no line with SKU 'C'"),
    ([("A", 1), ("C", 1)], "has no line with SKU 'C'"),
    ([("A", 0)], "quantity is below 1"),
    ([("A", -1)], "quantity is below 1"),
    ([("A", 3), ("A", -1)], "quantity is below 1"),
]


def picking(lines: list[tuple[str, int]]) -> NewRecord:
    return shipped(lines=tuple(Line(sku=sku, quantity=n) for sku, n in lines))


@pytest.mark.parametrize(("picked", "lines"), PICKED, ids=str)
async def test_picked_units_are_spread_over_open_lines(
    picked: list[tuple[str, int]],
    lines: list[tuple[str, int]],
    store: Store,
    matcher: Matcher,
) -> None:
    await fold_orders(store, payloads.order(items=ITEMS))
    assert await accept(store, matcher, picking(picked)) == [
        ("accepted", "fulfill ord_1")
    ]
    found = commands(store)[0]["lines"]
    assert [(line["line_id"], line["quantity"]) for line in found] == lines


@pytest.mark.parametrize(("picked", "reason"), OVER, ids=str)
async def test_picking_units_that_are_not_open_is_refused(
    picked: list[tuple[str, int]], reason: str, store: Store, matcher: Matcher
) -> None:
    """Above all, a record without open lines must not become "everything"."""
    await fold_orders(store, payloads.order(items=ITEMS))
    ((state, words),) = await accept(store, matcher, picking(picked))
    assert state == "quarantined"
    assert reason in words
    assert count(store.place, "commands") == 0


async def test_adjustment_finds_its_variant(store: Store, matcher: Matcher) -> None:
    await append_and_fold(
        store, payloads.envelope("products/create", payloads.product())
    )
    record = new(StockAdjustment(key="s1", sku="LS-S", delta=-2, reason="DAMAGED"))
    assert await accept(store, matcher, record) == [("accepted", "adjust prod_1")]
    assert commands(store) == [
        {"variant_id": "var_1", "delta": -2, "reason": "DAMAGED"}
    ]
    assert values_of(store.place, "commands", "lane") == ["product:prod_1"]


async def test_a_sku_of_two_variants_is_quarantined_with_both_named(
    store: Store, matcher: Matcher
) -> None:
    variants = [payloads.variant("var_1"), payloads.variant("var_2")]
    product = payloads.product(variants=variants)
    await append_and_fold(store, payloads.envelope("products/create", product))
    record = new(StockAdjustment(key="s1", sku="LS-S", delta=1))
    assert await accept(store, matcher, record) == [
        ("quarantined", "SKU 'LS-S' could be any of the variants var_1, var_2")
    ]


async def test_unknown_sku_is_waited_for(store: Store, matcher: Matcher) -> None:
    record = new(StockAdjustment(key="s1", sku="LS-S", delta=1))
    assert await accept(store, matcher, record) == [
        ("waiting", "SKU 'LS-S' is not known")
    ]
