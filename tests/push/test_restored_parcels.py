"""A restored database lacks two parcels of an order with one tracking number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scenes import payloads
from scenes.damaged_rows import overwrite
from scenes.pushing import working_with_audit
from scenes.scripted_platform import document
from scenes.stock_history import HISTORY, history, move
from scenes.stored import rows_of
from scenes.waiting import until

if TYPE_CHECKING:
    from scenes.pushing import Scene
    from scenes.scripted_platform import Connection, Request

ORDER = "/orders/ord_1"
BOX = {"lines": [{"line_id": "li_1", "quantity": 1}]}
OTHER_LINE = {"lines": [{"line_id": "li_2", "quantity": 1}]}


def show_boxes(stage: Scene, *boxes: str) -> None:
    """Let the order have boxes of one unit each, and the history an unknown command."""
    items = [{"lineItemId": "li_1", "quantity": 1}]
    parcels = [payloads.shipment(id_, items=items) for id_ in boxes]
    line = payloads.item(quantity=9, fulfilledQuantity=len(boxes))
    order = payloads.order("ord_1", at=50, items=[line], shipments=parcels)
    stage.platform.respond(ORDER, document({"data": order}))
    stage.platform.respond(HISTORY, history(move(1, "0" * 32)))


async def boxes(stage: Scene, *asked: dict[str, Any]) -> list[str]:
    return [await stage.plan("fulfill", "ord_1", **lines) for lines in asked]


def effects(stage: Scene) -> list[tuple[Any, ...]]:
    return rows_of(stage.place, "commands", "effect_id")


async def doubled(stage: Scene) -> list[str]:
    return [
        each.detail for each in (await stage.store.alert_conditions.current([])).doubled
    ]


async def test_each_box_is_found_and_no_box_is_named_doubled(stage: Scene) -> None:
    show_boxes(stage, "shp_1", "shp_2")
    asked = await boxes(stage, BOX, BOX)
    async with working_with_audit(stage):
        for command in asked:
            await stage.await_state(command, "applied")
    assert effects(stage) == [("shp_1",), ("shp_2",)]
    assert stage.logged("command.doubled") == []
    assert await doubled(stage) == []


async def test_a_box_that_is_left_over_is_named_by_the_last(stage: Scene) -> None:
    show_boxes(stage, "shp_1", "shp_2", "shp_3")
    asked = await boxes(stage, BOX, BOX)
    async with working_with_audit(stage):
        for command in asked:
            await stage.await_state(command, "applied")
        await until(lambda: stage.logged("command.doubled"), "it is logged")
    assert effects(stage) == [("shp_1",), ("shp_2",)]
    assert len(stage.logged("command.doubled")) == 1
    assert await doubled(stage) == ["shp_3"]


@pytest.mark.parametrize("asks", [OTHER_LINE, BOX | {"tracking_number": "BD9"}])
async def test_a_box_that_no_other_command_explains_is_named_at_once(
    asks: dict[str, Any], stage: Scene
) -> None:
    show_boxes(stage, "shp_1", "shp_2")
    asked, _ = await boxes(stage, BOX, asks)
    async with working_with_audit(stage):
        await stage.await_state(asked, "applied")
        await until(lambda: stage.logged("command.doubled"), "it is logged")
    assert len(stage.logged("command.doubled")) == 1
    assert await doubled(stage) == ["shp_2"]


async def test_a_damaged_command_keeps_no_box_from_being_named(stage: Scene) -> None:
    show_boxes(stage, "shp_1", "shp_2")
    (shown,) = stage.platform.responses[ORDER]
    assert isinstance(shown, bytes)
    asked, damaged = await boxes(stage, BOX, BOX)

    async def meanwhile(_: Request, connection: Connection) -> None:
        overwrite(stage.place, "commands", {"payload": "{"}, id=damaged)
        await connection.send(shown)

    stage.platform.respond(ORDER, meanwhile)
    async with working_with_audit(stage):
        await stage.await_state(asked, "applied")
    assert stage.state(damaged) == "parked"
    assert await doubled(stage) == ["shp_2"]


async def test_a_box_that_a_later_record_explains_is_no_longer_doubled(
    stage: Scene,
) -> None:
    """Until then it looks like a second effect, and is reported."""
    show_boxes(stage, "shp_1", "shp_2")
    (first,) = await boxes(stage, BOX)
    async with working_with_audit(stage):
        await stage.await_state(first, "applied")
        assert await doubled(stage) == ["shp_2"]
        (second,) = await boxes(stage, BOX)
        stage.resolver.wake()
        await stage.await_state(second, "applied")
    assert effects(stage) == [("shp_1",), ("shp_2",)]
    assert await doubled(stage) == []
