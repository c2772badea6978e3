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
    """Return the doubled parcels from the evidence of the only command."""
    return json.loads(value_of(stage.place, "commands", "evidence")).get("doubled")


async def accept(request: Request, connection: Connection) -> None:
    await connection.send(applied_response(request))


async def resend_lost(stage: Scene, first: bytes = LOST, **members: Any) -> str:
    """Return an applied command that was sent twice, as the first attempt was lost."""
    stage.platform.respond(f"/orders/{ORDER}/fulfill", first, accept)
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
    ("number", "reports"), [(SENT["trackingNumber"], 1), ("another", 0)]
)
async def test_a_parcel_that_takes_effect_late_is_reported_once(
    stage: Scene, number: str, reports: int
) -> None:
    stage.platform.respond(HISTORY, history())
    async with working_with_audit(stage):
        command = await resend_lost(stage)
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
    assert len(stage.logged("command.doubled")) == reports
    assert doubled(stage) == (["shp_late"] if reports else None)


@pytest.mark.parametrize("items", ["two boxes", 3, True, [3], {"a": 1}, None])
async def test_a_parcel_with_unreadable_lines_is_reported_too(
    items: Any, stage: Scene
) -> None:
    """Missing lines match, and the audit still releases the commands."""
    stage.platform.respond(HISTORY, history())
    async with working_with_audit(stage):
        command = await resend_lost(stage)
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


async def show_another_parcel(stage: Scene, command: str) -> None:
    """Add another parcel with the number to the order, and run several audits."""
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
    """It is reported as soon as the other command is excluded."""
    stage.platform.respond(HISTORY, history())
    unread = document({"code": "NOT_FOUND"}, 404)
    async with working_with_audit(stage):
        command = await resend_lost(stage)
        stage.platform.respond(f"/orders/{ORDER}/fulfill", LOST)
        stage.platform.respond(f"/orders/{ORDER}", unread)
        other = await stage.plan("fulfill", ORDER)
        stage.dispatcher.wake()
        await stage.await_state(other, "uncertain")
        await show_another_parcel(stage, command)
        assert stage.state(other) == "uncertain"
        assert stage.logged("command.doubled") == []
        dropped = [Decision(other, verb, "ann", "") for verb in ("park", "discard")]
        for decision in dropped:
            await stage.store.decisions.decide(decision)
        await show_another_parcel(stage, command)
    assert len(stage.logged("command.doubled")) == 1


async def test_a_parcel_beside_one_that_was_only_throttled_is_no_double(
    stage: Scene,
) -> None:
    stage.platform.respond(HISTORY, history())
    async with working_with_audit(stage):
        command = await resend_lost(stage, problem(429, "RATE_LIMITED"))
        await show_another_parcel(stage, command)
    assert stage.logged("command.doubled") == []


def of_line(line: str, quantity: int = 1) -> list[dict[str, Any]]:
    return [{"lineItemId": line, "quantity": quantity}]


@pytest.mark.parametrize(
    ("items", "reports"),
    [
        (of_line("li_1"), 1),
        (None, 1),
        (of_line("li_2"), 0),
        (of_line("li_1", 2), 0),
        ([*of_line("li_1"), *of_line("li_2")], 0),
    ],
    ids=["the-same", "not-shown", "another-line", "more-of-it", "more-lines"],
)
async def test_a_box_with_other_lines_under_the_number_is_no_double(
    stage: Scene, items: list[dict[str, Any]] | None, reports: int
) -> None:
    """A merchant sent it, or a command that a restore removed."""
    stage.platform.respond(HISTORY, history())
    async with working_with_audit(stage):
        box = [{"line_id": "li_1", "quantity": 1}]
        command = await resend_lost(stage, lines=box)
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
    assert len(stage.logged("command.doubled")) == reports
    assert doubled(stage) == (["shp_2"] if reports else None)
