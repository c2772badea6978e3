"""The platform starts to refuse reads of the stock history, once or permanently."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from backhaul.push.effect_verification import EffectVerifier
from backhaul.push.history_audit import OPENING
from scenes.databases import locked
from scenes.pushing import working_with_audit
from scenes.scripted_platform import problem
from scenes.stock_history import HISTORY, history, move
from scenes.waiting import until

if TYPE_CHECKING:
    import pytest

    from backhaul.core.effect_proof import Move
    from scenes.pushing import Scene
    from scenes.scripted_platform import Connection, Request

EVERYTHING = "everything"
REFUSED = problem(403, "INSUFFICIENT_SCOPE")
STRANGE = "0" * 32


async def read_before(stage: Scene) -> str:
    """Read the history; then plan a command that appears in it only later."""
    stage.platform.respond(HISTORY, history(move(1, STRANGE, note=None)))
    await stage.auditor.audit_now(starting=True)
    return await stage.plan("adjust", "prod_1")


async def test_a_refused_history_read_lets_no_recorded_command_out(
    stage: Scene,
) -> None:
    """A gateway may answer so for a moment, while a restored daemon starts."""
    command = await read_before(stage)
    stage.platform.respond(HISTORY, REFUSED, history(move(2, command)))
    async with working_with_audit(stage):
        await until(lambda: stage.logged("audit.failed"), "it is logged")
        assert OPENING in stage.dispatcher.switch.reasons()[EVERYTHING]
        while stage.state(command) != "applied":
            await stage.run_pending()
            await stage.pass_time(1)
    assert stage.server.commands == []
    assert stage.logged("audit.unavailable") == []


async def test_a_history_that_is_refused_for_good_holds_nothing_up(
    stage: Scene,
) -> None:
    command = await read_before(stage)
    before = len(stage.server.of("GET", HISTORY))
    stage.platform.respond(HISTORY, REFUSED)
    async with working_with_audit(stage):
        while not stage.logged("audit.unavailable"):
            await stage.run_pending()
            await stage.pass_time(1)
        asked = len(stage.server.of("GET", HISTORY)) - before
        await stage.await_state(command, "applied")
    assert asked == 5


async def test_a_job_with_a_refused_read_is_not_reported_as_done(stage: Scene) -> None:
    ended = stage.reports
    stage.platform.respond(HISTORY, REFUSED)
    async with working_with_audit(stage):
        await until(lambda: not stage.dispatcher.switch.reasons(), "it has begun")
        stage.auditor.wake()
        await until(lambda: len(ended) == 1, "the job has ended")
        stage.platform.respond(HISTORY, history())
        stage.auditor.wake()
        await until(lambda: len(ended) == 2, "the next has ended")
    assert "INSUFFICIENT_SCOPE" in ended[0][1]
    assert ended[1] == ("audit", "the history was read")


async def test_a_lock_during_a_refused_audit_adopts_no_foreign_effect(
    stage: Scene,
) -> None:
    """A new audit would treat these effects as those of a restored database."""
    await read_before(stage)
    with ExitStack() as other:

        async def refuse_and_lock(_: Request, connection: Connection) -> None:
            other.enter_context(locked(stage.place))
            await connection.send(REFUSED)

        async with working_with_audit(stage):
            await until(lambda: not stage.dispatcher.switch.reasons(), "it has begun")
            foreign = history(move(2, "f" * 32))
            stage.platform.respond(HISTORY, refuse_and_lock, foreign)
            stage.auditor.wake()
            await until(lambda: stage.logged("audit.failed"), "it is logged")
            other.close()
            while not stage.logged("audit.foreign") + stage.logged("audit.restored"):
                stage.auditor.wake()
                await stage.run_pending()
                await stage.pass_time(1)
            assert stage.logged("audit.restored") == []
            assert "another Backhaul" in str(stage.dispatcher.switch.reasons())


async def test_an_unexpected_error_in_the_history_ends_nothing_else(
    stage: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands wait; a daemon that exits could not receive webhooks."""

    async def broken(_verifier: EffectVerifier, _moves: list[Move]) -> None:
        raise OverflowError("date value out of range")

    command = await read_before(stage)
    with monkeypatch.context() as patched:
        patched.setattr(EffectVerifier, "observe", broken)
        async with working_with_audit(stage):
            await until(lambda: stage.logged("audit.failed"), "it is logged")
            assert stage.server.commands == []
            patched.undo()
            while stage.state(command) != "applied":
                await stage.run_pending()
                await stage.pass_time(1)
    assert len(stage.logged("audit.failed")) == 1
