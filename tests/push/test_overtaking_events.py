"""Events that arrive before responses: no command waits for what is there already."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from scenes import payloads
from scenes.pushing import Scene, applied_response, scene, working
from scenes.scripted_platform import document, message, problem
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from backhaul.store import Place
    from scenes.scripted_platform import Connection, Request

ORDER = "/orders/ord_1"
FULFILL, CANCEL = f"{ORDER}/fulfill", f"{ORDER}/cancel"
REFUSED = "order #1001 is cancelled; nothing was sent"


def cancelled_order(at: int, *, restocked: bool = True) -> payloads.Document:
    """Return the order after its cancellation at this time."""
    said = {"restocked": restocked, "cancelledAt": payloads.instant(at)}
    return payloads.order("ord_1", at=at, cancellation=said)


async def test_confirmation_folded_before_the_refusal_is_written_releases(
    stage: Scene,
) -> None:
    async def overtaken(_: Request, connection: Connection) -> None:
        await stage.fold(payloads.order("ord_1", at=60))
        await connection.send(problem(409, "ORDER_AWAITING_CONFIRMATION"))

    async def taken(request: Request, connection: Connection) -> None:
        await connection.send(applied_response(request))

    stage.platform.respond(FULFILL, overtaken, taken)
    await stage.fold(payloads.order("ord_1", at=50))
    await stage.pass_time(1)
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    assert [row[1] for row in stage.attempts(command)] == ["held", "confirmed"]


async def test_command_refused_unsent_frees_its_lane_at_once(stage: Scene) -> None:
    await stage.fold(cancelled_order(40))
    refused = await stage.plan("fulfill", "ord_1")
    following = await stage.plan("cancel", "ord_1")
    async with working(stage), asyncio.timeout(HANG_SECONDS):
        await stage.await_state(refused, "rejected")
        await stage.await_state(following, "applied")
    assert stage.logged("command.rejected")


@pytest.mark.parametrize("shown_at", [1, 50], ids=["older", "of-one-moment"])
async def test_an_order_that_we_cancelled_is_not_shipped_before_its_webhook(
    shown_at: int, stage: Scene
) -> None:
    await stage.fold(payloads.order("ord_1", at=shown_at))
    cancel = await stage.plan("cancel", "ord_1")
    parcel = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(parcel, "rejected")
    assert stage.state(cancel) == "applied"
    assert stage.reason(parcel) == REFUSED
    assert [request.path for request in stage.server.commands] == [CANCEL]


@pytest.mark.parametrize("restocked", [True, False], ids=["proved", "parked"])
async def test_a_refetched_cancellation_counts_before_its_webhook(
    restocked: bool, stage: Scene
) -> None:
    """Without the requested restock it is not our effect, but a cancellation."""
    await stage.fold(payloads.order("ord_1", at=1))
    stage.platform.respond(CANCEL, message(500))
    stage.platform.respond(
        ORDER, document({"data": cancelled_order(50, restocked=restocked)})
    )
    cancel = await stage.plan("cancel", "ord_1")
    parcel = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(parcel, "rejected")
    assert stage.state(cancel) == ("applied" if restocked else "parked")
    assert stage.reason(parcel) == REFUSED
    assert [request.path for request in stage.server.commands] == [CANCEL]


async def test_a_parcel_is_not_sent_again_to_an_order_that_was_seen_cancelled(
    stage: Scene,
) -> None:
    """A merchant cancelled the order, and its webhook was lost."""
    await stage.fold(payloads.order("ord_1", at=1))
    stage.platform.respond(FULFILL, message(500))
    stage.platform.respond(ORDER, document({"data": cancelled_order(50)}))
    parcel = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_parked(parcel)
    absent = "the platform answered 500; the order does not show the parcel"
    said = f"{absent}, and the order is cancelled (3 checks)"
    assert stage.reason(parcel) == said
    assert [request.path for request in stage.server.commands] == [FULFILL]


async def test_a_held_parcel_is_not_released_to_an_order_that_we_cancelled(
    stage: Scene,
) -> None:
    """The order's confirmation event arrives after our cancellation was applied."""
    stage.platform.respond(FULFILL, problem(409, "ORDER_AWAITING_CONFIRMATION"))
    await stage.fold(payloads.order("ord_1", at=1))
    held = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_commands(1)
        cancel = await stage.plan("cancel", "ord_1")
        stage.dispatcher.wake()
        await stage.await_state(cancel, "applied")
        await stage.fold(payloads.order("ord_1", at=20))
        await stage.await_state(held, "rejected")
    assert stage.reason(held) == REFUSED
    assert [request.path for request in stage.server.commands] == [FULFILL, CANCEL]


async def test_an_order_that_came_back_after_its_cancellation_is_shipped(
    stage: Scene,
) -> None:
    cancel = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await stage.await_state(cancel, "applied")
        await stage.fold(payloads.order("ord_1", at=60))
        parcel = await stage.plan("fulfill", "ord_1")
        stage.dispatcher.wake()
        await stage.await_state(parcel, "applied")


async def test_a_stop_between_claim_and_send_sends_nothing(
    database: Place,
) -> None:
    async with scene(database) as stage:
        claim = stage.store.commands.claim

        async def claim_and_stop(*arguments: object) -> object:
            stage.dispatcher.stop()
            return await claim(*arguments)  # type: ignore[arg-type]  # passed on

        stage.store.commands.claim = claim_and_stop  # type: ignore[method-assign, assignment]  # a moment that no test can hit
        command = await stage.plan("fulfill", "ord_1")
        await asyncio.wait_for(stage.dispatcher.run(), HANG_SECONDS)
        assert stage.state(command) == "planned"
        assert stage.sent_bodies() == []
