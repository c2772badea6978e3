"""The reason why a command was parked or rejected stays visible."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.cli import command_view
from backhaul.store import database_at
from backhaul.store.commands import Decision
from scenes import payloads
from scenes.pushing import order_after, working
from scenes.scripted_platform import document, problem
from scenes.waiting import until

if TYPE_CHECKING:
    from scenes.pushing import Scene

ORDER, CANCEL = "/orders/ord_1", "/orders/ord_1/cancel"
GONE = {"restocked": False, "cancelledAt": payloads.instant(3)}
KEPT = document({"data": payloads.order(cancellation=GONE)})
SAID = (
    "409 ORDER_ALREADY_CANCELLED: no; the order is cancelled, without the restock that"
    " was asked for"
)


async def decide(stage: Scene, verb: str, command: str) -> None:
    await stage.store.decisions.decide(Decision(command, verb, "kim", "seen"))
    stage.dispatcher.wake()


def earlier(stage: Scene, command: str) -> list[dict[str, Any]]:
    evidence_now = json.loads(stage.column("evidence", command))
    found: list[dict[str, Any]] = evidence_now["earlier"]
    return found


def shown(stage: Scene, command: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    with database_at(stage.place).reader() as explainer:
        found = explainer.command(command)
    assert found is not None
    command_view.show(found)
    return " ".join(capsys.readouterr().out.split())


async def refused(stage: Scene) -> str:
    """Return a cancellation that the platform refused, and that is parked."""
    done = document({"data": order_after("ord_1", "cancel", {"restock": True})})
    stage.platform.respond(CANCEL, problem(409, "ORDER_ALREADY_CANCELLED"), done)
    stage.platform.respond(ORDER, KEPT)
    command = await stage.plan("cancel", "ord_1")
    await stage.await_state(command, "parked")
    return command


async def test_a_refused_cancellation_keeps_what_the_order_showed(
    stage: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    async with working(stage):
        command = await refused(stage)
    assert stage.reason(command) == SAID
    read = json.loads(stage.column("evidence", command))["read"]
    assert read["restocked"] is False
    assert read["cancelled_at"] == payloads.instant(3)
    assert '"restocked": false' in shown(stage, command, capsys)


@pytest.mark.parametrize("verb", ["discard", "resolve --applied"])
async def test_the_reason_for_parking_outlasts_an_operator_decision(
    verb: str, stage: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    async with working(stage):
        command = await refused(stage)
        await decide(stage, verb, command)
    assert stage.reason(command) == f"{verb} by kim: seen"
    (parked,) = earlier(stage, command)
    assert (parked["state"], parked["reason"]) == ("parked", SAID)
    assert parked["request"].encode() == stage.server.commands[0].body
    assert parked["evidence"]["read"]["restocked"] is False
    said = shown(stage, command, capsys)
    assert f"previously parked at {parked['at']}: {SAID}" in said
    said_json = said.partition("previous request ")[2]
    assert json.JSONDecoder().raw_decode(said_json)[0] == json.loads(parked["request"])


async def test_the_reason_for_parking_outlasts_later_attempts(
    stage: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bytes are built again, because a wrong setting may be corrected by then."""
    async with working(stage):
        command = await refused(stage)
        await decide(stage, "discard", command)
        stage.dialect.unknown_members.add("cancel.reason")
        await decide(stage, "resend", command)
        await stage.await_state(command, "applied")
    states = [(each["state"], each["reason"]) for each in earlier(stage, command)]
    assert states == [("parked", SAID), ("rejected", "discard by kim: seen")]
    first, second = (request.body for request in stage.server.commands)
    assert earlier(stage, command)[0]["request"].encode() == first != second
    proof = json.loads(stage.column("evidence", command))
    assert proof["cancelled_at"] == payloads.instant(50)
    said = shown(stage, command, capsys)
    assert SAID in said
    assert "rejected at" in said


async def test_parking_by_an_operator_hides_no_error(stage: Scene) -> None:
    """The error of the last read is shown nowhere else."""
    stage.platform.respond(CANCEL, document({}, 500))
    stage.platform.respond(ORDER, document({}, 500))
    command = await stage.plan("cancel", "ord_1")
    async with working(stage):
        await until(lambda: "the check failed: " in stage.reason(command), "a check")
        reason = stage.reason(command)
        await decide(stage, "park", command)
    assert [each["reason"] for each in earlier(stage, command)] == [reason]
