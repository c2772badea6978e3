"""The echo of a command is recognized, before or after the response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scenes import payloads
from scenes.databases import append_and_fold
from scenes.pushing import Scene, applied_response, working
from scenes.scripted_platform import message
from scenes.stock_history import HISTORY, history, move
from scenes.stored import rows_of
from scenes.waiting import until

if TYPE_CHECKING:
    from scenes.scripted_platform import Connection, Request

CHANGED = "inventory/level_update"


def adjusted(adjustment_id: str = "adj_1", at: int = 1) -> bytes:
    change = payloads.stock_change(at=at, adjustment_id=adjustment_id)
    return payloads.envelope(CHANGED, change)


def ordered(at: int, **members: Any) -> bytes:
    order = payloads.order("ord_1", at=at, **members)
    return payloads.envelope("orders/updated", order)


def echoes(stage: Scene) -> list[tuple[Any, ...]]:
    found = rows_of(stage.place, "echoes", "command_id", "event_id")
    return sorted(found, key=lambda echo: echo[1])


def feed(stage: Scene) -> list[tuple[Any, ...]]:
    return rows_of(stage.place, "feed", "event", "instance", "waits")


async def test_the_first_event_that_shows_the_effect_is_the_echo(
    stage: Scene,
) -> None:
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    assert await append_and_fold(stage.store, adjusted(), adjusted(at=2)) == []
    assert echoes(stage) == [(command, 1)]
    assert feed(stage)[0] == (1, "courier", 0)


async def test_a_change_that_only_looks_the_same_is_no_echo(stage: Scene) -> None:
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    assert await append_and_fold(stage.store, adjusted("adj_of_another")) == []
    assert echoes(stage) == []
    assert feed(stage) == [(1, None, 0)]


async def test_an_echo_before_the_answer_is_linked_by_the_answer(
    stage: Scene,
) -> None:
    seen: list[tuple[Any, ...]] = []

    async def fold_echo_first(request: Request, connection: Connection) -> None:
        await append_and_fold(stage.store, adjusted("adj_of_another"), adjusted(at=2))
        seen.extend(feed(stage))
        await connection.send(applied_response(request))

    stage.platform.respond("/inventory/adjust", fold_echo_first)
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    assert seen == [(1, None, 1), (2, None, 1)]
    assert echoes(stage) == [(command, 2)]
    assert feed(stage) == [(1, None, 0), (2, "courier", 0)]


async def test_a_parcel_is_known_by_its_id(stage: Scene) -> None:
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    parcel = {"trackingCompany": "BlueDart", "trackingNumber": "BD1"}
    others = payloads.shipment("shp_9", **parcel)
    assert await append_and_fold(stage.store, ordered(50, shipments=[others])) == []
    assert echoes(stage) == []
    own = payloads.shipment(**parcel)
    for at in (51, 52):
        assert (
            await append_and_fold(stage.store, ordered(at, shipments=[others, own]))
            == []
        )
    assert echoes(stage) == [(command, 2)]
    assert [row[:2] for row in feed(stage)] == [(1, None), (2, "courier"), (3, None)]


async def test_a_cancellation_is_known_by_its_time(stage: Scene) -> None:
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    for at, found in ((49, []), (50, [(command, 2)])):
        when = {"cancelledAt": payloads.instant(at), "restocked": True}
        assert (
            await append_and_fold(stage.store, ordered(at + 1, cancellation=when)) == []
        )
        assert echoes(stage) == found


async def test_an_effect_is_resolved_by_proof_too(stage: Scene) -> None:
    """The response is lost, the echo arrives, and a check finds the effect."""
    stage.platform.respond("/inventory/adjust", message(500))
    stage.platform.respond(HISTORY, message(503))
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(command, "uncertain")
        assert await append_and_fold(stage.store, adjusted()) == []
        assert echoes(stage) == [(None, 1)]
        stage.platform.respond(HISTORY, history(move(1, command)))
        while stage.state(command) != "applied":
            await stage.pass_time(30)
            await stage.run_pending()
    assert echoes(stage) == [(command, 1)]
    await until(lambda: feed(stage) == [(1, "courier", 0)], "the feed knows")
