"""Commands are recorded, then sent once, and one at a time for each ordering key."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from backhaul.core.clock import from_text
from backhaul.core.identity import fingerprint
from backhaul.platform.client import LISTS
from backhaul.settings import Push
from scenes import payloads
from scenes.pushing import (
    API_KEY,
    DELAYED_SECONDS,
    Scene,
    applied_response,
    scene,
    working,
)
from scenes.scripted_platform import Connection, Request, message, unused_url
from scenes.stored import commands, rows_of, values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Place

KINDS = [("fulfill", "ord_1"), ("cancel", "ord_1"), ("adjust", "prod_1")]


@pytest.mark.parametrize(("kind", "target"), KINDS)
async def test_sending_is_committed_before_the_first_byte_leaves(
    kind: str, target: str, stage: Scene
) -> None:
    seen: list[tuple[Any, ...]] = []

    async def greet(_: Connection) -> bool:
        (sent,) = commands(stage.place)
        ((number, finished_at),) = rows_of(
            stage.place, "attempts", "number", "finished_at", command_id=sent.id
        )
        attempts = stage.column("attempts", sent.id)
        shown = (sent.state, attempts, sent.request, sent.key_fingerprint)
        seen.append((*shown, number, finished_at))
        return True

    stage.server.greet = greet
    command = await stage.plan(kind, target)
    async with working(stage):
        await stage.await_state(command, "applied")
    (request,) = stage.server.commands
    assert seen == [("sending", 1, request.body, fingerprint(API_KEY), 1, None)]


async def test_applied_command_keeps_its_proof(stage: Scene) -> None:
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    assert stage.attempts(command) == [(1, "confirmed", 200, True)]
    evidence = json.loads(stage.column("evidence", command))
    assert evidence["adjustment_id"] == "adj_1"
    assert stage.column("settled_at", command) is not None
    answers = rows_of(stage.place, "attempts", "response")
    assert json.loads(answers[0][0])["data"]["adjustmentId"] == "adj_1"
    assert len(stage.logged("command.applied")) == 1


class DelayedResponses:
    """Delays all responses until `released`; records how many requests wait."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.waiting: list[str] = []
        self.most = 0

    async def __call__(self, request: Request, connection: Connection) -> None:
        self.waiting.append(request.path)
        self.most = max(self.most, len(self.waiting))
        await self.released.wait()
        self.waiting.remove(request.path)
        await connection.send(applied_response(request))


@pytest.fixture
async def stage(database: Place) -> AsyncIterator[Scene]:
    async with scene(database, patience_seconds=DELAYED_SECONDS) as made:
        yield made


@pytest.fixture
async def patient(database: Place) -> AsyncIterator[Scene]:
    three = Push(concurrency=3)
    async with scene(database, three, patience_seconds=DELAYED_SECONDS) as made:
        yield made


async def test_commands_of_one_lane_are_sent_one_after_the_other(
    stage: Scene,
) -> None:
    holding = DelayedResponses()
    stage.platform.respond("/orders/ord_1/fulfill", holding)
    numbers = ["BD1", "BD2", "BD3"]
    planned = [
        await stage.plan("fulfill", "ord_1", tracking_number=number)
        for number in numbers
    ]
    async with working(stage):
        await stage.await_commands(1)
        assert [stage.state(id_) for id_ in planned] == ["sending"] + ["planned"] * 2
        holding.released.set()
        await stage.await_state(planned[-1], "applied")
    assert holding.most == 1
    assert [body["trackingNumber"] for body in stage.sent_bodies()] == numbers


async def test_lanes_do_not_wait_for_one_another(stage: Scene) -> None:
    holding = DelayedResponses()
    stage.platform.respond("/orders/ord_1/fulfill", holding)
    slow = await stage.plan("fulfill", "ord_1")
    behind = await stage.plan("cancel", "ord_1")
    others = [await stage.plan("fulfill", f"ord_{number}") for number in range(2, 6)]
    others += [await stage.plan("adjust", "prod_1")]
    async with working(stage):
        for command in others:
            await stage.await_state(command, "applied")
        assert (stage.state(slow), stage.state(behind)) == ("sending", "planned")
        holding.released.set()
        await stage.await_state(behind, "applied")


async def test_at_most_the_configured_number_is_under_way(patient: Scene) -> None:
    holding = DelayedResponses()
    planned = [await patient.plan("fulfill", f"ord_{number}") for number in range(8)]
    for number in range(8):
        patient.platform.respond(f"/orders/ord_{number}/fulfill", holding)
    async with working(patient):
        await patient.await_commands(3)
        assert patient.dispatcher.state()["sending"] == 3
        holding.released.set()
        for command in planned:
            await patient.await_state(command, "applied")
    assert holding.most == 3
    assert len(patient.server.commands) == 8


