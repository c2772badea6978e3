"""Names of the back office are matched to the platform's ids, or a reason is given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect.quarantine_retry import UnmatchedRetry
from backhaul.connect.record_matching import Matcher, encode
from backhaul.runtime.signals import SharedSignals
from backhaul_sdk import Cancellation, Fulfillment, Line, StockAdjustment
from scenes import payloads
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of
from scenes.databases import append_and_fold
from scenes.payloads import envelope
from scenes.stored import count, rows_of, value_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul_sdk import Receipt, Record
    from scenes.clock import VirtualClock


async def hand_in(store: Store, record: Record, **options: Any) -> Receipt:
    return await host_of(ScriptedConnector(), store, **options).emit(record)


def only_command(store: Store) -> tuple[str, str, dict[str, Any]]:
    ((kind, target, payload),) = rows_of(
        store.place, "commands_and_targets", "kind", "target", "payload"
    )
    return kind, target, json.loads(payload)


def test_a_record_is_kept_without_its_raw_row() -> None:
    lines = (Line(sku="A", quantity=2),)
    record = Fulfillment(
        key="k",
        order="1001",
        tracking_company="Öst",
        lines=lines,
        locator="f:7",
        raw="x",
    )
    assert encode(record).decode() == (
        '{"kind":"fulfill","record":{"key":"k","order":"1001",'
        '"tracking_company":"Öst","tracking_number":null,'
        '"lines":[{"sku":"A","quantity":2}],"everything":false,"shipped_at":null,"locator":"f:7","raw":""}}'
    )


@pytest.mark.parametrize("name", ["1001", "#1001", "POS-9", "ord_1"])
async def test_an_order_answers_to_all_its_names(name: str, store: Store) -> None:
    assert (await hand_in(store, fulfillment_record(order=name))).state == "accepted"
    assert only_command(store) == (
        "fulfill",
        "ord_1",
        {"tracking_company": "BlueDart", "tracking_number": "BD1", "lines": []},
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        "#",
        "##1001",
        "1001.0",
        "+1001",
        "\u0661\u0660",
        "9" * 30,
        "9" * 5_000,
        "0x3e9",
    ],
)
async def test_an_unknown_name_waits_and_holds_up_no_other(
    name: str, store: Store
) -> None:
    receipt = await hand_in(store, fulfillment_record(order=name))
    assert receipt.state == "waiting"
    assert f"order {name!r} is not known" in receipt.what


async def test_candidates_are_named_when_there_are_several(store: Store) -> None:
    await append_and_fold(
        store,
        envelope("orders/create", payloads.order("ord_3", number=7, externalId="1001")),
    )
    receipt = await hand_in(store, fulfillment_record())
    assert receipt.state == "quarantined"
    assert receipt.what == "order '1001' could be any of #1001 (ord_1), #7 (ord_3)"
    assert count(store.place, "commands_and_targets") == 0


async def test_a_cancelled_order_is_not_sent_to(store: Store) -> None:
    cancelled = payloads.order(at=5, cancellation={"cancelledAt": payloads.instant(5)})
    await append_and_fold(store, envelope("orders/cancelled", cancelled))
    receipt = await hand_in(store, fulfillment_record())
    assert (receipt.state, receipt.what) == ("quarantined", "order #1001 is cancelled")


async def test_a_cancellation_says_what_happens_to_the_goods(
    store: Store,
) -> None:
    record = Cancellation(key="c", order="#1002", restock=True, reason="CUSTOMER")
    assert (await hand_in(store, record)).state == "accepted"
    payload = {"restock": True, "reason": "CUSTOMER"}
    assert only_command(store) == ("cancel", "ord_2", payload)


SPLIT = [
    payloads.item("li_a", sku="A", quantity=3, fulfilledQuantity=1),
    payloads.item("li_b", sku="B", quantity=5),
    payloads.item("li_c", sku="A", quantity=4),
]


async def test_picked_units_are_spread_over_the_open_lines(
    store: Store,
) -> None:
    order = payloads.order("ord_3", number=1003, items=SPLIT)
    await append_and_fold(store, envelope("orders/create", order))
    lines = (Line(sku="A", quantity=5), Line(sku="B", quantity=1))
    await hand_in(store, fulfillment_record(order="1003", lines=lines))
    assert only_command(store)[2]["lines"] == [
        {"line_id": "li_a", "quantity": 2},
        {"line_id": "li_c", "quantity": 3},
        {"line_id": "li_b", "quantity": 1},
    ]


@pytest.mark.parametrize(
    ("sku", "quantity", "reason"),
    [
        ("A", 7, "order #1003 has 6 open of SKU 'A', not 7"),
        (
            "Z",
            1,
            "order #1003 has no line with SKU 'Z'; open are: 6 of 'A', 5 of 'B'",
        ),
    ],
)
async def test_more_units_than_are_open_are_quarantined(
    sku: str, quantity: int, reason: str, store: Store
) -> None:
    order = payloads.order("ord_3", number=1003, items=SPLIT)
    await append_and_fold(store, envelope("orders/create", order))
    lines = (Line(sku=sku, quantity=quantity),)
    receipt = await hand_in(store, fulfillment_record(order="1003", lines=lines))
    assert (receipt.state, receipt.what) == ("quarantined", reason)


async def test_two_lines_of_one_sku_do_not_claim_the_same_units(
    store: Store,
) -> None:
    order = payloads.order("ord_3", number=1003, items=SPLIT)
    await append_and_fold(store, envelope("orders/create", order))
    lines = (Line(sku="A", quantity=4), Line(sku="A", quantity=4))
    receipt = await hand_in(store, fulfillment_record(order="1003", lines=lines))
    assert receipt.state == "quarantined"


async def test_a_stock_change_finds_its_variant(store: Store) -> None:
    record = StockAdjustment(key="a", sku="LS-S", delta=-3, reason="DAMAGED")
    assert (await hand_in(store, record)).state == "accepted"
    payload = {"variant_id": "var_1", "delta": -3, "reason": "DAMAGED"}
    assert only_command(store) == ("adjust", "prod_1", payload)


async def test_an_ambiguous_sku_names_the_variants(store: Store) -> None:
    twin = payloads.product("prod_2", variants=[payloads.variant("var_9")])
    await append_and_fold(store, envelope("products/create", twin))
    receipt = await hand_in(store, StockAdjustment(key="a", sku="LS-S", delta=1))
    what = "SKU 'LS-S' could be any of the variants var_1, var_9"
    assert (receipt.state, receipt.what) == ("quarantined", what)


async def test_another_stores_order_is_not_ours(store: Store) -> None:
    await store.inbox.append(
        payloads.arrival(
            envelope("orders/create", payloads.order("ord_x", number=5)), store="other"
        )
    )
    await append_and_fold(store)
    assert (await hand_in(store, fulfillment_record(order="5"))).state == "waiting"


async def test_a_record_waits_for_its_order(store: Store, clock: VirtualClock) -> None:
    planned: list[int] = []
    signals = SharedSignals()
    signals.records_accepted.connect(lambda: planned.append(1))
    await hand_in(store, fulfillment_record(order="1003"), clock=clock)
    await append_and_fold(
        store, envelope("orders/create", payloads.order("ord_3", number=1003))
    )
    matcher = Matcher(clock, 600)
    room = UnmatchedRetry(store.records, matcher, clock, signals)
    await clock.advance(5)
    await look(room)
    assert value_of(store.place, "records", "state") == "accepted"
    assert planned == [1]


async def look(room: UnmatchedRetry) -> None:
    await room._match_once()


async def test_a_record_whose_order_never_comes_is_quarantined(
    store: Store, clock: VirtualClock
) -> None:
    await hand_in(
        store, fulfillment_record(order="1003"), clock=clock, wait_seconds=600
    )
    outcomes, matcher = [], Matcher(clock, 600)
    for seconds in (598, 2):
        await clock.advance(seconds)
        found = await store.records.match(matcher, 10)
        outcomes += [outcome.state for outcome in found]
    assert outcomes == ["waiting", "quarantined"]
    assert rows_of(
        store.place, "quarantine", "source", "name", "raw", "reason", "locator"
    ) == [("record", "desk", "1003;BD1", "order '1003' is not known", "file.csv:k1")]


async def test_waiting_records_are_not_matched_in_every_round(
    store: Store, clock: VirtualClock
) -> None:
    for number in range(250):
        await hand_in(store, fulfillment_record(f"k{number}", "9999"), clock=clock)
    await clock.advance(5)
    matcher = Matcher(clock, 600)
    looked = [len(await store.records.match(matcher, 100)) for _ in range(4)]
    assert looked == [100, 100, 50, 0]


async def test_equal_keys_of_two_instances_are_two_commands(
    store: Store,
) -> None:
    for name, order in (("a", "1001"), ("b", "1002")):
        await host_of(ScriptedConnector(name), store).emit(
            fulfillment_record(order=order)
        )
    assert count(store.place, "commands_and_targets") == 2


async def test_no_record_runs_out_of_time_before_the_mirror_is_up_to_date(
    store: Store, clock: VirtualClock
) -> None:
    connector = host_of(ScriptedConnector(), store, clock=clock)
    assert (await connector.emit(fulfillment_record(order="7777"))).state == "waiting"
    await clock.advance(11 * 60)
    matcher = Matcher(clock, 600)
    matcher.hold(["main", "other"])
    (held,) = await store.records.match(matcher, 9)
    assert held.state == "waiting"
    matcher.release("other")
    await clock.advance(5)
    (held,) = await store.records.match(matcher, 9)
    assert held.state == "waiting"
    matcher.release("main")
    await append_and_fold(
        store, envelope("orders/create", payloads.order("ord_9", number=7777))
    )
    await clock.advance(5)
    (found,) = await store.records.match(matcher, 9)
    assert found.state == "accepted"


async def test_a_quarantined_record_may_be_emitted_again(
    store: Store, clock: VirtualClock
) -> None:
    record = fulfillment_record(order="7777")
    assert (await hand_in(store, record)).state == "waiting"
    await clock.advance(11 * 60)
    matcher = Matcher(clock, 600)
    await clock.advance(601)
    (lost,) = await store.records.match(matcher, 9)
    assert lost.state == "quarantined"
    again = await hand_in(store, record)
    assert again.state == "waiting"
    await append_and_fold(
        store, envelope("orders/create", payloads.order("ord_9", number=7777))
    )
    assert (await hand_in(store, record)).state == "duplicate"
    await clock.advance(5)
    (found,) = await store.records.match(matcher, 9)
    assert found.state == "accepted"
    assert count(store.place, "commands_and_targets") == 1
    assert value_of(store.place, "quarantine", "state") == "retried"
