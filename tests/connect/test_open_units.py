"""Units that another record already uses are not open for the next record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect.record_matching import Matcher
from backhaul.core.lifecycle import Cause
from backhaul.store.commands import Attempt, Decision, Sendable, Transition
from backhaul_sdk import Cancellation, Fulfillment, Line
from scenes import payloads
from scenes.back_office import ScriptedConnector, host_of
from scenes.damaged_rows import delete_rows, overwrite
from scenes.databases import append_and_fold
from scenes.payloads import envelope
from scenes.stored import rows_of, value_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.matching import Command
    from backhaul_sdk import Receipt
    from scenes.clock import VirtualClock

TWINS = [
    payloads.item("li_a", sku="A", quantity=1),
    payloads.item("li_b", sku="A", quantity=1),
]
BESIDE = (
    "order #1003 has 0 open of SKU 'A' besides units in commands that are in progress, "
    "not 1"
)
IN_K1 = (
    "; order #1003 is already shipped in k1, so the customer was not notified of"
    " {}. If the customer needs that number, run `backhaul quarantine correct` to"
    " send it to the store. Otherwise discard this row"
)
IN_DOUBT = f"{BESIDE}; the outcome of those commands is not known yet"
GATES = {"cancel": "9999", "fulfill": "9999"}


@pytest.fixture
async def store_with_two_lines(store: Store) -> Store:
    """Return a store with an order of two lines of one article, one unit each."""
    order = payloads.order("ord_3", number=1003, items=TWINS)
    await append_and_fold(store, envelope("orders/create", order))
    return store


async def pick(store: Store, key: str, units: int = 1, sku: str = "A") -> Receipt:
    lines = (Line(sku=sku, quantity=units),) if units else ()
    record = Fulfillment(
        key=key,
        order="1003",
        tracking_number=key,
        lines=lines,
        everything=not lines,
    )
    return await host_of(ScriptedConnector(), store).emit(record)


def lines(store: Store) -> list[list[tuple[str, int]]]:
    """Return the lines of each command."""
    found = rows_of(store.place, "commands_and_targets", "payload")
    asked: list[list[dict[str, Any]]] = [json.loads(row[0])["lines"] for row in found]
    return [[(line["line_id"], line["quantity"]) for line in one] for one in asked]


async def send(store: Store) -> Command:
    """Send the first command."""
    ((command, _),) = await store.commands.claim(
        "main", GATES, 1, lambda *_: Sendable(b"{}", "key")
    )
    return command


async def send_and_hear(store: Store, *causes: Cause, **step: Any) -> None:
    answer = Attempt(payloads.instant(0), "x", 200, "why", b"{}")
    transition = Transition(causes, "why", **step)
    await store.commands.record_attempt(await send(store), answer, transition)


async def fold(store: Store, at: int, *shipped: int) -> None:
    """Fold the order with this many fulfilled units of each line."""
    items = [
        {**item, "fulfilledQuantity": units}
        for item, units in zip(TWINS, shipped, strict=True)
    ]
    order = payloads.order("ord_3", at, number=1003, items=items)
    await append_and_fold(store, envelope("orders/updated", order))


async def match_again(store: Store, clock: VirtualClock) -> list[tuple[str, str]]:
    """Match the unmatched records again, as the daemon does."""
    await clock.advance(5)
    found = await store.records.match(Matcher(clock, 600), 9)
    return [(outcome.state, outcome.reason) for outcome in found]


async def test_no_unit_is_shipped_by_two_records(store_with_two_lines: Store) -> None:
    assert (await pick(store_with_two_lines, "k1", 2)).state == "accepted"
    receipt = await pick(store_with_two_lines, "k2", 2)
    assert receipt.state == "quarantined"
    assert receipt.what == f"{BESIDE.replace('not 1', 'not 2')}{IN_K1.format('k2')}"
    assert lines(store_with_two_lines) == [[("li_a", 1), ("li_b", 1)]]


async def test_a_second_parcel_goes_to_the_line_that_is_open(
    store_with_two_lines: Store,
) -> None:
    for key in ("k1", "k2"):
        assert (await pick(store_with_two_lines, key)).state == "accepted"
    assert lines(store_with_two_lines) == [[("li_a", 1)], [("li_b", 1)]]


async def test_a_parcel_of_all_that_is_left_leaves_nothing(
    store_with_two_lines: Store,
) -> None:
    assert (await pick(store_with_two_lines, "k1", 0)).state == "accepted"
    receipt = await pick(store_with_two_lines, "k2")
    assert (receipt.state, receipt.what) == (
        "quarantined",
        f"{BESIDE}{IN_K1.format('k2')}",
    )


async def test_shipped_units_count_until_the_store_shows_them(
    store_with_two_lines: Store,
) -> None:
    await pick(store_with_two_lines, "k1")
    shown = {"updated_at": payloads.instant(9), "shipment": "shp_1"}
    await send_and_hear(
        store_with_two_lines, Cause.CONFIRMED, evidence=shown, effect_id="shp_1"
    )
    await pick(store_with_two_lines, "k2")
    assert lines(store_with_two_lines) == [[("li_a", 1)], [("li_b", 1)]]
    assert (await pick(store_with_two_lines, "k3")).what.startswith(
        f"{BESIDE}; order #1003 is"
    )


async def test_units_that_the_store_shows_count_once(
    store_with_two_lines: Store,
) -> None:
    await pick(store_with_two_lines, "k1")
    shown = {"updated_at": payloads.instant(9), "shipment": "shp_1"}
    await send_and_hear(
        store_with_two_lines, Cause.CONFIRMED, evidence=shown, effect_id="shp_1"
    )
    await fold(store_with_two_lines, 9, 0, 1)
    await pick(store_with_two_lines, "k2")
    assert lines(store_with_two_lines) == [[("li_a", 1)], [("li_a", 1)]]


async def test_an_order_that_we_cancelled_accepts_no_parcel_before_its_webhook(
    store_with_two_lines: Store,
) -> None:
    cancel = Cancellation(key="c", order="1003", restock=True, reason="STAFF")
    await host_of(ScriptedConnector(), store_with_two_lines).emit(cancel)
    gone = {"updated_at": payloads.instant(9), "cancelled_at": payloads.instant(9)}
    await send_and_hear(store_with_two_lines, Cause.CONFIRMED, evidence=gone)
    receipt = await pick(store_with_two_lines, "k1")
    assert (receipt.state, receipt.what) == ("quarantined", "order #1003 is cancelled")


async def test_units_of_a_refused_parcel_are_open_again(
    store_with_two_lines: Store,
) -> None:
    await pick(store_with_two_lines, "k1", 2)
    await send_and_hear(store_with_two_lines, Cause.REFUSED)
    assert (await pick(store_with_two_lines, "k2", 2)).state == "accepted"


async def test_units_that_an_operator_confirmed_are_as_the_store_shows_them(
    store_with_two_lines: Store,
) -> None:
    """The operator's evidence is unknown; the platform refuses too many units."""
    await pick(store_with_two_lines, "k1", 2)
    await send_and_hear(store_with_two_lines, Cause.UNDECIDABLE)
    id_ = value_of(store_with_two_lines.place, "commands_and_targets", "id")
    said = Decision(id_, "resolve --applied", "otto", "it is on the order's page")
    await store_with_two_lines.decisions.decide(said)
    await fold(store_with_two_lines, 9, 0, 0)
    assert (await pick(store_with_two_lines, "k2", 2)).state == "accepted"


