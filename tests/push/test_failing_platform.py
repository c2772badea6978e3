"""A failing platform is left alone, also by resends with an idempotency key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.backoff_and_circuit import FAILURES_TO_OPEN, PROBE_SECONDS
from backhaul.platform.client import LISTS
from backhaul.push.send_switch import FAILING
from backhaul.settings import Push
from scenes.pushing import Scene, scene, working
from scenes.scripted_platform import message, problem
from scenes.waiting import until

if TYPE_CHECKING:
    from backhaul.store import Place

PLANNED = FAILURES_TO_OPEN + 3


async def test_each_probe_lets_one_uncertain_command_try(database: Place) -> None:
    push = Push(concurrency=PLANNED)
    async with scene(database, push, keyed=True) as stage:
        stage.platform.respond("/inventory/adjust", message(500))
        planned = [await stage.plan("adjust", f"prod_{n}") for n in range(PLANNED)]
        async with working(stage):
            for command in planned:
                await stage.await_state(command, "uncertain")
            await stage.run_pending()
            assert stage.dispatcher.switch.is_failing
            sent = len(stage.server.commands)
            for number in range(1, 4):
                await stage.clock.await_sleeper(PROBE_SECONDS)
                await stage.pass_time(PROBE_SECONDS)
                await stage.await_commands(sent + number)
            del stage.platform.responses["/inventory/adjust"]
            while any(stage.state(command) != "applied" for command in planned):
                await stage.pass_time(PROBE_SECONDS)
                await stage.run_pending()


async def await_open_circuit(stage: Scene) -> None:
    """Let commands fail until the circuit breaker opens."""
    stage.platform.respond("/inventory/adjust", message(500))
    for number in range(FAILURES_TO_OPEN):
        await stage.plan("adjust", f"prod_{number}")
    stage.dispatcher.wake()
    await until(lambda: stage.dispatcher.switch.is_failing, "the circuit is open")


def stopped(stage: Scene) -> str:
    return stage.dispatcher.switch.reasons()["everything"]


async def test_a_key_refused_while_the_platform_failed_is_reported(
    stage: Scene,
) -> None:
    async with working(stage):
        await await_open_circuit(stage)
        for path in LISTS:
            stage.platform.respond(path, problem(401, "API_KEY_INVALID"))
        await stage.clock.await_sleeper(PROBE_SECONDS)
        await stage.pass_time(PROBE_SECONDS)
        await until(lambda: "API_KEY_INVALID" in stopped(stage), "the key is named")
    assert [FAILING in text for text in stage.logged("push.stopped")] == [True, False]


async def test_a_failing_platform_hides_no_other_reason(stage: Scene) -> None:
    stage.dispatcher.switch.block_failing()
    assert stopped(stage) == FAILING
    stage.dispatcher.switch.block_all("it is another store")
    stage.dispatcher.switch.block_failing()
    assert stopped(stage) == "it is another store"
