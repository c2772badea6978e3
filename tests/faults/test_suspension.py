"""F6: the process is paused for a while, as on a suspended machine."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import from_text, to_text
from faults.proxied import proxied
from faults.stopping import of_commands
from faults.trials import LONG, tell
from scenes.fault_proxy import latency
from scenes.stored import job_runs
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from faults.proxied import Line

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(900 if LONG else 600),
]

STANDSTILLS = 5 if LONG else 1
STILL_SECONDS = 120.0 if LONG else 4.0
"""Longer than several intervals of each job; in the long form also than a timeout."""
PUSH = """[push]
retry_base = "50ms"
read_seconds = 10
check_after = ["0s", "1s", "2s"]"""
EVERY_SECONDS = {"prune": 1, "reconcile_incremental": 2}
JOBS = """
[jobs.reconcile_full]
enabled = false
[jobs.prune]
every = "1s"
[jobs.reconcile_incremental]
every = "2s"
"""
SENT_AT_ONCE = 8
MISSED = 3
"""Missed runs of the rarest job: all of them at once would be a burst."""


def runs_since(line: Line, job: str, moment: str) -> list[datetime]:
    runs = (run for run in job_runs(line.office.database) if run.job == job)
    return sorted(from_text(run.started_at) for run in runs if run.started_at > moment)


async def stand_still(line: Line) -> str:
    """Suspend and resume the process; return the time when it resumes."""
    line.daemon.process.send_signal(signal.SIGSTOP)
    end = time.monotonic() + STILL_SECONDS
    await until(lambda: time.monotonic() > end, "a while")
    moment = to_text(datetime.now(UTC))
    line.daemon.process.send_signal(signal.SIGCONT)
    return moment


async def check_runs(line: Line, job: str, moment: str) -> None:
    """Count the runs: one for all missed ones, then one for each interval."""
    every = EVERY_SECONDS[job]
    await until(lambda: len(runs_since(line, job, moment)) > MISSED, f"{job} runs on")
    found = runs_since(line, job, moment)
    span = (found[-1] - found[0]).total_seconds()
    assert len(found) <= span / every + 2, f"{job} ran at {found}"


async def test_after_a_suspension_nothing_runs_or_takes_effect_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with proxied(tmp_path / "platform", 40, push=PUSH, more=JOBS) as line:
        await until(lambda: runs_since(line, "prune", ""), "a job has run")
        for _ in range(STANDSTILLS):
            line.proxy.storm = of_commands(latency(1))
            sent = len(line.proxy.requests("POST"))
            line.adjust(*line.products(20))
            await line.posted(sent + SENT_AT_ONCE)
            moment = await stand_still(line)
            line.proxy.storm = None
            for job in EVERY_SECONDS:
                await check_runs(line, job, moment)
            await line.drained()
            assert await line.findings() == []
        assert line.daemon.terminate() == 0
    tell(capsys, 0, STANDSTILLS, f"standstills of {STILL_SECONDS:.0f} s")
