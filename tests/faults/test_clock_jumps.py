"""The clock is set while the daemon runs: missed jobs run once, and none twice."""

from __future__ import annotations

import subprocess
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import from_text
from faults.trials import tell
from scenes.daemon import daemon_process, office_of
from scenes.requirements import require
from scenes.stored import job_runs
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backhaul.store.read_records import ListedRun
    from scenes.daemon import DaemonProcess
    from scenes.reference_process import ReferenceProcess

CONFIGURATION = """
[jobs.push_fulfillments]
every = "1s"
[jobs.reconcile_incremental]
trigger = "cron"
cron = "30 2 * * *"
[jobs.reconcile_full]
every = "6h"
[jobs.prune]
every = "20h"
[reconcile]
backfill_on_start = false
"""
DAILY, WALK, PRUNE = "reconcile_incremental", "reconcile_full", "prune"
ALL = f"{DAILY} {WALK} {PRUNE}"
START = "2026-03-27T11:00"
BACK_AT_LAST = "2026-10-25T12:00"
# What the clock is set to, in UTC, how many seconds are let pass, and what then runs.
# The daily job runs at 02:30 in Berlin, where an hour has passed twice or not at all.
JUMPS = [
    ("an hour on", "2026-03-27T12:00", 0, ""),
    ("an hour back", "2026-03-27T11:00", 0, ""),
    ("a day on", "2026-03-28T11:00", 0, ALL),
    ("a day back", "2026-03-27T11:00", 0, ""),
    ("summer time begins", "2026-03-29T01:29:58", 3, ALL),
    ("half a year on", "2026-10-24T20:00", 0, ALL),
    ("summer time ends: 02:30", "2026-10-25T00:29:58", 3, DAILY),
    ("02:30 again", "2026-10-25T01:29:59", 2, ""),
    ("the day before", "2028-02-28T12:00", 0, ALL),
    ("a leap day", "2028-02-29T01:29:58", 3, f"{DAILY} {WALK}"),
    ("past 32 bits", "2038-01-19T03:14:06", 3, ALL),
    ("twelve years back", BACK_AT_LAST, 0, ""),
]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@dataclass(slots=True)
class Wall:
    """The clock of the daemon: the machine's clock plus an offset."""

    file: Path
    ahead: timedelta = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def show(self, text: str) -> None:
        """Set the clock, and let it run from there."""
        self.ahead = utc(text) - datetime.now(UTC)
        unfinished = self.file.with_suffix(".tmp")
        unfinished.write_text(f"{self.ahead.total_seconds():+.3f}\n")
        unfinished.rename(self.file)

    def pass_by(self, moment: datetime) -> None:
        await_true(lambda: self.now() > moment, f"it is later than {moment}")

    def environ(self) -> dict[str, str]:
        """Return variables that give a program this clock; monotonic time is real."""
        tool = [require("faketime"), "-m", "-f", "+0", "printenv", "LD_PRELOAD"]
        library = subprocess.run(tool, capture_output=True, text=True, check=True)
        return {
            "LD_PRELOAD": library.stdout.strip(),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "TZ": "Europe/Berlin",
        }


@dataclass(slots=True)
class Watched:
    """A daemon, its clock, and the runs of its jobs without send windows."""

    daemon: DaemonProcess
    wall: Wall
    after: int = 0

    def new_runs(self) -> Counter[str]:
        """Count the runs since `after`; retention deletes old runs as years pass."""
        new = (run for run in self._runs() if run.id > self.after)
        return Counter(run.job for run in new if run.job in ALL)

    def runs_of(self, total: int) -> Counter[str]:
        """Wait for the expected number of new runs; return the runs."""
        with suppress(AssertionError):
            await_true(lambda: self.new_runs().total() >= total, "all ran")
        found = self.new_runs()
        self.after = max((run.id for run in self._runs()), default=0)
        return found

    def _runs(self) -> list[ListedRun]:
        return job_runs(self.daemon.office.database)

    def next_runs(self) -> dict[str, datetime]:
        live = self.daemon.await_ready()
        return {name: from_text(at) for name, at in live["jobs"].items()}

    def in_step(self) -> bool:
        """Return True if nothing is overdue and send windows run every second."""
        runs, now = self.next_runs(), self.wall.now()
        gates = runs["push_fulfillments:main"]
        return min(runs.values()) > now and gates < now + timedelta(seconds=3)


@contextmanager
def watched(platform: ReferenceProcess, folder: Path) -> Iterator[Watched]:
    wall = Wall(folder / "ahead")
    environ = wall.environ()
    wall.show(START)
    with office_of(platform, CONFIGURATION) as office:
        changes = {"[push]": "[push]\neager = false", '"TRACE"': '"WARNING"'}
        office.write(**changes)
        with daemon_process(office, environ) as daemon:
            yield Watched(daemon, wall)


@pytest.mark.faults
def test_jobs_run_once_whatever_the_clock_shows(
    platform: ReferenceProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with watched(platform, tmp_path) as seen:
        for name, shown, seconds, ran in JUMPS:
            expected = Counter(ran.split())
            seen.wall.show(shown)
            seen.wall.pass_by(utc(shown) + timedelta(seconds=seconds))
            await_true(seen.in_step, f"the jobs are in step: {name}")
            assert seen.runs_of(expected.total()) == expected, name
        daily = seen.next_runs()["reconcile_incremental:main"]
        assert daily == utc("2026-10-26T01:30"), "what 2038 said is not believed"
        assert seen.daemon.terminate() == 0
        tell(capsys, 0, len(JUMPS), "jumps of the clock")
