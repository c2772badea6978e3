"""`backhaul jobs` with a real daemon, and without one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from scenes.daemon import backhaul, daemon_process, in_process, office_of
from scenes.stored import job_runs
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess

pytestmark = pytest.mark.programs

STRICT = """
[jobs.push_fulfillments]
trigger = "cron"
cron = "0 0 1 1 *"
jitter = "30s"
quiet = ["22:00-06:00", "12:00-13:00"]
[stores.main.jobs.reconcile_full]
enabled = false
[reconcile]
grace = "100ms"
"""


@pytest.fixture
def office(platform: ReferenceProcess) -> Iterator[Office]:
    with office_of(platform, STRICT) as office:
        office.write(**{"[push]": "[push]\neager = false"})
        yield office


def listed(office: Office) -> dict[str, dict[str, Any]]:
    found = in_process("jobs", "list", "--json", config=office.config).json()
    return {row["job"]: row for row in found}


def test_an_operator_runs_pauses_and_resumes_jobs(office: Office) -> None:
    with daemon_process(office) as started:
        jobs = listed(office)
        assert len([name for name in jobs if not name.startswith("connector_")]) == 8
        assert jobs["connector_courier"]["when"] == "every 50ms"
        sending = jobs["push_fulfillments"]
        assert sending["when"] == (
            "cron 0 0 1 1 *, up to 30s later, not 22:00-06:00, 12:00-13:00"
        )
        assert (sending["store"], sending["last_run_at"]) == ("main", None)
        assert "-01-01T" in sending["next_run_at"]
        assert jobs["push_cancellations"]["when"] == "every 5s"
        assert jobs["reconcile_full"]["when"] == "never: enabled = false"
        assert jobs["reconcile_full"]["next_run_at"] is None
        assert jobs["prune"]["store"] == ""

        ran = backhaul("jobs", "run", "push_fulfillments", config=office.config)
        assert ran.code == 0, ran.err
        assert "sent 0" in ran.out
        sending = listed(office)["push_fulfillments"]
        assert (sending["trigger"], sending["outcome"]) == ("person", "done")

        paused = backhaul("jobs", "pause", "push_fulfillments", config=office.config)
        assert paused.code == 0, paused.err
        sending = listed(office)["push_fulfillments"]
        assert sending["paused_at"] is not None
        assert sending["next_run_at"] is None
        started.terminate()
    with daemon_process(office) as started:
        assert listed(office)["push_fulfillments"]["next_run_at"] is None
        store = ("--store", "main")
        resumed = backhaul(
            "jobs", "resume", "push_fulfillments", *store, config=office.config
        )
        assert resumed.code == 0, resumed.err
        sending = listed(office)["push_fulfillments"]
        assert sending["paused_at"] is None
        assert "-01-01T" in sending["next_run_at"]
        started.terminate()


def test_without_a_daemon_a_job_can_be_paused_but_not_run(office: Office) -> None:
    none = in_process("jobs", "list", config=office.config)
    assert none.code == 1
    assert "start the daemon once" in none.err
    paused = in_process("jobs", "pause", "prune", config=office.config)
    assert paused.code == 0, paused.err
    assert listed(office)["prune"]["paused_at"] is not None
    run = in_process("jobs", "run", "prune", config=office.config)
    assert run.code == 1
    assert "backhaul run" in run.err
    with daemon_process(office) as started:
        assert listed(office)["prune"]["next_run_at"] is None
        started.terminate()
    shown = in_process("jobs", "list", config=office.config)
    assert "no job runs without it" in shown.out
    assert in_process("jobs", "resume", "prune", config=office.config).code == 0
    assert listed(office)["prune"]["paused_at"] is None


def test_an_unknown_job_is_refused_with_the_known_ones(office: Office) -> None:
    with daemon_process(office) as started:
        said = in_process("jobs", "pause", "push_orders", config=office.config)
        assert said.code == 1
        assert (
            "the jobs are: prune, backup, push_fulfillments, push_cancellations"
            in said.err
        )
        said = in_process(
            "jobs", "run", "prune", "--store", "main", config=office.config
        )
        assert said.code == 1
        assert "leave out --store" in said.err
        started.terminate()


def runs_by_operator(office: Office) -> list[tuple[str, str, str]]:
    """Return job, outcome and detail of each run that an operator requested.

    The backfill may not be complete by then.
    """
    some = re.compile("read [0-4] of 4 lists")
    return sorted(
        (run.job, run.outcome, some.sub("read so many of 4 lists", run.detail))
        for run in job_runs(office.database)
        if run.trigger == "person"
    )


def test_the_end_of_reading_is_written_down(office: Office) -> None:
    with daemon_process(office) as started:
        run = in_process("jobs", "run", "reconcile_incremental", config=office.config)
        assert run.code == 0, run.err
        run = in_process("jobs", "run", "prune", config=office.config)
        assert run.code == 0, run.err
        expected = [
            ("prune", "done", "erased 0"),
            ("reconcile_incremental", "done", "read so many of 4 lists"),
        ]
        await_true(lambda: runs_by_operator(office) == expected, "both ended")
        started.terminate()
