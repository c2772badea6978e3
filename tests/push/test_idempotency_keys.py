"""An uncertain command may be sent again with its idempotency key."""

from __future__ import annotations

import json
from datetime import UTC, time, timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import to_text
from backhaul.core.quiet_hours import QuietHours
from backhaul.errors import Busy
from backhaul.push.send_switch import PROBE_SECONDS
from backhaul.store.commands import Decision
from backhaul.store.sql.commands.uncertain import SqlUncertainCommands
from scenes.clock import START
from scenes.pushing import Scene, scene, working
from scenes.scripted_platform import Connection, Request, message, problem
from scenes.stock_history import HISTORY, history, move
from scenes.stored import checks
from scenes.uncertain_commands import (
    FAILED,
    advance_until,
    await_checks,
    await_failed_check,
    check_results,
    plan_uncertain,
    respond_applied,
)
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from backhaul.store import Place
    from backhaul.store.commands import UncertainCommand

ADJUST = "/inventory/adjust"
NO_ROOM = {"RateLimit_Policy": '"key";q=1;w=60', "RateLimit": '"key";r=0;t=60'}
"""Headers that allow no further request for a minute."""
MINUTES_OF_CHECKS = 20
"""Minutes until the last check, if every check counts."""


@pytest.fixture
async def keyed(database: Place) -> AsyncIterator[Scene]:
    async with scene(database, keyed=True) as made:
        yield made


async def test_under_its_key_it_is_sent_again_at_once(keyed: Scene) -> None:
    command = await plan_uncertain(keyed)
    async with working(keyed):
        await keyed.await_state(command, "applied")
    first, second = keyed.server.commands
    assert first.body == second.body
    name = "idempotency-key"
    assert first.headers[name] == second.headers[name]
    assert check_results(keyed, command) == [(1, "applied")]
    assert "same Idempotency-Key" in keyed.reason(command)


async def test_an_answer_to_a_resend_is_stored_without_its_customer(
    keyed: Scene,
) -> None:
    command = await plan_uncertain(keyed, "fulfill")
    async with working(keyed):
        await keyed.await_state(command, "applied")
    (check,) = checks(keyed.place, command)
    assert (read := check.read) is not None
    assert json.loads(read)["shipment"] == "shp_1"
    assert "a@b.example" not in read


async def test_a_resend_waits_for_room(keyed: Scene) -> None:
    command = await plan_uncertain(keyed)
    keyed.platform.respond(
        "/inventory/adjust", message(500, b"", **NO_ROOM), respond_applied
    )
    async with working(keyed):
        await keyed.await_state(command, "uncertain")
        # The first free request checks whether the platform still supports keys.
        for _ in range(2):
            await keyed.pass_time(59)
            await keyed.await_commands(1)
        await advance_until(keyed, lambda: keyed.state(command) == "applied")
    assert len(keyed.server.commands) == 2


async def test_a_command_parked_while_waiting_for_room_is_not_sent_again(
    keyed: Scene,
) -> None:
    command = await plan_uncertain(keyed)
    keyed.platform.respond(
        "/inventory/adjust", message(500, b"", **NO_ROOM), respond_applied
    )
    async with working(keyed):
        await keyed.await_state(command, "uncertain")
        await keyed.pass_time(59)
        parked = Decision(command, "park", "ann", "I do it manually")
        await keyed.store.decisions.decide(parked)
        await keyed.pass_time(120)
        await keyed.await_commands(1)
    assert keyed.state(command) == "parked"


async def test_a_command_paused_while_waiting_for_room_is_not_sent_again(
    keyed: Scene,
) -> None:
    command = await plan_uncertain(keyed)
    keyed.platform.respond(ADJUST, message(500, b"", **NO_ROOM), respond_applied)
    async with working(keyed):
        await keyed.await_state(command, "uncertain")
        await keyed.pass_time(59)
        pause(keyed)
        await keyed.pass_time(120)
        await keyed.await_commands(1)
    assert keyed.state(command) == "uncertain"


def renew_the_key(stage: Scene) -> None:
    stage.resolver._resend.client.transport.use_key("svc_live_replaced_0123456789")


def throttle_for_a_day(stage: Scene) -> None:
    budget, day = stage.resolver._resend.client.transport.budget, timedelta(days=1)
    budget._longest_pause = day.total_seconds()
    budget.throttled(stage.clock.monotonic(), day.total_seconds())


@pytest.mark.parametrize("happen", [renew_the_key, throttle_for_a_day])
async def test_a_key_that_lost_its_worth_in_the_wait_for_room_is_not_used_again(
    happen: Callable[[Scene], None], keyed: Scene
) -> None:
    """The platform would treat the key as new, and apply the command again."""
    command = await plan_uncertain(keyed)
    keyed.platform.respond(ADJUST, message(500, b"", **NO_ROOM), respond_applied)
    async with working(keyed):
        await keyed.await_state(command, "uncertain")
        await keyed.pass_time(59)
        happen(keyed)
        await keyed.clock.advance(timedelta(days=1, minutes=2).total_seconds())
        for _ in range(MINUTES_OF_CHECKS):
            await keyed.pass_time(60)
            await keyed.run_pending()
    assert len(keyed.server.commands) == 1
    assert keyed.state(command) == "parked"


