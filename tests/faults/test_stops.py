"""F5: a daemon that is stopped while busy sends nothing more, and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from faults.proxied import proxied
from faults.stopping import REQUESTS, Signaled, mixed, of_commands
from faults.trials import LONG, SEED, chances, tell
from scenes.fault_proxy import timeout
from scenes.stored import bodies, command_counts
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from faults.proxied import Line

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(3_600 if LONG else 600),
]

RUNS = {False: 50, True: 50} if LONG else {False: 2, True: 1}
"""The number of stops, without and with idempotency keys."""
PRODUCTS = 60
LOST = 0.3
"""The share of commands without a response."""
NEVER_FINISHED = 5
SENT = ("applied", "uncertain")
PUSH = """[push]
retry_base = "50ms"
concurrency = 10
read_seconds = {}
check_after = ["0s", "400ms", "800ms"]"""


def patient(seconds: int) -> str:
    return PUSH.format(seconds)


async def check_drained(line: Line, run: str) -> None:
    """Let a new daemon resolve all open commands, and compare both sides."""
    line.proxy.storm = None
    await line.start_again()
    await line.drained()
    assert await line.findings() == [], run


def unkept(line: Line, told: Signaled) -> set[bytes]:
    return told.kept - set(bodies(line.office.database))


@pytest.mark.parametrize("keyed", RUNS, ids=["keyless", "keyed"])
async def test_a_busy_daemon_ends_and_sends_nothing_more(
    keyed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = chances()
    folder = tmp_path / "platform"
    async with proxied(folder, PRODUCTS, push=patient(1), keyed=keyed) as line:
        for number in range(RUNS[keyed]):
            run = f"seed {SEED}, run {number}"
            line.proxy.storm = mixed(chance, LOST, 0.8)
            told = Signaled(line)
            await told.fill(REQUESTS)
            told.signal()
            stalled = 0 if number % 2 else NEVER_FINISHED
            assert set(await told.finish(told.halved[stalled:])) == {200}, run
            assert await told.ended() == 0, run
            assert told.sent_after() == [], run
            assert states(line) <= {"applied", "uncertain", "planned"}, run
            assert unkept(line, told) == set(), run
            await check_drained(line, run)
    tell(capsys, 0, RUNS[keyed], "stops")


@pytest.mark.long
async def test_a_request_that_is_never_answered_does_not_delay_a_stop(
    tmp_path: Path,
) -> None:
    """Neither the longest timeout nor a stalled request may exceed systemd's."""
    async with proxied(tmp_path / "platform", PRODUCTS, push=patient(60)) as line:
        line.proxy.storm = of_commands(timeout)
        told = Signaled(line)
        await told.fill(NEVER_FINISHED)
        told.signal()
        assert (await told.ended(), told.sent_after()) == (0, [])
        # if it had waited for the responses, the outcomes would be uncertain
        assert states(line) == {"sending", "planned"}
        await check_drained(line, "never answered")


@pytest.mark.parametrize("requests", [NEVER_FINISHED, 0] if LONG else [NEVER_FINISHED])
async def test_a_second_stop_signal_ends_the_daemon_at_once(
    requests: int, tmp_path: Path
) -> None:
    async with proxied(tmp_path / "platform", PRODUCTS, push=patient(60)) as line:
        line.proxy.storm = of_commands(timeout)
        told = Signaled(line)
        await told.fill(requests)
        told.signal()
        log = line.daemon.log
        await until(lambda: "daemon.stopping" in log.read_text(), "it stops")
        told.signal()
        assert await told.ended() == 1
        # it did not wait for responses, so the outcomes are uncertain
        assert "uncertain" not in states(line)
        assert "stopped at once" in log.read_text()
        await check_drained(line, "told twice")


def states(line: Line) -> set[str]:
    return {*command_counts(line.office.database)}
