"""A cancellation with restock never puts back units that are in parcels."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect.record_matching import Matcher, encode
from backhaul.push.response_classifier import interrupted
from backhaul.settings import Push
from backhaul.store.commands import RESTOCK_UNSHIPPED, Decision
from backhaul.store.records import NewRecord
from backhaul_sdk import Cancellation
from scenes import payloads
from scenes.damaged_rows import insert
from scenes.pushing import scene, working
from scenes.scripted_platform import document
from scenes.stored import commands, value_of

if TYPE_CHECKING:
    from backhaul.store import Place
    from scenes.pushing import Scene

TOTAL = 5
CASE = Path(__file__).parent / "cases/05-cancel-partly-shipped.csv"


def parcel(number: int, units: int | None) -> payloads.Document:
    items = None if units is None else [{"lineItemId": "li_1", "quantity": units}]
    return payloads.shipment(f"shp_{number}", trackingNumber=f"T{number}", items=items)


def order(at: int, *parcels: int | None, **members: Any) -> payloads.Document:
    units = sum(each or 0 for each in parcels)
    line = payloads.item(quantity=TOTAL, fulfilledQuantity=units)
    status = "UNFULFILLED" if not units else "PARTIALLY_FULFILLED"
    return payloads.order(
        at=at,
        items=[line],
        shipments=[parcel(number, each) for number, each in enumerate(parcels)],
        **{"fulfillmentStatus": "FULFILLED" if units == TOTAL else status, **members},
    )


def cancelled(*parcels: int | None, restocked: bool = False) -> bytes:
    """Return the response to a cancellation: the order with these parcels."""
    cancellation = {"restocked": restocked, "cancelledAt": payloads.instant(50)}
    data = order(50, *parcels, cancellation=cancellation, status="CANCELLED")
    return document({"data": data})


def adjustments(stage: Scene) -> list[tuple[int, str]]:
    found = commands(stage.place, "adjust")
    return [(command.wanted["delta"], command.state) for command in found]


def returned(stage: Scene, *numbers: int) -> None:
    for number in numbers:
        insert(
            stage.place,
            "parcels",
            store="main",
            shipment_id=f"shp_{number}",
            order_id="ord_1",
            tracking_number="T",
            status="returned",
            rank=9,
            at="2026",
            instance="courier",
        )


async def decide(stage: Scene, command: str, verb: str) -> None:
    decision = Decision(command, verb, "otto", "seen")
    await stage.store.decisions.decide(decision)
    stage.dispatcher.wake()


@pytest.mark.parametrize("parcels", [(2, 1), (3,), (5,), (4, 1), (1,)], ids=str)
async def test_a_partly_shipped_order_needs_an_operator_first(
    stage: Scene, parcels: tuple[int]
) -> None:
    await stage.fold(order(1, *parcels))
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.await_state(command, "parked")
        await stage.await_commands(0)
    reason = stage.reason(command)
    assert reason.startswith(f"{sum(parcels)} of 5 units of order #1001 have shipped")
    assert "would put 5 units back into stock" in reason
    assert f"restocks {5 - sum(parcels)} units" in reason


@pytest.mark.parametrize(
    ("parcels", "back"),
    [((), ()), ((2, 1), (0, 1)), ((5,), (0,)), ((2, None), (0, 1))],
    ids=str,
)
async def test_unshipped_and_returned_units_are_restocked_at_once(
    stage: Scene, parcels: tuple[int | None, ...], back: tuple[int, ...]
) -> None:
    await stage.fold(order(1, *parcels))
    returned(stage, *back)
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.await_state(command, "applied")


@pytest.mark.parametrize(
    ("parcels", "back", "out"),
    [((2, 1), (0,), 1), ((2, 1), (1,), 2), ((2, None), (1,), 2)],
    ids=str,
)
async def test_a_parcel_that_is_still_out_holds_the_restock(
    stage: Scene, parcels: tuple[int | None, ...], back: tuple[int, ...], out: int
) -> None:
    await stage.fold(order(1, *parcels))
    returned(stage, *back)
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.await_state(command, "parked")
    assert stage.reason(command).startswith(f"{out} of 5 units")


async def test_a_cancellation_without_a_restock_needs_no_operator(stage: Scene) -> None:
    await stage.fold(order(1, 2, 1))
    command = await stage.plan("cancel", "ord_1", restock=False)
    async with working(stage):
        await stage.await_state(command, "applied")
    assert adjustments(stage) == []


async def test_a_parcel_of_unknown_outcome_holds_it(stage: Scene) -> None:
    """The parcel left the warehouse already, as its record says."""
    await stage.fold(order(1))
    lines = [{"line_id": "li_1", "quantity": 2}]
    parcel = await stage.plan("fulfill", "ord_1", lines=lines)
    await stage.store.decisions.decide(Decision(parcel, "park", "otto", "unsure"))
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.await_state(command, "parked")
    assert stage.reason(command).startswith("2 of 5 units")


async def test_a_parcel_that_is_sent_but_not_mirrored_holds_it(stage: Scene) -> None:
    await stage.fold(order(1))
    stage.platform.respond("/orders/ord_1/fulfill", document({"data": order(20, 2)}))
    lines = [{"line_id": "li_1", "quantity": 2}]
    parcel = await stage.plan("fulfill", "ord_1", lines=lines, tracking_number="T0")
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.await_state(parcel, "applied")
        await stage.await_state(command, "parked")
    assert stage.reason(command).startswith("2 of 5 units")


async def test_a_shipment_between_plan_and_send_holds_the_cancellation(
    stage: Scene,
) -> None:
    await stage.fold(order(1))
    stage.dispatcher.pause("cancel", "2026")
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.run_pending()
        await stage.fold(order(2, 3))
        stage.dispatcher.pause("cancel", None)
        await stage.await_state(command, "parked")
        await stage.await_commands(0)


async def test_an_operator_may_restock_all(stage: Scene) -> None:
    await stage.fold(order(1, 3))
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.await_state(command, "parked")
        await decide(stage, command, "resend")
        await stage.await_state(command, "applied")
    (body,) = stage.sent_bodies()
    assert body["restock"] is True


async def test_an_operator_decides_again_when_more_has_shipped(stage: Scene) -> None:
    await stage.fold(order(1, 3))
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.await_state(command, "parked")
        await stage.fold(order(2, 3, 1))
        await decide(stage, command, "resend")
        await stage.await_state(command, "parked")
        await stage.await_commands(0)
    assert stage.reason(command).startswith("4 of 5 units")


async def test_a_refused_cancellation_is_not_resent_unseen(stage: Scene) -> None:
    await stage.fold(order(1))
    stage.platform.respond("/orders/ord_1/cancel", document({"code": "NO"}, 422))
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.await_state(command, "rejected")
        await stage.fold(order(2, 3))
        await decide(stage, command, "resend")
        await stage.await_state(command, "parked")
        await stage.await_commands(1)


@pytest.mark.parametrize("parcels", [(2, 1), (1,), (4,), (5,)], ids=str)
async def test_an_operator_may_restock_the_rest(
    stage: Scene, parcels: tuple[int]
) -> None:
    await stage.fold(order(1, *parcels))
    stage.platform.respond("/orders/ord_1/cancel", cancelled(*parcels))
    command = await stage.plan("cancel", "ord_1")
    rest = TOTAL - sum(parcels)
    async with working(stage):
        await stage.await_state(command, "parked")
        await decide(stage, command, RESTOCK_UNSHIPPED)
        await stage.await_state(command, "applied")
        await stage.await_commands(1 + bool(rest))
        await stage.run_pending()
    first, *more = stage.sent_bodies()
    assert first["restock"] is False
    assert [body["adjustment"] for body in more] == [rest] * bool(rest)
    assert adjustments(stage) == [(rest, "applied")] * bool(rest)


RESTOCK = Push(cancel_partly_shipped="restock_unshipped")


async def test_the_setting_restocks_the_rest_without_asking(database: Place) -> None:
    async with scene(database, RESTOCK) as stage:
        await stage.fold(order(1, 2, 1))
        stage.platform.respond("/orders/ord_1/cancel", cancelled(2, 1))
        command = await stage.plan("cancel", "ord_1")
        async with working(stage):
            await stage.await_state(command, "applied")
            await stage.await_commands(2)
        cancel, adjust = stage.sent_bodies()
        assert (cancel["restock"], adjust["adjustment"]) == (False, 2)
        assert adjust["reason"] == "RESTOCK"


async def test_units_that_shipped_meanwhile_are_not_restocked(database: Place) -> None:
    """The platform's response counts, not the mirror at the time of planning."""
    async with scene(database, RESTOCK) as stage:
        await stage.fold(order(1, 2))
        stage.platform.respond("/orders/ord_1/cancel", cancelled(2, 2))
        command = await stage.plan("cancel", "ord_1")
        async with working(stage):
            await stage.await_state(command, "applied")
            await stage.await_commands(2)
        assert stage.sent_bodies()[1]["adjustment"] == 1


