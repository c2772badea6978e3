"""The stock history is audited for restored, doubled, late and foreign effects."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.identity import command_id
from backhaul.push.history_audit import CLOCK_SECONDS, IN_FLIGHT, OPENING
from backhaul.settings import Push
from backhaul.store.commands import audited_mark
from scenes import payloads
from scenes.clock import START
from scenes.databases import locked
from scenes.pushing import Scene, scene, working, working_with_audit
from scenes.scripted_platform import document, message, problem
from scenes.stock_history import HISTORY, history, move
from scenes.waiting import until

if TYPE_CHECKING:
    from backhaul.store import Place

STRANGE = command_id("main", "courier", "another life", "adjust")
ALL = "everything"
IN_FLIGHT_SECONDS = 600
"""How long a request may be in flight: until the last check."""


def stopped(stage: Scene) -> Any:
    return stage.dispatcher.switch.reasons()


async def await_release(stage: Scene) -> None:
    """Wait until planned commands may be sent, also after a restore."""
    await until(
        lambda: (stopped(stage).get(ALL) or IN_FLIGHT).startswith(IN_FLIGHT),
        "the history is read",
    )
    await stage.run_pending()
    if stopped(stage):
        assert stage.server.commands == []
        await stage.pass_time(IN_FLIGHT_SECONDS)
    await until(lambda: stopped(stage) == {}, "commands are released")
    await stage.run_pending()


async def audit(stage: Scene) -> None:
    """Let one more audit pass, from its first read to its end."""
    stage.reports.clear()
    stage.auditor.wake()
    await until(lambda: stage.reports, "an audit")
    await stage.run_pending()


def evidence(stage: Scene, command: str) -> Any:
    return json.loads(stage.column("evidence", command) or "{}")


async def parked(stage: Scene) -> str:
    """Return an adjustment that waits for an operator's decision."""
    stage.platform.respond("/inventory/adjust", message(500))
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_parked(command)
    stage.platform.responses.clear()
    return command


async def test_an_abandoned_command_that_takes_effect_is_applied(
    database: Place,
) -> None:
    async with scene(database, Push(on_absent="park")) as stage:
        command = await parked(stage)
        async with working_with_audit(stage):
            await await_release(stage)
            assert stage.state(command) == "parked"
            stage.platform.respond(HISTORY, history(move(1, command)))
            await audit(stage)
            await stage.await_state(command, "applied")
        assert stage.column("effect_id", command) == "adj_1"
        assert len(stage.logged("audit.late_effect")) == 1
        assert stage.logged("command.doubled") == []


async def test_an_effect_that_occurs_twice_is_reported_once_and_kept(
    stage: Scene,
) -> None:
    command = await stage.plan("adjust", "prod_1")
    async with working_with_audit(stage):
        await stage.await_state(command, "applied")
        first = move(1, command)
        stage.platform.respond(HISTORY, history(move(2, command), first))
        for _ in range(3):
            await audit(stage)
        stage.platform.respond(HISTORY, history(move(3, command), first))
        await audit(stage)
    assert stage.state(command) == "applied"
    assert stage.column("effect_id", command) == "adj_1"
    assert evidence(stage, command)["doubled"] == ["adj_2", "adj_3"]
    lines = stage.logged("command.doubled")
    assert [name in lines[0] for name in ("adj_2", "adj_3")] == [True, False]
    assert len(lines) == 2


async def test_a_tag_without_a_planned_command_stops_sending(stage: Scene) -> None:
    async with working_with_audit(stage):
        await await_release(stage)
        stage.platform.respond(HISTORY, history(move(1, STRANGE)))
        await audit(stage)
        command = await stage.plan("adjust", "prod_1")
        for _ in range(2):
            await audit(stage)
        assert STRANGE in stopped(stage)[ALL]
    assert stage.state(command) == "planned"
    assert stage.server.commands == []
    (lines,) = stage.logged("audit.foreign")
    assert f"bh:{STRANGE}" in lines
    assert "restart" in lines


