"""A parcel that crosses a cancellation or a refund is an incident for an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.errors import BackhaulError
from scenes import payloads
from scenes.pushing import working
from scenes.scripted_platform import document, message
from scenes.stored import open_incidents, rows_of

if TYPE_CHECKING:
    from scenes.pushing import Scene

FULFILL, CANCEL, ORDER = (
    "/orders/ord_1/fulfill",
    "/orders/ord_1/cancel",
    "/orders/ord_1",
)
BACK = {"restocked": True, "cancelledAt": payloads.instant(20)}
GONE = {"restocked": False, "cancelledAt": payloads.instant(20)}
TOO_MANY = (
    "order #1001 was cancelled with a restock, but parcel BD1 left: the stock is 2"
    " units too high"
)
SHOWN = [
    ({"cancellation": BACK, "status": "CANCELLED"}, TOO_MANY),
    ({"fulfillmentStatus": "RESTOCKED"}, TOO_MANY),
    ({"fulfillmentStatus": "restocked "}, TOO_MANY),
    ({"cancellation": GONE}, "2 units shipped for a cancelled order"),
    ({"status": "cancelled"}, "was cancelled, but parcel BD1 left"),
    (
        {"financialStatus": "REFUNDED"},
        "2 units shipped for a refunded order",
    ),
    ({"financialStatus": "Refunded"}, "was refunded, but parcel BD1 left"),
]
WELL: list[dict[str, Any]] = [
    {},
    {"financialStatus": "PAID"},
    {"financialStatus": "PARTIALLY_REFUNDED"},
    {"fulfillmentStatus": "FULFILLED", "status": "FULFILLED"},
]


def shipped(at: int = 50, **members: Any) -> payloads.Document:
    return payloads.order(at=at, shipments=[payloads.shipment()], **members)


def incidents(stage: Scene) -> list[str]:
    return [each.says for each in open_incidents(stage.place)]


@pytest.mark.parametrize(("members", "says"), SHOWN, ids=str)
async def test_the_answer_to_a_fulfillment_shows_it(
    stage: Scene, members: dict[str, Any], says: str
) -> None:
    await stage.fold(payloads.order(at=1))
    stage.platform.respond(FULFILL, document({"data": shipped(**members)}))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    (said,) = incidents(stage)
    assert says in said


@pytest.mark.parametrize("members", WELL, ids=str)
async def test_an_order_as_it_should_be_is_no_incident(
    stage: Scene, members: dict[str, Any]
) -> None:
    stage.platform.respond(FULFILL, document({"data": shipped(**members)}))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(command, "applied")
        await stage.fold(shipped(**members))
    assert incidents(stage) == []


async def test_a_refetched_order_shows_the_conflict(stage: Scene) -> None:
    await stage.fold(payloads.order(at=1))
    stage.platform.respond(FULFILL, message(500))
    stage.platform.respond(ORDER, document({"data": shipped(cancellation=BACK)}))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    (said,) = incidents(stage)
    assert said.startswith(TOO_MANY)


async def test_a_conflict_that_shows_the_effect_shows_it(stage: Scene) -> None:
    await stage.fold(payloads.order(at=1))
    stage.platform.respond(FULFILL, document({"code": "ORDER_ALREADY_FULFILLED"}, 409))
    stage.platform.respond(ORDER, document({"data": shipped(cancellation=BACK)}))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    (said,) = incidents(stage)
    assert said.startswith(TOO_MANY)


async def fulfilled(stage: Scene) -> str:
    stage.platform.respond(FULFILL, document({"data": shipped(10)}))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    assert incidents(stage) == []
    return command


async def test_a_cancellation_right_after_the_parcel_shows_it(stage: Scene) -> None:
    await fulfilled(stage)
    for at in (50, 60):
        await stage.fold(shipped(at, cancellation=BACK, status="CANCELLED"))
    (said,) = incidents(stage)
    assert said.startswith(TOO_MANY)


async def test_a_cancellation_days_later_is_no_conflict(stage: Scene) -> None:
    await fulfilled(stage)
    await stage.clock.advance(86_401)
    await stage.fold(shipped(50, cancellation=BACK, status="CANCELLED"))
    assert incidents(stage) == []


async def test_a_refund_after_the_parcel_is_no_conflict(stage: Scene) -> None:
    await fulfilled(stage)
    await stage.fold(shipped(50, financialStatus="REFUNDED"))
    assert incidents(stage) == []


async def test_the_answer_to_a_cancellation_shows_parcels(stage: Scene) -> None:
    await stage.fold(payloads.order(at=1))
    line = payloads.item(fulfilledQuantity=1)
    data = shipped(items=[line], cancellation=BACK, status="CANCELLED")
    stage.platform.respond(CANCEL, document({"data": data}))
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.await_state(command, "applied")
        await stage.fold(data)
    (said,) = incidents(stage)
    assert said.endswith("after 1 unit had shipped: the stock is 1 unit too high")


async def test_a_cancellation_without_a_restock_is_no_conflict(stage: Scene) -> None:
    line = payloads.item(fulfilledQuantity=1)
    data = shipped(items=[line], cancellation=GONE, status="CANCELLED")
    stage.platform.respond(CANCEL, document({"data": data}))
    command = await stage.plan("cancel", "ord_1", restock=False)
    async with working(stage):
        await stage.await_state(command, "applied")
    assert incidents(stage) == []


async def test_an_incident_stays_until_an_operator_resolves_it(stage: Scene) -> None:
    await test_a_refetched_order_shows_the_conflict(stage)
    (id_,) = [each.id for each in open_incidents(stage.place)]
    needs = await stage.store.alert_conditions.current(())
    assert [each.id for each in needs.incidents] == [id_]
    done = await stage.store.incidents.resolve(id_, "otto", "adjusted by -2")
    assert (done.resolved_by, done.resolution) == ("otto", "adjusted by -2")
    assert (await stage.store.alert_conditions.current(())).incidents == []
    found = [("otto", "incidents resolve", f"{id_}: adjusted by -2")]
    assert rows_of(stage.place, "audit", "who", "action", "detail") == found
    with pytest.raises(BackhaulError, match="no open incident"):
        await stage.store.incidents.resolve(id_, "otto", "again")


@pytest.mark.parametrize("status", ["REFUNDED", "refunded", " Refunded"])
async def test_a_parcel_of_a_refunded_order_goes_to_an_operator(
    stage: Scene, status: str
) -> None:
    await stage.fold(payloads.order(at=1, financialStatus=status))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(command, "parked")
        await stage.await_commands(0)
    assert stage.reason(command).startswith("order #1001 is refunded")


@pytest.mark.parametrize("status", ["PAID", "PARTIALLY_REFUNDED", "PENDING", "X"])
async def test_a_parcel_of_any_other_order_leaves(stage: Scene, status: str) -> None:
    await stage.fold(payloads.order(at=1, financialStatus=status))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(command, "applied")
