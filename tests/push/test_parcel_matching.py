"""Which command made the shown parcel, with and without a tracking number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scenes import payloads
from scenes.pushing import Scene, working
from scenes.scripted_platform import document, message, problem
from scenes.stored import checks, rows_of
from scenes.waiting import until

if TYPE_CHECKING:
    from scenes.scripted_platform import Connection, Request

NAMELESS: dict[str, Any] = {"tracking_company": None, "tracking_number": None}
ORDER, FULFILL = "/orders/ord_1", "/orders/ord_1/fulfill"


def order(*parcels: str) -> bytes:
    """Return the order with parcels without tracking numbers."""
    names: dict[str, Any] = {"trackingCompany": None, "trackingNumber": None}
    shown = [payloads.shipment(id_, **names) for id_ in parcels]
    return document({"data": payloads.order("ord_1", at=50, shipments=shown)})


async def plan_two(stage: Scene, *answers: bytes) -> tuple[str, str]:
    """Plan two parcels; the platform accepts only the first, without an echo."""
    await stage.fold(payloads.order("ord_1", at=1))
    stage.platform.respond(FULFILL, order("shp_1"), *answers)
    stage.platform.respond(ORDER, order("shp_1"))
    first = await stage.plan("fulfill", "ord_1", **NAMELESS)
    return first, await stage.plan("fulfill", "ord_1", **NAMELESS)


def effects(stage: Scene) -> list[tuple[Any, ...]]:
    return rows_of(stage.place, "commands", "effect_id")


def found(stage: Scene, command: str) -> list[str]:
    return [check.found for check in checks(stage.place, command)]


async def test_the_parcel_of_another_command_is_no_proof(stage: Scene) -> None:
    first, second = await plan_two(stage, message(500), order("shp_1", "shp_2"))
    async with working(stage):
        await stage.await_state(first, "applied")
        await until(lambda: len(found(stage, second)) == 1, "a check")
        await stage.pass_time(120)
        await until(lambda: len(found(stage, second)) == 2, "another check")
        await stage.pass_time(480)
        await stage.await_state(second, "applied")
    assert found(stage, second) == ["absent"] * 3
    assert len(stage.server.commands) == 3
    assert effects(stage) == [("shp_1",), ("shp_2",)]


async def test_each_command_finds_its_own_parcel_beside_the_other(stage: Scene) -> None:
    first, second = await plan_two(stage, message(500))

    async def both(_: Request, connection: Connection) -> None:
        await connection.send(order("shp_1", "shp_2"))

    stage.platform.respond(ORDER, both)
    async with working(stage):
        await stage.await_state(first, "applied")
        await stage.await_state(second, "applied")
    assert len(stage.server.commands) == 2
    assert effects(stage) == [("shp_1",), ("shp_2",)]


async def test_the_newest_parcel_may_be_listed_first(stage: Scene) -> None:
    first, second = await plan_two(stage, order("shp_2", "shp_1"))
    async with working(stage):
        await stage.await_state(first, "applied")
        await stage.await_state(second, "applied")
    assert effects(stage) == [("shp_1",), ("shp_2",)]


@pytest.mark.parametrize(
    "code", ["ORDER_ALREADY_FULFILLED", "QUANTITY_NOT_FULFILLABLE"]
)
async def test_a_conflict_with_another_command_needs_an_operator(
    code: str, stage: Scene
) -> None:
    first, second = await plan_two(stage, problem(409, code))
    async with working(stage):
        await stage.await_state(first, "applied")
        await stage.await_state(second, "parked")
    assert "shows something else" in stage.reason(second)


async def test_a_parcel_that_a_conflict_proved_proves_no_other(stage: Scene) -> None:
    refused = problem(409, "ORDER_ALREADY_FULFILLED")
    stage.platform.respond(FULFILL, refused)
    stage.platform.respond(ORDER, order("shp_1"))
    first = await stage.plan("fulfill", "ord_1", **NAMELESS)
    second = await stage.plan("fulfill", "ord_1", **NAMELESS)
    async with working(stage):
        await stage.await_state(first, "applied")
        await stage.await_state(second, "parked")
    assert effects(stage) == [("shp_1",), (None,)]


@pytest.mark.parametrize(
    "refused",
    [message(500), problem(409, "QUANTITY_NOT_FULFILLABLE")],
    ids=["unknown", "conflict"],
)
async def test_a_foreign_partial_parcel_is_no_proof_of_the_whole(
    refused: bytes, stage: Scene
) -> None:
    """Otherwise the rest of the order would never be sent."""
    part = payloads.shipment("shp_9", trackingCompany=None, trackingNumber=None)
    status = "PARTIALLY_FULFILLED"
    shown = payloads.order(at=50, shipments=[part], fulfillmentStatus=status)
    await stage.fold(payloads.order("ord_1", at=1))
    stage.platform.respond(FULFILL, refused)
    stage.platform.respond(ORDER, document({"data": shown}))
    command = await stage.plan("fulfill", "ord_1", **NAMELESS)
    async with working(stage):
        while stage.state(command) in {"planned", "sending", "uncertain"}:
            await stage.pass_time(60)
            await stage.run_pending()
    assert stage.state(command) == "parked"
    assert len(stage.server.commands) == 1


BOX = {"lines": [{"line_id": "li_1", "quantity": 1}]}
REST: dict[str, Any] = {"lines": []}


def order_with_boxes(*boxes: str, units: int = 2, **members: Any) -> dict[str, Any]:
    """Return an order whose boxes have one unit each, with the same number."""
    items = [{"lineItemId": "li_1", "quantity": 1}]
    shown = [payloads.shipment(id_, items=items) for id_ in boxes]
    line = payloads.item(quantity=units, fulfilledQuantity=len(boxes))
    return payloads.order("ord_1", **{"items": [line], "shipments": shown} | members)


async def second_box(
    stage: Scene,
    *answers: bytes,
    asks: dict[str, Any] = BOX,
    shows: dict[str, Any] | None = None,
    is_heard: bool = True,
) -> str:
    """Plan two boxes; the platform accepts the first. The order has it, or is `shows`.

    `is_heard`: the echo of the first box is folded before the second is sent.
    """
    first = order_with_boxes("shp_1", at=50)

    async def taken(_: Request, connection: Connection) -> None:
        if is_heard:
            await stage.fold(first)
        await connection.send(document({"data": first}))

    await stage.fold(order_with_boxes())
    stage.platform.respond(FULFILL, taken, *answers)
    stage.platform.respond(ORDER, document({"data": shows or first}))
    await stage.plan("fulfill", "ord_1", **BOX)
    return await stage.plan("fulfill", "ord_1", **asks)


@pytest.mark.parametrize("is_heard", [True, False], ids=["heard", "not-heard"])
@pytest.mark.parametrize("asks", [BOX, REST], ids=["one-more", "the-rest"])
async def test_the_first_part_under_a_number_is_no_proof_of_the_second(
    asks: dict[str, Any], is_heard: bool, stage: Scene
) -> None:
    """Without its echo, the response to the first box identifies its parcel."""
    effect = document({"data": order_with_boxes("shp_1", "shp_2", at=60)})
    answers = message(500), effect
    second = await second_box(stage, *answers, asks=asks, is_heard=is_heard)
    async with working(stage):
        await until(lambda: len(found(stage, second)) == 1, "a check")
        await stage.pass_time(120)
        await until(lambda: len(found(stage, second)) == 2, "another check")
        assert len(stage.server.commands) == 2
        await stage.pass_time(480)
        await stage.await_state(second, "applied")
    assert found(stage, second) == ["absent"] * 3
    assert len(stage.server.commands) == 3
    assert effects(stage) == [("shp_1",), ("shp_2",)]


@pytest.mark.parametrize("is_heard", [True, False], ids=["heard", "not-heard"])
async def test_a_second_part_that_took_effect_is_known_beside_the_first(
    is_heard: bool, stage: Scene
) -> None:
    both = order_with_boxes("shp_1", "shp_2", at=60)
    second = await second_box(stage, message(500), shows=both, is_heard=is_heard)
    async with working(stage):
        await stage.await_state(second, "applied")
    assert effects(stage) == [("shp_1",), ("shp_2",)]
    assert stage.logged("command.doubled") == []
    assert len(stage.server.commands) == 2


FIRST = order_with_boxes("shp_1", units=3, at=60)
MORE = [payloads.item(quantity=3, fulfilledQuantity=2)]
NOT_SHOWN = [payloads.item(quantity=3)]
GROWN = [payloads.shipment(items=[{"lineItemId": "li_1", "quantity": 2}])]
STRANGE = [*FIRST["shipments"], payloads.shipment("shp_9", trackingNumber="BD9")]
UNPROVED = {
    "one-more-unit-left": (True, {"items": MORE}),
    "the-first-parcel-grew": (True, {"items": MORE, "shipments": GROWN}),
    "it-grew-and-was-not-heard-of": (False, {"items": MORE, "shipments": GROWN}),
    "units-are-not-shown": (True, {"items": NOT_SHOWN}),
    "units-are-not-shown-and-no-echo-came": (False, {"items": NOT_SHOWN}),
    "another-parcel-came": (True, {"shipments": STRANGE}),
    "it-came-and-the-first-was-not-heard-of": (False, {"shipments": STRANGE}),
}


@pytest.mark.parametrize(("is_heard", "shown"), UNPROVED.values(), ids=UNPROVED)
async def test_a_second_part_that_may_have_taken_effect_needs_an_operator(
    is_heard: bool, shown: dict[str, Any], stage: Scene
) -> None:
    """A platform may add it to the first parcel, or show no units."""
    order = FIRST | shown
    second = await second_box(stage, message(500), shows=order, is_heard=is_heard)
    async with working(stage):
        await stage.await_parked(second)
    assert "but not for how many parcels" in stage.reason(second)
    assert "shp_1" in str(stage.column("evidence", second))
    assert len(stage.server.commands) == 2


async def test_an_answer_without_units_proves_no_absence(stage: Scene) -> None:
    shipments = FIRST["shipments"]
    order = order_with_boxes(at=50, shipments=shipments)
    await stage.fold(order)
    stage.platform.respond(FULFILL, message(500))
    stage.platform.respond(ORDER, document({"data": order}))
    wholly = {"lines": [{"line_id": "li_1", "quantity": 2}]}
    command = await stage.plan("fulfill", "ord_1", **wholly)
    async with working(stage):
        await stage.await_parked(command)
    assert len(stage.server.commands) == 1


async def plan_beside_foreign(stage: Scene, *answers: bytes) -> str:
    """Plan a box of an order with a foreign parcel that has the same number."""
    there = order_with_boxes("shp_1", at=50)
    stage.platform.respond(FULFILL, *answers)
    stage.platform.respond(ORDER, document({"data": there}))
    await stage.fold(there)
    return await stage.plan("fulfill", "ord_1", **BOX)


async def test_an_earlier_manual_part_is_no_proof_of_another(
    stage: Scene,
) -> None:
    both = document({"data": order_with_boxes("shp_1", "shp_2", at=60)})
    command = await plan_beside_foreign(stage, message(500), both)
    async with working(stage):
        await until(lambda: len(found(stage, command)) == 1, "a check")
        await stage.pass_time(120)
        await until(lambda: len(found(stage, command)) == 2, "another check")
        await stage.pass_time(480)
        await stage.await_state(command, "applied")
    assert found(stage, command) == ["absent"] * 3
    assert effects(stage) == [("shp_2",)]
    assert len(stage.server.commands) == 2


async def test_a_part_that_was_there_before_it_was_sent_again_may_be_its_own(
    stage: Scene,
) -> None:
    """The first attempt may have taken effect late, after its last check."""
    command = await plan_beside_foreign(
        stage, problem(429, "RATE_LIMITED"), message(500)
    )
    async with working(stage):
        await until(lambda: len(stage.server.commands) == 1, "it was throttled")
        await stage.pass_time(60)
        await stage.await_parked(command)
    assert "such a parcel before the last attempt" in stage.reason(command)
    assert len(stage.server.commands) == 2


async def test_two_records_may_describe_one_parcel_that_left_nothing(
    stage: Scene,
) -> None:
    done = order_with_boxes("shp_1", units=1, at=60)
    second = await second_box(stage, message(500), shows=done)
    async with working(stage):
        await stage.await_state(second, "applied")
    assert effects(stage) == [("shp_1",), (None,)]
    assert stage.logged("command.doubled") == []
    assert len(stage.server.commands) == 2


async def test_two_boxes_that_a_third_record_repeats_are_not_doubled(
    stage: Scene,
) -> None:
    both = order_with_boxes("shp_1", "shp_2", at=60)
    answers = document({"data": both}), message(500)
    await second_box(stage, *answers, shows=both, is_heard=False)
    third = await stage.plan("fulfill", "ord_1", **BOX)
    async with working(stage):
        await stage.await_state(third, "applied")
    assert effects(stage) == [("shp_1",), ("shp_2",), (None,)]
    assert stage.logged("command.doubled") == []


@pytest.mark.parametrize(("units", "state"), [(2, "parked"), (1, "applied")])
async def test_a_conflict_is_resolved_by_the_effect_of_another_command(
    units: int, state: str, stage: Scene
) -> None:
    shown = order_with_boxes("shp_1", units=units, at=60)
    refused = problem(409, "QUANTITY_NOT_FULFILLABLE")
    second = await second_box(stage, refused, shows=shown)
    async with working(stage):
        await stage.await_state(second, state)
    assert len(stage.server.commands) == 2


async def test_an_answer_that_leaves_out_earlier_parcels_removes_none(
    stage: Scene,
) -> None:
    """The mirror keeps a parcel that a merchant sent before with the same number."""
    before = order_with_boxes("shp_0", units=3, at=10)
    both = order_with_boxes("shp_0", "shp_1", units=3, at=50)
    answer = both | {"shipments": both["shipments"][1:]}
    await stage.fold(before)
    stage.platform.respond(FULFILL, document({"data": answer}), message(500))
    stage.platform.respond(ORDER, document({"data": both}))
    await stage.plan("fulfill", "ord_1", **BOX)
    second = await stage.plan("fulfill", "ord_1", **BOX)
    async with working(stage):
        await until(lambda: len(found(stage, second)) == 1, "a check")
    assert found(stage, second) == ["absent"]
