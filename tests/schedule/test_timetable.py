"""When jobs run: quiet hours, jitter, summer time, and missed runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backhaul.app.schedule import UNBELIEVED, Cron, Timetable
from backhaul.core.quiet_hours import QuietHours
from backhaul.settings.jobs import Job
from backhaul.settings.values import parse_quiet

BERLIN = ZoneInfo("Europe/Berlin")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def berlin(text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold)


def timetable(chance: float = 0.0, **when: Any) -> Timetable:
    return Timetable(Job.model_validate(when), BERLIN, lambda: chance)


def runs(made: Timetable, start: datetime, number: int) -> list[str]:
    """Return so many runs as a clock on the wall of Berlin shows them."""
    found, last = [], start
    for _ in range(number):
        last = made.next(last) or pytest.fail("it never runs")
        found.append(f"{last.astimezone(BERLIN):%d %H:%M%z}")
    return found


SUMMER_TIME = [
    # In March the hour after 02:00 is left out, in October it is passed twice.
    ("30 2 * * *", "2026-03-28T12:00", "29 03:30+0200 30 02:30+0200"),
    ("0 2 * * *", "2026-03-28T12:00", "29 03:00+0200 30 02:00+0200"),
    ("0 3 * * *", "2026-03-28T12:00", "29 03:00+0200 30 03:00+0200"),
    ("30 * * * *", "2026-03-29T01:00", "29 01:30+0100 29 03:30+0200 29 04:30+0200"),
    ("30 2 * * *", "2026-10-24T12:00", "25 02:30+0200 26 02:30+0100"),
    ("0 2,3 * * *", "2026-10-24T12:00", "25 02:00+0200 25 03:00+0100 26 02:00+0100"),
    ("30 1-3 * * *", "2026-10-25T00:00", "25 01:30+0200 25 02:30+0200 25 03:30+0100"),
    ("30 * * * *", "2026-10-25T02:00", "25 02:30+0200 25 02:30+0100 25 03:30+0100"),
    ("0 12 29 2 *", "2026-03-01T12:00", "29 12:00+0100"),
]


@pytest.mark.parametrize(("line", "start", "expected"), SUMMER_TIME)
def test_cron_lines_when_the_clocks_change(
    line: str, start: str, expected: str
) -> None:
    found = runs(
        timetable(trigger="cron", cron=line), berlin(start), len(expected.split()) // 2
    )
    assert " ".join(found) == expected


def test_intervals_do_not_care_for_summer_time() -> None:
    made, start = timetable(every="6h"), berlin("2026-10-24T22:00")
    assert made.next(start) == start.astimezone(UTC) + timedelta(hours=6)


QUIET = [
    # What falls due within runs at the end, which no longer belongs to it.
    ("22:00-06:00", "2026-05-01T21:59", "2026-05-01T21:59"),
    ("22:00-06:00", "2026-05-01T22:00", "2026-05-02T06:00"),
    ("22:00-06:00", "2026-05-02T05:59", "2026-05-02T06:00"),
    ("22:00-06:00", "2026-05-02T06:00", "2026-05-02T06:00"),
    ("12:00-13:30", "2026-05-02T12:45", "2026-05-02T13:30"),
    ("12:00-13:30", "2026-05-02T00:00", "2026-05-02T00:00"),
    ("20:00-00:00", "2026-05-02T23:59", "2026-05-03T00:00"),
    (["22:00-00:00", "00:00-06:00"], "2026-05-02T23:00", "2026-05-03T06:00"),
    (["05:00-07:00", "22:00-06:00"], "2026-05-02T23:00", "2026-05-03T07:00"),
    ("22:00-06:00", "2026-03-28T23:00", "2026-03-29T06:00"),
    ("22:00-06:00", "2026-10-24T23:00", "2026-10-25T06:00"),
    # It ends at a time that the wall never shows: as soon as that hour is over.
    ("01:00-02:30", "2026-03-29T01:30", "2026-03-29T03:00"),
    ("22:00-02:30", "2026-03-29T01:59", "2026-03-29T03:00"),
    ("22:00-02:30", "2026-03-29T03:00", "2026-03-29T03:00"),
    ("22:00-02:00", "2026-03-29T01:59", "2026-03-29T03:00"),
]


@pytest.mark.parametrize(("quiet", "moment", "expected"), QUIET)
def test_quiet_hours(quiet: object, moment: str, expected: str) -> None:
    hours = QuietHours(parse_quiet(quiet), BERLIN)
    assert hours.over(berlin(moment)) == berlin(expected).astimezone(UTC)
    assert hours.holds(berlin(moment)) is (moment != expected)


def test_quiet_hours_that_end_where_midnight_is_left_out_end_with_that_hour() -> None:
    """There the wall shows 01:00 after 23:59:59, and it is quiet again at 01:30."""
    zone = ZoneInfo("America/Sao_Paulo")
    hours = QuietHours(parse_quiet("01:30-00:30"), zone)
    evening = datetime(2018, 11, 3, 20, tzinfo=zone)
    assert hours.over(evening) == utc("2018-11-04T03:00")
    assert not hours.holds(utc("2018-11-04T03:00"))


def test_quiet_hours_hold_in_both_passes_of_an_hour() -> None:
    hours = QuietHours(parse_quiet("02:00-02:30"), BERLIN)
    for fold in (0, 1):
        within = berlin("2026-10-25T02:10", fold)
        end = berlin("2026-10-25T02:30", fold)
        assert hours.over(within) == end.astimezone(UTC)


BEGUN_IN_THE_FIRST_PASS = [
    # They go on while the wall shows the time before their beginning once more.
    ("02:30-06:00", "2026-10-25T06:00"),
    ("02:30-03:00", "2026-10-25T03:00"),
    ("02:30-02:10", "2026-10-26T02:10"),
    (["01:00-02:15", "02:45-05:00"], "2026-10-25T05:00"),
]


@pytest.mark.parametrize(("quiet", "end"), BEGUN_IN_THE_FIRST_PASS)
def test_quiet_hours_that_begin_in_the_first_pass_of_an_hour_go_on_in_the_second(
    quiet: object, end: str
) -> None:
    hours = QuietHours(parse_quiet(quiet), BERLIN)
    for wall, fold in (("02:50", 0), ("02:00", 1), ("02:20", 1), ("02:50", 1)):
        moment = berlin(f"2026-10-25T{wall}", fold)
        assert hours.over(moment) == berlin(end).astimezone(UTC)


@pytest.mark.parametrize(
    "quiet",
    ["02:30-06:00", "02:00-02:30", "22:00-02:30", "02:30-02:10", "22:00-02:00"],
)
def test_quiet_is_over_at_the_first_minute_that_is_not_quiet(quiet: str) -> None:
    hours = QuietHours(parse_quiet(quiet), BERLIN)
    evening = berlin("2026-10-24T20:00").astimezone(UTC)
    minutes = [evening + timedelta(minutes=n) for n in range(12 * 60)]
    for moment, following in pairwise(minutes):
        if hours.holds(moment):
            over = hours.over(moment)
            assert hours.holds(following) is (following < over)


@pytest.mark.parametrize(
    "when",
    [{"every": "5s"}, {"every": "1h"}, {"trigger": "cron", "cron": "*/5 * * * *"}],
    ids=str,
)
def test_a_job_due_in_quiet_hours_runs_once(when: dict[str, Any]) -> None:
    made = timetable(quiet="22:00-06:00", **when)
    first = made.next(berlin("2026-05-01T21:59:59"))
    assert first == berlin("2026-05-02T06:00").astimezone(UTC)
    second = made.get_next_fire_time(first, first)
    assert second is not None
    assert second > first


def test_jitter_delays_but_never_into_quiet_hours() -> None:
    start = berlin("2026-05-01T12:00")
    hourly = {"trigger": "cron", "cron": "0 * * * *", "jitter": "10m"}
    assert runs(timetable(0.5, **hourly), start, 2) == [
        "01 13:05+0200",
        "01 14:05+0200",
    ]
    quiet = timetable(0.5, quiet="13:01-14:30", **hourly)
    assert runs(quiet, start, 2) == ["01 14:35+0200", "01 15:05+0200"]
    narrow = timetable(0.5, quiet=["13:01-14:30", "14:32-16:00"], **hourly)
    assert runs(narrow, start, 1) == ["01 14:30+0200"]


@settings(deadline=None)
@given(
    chance=st.floats(0, 1, exclude_max=True),
    minute=st.integers(0, 3 * 366 * 24 * 60),
    job=st.sampled_from(
        [
            {"every": "7s"},
            {"every": "5h"},
            {"trigger": "cron", "cron": "*/7 * * * *"},
            {"trigger": "cron", "cron": "30 2 * * *"},
        ]
    ),
    quiet=st.sampled_from([(), "22:00-06:00", ["01:30-02:30", "02:30-03:15"]]),
)
def test_the_next_run_is_to_come_and_not_in_quiet_hours(
    chance: float, minute: int, job: dict[str, Any], quiet: object
) -> None:
    now = utc("2026-01-01T00:00") + timedelta(minutes=minute)
    made = timetable(chance, quiet=quiet, jitter="20m", **job)
    for previous in (None, now, now - timedelta(days=40)):
        found = made.get_next_fire_time(previous, now)
        assert found is not None
        assert found > now
        assert not made.quiet.holds(found)


LONG_STOPS = [
    # The clock says that the last run was at, that it is now, and then it is due at.
    ("30 2 * * *", "2026-05-01T02:30", "2026-05-04T12:00", "2026-05-02T02:30"),
    ("30 2 * * *", "2026-05-01T02:30", "2026-05-01T12:00", "2026-05-02T02:30"),
    # It was set back meanwhile: what has run does not run again.
    ("30 2 * * *", "2026-05-02T02:30", "2026-05-01T12:00", "2026-05-03T02:30"),
    # It was years ahead: nothing is believed of then.
    ("30 2 * * *", "2038-01-19T03:14", "2026-05-01T12:00", "2026-05-02T02:30"),
    (None, "2026-05-01T02:00", "2026-05-04T12:00", "2026-05-01T08:00"),
    (None, "2026-05-04T11:00", "2026-05-04T12:00", "2026-05-04T17:00"),
    (None, "2026-05-04T13:00", "2026-05-04T12:00", "2026-05-04T18:00"),
    (None, "2038-01-19T03:14", "2026-05-04T12:00", "2026-05-04T18:00"),
]


@pytest.mark.parametrize(("line", "last", "now", "due"), LONG_STOPS)
def test_the_first_due_time_after_a_stop_is_computed(
    line: str | None, last: str, now: str, due: str
) -> None:
    when: dict[str, Any] = {"every": "6h"}
    if line:
        when = {"trigger": "cron", "cron": line}
    assert timetable(**when).first(berlin(last), berlin(now)) == berlin(due)


def test_twelve_years_are_one_late_run() -> None:
    made, last = timetable(every="5s"), utc("2026-01-19T03:14")
    now = utc("2038-01-19T03:14:08")
    assert made.get_next_fire_time(last, now) == now + timedelta(seconds=5)


def test_a_clock_that_was_years_ahead_gives_the_calendar_back() -> None:
    made = timetable(trigger="cron", cron="30 2 * * *")
    planned, now = utc("2038-01-19T01:30"), utc("2026-05-01T12:00")
    later = made.set_back(planned, now, UNBELIEVED + timedelta(seconds=1))
    assert later == utc("2026-05-02T00:30")
    assert made.set_back(planned, now, UNBELIEVED) == planned


def test_an_interval_set_back_never_waits_longer_than_itself() -> None:
    made, now = timetable(every="1h", quiet="22:00-06:00"), berlin("2026-05-01T20:00")
    planned = berlin("2026-05-02T06:00")  # put off at 22:30, before the clock was set
    later = made.set_back(planned, now, timedelta(hours=2, minutes=30))
    assert later == now + timedelta(hours=1)


def test_moments_of_a_line_are_in_utc() -> None:
    found = Cron("30 2 * * *", BERLIN).after(berlin("2026-05-01T12:00"))
    assert found == utc("2026-05-02T00:30")
    assert found is not None
    assert found.tzinfo is UTC
