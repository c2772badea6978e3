"""Records from connectors: kept with their cursor, matched, planned or set aside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect.record_matching import Matcher
from backhaul.store.records import Known, Matched, NewRecord, Unmatched
from backhaul.store.sql.records.repository import UNREPORTED
from backhaul_sdk import Cancellation, Fulfillment, Line, StockAdjustment
from scenes import payloads
from scenes.clock import VirtualClock
from scenes.commands import new
from scenes.databases import count, rows, started_store, take

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from backhaul.core.stock import ListEnd
    from backhaul.store.matching import MatchReader, WaitingRecord
    from backhaul.store.records import MatchOne, RecordOutcome, Tracked
    from backhaul.store.sqlite.database import SqliteStore

WAIT_SECONDS = 600.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def matcher(clock: VirtualClock) -> Matcher:
    return Matcher(clock, WAIT_SECONDS)


@pytest.fixture
async def store(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[SqliteStore]:
    async with started_store(tmp_path / "backhaul.db", clock) as started:
        yield started


async def know(store: SqliteStore, *orders: payloads.Document) -> None:
    """Let orders come in as the platform tells of them."""
    bodies = [payloads.envelope("orders/create", order) for order in orders]
    assert await take(store, *bodies) == []


async def accept(
    store: SqliteStore,
    matcher: Matcher,
    *records: NewRecord,
    cursor: str | None = None,
    instance: str = "courier",
) -> list[tuple[str, str]]:
    outcomes = await store.records.accept(instance, "main", records, cursor, matcher)
    return said(outcomes)


def said(outcomes: Sequence[RecordOutcome]) -> list[tuple[str, str]]:
    return [(outcome.state, outcome.reason) for outcome in outcomes]


def commands(store: SqliteStore) -> list[dict[str, Any]]:
    query = "SELECT payload FROM commands ORDER BY seq"
    return [json.loads(row[0]) for row in rows(store.path, query)]


def quarantined(store: SqliteStore) -> list[tuple[Any, ...]]:
    return rows(store.path, "SELECT key, raw, reason, locator FROM quarantine")


def shipped(key: str = "BD1", order: str = "1001", **members: Any) -> NewRecord:
    members.setdefault("everything", not members.get("lines"))
    record = Fulfillment(key=key, order=order, tracking_number=key, **members)
    return new(record)


async def test_record_cursor_and_command_are_one(
    store: SqliteStore, matcher: Matcher
) -> None:
    await know(store, payloads.order())
    done = await accept(store, matcher, shipped(locator="file:7"), cursor="7")
    assert done == [("accepted", "fulfill ord_1")]
    assert await store.records.cursor("courier") == "7"
    planned = rows(
        store.path,
        "SELECT kind, target, lane, state, cause, instance, store FROM commands",
    )
    assert planned == [
        (
            "fulfill",
            "ord_1",
            "order:ord_1",
            "planned",
            "record courier file:7",
            "courier",
            "main",
        )
    ]
    assert rows(store.path, "SELECT state, command_id IS NOT NULL FROM records") == [
        ("accepted", 1)
    ]


async def test_a_record_that_cannot_be_matched_is_set_aside_and_the_rest_goes_on(
    store: SqliteStore, matcher: Matcher
) -> None:
    """Whatever it does: what it half did is undone, and nobody else is kept."""
    await know(store, payloads.order())
    failing = failing_on("second", matcher)
    await know(store, payloads.order("ord_2", number=1002))
    await know(store, payloads.order("ord_3", number=1003))
    second = shipped("second", "1002")
    batch = [shipped("first"), second, shipped("third", "1003")]
    done = await store.records.accept("courier", "main", batch, "after", failing)
    reason = "cannot be matched: ZeroDivisionError: of second"
    assert [outcome.state for outcome in done] == [
        "accepted",
        "quarantined",
        "accepted",
    ]
    assert [row[0::2] for row in quarantined(store)] == [("second", reason)]
    assert await store.records.cursor("courier") == "after"
    again = await accept(store, matcher, second)
    assert [state for state, _ in again] == ["accepted"]
    assert count(store.path, "commands") == 3


def failing_on(key: str, matcher: Matcher) -> MatchOne:
    def match(
        record: WaitingRecord, mirror: MatchReader
    ) -> Matched | Tracked | ListEnd | Known | Unmatched:
        if record.key == key:
            raise ZeroDivisionError(f"of {key}")
        return matcher(record, mirror)

    return match


async def test_record_that_comes_again_is_one_command(
    store: SqliteStore, matcher: Matcher
) -> None:
    await know(store, payloads.order())
    once = await accept(store, matcher, shipped(), shipped())
    again = await accept(store, matcher, shipped())
    assert [state for state, _ in once + again] == ["accepted"] + ["duplicate"] * 2
    assert (count(store.path, "records"), count(store.path, "commands")) == (1, 1)


async def test_one_cause_is_one_command_even_if_its_record_is_forgotten(
    store: SqliteStore, matcher: Matcher, tmp_path: Path
) -> None:
    """The same row, read by a daemon that was restored from nothing."""
    await know(store, payloads.order())
    await accept(store, matcher, shipped())
    async with started_store(tmp_path / "restored.db") as restored:
        await know(restored, payloads.order())
        await accept(restored, matcher, shipped())
        (one,) = rows(store.path, "SELECT id FROM commands")
        assert rows(restored.path, "SELECT id FROM commands") == [one]


async def test_same_key_of_two_instances_is_two_causes(
    store: SqliteStore, matcher: Matcher
) -> None:
    await know(store, payloads.order())
    await know(store, payloads.order("ord_2", number=1002))
    await accept(store, matcher, shipped())
    other = shipped(order="1002")
    assert await accept(store, matcher, other, instance="other") == [
        ("accepted", "fulfill ord_2")
    ]
    assert count(store.path, "commands") == 2


async def test_bad_row_is_set_aside_and_the_rest_goes_on(
    store: SqliteStore, matcher: Matcher
) -> None:
    await know(store, payloads.order())
    bad = NewRecord("row-2", None, "a;b", "no order", "file:2")
    done = await accept(store, matcher, bad, shipped(), bad)
    assert done == [
        ("quarantined", "no order"),
        ("accepted", "fulfill ord_1"),
        ("duplicate", "known already"),
    ]
    assert quarantined(store) == [("row-2", "a;b", "no order", "file:2")]


async def test_connector_hears_of_a_bad_row_once(
    store: SqliteStore, matcher: Matcher
) -> None:
    await accept(store, matcher, NewRecord("row-2", None, "a;b", "no", "file:2"))
    (row,) = await store.records.unreported("courier", 9)
    assert (row.key, row.raw, row.reason, row.locator) == (
        "row-2",
        "a;b",
        "no",
        "file:2",
    )
    assert await store.records.unreported("other", 9) == []
    await store.records.mark_reported([row.id])
    assert await store.records.unreported("courier", 9) == []


async def test_connector_hears_of_the_oldest_bad_rows_first(
    store: SqliteStore, matcher: Matcher
) -> None:
    for number in range(3):
        await accept(store, matcher, NewRecord(f"row-{number}", None, "", "no", ""))
    told = []
    while found := await store.records.unreported("courier", 2):
        await store.records.mark_reported([row.id for row in found])
        told.append([row.key for row in found])
    assert told == [["row-0", "row-1"], ["row-2"]]
    plan = rows(store.path, f"EXPLAIN QUERY PLAN {UNREPORTED}", "courier", 2)
    assert [row[3] for row in plan] == [
        "SEARCH quarantine USING INDEX quarantine_unreported (name=?)"
    ]


async def test_unknown_order_is_waited_for(
    store: SqliteStore, matcher: Matcher, clock: VirtualClock
) -> None:
    assert await accept(store, matcher, shipped()) == [
        ("waiting", "order '1001' is not known")
    ]
    await clock.advance(1)
    assert said(await store.records.match(matcher, 9)) == [
        ("waiting", "order '1001' is not known")
    ]
    await know(store, payloads.order())
    await clock.advance(1)
    assert said(await store.records.match(matcher, 9)) == [
        ("accepted", "fulfill ord_1")
    ]
    assert said(await store.records.match(matcher, 9)) == []


async def test_what_a_record_waits_for_is_kept_beside_it(
    store: SqliteStore, clock: VirtualClock
) -> None:
    def waits(reason: str) -> MatchOne:
        return lambda waiting, mirror: Unmatched(reason, final=False)

    kept = []
    await store.records.accept("courier", "main", [shipped()], None, waits("order"))
    for reason in ("order", "article"):
        await clock.advance(1)
        await store.records.match(waits(reason), 9)
        kept += rows(store.path, "SELECT state, reason FROM records")
    assert kept == [("waiting", "order"), ("waiting", "article")]


async def test_waiting_record_rests_between_two_looks(
    store: SqliteStore, matcher: Matcher, clock: VirtualClock
) -> None:
    await accept(store, matcher, *[shipped(f"BD{n}", f"{n}") for n in range(3)])
    looks = [
        [outcome.record.key for outcome in await store.records.match(matcher, 2)]
        for _ in range(3)
    ]
    assert looks == [["BD0", "BD1"], ["BD2"], []]
    await clock.advance(1)
    assert len(await store.records.match(matcher, 9)) == 3


async def test_a_waiting_record_does_not_wait_for_a_clock_that_was_set_back(
    store: SqliteStore, matcher: Matcher, clock: VirtualClock
) -> None:
    await accept(store, matcher, shipped())
    clock.set_back(86_400)
    assert len(await store.records.match(matcher, 9)) == 1
    assert await store.records.match(matcher, 9) == []


async def test_a_waiting_record_that_cannot_be_matched_is_set_aside_too(
    store: SqliteStore, matcher: Matcher
) -> None:
    """Else it would end the program at each of its starts."""
    await accept(store, matcher, shipped("first"), shipped("second"))
    await know(store, payloads.order())
    done = await store.records.match(failing_on("first", matcher), 9)
    assert {outcome.record.key: outcome.state for outcome in done} == {
        "first": "quarantined",
        "second": "accepted",
    }
    assert await store.records.match(matcher, 9) == []


async def test_record_that_waited_too_long_is_set_aside(
    store: SqliteStore, matcher: Matcher, clock: VirtualClock
) -> None:
    await accept(store, matcher, shipped(locator="file:7"))
    await clock.advance(WAIT_SECONDS - 1)
    assert [s for s, _ in said(await store.records.match(matcher, 9))] == ["waiting"]
    await clock.advance(1)
    reason = "order '1001' is not known"
    assert said(await store.records.match(matcher, 9)) == [("quarantined", reason)]
    assert quarantined(store) == [("BD1", "raw of BD1", reason, "file:7")]
    await know(store, payloads.order())
    await clock.advance(5)
    assert said(await store.records.match(matcher, 9)) == []
    assert count(store.path, "commands") == 0


async def test_a_clock_set_ahead_takes_nothing_off_a_record_s_wait(
    store: SqliteStore, matcher: Matcher, clock: VirtualClock
) -> None:
    await accept(store, matcher, shipped())
    clock.set_back(-86_400)
    assert [s for s, _ in said(await store.records.match(matcher, 9))] == ["waiting"]
    await clock.advance(WAIT_SECONDS)
    done = said(await store.records.match(matcher, 9))
    assert [state for state, _ in done] == ["quarantined"]


async def test_a_mended_record_is_kept_as_it_was_mended(
    store: SqliteStore, matcher: Matcher, clock: VirtualClock
) -> None:
    """It may wait once more, and is then matched by what is kept."""
    await accept(store, matcher, shipped(order="9999"))
    await clock.advance(WAIT_SECONDS + 1)
    ((state, _),) = said(await store.records.match(matcher, 10))
    assert state == "quarantined"
    ((state, _),) = await accept(store, matcher, shipped(order="1001"))
    assert state == "waiting"
    await know(store, payloads.order())
    await clock.advance(1)
    done = said(await store.records.match(matcher, 10))
    assert done == [("accepted", "fulfill ord_1")]
    ((kept,),) = rows(store.path, "SELECT payload FROM records")
    assert "1001" in kept


TWO = (
    payloads.order("ord_1", number=1001, externalId="POS-1"),
    payloads.order("ord_2", number=1002, externalId="1001"),
)
NAMES = [("#1001", "ord_1"), ("ord_2", "ord_2"), ("POS-1", "ord_1"), ("1002", "ord_2")]


@pytest.mark.parametrize(("name", "order"), NAMES)
async def test_order_is_known_by_each_of_its_names(
    name: str, order: str, store: SqliteStore, matcher: Matcher
) -> None:
    await know(store, *TWO)
    done = await accept(store, matcher, shipped(order=name))
    assert done == [("accepted", f"fulfill {order}")]


async def test_name_of_two_orders_is_set_aside_naming_them(
    store: SqliteStore, matcher: Matcher
) -> None:
    await know(store, *TWO)
    ((state, reason),) = await accept(store, matcher, shipped(order="1001"))
    assert state == "quarantined"
    assert reason == ("order '1001' could be any of #1001 (ord_1), #1002 (ord_2)")
    assert count(store.path, "commands") == 0


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
    name: str, store: SqliteStore, matcher: Matcher
) -> None:
    await know(store, payloads.order())
    done = await accept(store, matcher, shipped("odd", name), shipped())
    assert [state for state, _ in done] == ["waiting", "accepted"]


async def test_cancelled_order_is_not_fulfilled(
    store: SqliteStore, matcher: Matcher
) -> None:
    gone = {"cancelledAt": payloads.instant(1)}
    await know(store, payloads.order(cancellation=gone))
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
    ([("C", 1)], "has 0 open of SKU 'C', not 1"),
    ([("A", 1), ("C", 1)], "has 0 open of SKU 'C', not 1"),
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
    store: SqliteStore,
    matcher: Matcher,
) -> None:
    await know(store, payloads.order(items=ITEMS))
    assert await accept(store, matcher, picking(picked)) == [
        ("accepted", "fulfill ord_1")
    ]
    found = commands(store)[0]["lines"]
    assert [(line["line_id"], line["quantity"]) for line in found] == lines


@pytest.mark.parametrize(("picked", "reason"), OVER, ids=str)
async def test_picking_what_is_not_open_is_refused(
    picked: list[tuple[str, int]], reason: str, store: SqliteStore, matcher: Matcher
) -> None:
    """Above all: no line that can be sent must not become "everything"."""
    await know(store, payloads.order(items=ITEMS))
    ((state, words),) = await accept(store, matcher, picking(picked))
    assert state == "quarantined"
    assert reason in words
    assert count(store.path, "commands") == 0


async def test_adjustment_finds_its_variant(
    store: SqliteStore, matcher: Matcher
) -> None:
    await take(store, payloads.envelope("products/create", payloads.product()))
    record = new(StockAdjustment(key="s1", sku="LS-S", delta=-2, reason="DAMAGED"))
    assert await accept(store, matcher, record) == [("accepted", "adjust prod_1")]
    assert commands(store) == [
        {"variant_id": "var_1", "delta": -2, "reason": "DAMAGED"}
    ]
    assert rows(store.path, "SELECT lane FROM commands") == [("product:prod_1",)]


async def test_sku_of_two_variants_is_set_aside_naming_them(
    store: SqliteStore, matcher: Matcher
) -> None:
    variants = [payloads.variant("var_1"), payloads.variant("var_2")]
    product = payloads.product(variants=variants)
    await take(store, payloads.envelope("products/create", product))
    record = new(StockAdjustment(key="s1", sku="LS-S", delta=1))
    assert await accept(store, matcher, record) == [
        ("quarantined", "SKU 'LS-S' could be any of the variants var_1, var_2")
    ]


async def test_unknown_sku_is_waited_for(store: SqliteStore, matcher: Matcher) -> None:
    record = new(StockAdjustment(key="s1", sku="LS-S", delta=1))
    assert await accept(store, matcher, record) == [
        ("waiting", "SKU 'LS-S' is not known")
    ]
