"""The resolver: when it checks an uncertain command, and what proves the outcome."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.core.backoff_and_circuit import FAILURES_TO_OPEN
from backhaul.core.backoff_and_circuit import PROBE_SECONDS as CIRCUIT_PROBE_SECONDS
from backhaul.core.clock import to_text
from backhaul.platform.client import LISTS
from backhaul.runtime.loop import IDLE_SECONDS
from backhaul.settings import Push
from scenes import payloads
from scenes.clock import START
from scenes.databases import append_and_fold
from scenes.pushing import Scene, scene, working
from scenes.scripted_platform import document, message, problem
from scenes.stock_history import HISTORY, history, move
from scenes.stored import checks
from scenes.uncertain_commands import (
    FAILED,
    advance_until,
    await_checks,
    await_failed_check,
    check_results,
    pass_all_checks,
    plan_uncertain,
)
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Place
    from backhaul.store.commands import UncertainCommand

MOST_SECONDS = 60
"""The longest delay of the next check (it was 300 s after many failures)."""


@pytest.fixture
async def parking(database: Place) -> AsyncIterator[Scene]:
    async with scene(database, Push(on_absent="park")) as made:
        yield made


async def test_an_adjustment_in_the_history_is_applied_at_the_first_check(
    stage: Scene,
) -> None:
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, history(move(1, command)))
    async with working(stage):
        await stage.await_state(command, "applied")
    assert len(stage.server.commands) == 1
    assert check_results(stage, command) == [(1, "applied")]
    assert stage.column("effect_id", command) == "adj_1"
    assert json.loads(stage.column("evidence", command))["adjustment_id"] == "adj_1"
    assert "history shows our reference tag" in stage.reason(command)


async def test_absence_is_believed_at_the_last_check_only(stage: Scene) -> None:
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, history())
    async with working(stage):
        await await_checks(stage, command, 1)
        for seconds, taken in ((119, 1), (1, 2), (479, 2)):
            await stage.pass_time(seconds)
            await stage.run_pending()
            await await_checks(stage, command, taken)
            assert stage.state(command) == "uncertain"
        await stage.pass_time(1)
        await stage.await_state(command, "applied")
    assert [found for _, found in check_results(stage, command)] == ["absent"] * 3
    assert [body["note"] for body in stage.sent_bodies()] == [f"bh:{command}"] * 2
    assert stage.attempts(command)[1][:3] == (2, "confirmed", 200)


@pytest.mark.parametrize("before", [1, 2], ids=["check 2", "the last check"])
async def test_a_clock_set_forward_makes_no_check_early(
    before: int, stage: Scene
) -> None:
    """A missing effect would count as proof while the request is in flight."""
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, history())
    async with working(stage):
        await await_checks(stage, command, 1)
        for taken, seconds in ((1, 120), (2, 480)):
            if taken == before:
                stage.clock.set_back(-3_600)
            for passed in (0, seconds - 1):
                await stage.pass_time(passed)
                await stage.run_pending()
                assert len(check_results(stage, command)) == taken
            await stage.pass_time(1)
            await await_checks(stage, command, taken + 1)
        await stage.await_state(command, "applied")
    assert len(stage.server.commands) == 2


async def test_a_clock_set_forward_while_the_database_is_busy_starts_no_check(
    stage: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Due checks are read by the new clock before the daemon noticed the change."""
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, history())
    due, jumps = stage.store.uncertain.due, [-3_600.0]

    async def slowly(store: str, limit: int) -> list[UncertainCommand]:
        if len(check_results(stage, command)) == 2 and jumps:
            stage.clock.set_back(jumps.pop())
        return await due(store, limit)

    monkeypatch.setattr(stage.store.uncertain, "due", slowly)
    async with working(stage):
        await await_checks(stage, command, 1)
        await stage.pass_time(120)
        await until(lambda: not jumps, "the clock is set forward")
        await stage.pass_time(479)
        await stage.run_pending()
        await stage.pass_time(1)
        await stage.await_state(command, "applied")
    when = START + timedelta(seconds=3_600 + 120 + 480)
    times = [check.at for check in checks(stage.place, command)]
    assert times[2:] == [to_text(when)]


