"""A parcel that was sent twice is reported: the order shows both."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store.commands import Decision
from scenes import payloads
from scenes.pushing import PAYLOADS, applied_response, working_with_audit
from scenes.scripted_platform import document, message, problem
from scenes.stock_history import HISTORY, history
from scenes.stored import value_of

if TYPE_CHECKING:
    from scenes.pushing import Scene
    from scenes.scripted_platform import Connection, Request

ORDER = "ord_1"
SENT = {
    "trackingCompany": PAYLOADS["fulfill"]["tracking_company"],
    "trackingNumber": PAYLOADS["fulfill"]["tracking_number"],
}


LOST = message(500)


def doubled(stage: Scene) -> Any:
    """Return the parcels that left twice, as the only command's evidence has them."""
    return json.loads(value_of(stage.place, "commands", "evidence")).get("doubled")


async def taken(request: Request, connection: Connection) -> None:
    await connection.send(applied_response(request))


async def sent_again(stage: Scene, first: bytes = LOST, **members: Any) -> str:
    """Return a command whose first try was lost from sight, and then sent again."""
    stage.platform.respond(f"/orders/{ORDER}/fulfill", first, taken)
    stage.platform.respond(
        f"/orders/{ORDER}", document({"data": payloads.order(ORDER)})
    )
    command = await stage.plan("fulfill", ORDER, **members)
    while stage.state(command) != "applied":
        await stage.pass_time(60)
        await stage.run_pending()
    assert len(stage.server.commands) == 2
    return command


@pytest.mark.parametrize(
    ("number", "told"), [(SENT["trackingNumber"], 1), ("another", 0)]
)
async def test_a_parcel_that_takes_effect_late_is_reported_once(
    stage: Scene, number: str, told: int
) -> None:
    stage.platform.respond(HISTORY, history())
    async with working_with_audit(stage):
        command = await sent_again(stage)
        own = str(stage.column("effect_id", command))
        late = SENT | {"trackingNumber": number}
        parcels = [
            payloads.shipment(own, **SENT),
            payloads.shipment("shp_late", **late),
        ]
        await stage.fold(payloads.order(ORDER, at=60, shipments=parcels))
        for _ in range(3):
            stage.auditor.wake()
            await stage.pass_time(60)
            await stage.run_pending()
    assert len(stage.logged("command.doubled")) == told
    assert doubled(stage) == (["shp_late"] if told else None)


@pytest.mark.parametrize("items", ["two boxes", 3, True, [3], {"a": 1}, None])
async def test_a_parcel_with_unreadable_lines_is_reported_too(
    items: Any, stage: Scene
) -> None:
    """What is not said fits; and the audit, which lifts the fence, gets by it."""
    stage.platform.respond(HISTORY, history())
    async with working_with_audit(stage):
        command = await sent_again(stage)
        own = str(stage.column("effect_id", command))
        parcels = [
            payloads.shipment(id_, **SENT) | {"items": items}
            for id_ in (own, "shp_late")
        ]
        await stage.fold(payloads.order(ORDER, at=60, shipments=parcels))
        stage.auditor.wake()
        await stage.pass_time(60)
        await stage.run_pending()
    assert stage.logged("audit.failed") == []
    assert doubled(stage) == ["shp_late"]


async def beside(stage: Scene, command: str) -> None:
    """Let the order show another parcel under the number, and several audits pass."""
    own = str(stage.column("effect_id", command))
    parcels = [payloads.shipment(id_, **SENT) for id_ in (own, "shp_2")]
    await stage.fold(payloads.order(ORDER, at=60, shipments=parcels))
    for _ in range(3):
        stage.auditor.wake()
        await stage.pass_time(60)
        await stage.run_pending()


async def test_a_parcel_that_another_command_may_have_sent_is_no_double(
    stage: Scene,
) -> None:
    """It is told as soon as it is known that it is not that one's."""
    stage.platform.respond(HISTORY, history())
    unread = document({"code": "NOT_FOUND"}, 404)
    async with working_with_audit(stage):
        command = await sent_again(stage)
        stage.platform.respond(f"/orders/{ORDER}/fulfill", LOST)
        stage.platform.respond(f"/orders/{ORDER}", unread)
        other = await stage.plan("fulfill", ORDER)
        stage.dispatcher.wake()
        await stage.await_state(other, "uncertain")
        await beside(stage, command)
        assert stage.state(other) == "uncertain"
        assert stage.logged("command.doubled") == []
        dropped = [Decision(other, verb, "ann", "") for verb in ("park", "drop")]
        for decision in dropped:
            await stage.store.decisions.decide(decision)
        await beside(stage, command)
    assert len(stage.logged("command.doubled")) == 1


async def test_a_parcel_beside_one_that_was_only_throttled_is_no_double(
    stage: Scene,
) -> None:
    stage.platform.respond(HISTORY, history())
    async with working_with_audit(stage):
        command = await sent_again(stage, problem(429, "RATE_LIMITED"))
        await beside(stage, command)
    assert stage.logged("command.doubled") == []


def of_line(line: str, quantity: int = 1) -> list[dict[str, Any]]:
    return [{"lineItemId": line, "quantity": quantity}]


@pytest.mark.parametrize(
    ("items", "told"),
    [
        (of_line("li_1"), 1),
        (None, 1),
        (of_line("li_2"), 0),
        (of_line("li_1", 2), 0),
        ([*of_line("li_1"), *of_line("li_2")], 0),
    ],
    ids=["the-same", "untold", "another-line", "more-of-it", "more-lines"],
)
async def test_a_box_with_other_lines_under_the_number_is_no_double(
    stage: Scene, items: list[dict[str, Any]] | None, told: int
) -> None:
    """A person sent it, or a life before a restore of which no record came in again."""
    stage.platform.respond(HISTORY, history())
    async with working_with_audit(stage):
        box = [{"line_id": "li_1", "quantity": 1}]
        command = await sent_again(stage, lines=box)
        own = str(stage.column("effect_id", command))
        parcels = [
            payloads.shipment(own, **SENT, items=of_line("li_1")),
            payloads.shipment("shp_2", **SENT, items=items),
        ]
        await stage.fold(payloads.order(ORDER, at=60, shipments=parcels))
        for _ in range(3):
            stage.auditor.wake()
            await stage.pass_time(60)
            await stage.run_pending()
    assert len(stage.logged("command.doubled")) == told
    assert doubled(stage) == (["shp_2"] if told else None)