@pytest.mark.parametrize("cause", [Cause.UNKNOWN, Cause.UNDECIDABLE])
async def test_a_parcel_waits_while_the_open_units_are_uncertain(
    cause: Cause, store_with_two_lines: Store, clock: VirtualClock
) -> None:
    """The mirror may already have the effect; units must not count twice."""
    await pick(store_with_two_lines, "k1")
    await send_and_hear(store_with_two_lines, cause)
    await fold(store_with_two_lines, 9, 1, 0)
    receipt = await pick(store_with_two_lines, "k2", 1)
    assert lines(store_with_two_lines) == [[("li_a", 1)], [("li_b", 1)]]
    assert receipt.state == "accepted"
    assert (await pick(store_with_two_lines, "k3")).state == "waiting"
    overwrite(store_with_two_lines.place, "commands", {"state": "rejected"})
    await fold(store_with_two_lines, 10, 1, 1)
    reason = "order #1003 has 0 open of SKU 'A', not 1"
    ((state, said),) = await match_again(store_with_two_lines, clock)
    assert (state, said.partition("; ")[0]) == ("quarantined", reason)


async def test_a_parcel_waits_while_another_is_being_sent(
    store_with_two_lines: Store, clock: VirtualClock
) -> None:
    await pick(store_with_two_lines, "k1", 2)
    command = await send(store_with_two_lines)
    receipt = await pick(store_with_two_lines, "k2")
    assert (receipt.state, receipt.what) == (
        "waiting",
        f"{IN_DOUBT}. The record is stored, and Backhaul will try again",
    )
    answer = Attempt(payloads.instant(0), "x", 422, "why", b"{}")
    await store_with_two_lines.commands.record_attempt(
        command, answer, Transition((Cause.REFUSED,), "no")
    )
    assert await match_again(store_with_two_lines, clock) == [
        ("accepted", "fulfill ord_3")
    ]


async def test_a_record_does_not_block_itself(store_with_two_lines: Store) -> None:
    """Its command may still exist when the record was deleted."""
    await pick(store_with_two_lines, "k1", 2)
    delete_rows(store_with_two_lines.place, "records")
    assert (await pick(store_with_two_lines, "k1", 2)).state == "accepted"
    assert lines(store_with_two_lines) == [[("li_a", 1), ("li_b", 1)]]


async def test_units_of_one_order_do_not_count_for_another(
    store_with_two_lines: Store,
) -> None:
    await pick(store_with_two_lines, "k1", 0)
    record = Fulfillment(key="k2", order="1001", lines=(Line(sku="LS-S", quantity=2),))
    assert (
        await host_of(ScriptedConnector(), store_with_two_lines).emit(record)
    ).state == "accepted"