async def test_a_clock_set_forward_without_a_command_delays_no_later_check(
    stage: Scene,
) -> None:
    rests = stage.clock.slept

    async def both_rest() -> None:
        await until(lambda: rests.count(IDLE_SECONDS) == 2, "both rest")
        rests.clear()

    async with working(stage):
        await both_rest()
        stage.clock.set_back(-3_600)
        await stage.clock.advance(IDLE_SECONDS)  # nobody wakes them
        await both_rest()
        stage.platform.respond(HISTORY, history())
        command = await plan_uncertain(stage)
        await stage.run_pending()
        await await_checks(stage, command, 1)


UNREADABLE = {
    "product": ("products/update", payloads.product() | {"variants": 5}),
    "deletion": ("products/delete", {"id": "prod_1", "deletedAt": "?"}),
    "stock": (
        "inventory/level_update",
        payloads.stock_change(levels=[{"stock": None}]),
    ),
}


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "lost"])
@pytest.mark.parametrize("name", UNREADABLE)
async def test_an_unreadable_event_of_the_product_doubles_no_adjustment(
    name: str, applied: bool, stage: Scene
) -> None:
    """No adjustment waits for the refetch: the history is the evidence, not events."""
    ((_, folded),) = await append_and_fold(
        stage.store, payloads.envelope(*UNREADABLE[name])
    )
    assert folded.state == "quarantined"
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, history(*([move(1, command)] if applied else [])))
    async with working(stage):
        if not applied:
            await pass_all_checks(stage, command)
        await stage.await_state(command, "applied")
    assert [body["adjustment"] for body in stage.sent_bodies()] == [-2] * (2 - applied)


async def test_a_check_after_a_clock_was_set_forward_is_not_put_off(
    stage: Scene,
) -> None:
    """The clock was set while no command was uncertain, so no check noticed it."""
    async with working(stage):
        await stage.run_pending()
        stage.clock.set_back(-86_400)
        command = await plan_uncertain(stage)
        stage.platform.respond(HISTORY, history(move(1, command)))
        stage.dispatcher.wake()
        await stage.await_state(command, "applied")
    assert check_results(stage, command) == [(1, "applied")]


async def test_a_command_may_still_take_effect_between_the_checks(stage: Scene) -> None:
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, history(), history(move(1, command)))
    async with working(stage):
        await await_checks(stage, command, 1)
        await stage.pass_time(120)
        await stage.await_state(command, "applied")
    assert len(stage.server.commands) == 1


async def test_an_absent_effect_is_left_to_an_operator_where_configured(
    parking: Scene,
) -> None:
    command = await plan_uncertain(parking)
    parking.platform.respond(HISTORY, history())
    async with working(parking):
        await parking.await_parked(command)
    assert len(parking.server.commands) == 1
    shown = "the platform answered 500; the history shows no such change (3 checks)"
    assert parking.reason(command) == shown


async def test_the_lane_waits_and_the_others_run_on(stage: Scene) -> None:
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, history())
    behind = await stage.plan("adjust", "prod_1")
    other = await stage.plan("adjust", "prod_2")
    async with working(stage):
        await stage.await_state(other, "applied")
        await await_checks(stage, command, 1)
        assert stage.state(behind) == "planned"
        await pass_all_checks(stage, command)
        await stage.await_state(behind, "applied")
    assert stage.state(command) == "applied"


async def test_without_a_history_an_adjustment_is_parked_at_once(stage: Scene) -> None:
    command = await plan_uncertain(stage)
    async with working(stage):
        await stage.await_state(command, "parked")
    assert len(stage.server.commands) == 1
    assert "without a stock history" in stage.reason(command)


async def test_a_history_that_was_read_before_is_requested_again(stage: Scene) -> None:
    """One refusal does not show that the platform has no history."""
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, history(move(100, "0", note=None)))
    await stage.auditor.audit_now()
    stage.platform.respond(HISTORY, problem(403, "FORBIDDEN"))
    async with working(stage):
        await await_failed_check(stage, command, 403)
        assert stage.state(command) == "uncertain"
        stage.platform.respond(HISTORY, history(move(1, command)))
        await advance_until(stage, lambda: stage.state(command) == "applied")
    assert len(stage.server.commands) == 1