async def test_nothing_is_restocked_before_the_cancellation_is_applied(
    database: Place,
) -> None:
    async with scene(database, RESTOCK) as stage:
        await stage.fold(order(1, 3))
        stage.platform.respond("/orders/ord_1/cancel", document({"code": "NO"}, 422))
        command = await stage.plan("cancel", "ord_1")
        async with working(stage):
            await stage.await_state(command, "rejected")
            await stage.await_commands(1)
        assert adjustments(stage) == []


async def test_a_kill_between_the_answer_and_the_restock_loses_and_doubles_nothing(
    database: Place,
) -> None:
    """The response was received and not stored; the order is the evidence."""
    async with scene(database, RESTOCK) as stage:
        await stage.fold(order(1, 3))
        command = await stage.plan("cancel", "ord_1")
        dispatcher = stage.dispatcher
        ((claimed, step),) = await stage.store.commands.claim(
            "main", dispatcher.windows.open_until(), 1, dispatcher._prepare
        )
        assert claimed.payload["restock"] is False
        assert b'"restock":false' in step.request
        assert await stage.store.commands.mark_interrupted_uncertain(interrupted()) == [
            command
        ]
        assert adjustments(stage) == []
        stage.platform.respond("/orders/ord_1", cancelled(3))
        async with working(stage):
            await stage.await_state(command, "applied")
            await stage.await_commands(1)
        (adjust,) = stage.sent_bodies()
        assert adjust["adjustment"] == 2
        assert adjustments(stage) == [(2, "applied")]


async def test_the_row_of_a_file_needs_an_operator(stage: Scene) -> None:
    (row,) = csv.DictReader(CASE.read_text("utf-8").splitlines())
    record = Cancellation(
        key="1", order=row["order"], restock=row["restock"] == "yes", reason="CUSTOMER"
    )
    await stage.fold(order(1, 2, 1, number=7005))
    new = NewRecord("1", encode(record), "raw", "", "cancellations.csv:2")
    accept = stage.store.records.accept
    await accept("erp", "main", [new], None, Matcher(stage.clock, 600.0))
    command = value_of(stage.place, "commands", "id")
    async with working(stage):
        await stage.await_state(command, "parked")
        await stage.await_commands(0)
    assert stage.reason(command).startswith("3 of 5 units of order #7005")