async def test_room_is_released_where_a_busy_database_ends_a_check(
    keyed: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(_: SqlUncertainCommands, _command: UncertainCommand) -> bool:
        raise Busy("the database is locked")

    monkeypatch.setattr(SqlUncertainCommands, "is_still_uncertain", busy)
    room = {"RateLimit_Policy": '"key";q=60;w=60', "RateLimit": '"key";r=10;t=50'}
    command = await plan_uncertain(keyed)
    keyed.platform.respond(ADJUST, message(500, b"", **room))
    async with working(keyed):
        await until(lambda: "is locked" in keyed.reason(command), "a check")
    budget = keyed.resolver._resend.client.transport.budget
    assert budget.take(60, keyed.clock.monotonic()) == 9


async def test_a_refusal_under_its_key_proves_nothing(keyed: Scene) -> None:
    command = await plan_uncertain(keyed)
    conflict = problem(409, "IDEMPOTENCY_IN_PROGRESS")
    keyed.platform.respond("/inventory/adjust", FAILED, conflict)
    keyed.platform.respond(HISTORY, history(move(1, command)))
    async with working(keyed):
        await keyed.await_state(command, "applied")
    assert "history shows our reference tag" in keyed.reason(command)


async def test_where_its_key_is_not_answered_the_history_is_read(keyed: Scene) -> None:
    """A missing row is no proof, because a resent request may be in flight."""

    async def reset(_: Request, connection: Connection) -> None:
        connection.reset()

    command = await plan_uncertain(keyed)
    keyed.platform.respond("/inventory/adjust", FAILED, reset)
    keyed.platform.respond(HISTORY, history())
    async with working(keyed):
        await until(
            lambda: "with its key and got no response" in keyed.reason(command),
            "a check",
        )
        assert check_results(keyed, command) == []
        keyed.platform.respond(HISTORY, history(move(1, command)))
        while keyed.state(command) != "applied":
            await keyed.pass_time(1)
            await keyed.run_pending()
    assert "history shows our reference tag" in keyed.reason(command)


async def test_a_command_that_its_key_can_prove_needs_no_history(
    keyed: Scene,
) -> None:
    command = await plan_uncertain(keyed)
    keyed.platform.respond("/inventory/adjust", FAILED, FAILED, respond_applied)
    async with working(keyed):
        await await_checks(keyed, command, 1)
        assert keyed.state(command) == "uncertain"
        await keyed.pass_time(120)
        await keyed.await_state(command, "applied")
    assert check_results(keyed, command) == [(1, "undecidable"), (2, "applied")]


async def test_a_check_does_not_count_while_its_key_cannot_be_sent(
    keyed: Scene,
) -> None:
    async def turn_sending_off(_: Request, connection: Connection) -> None:
        keyed.dispatcher.switch.block_all("an operator said so")
        await connection.send(FAILED)

    command = await plan_uncertain(keyed)
    keyed.platform.respond("/inventory/adjust", turn_sending_off, respond_applied)
    async with working(keyed):
        await until(lambda: "when sending resumes" in keyed.reason(command), "a check")
        assert check_results(keyed, command) == []
        while keyed.state(command) != "applied":
            await keyed.pass_time(PROBE_SECONDS)
            await keyed.run_pending()
    assert "same Idempotency-Key" in keyed.reason(command)


def pause(stage: Scene) -> None:
    stage.dispatcher.pause("adjust", to_text(stage.clock.now()))


HOLDING: dict[str, tuple[Callable[[Scene], None], Callable[[Scene], None]]] = {
    "paused": (pause, lambda stage: stage.dispatcher.pause("adjust", None)),
    "paused, then opened": (pause, lambda stage: stage.open_window("adjust")),
    "disabled": (
        lambda stage: stage.dispatcher.windows.set_enabled("adjust", enabled=False),
        lambda stage: stage.dispatcher.windows.set_enabled("adjust", enabled=True),
    ),
}


@pytest.mark.parametrize("held", HOLDING)
async def test_nothing_is_sent_again_while_its_job_is_held(
    held: str, keyed: Scene
) -> None:
    hold, release = HOLDING[held]

    async def fail(_: Request, connection: Connection) -> None:
        hold(keyed)
        await connection.send(FAILED)

    command = await plan_uncertain(keyed)
    keyed.platform.respond(ADJUST, fail, respond_applied)
    async with working(keyed):
        await until(lambda: "when sending resumes" in keyed.reason(command), "a check")
        for _ in range(MINUTES_OF_CHECKS):
            await keyed.pass_time(60)
            await keyed.await_commands(1)
        assert check_results(keyed, command) == []
        release(keyed)
        while keyed.state(command) != "applied":
            await keyed.pass_time(60)
            await keyed.run_pending()
    assert len(keyed.server.commands) == 2
    assert "same Idempotency-Key" in keyed.reason(command)


async def test_an_uncertain_command_waits_for_no_quiet_hours(keyed: Scene) -> None:
    async def fall_quiet(_: Request, connection: Connection) -> None:
        all_day = ((time(0), time(12)), (time(12), time(0)))
        keyed.dispatcher.windows.set_quiet("adjust", QuietHours(all_day, UTC))
        await connection.send(FAILED)

    command = await plan_uncertain(keyed)
    keyed.platform.respond(ADJUST, fall_quiet, respond_applied)
    async with working(keyed):
        await keyed.await_state(command, "applied")
    assert len(keyed.server.commands) == 2


STOPPING = {
    "a scope is missing": ("adjust", problem(403, "INSUFFICIENT_SCOPE")),
    "the key is refused": ("everything", problem(401, "API_KEY_INVALID")),
    "a proxy refuses": ("everything", message(403, b"<html>", "text/html")),
    "a proxy knows no path": ("everything", message(404, b"<html>", "text/html")),
    "a proxy leads away": ("everything", message(302, Location="/login")),
}


@pytest.mark.parametrize("name", STOPPING)
async def test_a_refused_resend_with_a_key_closes_the_send_switch(
    name: str, keyed: Scene
) -> None:
    stopped, refusal = STOPPING[name]
    command = await plan_uncertain(keyed)
    keyed.platform.respond(ADJUST, FAILED, refusal)
    async with working(keyed):
        await until(
            lambda: stopped in keyed.dispatcher.switch.reasons(), "it is closed"
        )
        await keyed.pass_time(PROBE_SECONDS - 1)
        await keyed.await_commands(2)
        assert len(keyed.logged("push.stopped")) == 1
        keyed.platform.respond(ADJUST, respond_applied)
        while keyed.state(command) != "applied":
            await keyed.pass_time(PROBE_SECONDS)
            await keyed.run_pending()
    assert check_results(keyed, command) == [(1, "applied")]
    assert "same Idempotency-Key" in keyed.reason(command)
    assert len(keyed.logged("push.resumed")) == 1


UNANSWERED = {
    "throttled": problem(429, "RATE_LIMITED"),
    "refused": problem(403, "INSUFFICIENT_SCOPE"),
}


@pytest.mark.parametrize("answer", UNANSWERED)
@pytest.mark.parametrize("read", [None, history()], ids=["no history", "absent"])
async def test_no_check_counts_whose_key_was_not_let_through(
    answer: str, read: bytes | None, keyed: Scene
) -> None:
    """After the last check the command would be parked, or treated as absent."""
    command = await plan_uncertain(keyed)
    keyed.platform.respond(ADJUST, FAILED, UNANSWERED[answer])
    if read is not None:
        keyed.platform.respond(HISTORY, read)
    async with working(keyed):
        for _ in range(MINUTES_OF_CHECKS):
            await keyed.pass_time(60)
            await keyed.run_pending()
        await advance_until(keyed, lambda: len(keyed.server.commands) > 3)
        assert (keyed.state(command), check_results(keyed, command)) == (
            "uncertain",
            [],
        )
        keyed.platform.respond(ADJUST, respond_applied)
        while keyed.state(command) != "applied":
            await keyed.pass_time(60)
            await keyed.run_pending()
    assert "same Idempotency-Key" in keyed.reason(command)
    is_stopped = bool(keyed.logged("push.stopped"))
    assert is_stopped is (answer == "refused")


async def test_a_key_that_is_too_old_is_not_used_again(keyed: Scene) -> None:
    command = await plan_uncertain(keyed)
    keyed.platform.respond("/inventory/adjust", FAILED)
    keyed.platform.respond(HISTORY, message(503))
    async with working(keyed):
        await await_failed_check(keyed, command)
        sent = len(keyed.server.commands)
        assert sent > 1
        for _ in range(24 * 12):
            await keyed.pass_time(300)
        await keyed.run_pending()
        sent = len(keyed.server.commands)
        await keyed.pass_time(3_600)
        await keyed.run_pending()
    assert len(keyed.server.commands) == sent


@pytest.mark.parametrize("back_seconds", [0, 1_800], ids=["", "set back"])
async def test_the_age_of_a_key_counts_from_when_it_was_sent_first(
    back_seconds: int, database: Place
) -> None:
    """The platform deletes a key one day after its first use."""
    path = database
    async with scene(path) as stage:
        command = await plan_uncertain(stage)
        stage.platform.respond(HISTORY, message(503))
        async with working(stage):
            await stage.await_state(command, "uncertain")
            await stage.store.decisions.decide(Decision(command, "park", "op", ""))
    async with scene(path, start=START + timedelta(hours=22)) as stage:
        stage.platform.respond("/inventory/adjust", FAILED)
        stage.platform.respond(HISTORY, message(503))
        await stage.store.decisions.decide(Decision(command, "resend", "op", ""))
        async with working(stage):
            await stage.await_state(command, "uncertain")
    async with scene(path, keyed=True, start=START + timedelta(hours=23)) as stage:
        stage.platform.respond(HISTORY, history())
        stage.clock.set_back(back_seconds)
        await stage.store.tags.shift("main", back_seconds, 60)
        await stage.pass_time(60)
        assert await stage.resolver.check_due() == 1
        assert check_results(stage, command)[-1][1] == "absent"
        assert stage.server.commands == []
