"""Which schedules are explicit, and when the jobs that send run because of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.app.jobs import at_once, plans, rules
from backhaul.settings import Scheduled, Settings, load_settings
from settings.configurations import STORE, complaints, written

if TYPE_CHECKING:
    from pathlib import Path

JOB = "push_fulfillments"
KEY = (JOB, "main")
CRON = 'trigger = "cron"\ncron = "0 3 1 1 *"'
EACH_START = [CRON, 'every = "1h"', 'every = "5s"', 'trigger = "interval"']
QUIET = 'quiet = "22:00-06:00"'


def of(folder: Path, shared: str = "", own: str = "", push: str = "") -> Settings:
    text = f"{STORE}[jobs.{JOB}]\n{shared}\n[stores.main.jobs.{JOB}]\n{own}\n"
    return load_settings(written(folder, f"{text}[push]\n{push}\n"), {})


@pytest.mark.parametrize(
    ("written_for_it", "is_written"),
    [
        ({}, False),
        ({"enabled": True}, False),
        ({"enabled": False}, False),
        ({"jitter": "30s"}, False),
        ({"quiet": []}, False),
        ({"every": "5s"}, True),
        ({"trigger": "interval"}, True),
        ({"trigger": "cron", "cron": "* * * * *"}, True),
        ({"quiet": "22:00-06:00"}, True),
    ],
    ids=str,
)
def test_a_schedule_is_written_where_a_time_is(
    written_for_it: dict[str, Any], is_written: bool
) -> None:
    assert Scheduled.model_validate(written_for_it).is_written is is_written


@pytest.mark.parametrize(
    ("shared", "own", "push", "leaves_at_once"),
    [
        ("", "", "", True),
        ("", "", "eager = true", True),
        ("", "", "eager = false", False),
        ("", "eager = true", "eager = false", True),
        ("eager = true", "", "eager = false", True),
        ("eager = false", "", "eager = true", False),
        ("eager = false", "eager = true", "", True),
        ('jitter = "30s"', "enabled = true", "", True),
        *((start, "", "", False) for start in (*EACH_START, QUIET)),
        *((start, "", "eager = true", False) for start in (*EACH_START, QUIET)),
        *(("", start, "", False) for start in (*EACH_START, QUIET)),
        *((f"{start}\neager = true", "", "", True) for start in (*EACH_START, QUIET)),
        *(("", f"{start}\neager = true", "", True) for start in (*EACH_START, QUIET)),
        # A store that writes when its job starts has its own rule.
        *(("eager = true", start, "", False) for start in EACH_START),
        (f"{CRON}\neager = true", 'every = "1h"', "", False),
        (f"{CRON}\neager = true", QUIET, "", True),
        (CRON, "eager = true", "", True),
        (QUIET, "quiet = []", "", True),
    ],
)
def test_a_written_schedule_is_the_only_time_unless_eager_is_set(
    tmp_path: Path, shared: str, own: str, push: str, leaves_at_once: bool
) -> None:
    settings = of(tmp_path, shared, own, push)
    assert (KEY in at_once(settings)) is leaves_at_once
    said = rules(settings)[f"{JOB}:main"]
    assert ("when planned" in said) is leaves_at_once
    assert ("only then" in said) is not leaves_at_once
    assert plans(settings)[f"{JOB}:main"].startswith("at once") is leaves_at_once
    others = (
        {"push_cancellations", "push_adjustments"} if "false" not in push else set()
    )
    assert {name for name, _ in at_once(settings)} - {JOB} == others


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (f"JOBS__{JOB.upper()}__EVERY", "5s"),
        (f"JOBS__{JOB.upper()}__QUIET", "22:00-06:00"),
        (f"STORES__MAIN__JOBS__{JOB.upper()}__TRIGGER", "interval"),
    ],
)
def test_a_variable_writes_a_schedule_as_the_file_does(
    tmp_path: Path, variable: str, value: str
) -> None:
    file = written(tmp_path, STORE)
    assert KEY in at_once(load_settings(file, {}))
    assert KEY not in at_once(load_settings(file, {f"BACKHAUL_{variable}": value}))
    both = {f"BACKHAUL_{variable}": value, f"BACKHAUL_JOBS__{JOB.upper()}__EAGER": "1"}
    own = variable.startswith("STORES")
    assert (KEY in at_once(load_settings(file, both))) is not own


def test_only_jobs_that_send_are_eager(tmp_path: Path) -> None:
    text = f"{STORE}[stores.main.jobs.audit]\neager = true"
    assert complaints(tmp_path, text) == [
        "backhaul.toml:1: stores.main.jobs: job audit has the setting eager; only"
        " these jobs accept it: push_adjustments, push_cancellations,"
        " push_fulfillments"
    ]
    assert complaints(tmp_path, f"{STORE}[jobs.audit]\neager = true") == [
        "backhaul.toml:6: jobs.audit.eager: unknown setting (did you mean every?)"
    ]


MAYBE = st.sampled_from([None, True, False])
SCHEDULES = st.fixed_dictionaries(
    {},
    optional={
        "every": st.sampled_from(["5s", "1h"]),
        "jitter": st.just("30s"),
        "quiet": st.sampled_from(["22:00-06:00", []]),
        "enabled": st.booleans(),
    },
)


@given(SCHEDULES, SCHEDULES, MAYBE, MAYBE, MAYBE)
def test_the_description_of_a_job_states_its_effective_schedule(
    shared: dict[str, Any],
    own: dict[str, Any],
    shared_eager: bool | None,
    own_eager: bool | None,
    push_eager: bool | None,
) -> None:
    """A line of one's own, then a schedule, then `[push]`; the words name which."""

    def eager(value: bool | None) -> dict[str, bool]:
        return {} if value is None else {"eager": value}

    store: dict[str, Any] = {"base_url": "http://shop.test", "api_key": "k"}
    store |= {"jobs": {JOB: own | eager(own_eager)}}
    settings = Settings.model_validate(
        {
            "stores": {"main": store},
            "jobs": {JOB: shared | eager(shared_eager)},
            "push": eager(push_eager),
        }
    )
    explicit = own_eager
    if explicit is None and "every" not in own:
        explicit = shared_eager
    has_quiet = bool(own.get("quiet", shared.get("quiet")))
    has_schedule = has_quiet or "every" in own or "every" in shared
    expected = push_eager is not False and not has_schedule
    if explicit is not None:
        expected = explicit
    assert (KEY in at_once(settings)) is expected
    said = rules(settings)[f"{JOB}:main"]
    if not own.get("enabled", shared.get("enabled", True)):
        assert said.startswith("no command is sent")
    elif explicit is not None:
        assert f"eager = {str(explicit).lower()} is set for the job" in said
    else:
        assert ("a schedule is set for the job" in said) is has_schedule