async def test_a_command_that_another_daemon_sends_first_stops_too(
    stage: Scene,
) -> None:
    async with working_with_audit(stage):
        await await_release(stage)
        stage.dispatcher.switch.hold_for_audit("so that it stays planned")
        command = await stage.plan("adjust", "prod_1")
        stage.platform.respond(HISTORY, history(move(1, command)))
        await audit(stage)
        assert command in stopped(stage)[ALL]
    assert stage.server.commands == []


async def test_nothing_is_sent_before_the_history_is_read(stage: Scene) -> None:
    stage.platform.respond(HISTORY, message(500))
    command = await stage.plan("adjust", "prod_1")
    async with working_with_audit(stage):
        await until(lambda: stage.logged("audit.failed"), "a read that fails")
        await stage.run_pending()
        assert stopped(stage)[ALL] == OPENING
        assert stage.server.commands == []
        stage.platform.respond(HISTORY, history())
        while stage.state(command) != "applied":
            await stage.pass_time(30)
            await stage.run_pending()
    assert len(stage.logged("audit.failed")) == 1


async def test_after_a_restore_all_open_commands_are_looked_up(stage: Scene) -> None:
    """The restored database has no record of an adjustment and of a sent parcel."""
    parcel = payloads.shipment(trackingCompany="BlueDart", trackingNumber="BD1")
    shown = payloads.order("ord_1", at=50, shipments=[parcel])
    stage.platform.respond("/orders/ord_1", document({"data": shown}))
    open_ = document({"data": payloads.order("ord_2", at=50)})
    stage.platform.respond("/orders/ord_2", open_)
    stage.platform.respond(HISTORY, history(move(1, STRANGE)))
    done = await stage.plan("fulfill", "ord_1")
    owed = await stage.plan("fulfill", "ord_2")
    async with working_with_audit(stage):
        await stage.await_state(done, "applied")
        for _ in range(IN_FLIGHT_SECONDS // 60):
            assert stage.server.commands == []
            assert stage.state(owed) == "uncertain"
            await stage.pass_time(60)
            await stage.run_pending()
        await await_release(stage)
        for _ in range(12):
            await stage.pass_time(60)
            await stage.run_pending()
        await stage.await_state(owed, "applied")
    assert [request.path for request in stage.server.commands] == [
        "/orders/ord_2/fulfill"
    ]
    assert len(stage.logged("audit.restored")) == 1


async def test_an_effect_soon_after_a_restore_is_not_sent_again(stage: Scene) -> None:
    """In the restored database the command is planned, although it was sent."""
    stage.platform.respond(HISTORY, history(move(1, STRANGE)))
    async with working_with_audit(stage):
        await until(
            lambda: stopped(stage)[ALL].startswith(IN_FLIGHT), "the history is read"
        )
        command = await stage.plan("adjust", "prod_1")
        await stage.pass_time(IN_FLIGHT_SECONDS - 1)
        await stage.run_pending()
        stage.platform.respond(HISTORY, history(move(2, command), move(1, STRANGE)))
        await await_release(stage)
        await stage.await_state(command, "applied")
    assert stage.server.commands == []


async def test_a_record_that_comes_in_again_is_born_applied(stage: Scene) -> None:
    stage.platform.respond(HISTORY, history(move(1, STRANGE)))
    async with working_with_audit(stage):
        await await_release(stage)
        await stage.plan_as(STRANGE, "adjust", "prod_1")
        await stage.run_pending()
    assert stage.state(STRANGE) == "applied"
    assert stage.column("effect_id", STRANGE) == "adj_1"
    assert evidence(stage, STRANGE)["moves"][0]["note"] == f"bh:{STRANGE}"
    assert stage.server.commands == []


async def test_an_adopted_effect_is_no_foreign_event_later(stage: Scene) -> None:
    stage.platform.respond(HISTORY, history(move(1, STRANGE)))
    async with working_with_audit(stage):
        await await_release(stage)
        await audit(stage)
        assert stopped(stage) == {}
        stage.platform.respond(HISTORY, history(move(2, STRANGE), move(1, STRANGE)))
        await audit(stage)
        await audit(stage)
        await stage.plan_as(STRANGE, "adjust", "prod_1")
    assert len(stage.logged("command.doubled")) == 1
    assert evidence(stage, STRANGE)["doubled"] == ["adj_2"]


async def test_planned_before_and_sent_after_the_snapshot_is_applied(
    stage: Scene,
) -> None:
    command = await stage.plan("adjust", "prod_1")
    stage.platform.respond(HISTORY, history(move(1, command)))
    async with working_with_audit(stage):
        await stage.await_state(command, "applied")
        await await_release(stage)
    assert stage.server.commands == []
    assert len(stage.logged("audit.restored")) == 1


async def test_a_parcel_planned_after_a_restore_is_looked_up_once(
    stage: Scene,
) -> None:
    parcel = payloads.shipment(trackingCompany="BlueDart", trackingNumber="BD1")
    shown = payloads.order("ord_1", at=50, shipments=[parcel])
    stage.platform.respond("/orders/ord_1", document({"data": shown}))
    stage.platform.respond("/orders/ord_2", document({"data": payloads.order("ord_2")}))
    stage.platform.respond(HISTORY, history(move(1, STRANGE)))
    async with working_with_audit(stage):
        await await_release(stage)
        await stage.pass_time(3600)
        done = await stage.plan("fulfill", "ord_1")
        owed = await stage.plan("fulfill", "ord_2")
        stage.resolver.wake()
        await stage.await_state(done, "applied")
        await stage.await_state(owed, "applied")
    assert [request.path for request in stage.server.commands] == [
        "/orders/ord_2/fulfill"
    ]


async def test_a_lost_parcel_without_a_number_is_left_to_an_operator(
    stage: Scene,
) -> None:
    parcel = payloads.shipment(trackingCompany=None, trackingNumber=None)
    shown = payloads.order("ord_1", at=50, shipments=[parcel])
    stage.platform.respond("/orders/ord_1", document({"data": shown}))
    stage.platform.respond(HISTORY, history(move(1, STRANGE)))
    async with working_with_audit(stage):
        await await_release(stage)
        await stage.pass_time(3600)
        nameless = {"tracking_company": None, "tracking_number": None}
        command = await stage.plan("fulfill", "ord_1", **nameless)
        stage.resolver.wake()
        await stage.await_state(command, "parked")
    assert stage.server.commands == []


async def test_without_a_history_the_audit_logs_its_limits_once(
    stage: Scene,
) -> None:
    stage.platform.respond(HISTORY, problem(404, "NOT_FOUND"))
    command = await stage.plan("adjust", "prod_1")
    async with working_with_audit(stage):
        await stage.await_state(command, "applied")
        await audit(stage)
    assert len(stage.logged("audit.unavailable")) == 1


async def test_without_notes_the_audit_says_so_once(stage: Scene) -> None:
    stage.platform.respond(HISTORY, history())
    command = await stage.plan("adjust", "prod_1")
    async with working_with_audit(stage):
        await stage.await_state(command, "applied")
        stage.platform.respond(HISTORY, history(move(1, command, note=None)))
        await audit(stage)
        await audit(stage)
    (lines,) = stage.logged("audit.unavailable")
    assert "notes" in lines


async def test_an_audit_reads_back_to_the_last_one_only(stage: Scene) -> None:
    first = await stage.plan("adjust", "prod_1")
    async with working_with_audit(stage):
        await stage.await_state(first, "applied")
        old = [move(number, "0", note=None) for number in range(200, 100, -1)]
        page = document({"data": old, "meta": {"hasMore": True}})
        stage.platform.respond(HISTORY, page, history())
        await audit(stage)
        stage.platform.respond(HISTORY, page)
        before = len(stage.server.of("GET", HISTORY))
        await audit(stage)
        assert len(stage.server.of("GET", HISTORY)) == before + 1
    mark = await stage.store.kv.get(audited_mark("main"))
    assert mark == payloads.instant(200)


async def test_an_uncertain_command_delays_the_audit(stage: Scene) -> None:
    """The history may have two rows with its tag; the audit needs the first result."""
    command = await stage.plan("adjust", "prod_1")
    other = [move(number, "0", note=None) for number in (3000, 2999)]
    stage.platform.respond("/inventory/adjust", message(500))
    async with working(stage):
        stage.platform.respond(HISTORY, message(500))
        await stage.await_state(command, "uncertain")
    stage.platform.respond(HISTORY, history(*other, move(10, command)))
    await stage.auditor.audit_now()
    mark = await stage.store.kv.get(audited_mark("main"))
    assert mark == payloads.instant(10)


async def test_a_clock_set_back_between_two_runs_holds_nothing_up(
    database: Place,
) -> None:
    """No running daemon saw by how much, so nothing can be corrected."""
    async with scene(database) as stage:
        command = await stage.plan("adjust", "prod_1")
    async with scene(database, start=START - timedelta(days=1)) as stage:
        stage.platform.respond(HISTORY, history())
        async with working_with_audit(stage):
            await stage.await_state(command, "applied")
        assert len(stage.server.commands) == 1


async def test_a_clock_set_back_between_two_runs_makes_no_key_young(
    database: Place,
) -> None:
    """The age of the key is unknown: the platform may have deleted the key."""
    async with scene(database) as stage:
        stage.platform.respond("/inventory/adjust", message(500))
        stage.platform.respond(HISTORY, message(503))
        command = await stage.plan("adjust", "prod_1")
        async with working(stage):
            await stage.await_state(command, "uncertain")
    back = START - timedelta(days=1)
    async with scene(database, keyed=True, start=back) as stage:
        stage.platform.respond(HISTORY, history())
        async with working_with_audit(stage):
            await await_release(stage)
            await stage.pass_time(IN_FLIGHT_SECONDS)
            await until(lambda: "no such change" in stage.reason(command), "a check")
        assert stage.server.commands == []


async def test_a_clock_that_goes_back_stops_until_all_is_read(stage: Scene) -> None:
    stage.platform.respond(HISTORY, history())
    async with working_with_audit(stage):
        await await_release(stage)
        stage.platform.respond(HISTORY, message(500))
        stage.clock.set_back(3600)
        await stage.clock.await_sleeper(CLOCK_SECONDS)
        await stage.pass_time(CLOCK_SECONDS)
        await until(lambda: stage.logged("audit.clock"), "it is noticed")
        await stage.run_pending()
        command = await stage.plan("adjust", "prod_1")
        await stage.run_pending()
        assert "clock" in stopped(stage)[ALL]
        stage.platform.respond(HISTORY, history())
        while stage.state(command) != "applied":
            await stage.pass_time(10)
            await stage.run_pending()
    assert len(stage.logged("audit.clock")) == 1


async def test_a_clock_set_back_does_not_lengthen_a_wait(stage: Scene) -> None:
    stage.platform.respond("/inventory/adjust", message(500))
    stage.platform.respond(HISTORY, history())
    command = await stage.plan("adjust", "prod_1")
    async with working_with_audit(stage):
        await until(lambda: stage.column("looks", command) == 1, "one check")
        due = stage.column("due_at", command)
        stage.clock.set_back(3600)
        await stage.clock.await_sleeper(CLOCK_SECONDS)
        await stage.pass_time(CLOCK_SECONDS)
        await until(lambda: stage.column("due_at", command) != due, "it is moved")
    assert (due[11:13], stage.column("due_at", command)[11:13]) == ("12", "11")
    assert due[13:] == stage.column("due_at", command)[13:]


async def test_a_clock_set_back_makes_no_check_early(stage: Scene) -> None:
    """The command may have become uncertain later, so all checks keep their delay."""
    stage.platform.respond("/inventory/adjust", message(500))
    stage.platform.respond(HISTORY, history())
    async with working_with_audit(stage):
        await await_release(stage)
        stage.clock.set_back(300)
        command = await stage.plan("adjust", "prod_1")
        stage.dispatcher.wake()
        await until(lambda: stage.column("looks", command) == 1, "one check")
        due = stage.column("due_at", command)
        await stage.clock.await_sleeper(CLOCK_SECONDS)
        await stage.pass_time(CLOCK_SECONDS)
        await until(lambda: stage.logged("audit.clock"), "it is noticed")
        await await_release(stage)
        assert stage.column("due_at", command) == due


async def fail_locked(stage: Scene) -> None:
    """Let an audit fail because the database is locked."""
    failed = len(stage.logged("audit.failed"))
    with locked(stage.place, "ACCESS EXCLUSIVE"):
        stage.auditor.wake()
        await until(lambda: len(stage.logged("audit.failed")) > failed, "it fails")


async def test_a_locked_database_adopts_no_foreign_effect(stage: Scene) -> None:
    """Only the audit of a start adopts effects; an audit after a lock does not."""
    stage.platform.respond(HISTORY, history())
    async with working_with_audit(stage):
        await await_release(stage)
        await fail_locked(stage)
        stage.platform.respond(HISTORY, history(move(1, STRANGE)))
        await audit(stage)
        await fail_locked(stage)
        assert STRANGE in stopped(stage)[ALL]
    assert stage.logged("audit.restored") == []
    assert len(stage.logged("audit.foreign")) == 1


async def test_a_clock_set_back_under_a_lock_is_made_up_for(stage: Scene) -> None:
    stage.platform.respond("/inventory/adjust", message(500))
    stage.platform.respond(HISTORY, history())
    command = await stage.plan("adjust", "prod_1")
    async with working_with_audit(stage):
        await until(lambda: stage.column("looks", command) == 1, "one check")
        due = stage.column("due_at", command)
        stage.clock.set_back(3600)
        await stage.clock.await_sleeper(CLOCK_SECONDS)
        with locked(stage.place):
            await stage.clock.advance(CLOCK_SECONDS)
            await until(lambda: stage.logged("audit.failed"), "it fails")
        while stage.column("due_at", command) == due:
            await stage.pass_time(1)
            await stage.run_pending()
    assert len(stage.logged("audit.clock")) == 1


STRANGERS: dict[str, dict[str, Any]] = {
    "time": {"createdAt": "soon"},
    "delta": {"adjustment": 2.5},
    "source": {"source": [9]},
    "id": {"id": None},
}
UNUSED: dict[str, Any] = {"orderId": 7, "reason": {}, "stockAfter": 2.5}


@pytest.mark.parametrize("name", STRANGERS)
async def test_a_foreign_row_of_any_shape_stops_nothing(
    name: str, stage: Scene
) -> None:
    bad = move(3, "", note="stock take") | STRANGERS[name]
    stage.platform.respond(HISTORY, history(bad, move(2, STRANGE), bad))
    async with working_with_audit(stage):
        await await_release(stage)
        await audit(stage)
    assert len(stage.logged("audit.restored")) == 1
    assert len(stage.logged("audit.row_skipped")) == 1


async def test_unused_fields_of_a_row_may_have_any_shape(stage: Scene) -> None:
    stage.platform.respond(HISTORY, history(move(1, STRANGE, **UNUSED)))
    async with working_with_audit(stage):
        await await_release(stage)
    assert len(stage.logged("audit.restored")) == 1


async def test_a_row_that_may_be_ours_is_not_passed_over(stage: Scene) -> None:
    stage.platform.respond(HISTORY, history(move(1, STRANGE, adjustment=2.5)))
    async with working_with_audit(stage):
        await until(lambda: stage.logged("audit.failed"), "it cannot be read")
        assert stopped(stage)[ALL] == OPENING


async def test_damaged_knowledge_of_a_platform_is_learnt_again(
    stage: Scene,
) -> None:
    await stage.store.kv.put("habits:main", '{"keeps')
    command = await stage.plan("adjust", "prod_1")
    stage.platform.respond(HISTORY, history(move(1, command)))
    async with working_with_audit(stage):
        await await_release(stage)
    assert stage.state(command) == "applied"
