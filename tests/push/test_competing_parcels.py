"""A parcel that two commands of an order may have made is left to an operator.

Two boxes of one unit have one tracking number. The first command was uncertain and is
resolved, its event has not arrived; the second command is uncertain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.store.commands import Decision
from scenes import payloads
from scenes.damaged_rows import overwrite
from scenes.pushing import working
from scenes.scripted_platform import document, message, problem

if TYPE_CHECKING:
    from scenes.pushing import Scene

ORDER, FULFILL = "/orders/ord_1", "/orders/ord_1/fulfill"
BOX = {"lines": [{"line_id": "li_1", "quantity": 1}]}


def show_boxes(stage: Scene, *boxes: str, units: int = 2) -> None:
    """Let the order have boxes of one unit each."""
    items = [{"lineItemId": "li_1", "quantity": 1}]
    parcels = [payloads.shipment(id_, items=items) for id_ in boxes]
    line = payloads.item(quantity=units, fulfilledQuantity=len(boxes))
    order = payloads.order("ord_1", at=50, items=[line], shipments=parcels)
    stage.platform.respond(ORDER, document({"data": order}))


async def sent(stage: Scene, answer: bytes) -> str:
    """Plan a box that gets this response; the order cannot be read."""
    stage.platform.respond(FULFILL, answer)
    stage.platform.respond(ORDER, message(503))
    command = await stage.plan("fulfill", "ord_1", **BOX)
    stage.dispatcher.wake()
    return command


async def send_and_decide(stage: Scene, *verbs: str) -> str:
    command = await sent(stage, message(500))
    await stage.await_state(command, "uncertain")
    for verb in ("park", *verbs):
        await stage.store.decisions.decide(Decision(command, verb, "op", "I looked"))
    stage.dispatcher.wake()
    return command


async def resolve_second(stage: Scene, *boxes: str, units: int = 2) -> str:
    """Send the second box; resolve it with an order that has `boxes`."""
    command = await sent(stage, message(500))
    await stage.await_state(command, "uncertain")
    show_boxes(stage, *boxes, units=units)
    while stage.state(command) == "uncertain":
        await stage.pass_time(60)
        await stage.run_pending()
    return command


@pytest.mark.parametrize("verbs", [(), ("resolve --applied",), ("discard",)], ids=str)
async def test_the_parcel_may_be_that_of_a_box_decided_before(
    verbs: tuple[str, ...], stage: Scene
) -> None:
    """Otherwise the second box would count as applied, and never be sent."""
    async with working(stage):
        first = await send_and_decide(stage, *verbs)
        second = await resolve_second(stage, "shp_1")
    assert stage.state(second) == "parked"
    assert f"command {first[:8]} may have sent it" in stage.reason(second)


async def test_a_command_with_readable_damage_may_have_sent_the_parcel(
    stage: Scene,
) -> None:
    """Otherwise the other command gets the parcel, and its units are never sent."""
    async with working(stage):
        first = await send_and_decide(stage)
        overwrite(stage.place, "commands", {"digest": bytes(16)}, id=first)
        second = await resolve_second(stage, "shp_1")
    assert stage.state(second) == "parked"
    assert f"command {first[:8]} may have sent it" in stage.reason(second)


async def test_where_both_are_shown_each_has_its_own(stage: Scene) -> None:
    async with working(stage):
        await send_and_decide(stage)
        second = await resolve_second(stage, "shp_1", "shp_2", units=3)
    assert stage.state(second) == "applied"
    assert stage.column("effect_id", second) in {"shp_1", "shp_2"}
    assert stage.logged("command.doubled") == []


async def test_a_command_with_nothing_left_to_send_is_done(stage: Scene) -> None:
    """Two records may report the same parcel: then both are satisfied."""
    async with working(stage):
        await send_and_decide(stage)
        second = await resolve_second(stage, "shp_1", units=1)
    assert stage.state(second) == "applied"


async def test_a_box_that_was_refused_has_no_parcel(stage: Scene) -> None:
    async with working(stage):
        first = await sent(stage, problem(422, "VALIDATION_ERROR"))
        await stage.await_state(first, "rejected")
        stage.dispatcher.wake()
        second = await resolve_second(stage, "shp_1")
    assert stage.state(second) == "applied"
    assert stage.column("effect_id", second) == "shp_1"