async def test_an_unreadable_answer_proves_nothing_and_is_read_again(
    stage: Scene,
) -> None:
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, message(503))
    async with working(stage):
        await await_failed_check(stage, command)
        assert check_results(stage, command) == []
        stage.platform.respond(HISTORY, history())
        await advance_until(stage, lambda: check_results(stage, command))
    assert stage.state(command) == "uncertain"


async def test_a_long_throttling_does_not_put_checks_off_ever_longer(
    stage: Scene,
) -> None:
    """While the circuit is open no check runs, so no check fails."""
    stage.platform.respond("/inventory/adjust", FAILED)
    for path in (HISTORY, *LISTS):
        stage.platform.respond(path, message(503))
    planned = [
        await stage.plan("adjust", f"prod_{number}")
        for number in range(FAILURES_TO_OPEN)
    ]
    async with working(stage):
        while not stage.dispatcher.switch.is_failing:
            await stage.pass_time(0.1)
            await stage.run_pending()
        for _ in range(60):
            await stage.pass_time(CIRCUIT_PROBE_SECONDS)
        assert [check_results(stage, command) for command in planned] == [[]] * len(
            planned
        )
        for path in LISTS:
            stage.platform.respond(path, document({"data": []}))
        moves = [
            move(number, command, productId=f"prod_{number}")
            for number, command in enumerate(planned)
        ]
        stage.platform.respond(HISTORY, history(*moves))
        healed = stage.clock.monotonic()
        while any(stage.state(command) != "applied" for command in planned):
            await stage.pass_time(1)
            await stage.run_pending()
        assert stage.clock.monotonic() - healed < MOST_SECONDS


@pytest.mark.parametrize("kind", ["fulfill", "cancel"])
async def test_an_order_that_shows_the_effect_is_applied(
    kind: str, stage: Scene
) -> None:
    command = await plan_uncertain(stage, kind)
    gone = {"restocked": True, "cancelledAt": payloads.instant(3)}
    shows = {
        "fulfill": payloads.order(shipments=[payloads.shipment()]),
        "cancel": payloads.order(cancellation=gone),
    }
    stage.platform.respond("/orders/ord_1", document({"data": shows[kind]}))
    async with working(stage):
        await stage.await_state(command, "applied")
    assert len(stage.server.commands) == 1
    assert check_results(stage, command) == [(1, "applied")]


@pytest.mark.parametrize("kind", ["fulfill", "cancel"])
async def test_an_order_without_the_effect_is_sent_again_after_the_last_check(
    kind: str, stage: Scene
) -> None:
    command = await plan_uncertain(stage, kind)
    stage.platform.respond("/orders/ord_1", document({"data": payloads.order()}))
    async with working(stage):
        await await_checks(stage, command, 1)
        assert len(stage.server.commands) == 1
        await pass_all_checks(stage, command)
        await stage.await_state(command, "applied")
    assert len(stage.server.commands) == 2


async def test_a_parcel_without_its_number_needs_an_operator(stage: Scene) -> None:
    command = await plan_uncertain(stage, "fulfill")
    nameless = payloads.shipment(trackingNumber=None, trackingCompany=None)
    order = payloads.order(shipments=[nameless])
    stage.platform.respond("/orders/ord_1", document({"data": order}))
    async with working(stage):
        await stage.await_parked(command)
    assert len(stage.server.commands) == 1
    assert "without a number" in stage.reason(command)


OTHERWISE = [
    (True, False, "without the restock that was asked for"),
    (False, True, "with a restock that was not asked for"),
]


@pytest.mark.parametrize(("asked", "restocked", "says"), OTHERWISE)
async def test_a_cancellation_with_another_restock_needs_an_operator(
    asked: bool, restocked: bool, says: str, stage: Scene
) -> None:
    """A second cancellation cannot correct the stock, whoever cancelled the order."""
    command = await plan_uncertain(stage, "cancel", restock=asked)
    gone = {"restocked": restocked, "cancelledAt": payloads.instant(3)}
    order = payloads.order(cancellation=gone)
    stage.platform.respond("/orders/ord_1", document({"data": order}))
    async with working(stage):
        await stage.await_state(command, "parked")
    found = f"the platform answered 500; the order is cancelled, {says} (1 check)"
    assert stage.reason(command) == found