async def test_most_urgent_kinds_leave_first(database: Place) -> None:
    async with scene(database, Push(concurrency=1)) as stage:
        planned = [
            await stage.plan(kind, f"{kind}_{number}")
            for number in range(2)
            for kind in ("adjust", "fulfill", "cancel")
        ]
        async with working(stage):
            for command in planned:
                await stage.await_state(command, "applied")
        kinds = [request.path.rpartition("/")[2] for request in stage.server.commands]
        assert kinds == ["cancel"] * 2 + ["fulfill"] * 2 + ["adjust"] * 2


async def test_cancelled_order_is_not_fulfilled(stage: Scene) -> None:
    cancellation = {"reason": "STAFF", "cancelledAt": payloads.instant(1)}
    await stage.fold(payloads.order("ord_1", at=1, cancellation=cancellation))
    refused = await stage.plan("fulfill", "ord_1")
    other = await stage.plan("fulfill", "ord_2")
    async with working(stage):
        await stage.await_state(refused, "rejected")
        await stage.await_state(other, "applied")
    assert [request.path for request in stage.server.commands] == [
        "/orders/ord_2/fulfill"
    ]
    assert stage.reason(refused) == "order #1001 is cancelled; nothing was sent"
    assert stage.attempts(refused) == []


async def test_a_stop_finishes_commands_under_way_and_sends_no_others(
    stage: Scene,
) -> None:
    holding = DelayedResponses()
    stage.platform.respond("/orders/ord_1/fulfill", holding)
    under_way = await stage.plan("fulfill", "ord_1")
    waiting = await stage.plan("fulfill", "ord_1", tracking_number="BD2")
    async with working(stage):
        await stage.await_commands(1)
        stage.dispatcher.stop()
        late = await stage.plan("fulfill", "ord_2")
        stage.dispatcher.wake()
        await stage.run_pending()
        holding.released.set()
    assert stage.state(under_way) == "applied"
    assert (stage.state(waiting), stage.state(late)) == ("planned", "planned")
    assert len(stage.server.commands) == 1


async def test_unsent_command_is_tried_again_after_ever_longer_waits(
    database: Place,
) -> None:
    waits = []
    async with scene(database, url=unused_url()) as stage:
        command = await stage.plan("fulfill", "ord_1")
        async with working(stage):
            for failures in (1, 2, 3, 4):
                while stage.column("failures", command) < failures:
                    await stage.pass_time(0.25)
                    await stage.run_pending()
                waits.append(waited(stage, command))
        assert waits == [0.75, 1.5, 3.0, 6.0]
        assert stage.state(command) == "planned"
        assert stage.attempts(command) == [
            (number, "never_sent", None, 1) for number in range(1, 5)
        ]


def waited(stage: Scene, command: str) -> float:
    ended = max(values_of(stage.place, "attempts", "finished_at"))
    due = from_text(stage.column("due_at", command))
    return (due - from_text(ended)).total_seconds()


async def test_command_planned_while_idle_leaves_at_the_next_wake(stage: Scene) -> None:
    async with working(stage):
        await stage.run_pending()
        command = await stage.plan("fulfill", "ord_1")
        stage.dispatcher.wake()
        await stage.await_state(command, "applied")


async def test_reads_that_fail_alone_stop_no_command(stage: Scene) -> None:
    """Uncertain commands wait for reads; all other commands continue."""
    stage.platform.respond("/inventory/adjust", message(500), applied_now)
    for path in ("/inventory/history", *LISTS):
        stage.platform.respond(path, message(503))
    doubtful = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(doubtful, "uncertain")
        for _ in range(30):
            await stage.pass_time(10)
        other = await stage.plan("adjust", "prod_2")
        stage.dispatcher.wake()
        await stage.await_state(other, "applied")
        assert stage.state(doubtful) == "uncertain"


async def applied_now(request: Request, connection: Connection) -> None:
    await connection.send(applied_response(request))


ODD_IDS = ["a/b", "../ord_2", "ord_2?x=", "#7", "\u00e9%2F", "a\x01"]


@pytest.mark.parametrize("order", ODD_IDS)
@pytest.mark.parametrize("kind", ["fulfill", "cancel"])
async def test_an_id_cannot_lead_elsewhere(kind: str, order: str, stage: Scene) -> None:
    """Neither the command nor its reads: refused, conflicting, uncertain."""
    answers = [message(404, b"{}"), message(409, b"{}"), message(500)]
    place = f"/orders/{quote(order, safe='')}"
    stage.platform.respond(f"{place}/{kind}", *answers)
    refused, doubted = [await stage.plan(kind, order) for _ in range(2)]
    async with working(stage):
        await stage.await_state(refused, "rejected")
        await until(
            lambda: any(done for *_, done in stage.attempts(doubted)), "it waits"
        )
        await stage.pass_time(60)
        await until(lambda: len(stage.server.of("GET", place)) > 2, "it is checked")
    asked = {request.path for request in stage.server.requests}
    assert asked == {place, f"{place}/{kind}", LISTS[0]}
