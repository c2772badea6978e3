"""Cron lines have their usual meaning."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from backhaul.app.schedule import Cron, Timetable
from backhaul.settings.jobs import Job, check_cron

SUNDAY = datetime.fromisoformat("2026-03-01").astimezone()
WEEK = 7


def fires(line: str, days: int, start: datetime = SUNDAY) -> list[datetime]:
    """Return every moment at which a cron line fires in so many days."""
    cron = Cron(check_cron(line), start.tzinfo or UTC)
    found: list[datetime] = []
    now = start - timedelta(microseconds=1)
    while (moment := cron.after(now)) is not None:
        if moment >= start + timedelta(days=days):
            break
        found.append(moment.astimezone(start.tzinfo))
        now = moment
    return found


WEEKDAYS = [
    ("0", "sun"),
    ("7", "sun"),
    ("1", "mon"),
    ("6", "sat"),
    ("sun", "sun"),
    ("MON", "mon"),
    ("1-5", "mon tue wed thu fri"),
    ("mon-fri", "mon tue wed thu fri"),
    ("Mon-5", "mon tue wed thu fri"),
    ("5-7", "sun fri sat"),
    ("0-7", "sun mon tue wed thu fri sat"),
    ("*", "sun mon tue wed thu fri sat"),
    ("*/2", "sun tue thu sat"),
    ("1-5/2", "mon wed fri"),
    ("7/2", "sun"),
    ("0,6", "sun sat"),
    ("sat,sun,7", "sun sat"),
    ("*/9", "sun"),
]


@pytest.mark.parametrize(("field", "days"), WEEKDAYS)
def test_weekdays(field: str, days: str) -> None:
    found = [moment.strftime("%a") for moment in fires(f"0 12 * * {field}", WEEK)]
    assert " ".join(found).lower() == days


MINUTES = [
    ("*/20", [0, 20, 40]),
    ("5/20", [5, 25, 45]),
    ("50/20", [50]),
    ("*/100", [0]),
    ("0-10/5", [0, 5, 10]),
    ("59", [59]),
    ("3,1,2,1", [1, 2, 3]),
]


@pytest.mark.parametrize(("field", "minutes"), MINUTES)
def test_minutes(field: str, minutes: list[int]) -> None:
    found = fires(f"{field} 4 * * *", 1)
    assert [(moment.hour, moment.minute) for moment in found] == [
        (4, minute) for minute in minutes
    ]


MONTHS = [
    ("jan-mar", [1, 2, 3]),
    ("JAN-3", [1, 2, 3]),
    ("1-mar", [1, 2, 3]),
    ("dec,jan", [1, 12]),
    ("jan/4", [1, 5, 9]),
    ("12/3", [12]),
    ("*/6", [1, 7]),
]
NEW_YEAR = datetime.fromisoformat("2027-01-01").astimezone()


@pytest.mark.parametrize(("field", "months"), MONTHS)
def test_months(field: str, months: list[int]) -> None:
    found = fires(f"0 0 1 {field} *", 365, NEW_YEAR)
    assert [moment.month for moment in found] == months


@pytest.mark.parametrize("seconds", ["250ms", "5s", "1d"])
def test_interval(seconds: str) -> None:
    job = Job.model_validate({"every": seconds})
    timetable = Timetable(job, UTC, lambda: 0.0)
    first = timetable.get_next_fire_time(None, SUNDAY)
    assert first is not None
    second = timetable.get_next_fire_time(first, first)
    assert second is not None
    assert second - first == timedelta(seconds=job.every)


NUMBER = st.integers(0, 60).map(str) | st.sampled_from(["jan", "DEC", "sun", "Sat"])
SPAN = st.just("*") | NUMBER | st.builds("{}-{}".format, NUMBER, NUMBER)
STEP = st.just("") | st.sampled_from(["/0", "/00", "/1", "/2", "/100", "/\u0662"])
FIELD = st.lists(st.builds("{}{}".format, SPAN, STEP), min_size=1, max_size=3)


@given(fields=st.lists(FIELD.map(",".join), min_size=5, max_size=5))
def test_every_line_that_is_accepted_can_be_scheduled(fields: list[str]) -> None:
    with contextlib.suppress(ValidationError):
        job = Job(trigger="cron", cron=" ".join(fields))
        Timetable(job, UTC, lambda: 0.0)


@given(field=FIELD.map(",".join), place=st.integers(0, 4))
def test_every_field_that_is_accepted_can_be_scheduled(field: str, place: int) -> None:
    fields = ["*"] * 5
    fields[place] = field
    with contextlib.suppress(ValidationError):
        job = Job(trigger="cron", cron=" ".join(fields))
        assert Timetable(job, UTC, lambda: 0.0).next(SUNDAY) is not None


@pytest.mark.parametrize("step", ["0", "00", "000"])
@pytest.mark.parametrize("place", range(5))
def test_an_invalid_step_is_refused(place: int, step: str) -> None:
    fields = ["*"] * 5
    fields[place] = f"*/{step}"
    with pytest.raises(ValidationError, match="has an invalid"):
        Job(trigger="cron", cron=" ".join(fields))


def test_the_rarest_day_comes() -> None:
    days = {moment.strftime("%d %b") for moment in fires("0 0 29 2 *", 8 * 366)}
    assert days == {"29 Feb"}


def test_day_and_weekday_together_mean_either() -> None:
    found = {moment.strftime("%d %a") for moment in fires("0 0 13 * mon", 14)}
    assert {text for text in found if not text.endswith("Mon")} == {
        moment.strftime("%d %a")
        for moment in fires("0 0 13 * *", 14)
        if moment.strftime("%a") != "Mon"
    }
    assert {text for text in found if text.endswith("Mon")}