async def test_a_parcel_that_was_there_before_is_no_proof_without_a_number(
    stage: Scene,
) -> None:
    parcel = payloads.shipment(trackingNumber=None, trackingCompany=None)
    order = payloads.order(at=1, shipments=[parcel])
    await stage.fold(order)
    command = await plan_uncertain(
        stage, "fulfill", tracking_number=None, tracking_company=None
    )
    stage.platform.respond("/orders/ord_1", document({"data": order}))
    async with working(stage):
        await await_checks(stage, command, 1)
    assert check_results(stage, command) == [(1, "absent")]


async def test_an_effect_that_occurred_twice_is_reported(stage: Scene) -> None:
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, history(move(2, command), move(1, command)))
    async with working(stage):
        await stage.await_state(command, "applied")
        await until(lambda: stage.logged("command.doubled") != [], "an alert")
    (text,) = stage.logged("command.doubled")
    assert "adj_1" in text
    assert json.loads(stage.column("evidence", command))["doubled"] == ["adj_1"]
    (found,) = (await stage.store.alert_conditions.current([])).doubled
    assert (found.id, found.detail) == (command, "adj_1")


async def test_a_tag_is_believed_without_a_read_of_another_product(
    stage: Scene,
) -> None:
    """Otherwise every check would read more from a platform without sources."""
    before = await stage.plan("adjust", "prod_9")
    async with working(stage):
        await stage.await_state(before, "applied")
        stage.platform.respond(HISTORY, history())
        command = await plan_uncertain(stage)
        stage.dispatcher.wake()
        await await_checks(stage, command, 1)
        stage.platform.respond(HISTORY, history(move(2, command, source=None)))
        stage.server.requests.clear()
        await stage.pass_time(120)
        await stage.await_state(command, "applied")
    (read,) = stage.server.of("GET", HISTORY)
    assert "productId=prod_1" in read.query


async def test_where_notes_are_stored_a_missing_tag_proves_absence(
    stage: Scene,
) -> None:
    before = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(before, "applied")
        stage.platform.respond(HISTORY, history(move(1, before, source=None)))
        command = await plan_uncertain(stage)
        stage.dispatcher.wake()
        await await_checks(stage, command, 1)
    assert check_results(stage, command) == [(1, "absent")]
    assert len(stage.server.of("GET", HISTORY)) == 1


BAD = move(3, "", note=None, adjustment=2.5)


async def test_a_row_of_unknown_shape_hides_no_tag(stage: Scene) -> None:
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, history(BAD, move(1, command)))
    async with working(stage):
        await stage.await_state(command, "applied")
    assert len(stage.server.commands) == 1


async def test_a_row_of_unknown_shape_is_left_to_an_operator(
    stage: Scene,
) -> None:
    """If the platform keeps no notes, the row may be this adjustment."""
    command = await plan_uncertain(stage)
    stage.platform.respond(HISTORY, history(BAD))
    async with working(stage):
        await stage.await_parked(command)
    assert len(stage.server.commands) == 1
    assert "could be read" in stage.reason(command)


async def test_only_the_newer_part_of_the_history_counts(stage: Scene) -> None:
    """Rows that the mirror had before the send are no evidence; the read ends there."""
    known = payloads.stock_change(at=1)
    await append_and_fold(
        stage.store, payloads.envelope("inventory/level_update", known)
    )
    command = await plan_uncertain(stage)
    older = document({"data": [move(1, "a"), move(0, command)]})
    stage.platform.respond(HISTORY, older)
    async with working(stage):
        await await_checks(stage, command, 1)
    assert check_results(stage, command) == [(1, "absent")]
    baseline = json.loads(stage.column("baseline", command))
    assert baseline["adjustment_id"] == "adj_1"
    assert len(stage.server.of("GET", HISTORY)) == 1
