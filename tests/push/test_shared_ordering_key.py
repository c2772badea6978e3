"""Several uncertain commands of one ordering key: an effect proves only one of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from backhaul.store.commands import Decision
from scenes import payloads
from scenes.pushing import DELAYED_SECONDS, scene, working
from scenes.scripted_platform import document, message
from scenes.stored import rows_of
from scenes.uncertain_commands import check_results

if TYPE_CHECKING:
    from backhaul.store import Place
    from scenes.pushing import Scene
    from scenes.scripted_platform import Connection, Request

ORDER, FULFILL = "/orders/ord_1", "/orders/ord_1/fulfill"
BOX = {"lines": [{"line_id": "li_1", "quantity": 1}]}
PARALLEL_SECONDS = 0.5


def order_with(*boxes: str, **members: Any) -> payloads.Document:
    """Return an order of two units; each box has one, with the same number."""
    items = [{"lineItemId": "li_1", "quantity": 1}]
    parcels = [payloads.shipment(box, items=items) for box in boxes]
    line = payloads.item(quantity=2, fulfilledQuantity=len(boxes))
    return payloads.order("ord_1", items=[line], shipments=parcels, **members)


def effects(stage: Scene) -> list[tuple[Any, ...]]:
    return rows_of(stage.place, "commands", "state", "effect_id")


class SimultaneousReads:
    """Answers a read together with a parallel second read, if there is one."""

    def __init__(self, said: bytes) -> None:
        self.said = said
        self.asked = 0
        self.both = asyncio.Event()

    async def __call__(self, _: Request, connection: Connection) -> None:
        self.asked += 1
        if self.asked == 2:
            self.both.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.both.wait(), PARALLEL_SECONDS)
        await connection.send(self.said)


async def request_checks(stage: Scene, *commands: str) -> None:
    """Let an operator request checks of parked commands, all at once."""
    for command in commands:
        await stage.store.decisions.decide(Decision(command, "resolve", "ann", ""))
    stage.resolver.wake()


async def plan_two_parked(stage: Scene) -> list[str]:
    """Return two parked boxes of one order."""
    await stage.fold(order_with())
    stage.platform.respond(FULFILL, message(500))
    boxes = [await stage.plan("fulfill", "ord_1", **BOX) for _ in range(2)]
    for box in boxes:
        await stage.await_parked(box)
    return boxes


async def test_one_parcel_is_not_the_proof_of_two_commands(stage: Scene) -> None:
    async with working(stage):
        first, second = await plan_two_parked(stage)
        there = document({"data": order_with("shp_1", at=50)})
        stage.platform.respond(ORDER, SimultaneousReads(there))
        await request_checks(stage, first, second)
        await stage.await_state(first, "applied")
        await stage.await_parked(second)
    assert effects(stage) == [("applied", "shp_1"), ("parked", None)]
    assert "but not for how many parcels" in stage.reason(second)


async def test_each_of_two_parcels_is_the_proof_of_one_command(stage: Scene) -> None:
    both = order_with("shp_1", "shp_2", at=50)
    async with working(stage):
        boxes = await plan_two_parked(stage)
        stage.platform.respond(ORDER, SimultaneousReads(document({"data": both})))
        await request_checks(stage, *boxes)
        for box in boxes:
            await stage.await_state(box, "applied")
    assert effects(stage) == [("applied", "shp_1"), ("applied", "shp_2")]
    assert stage.logged("command.doubled") == []


async def test_no_check_runs_while_another_command_of_the_lane_is_sent(
    database: Place,
) -> None:
    """An effect may belong to the other command, whose response is in flight."""
    answers = asyncio.Event()
    effect = document({"data": order_with("shp_1", at=50)})

    async def slow(_: Request, connection: Connection) -> None:
        await answers.wait()
        await connection.send(effect)

    async with scene(database, patience_seconds=DELAYED_SECONDS) as stage:
        await stage.fold(order_with())
        stage.platform.respond(FULFILL, message(500), slow)
        first = await stage.plan("fulfill", "ord_1", **BOX)
        second = await stage.plan("fulfill", "ord_1", **BOX)
        async with working(stage):
            await stage.await_parked(first)
            await stage.await_state(second, "sending")
            before = check_results(stage, first)
            stage.platform.respond(ORDER, effect)
            await request_checks(stage, first)
            await stage.run_pending()
            assert check_results(stage, first) == before
            answers.set()
            await stage.await_state(second, "applied")
            await stage.await_parked(first)
        assert effects(stage) == [("parked", None), ("applied", "shp_1")]
