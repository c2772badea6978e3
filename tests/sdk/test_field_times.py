"""Times in the forms of people and programs are read, omitted or refused."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_sdk.fields import (
    Inexact,
    Unusable,
    day_alone,
    moment,
    moment_if_exact,
    zone_named,
)
from backhaul_sdk.fields.times import day_start, in_zone

EARLIEST = datetime.fromisoformat("2020-01-01")
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("local", "said"),
    [
        ("2026-10-25T02:00", "exists twice"),
        ("2026-10-25T02:30", "exists twice"),
        ("2026-10-25T02:59:59", "exists twice"),
        ("2026-03-29T02:00", "does not exist"),
        ("2026-03-29T02:30", "does not exist"),
        ("2026-03-29T02:59:59", "does not exist"),
    ],
)
def test_a_time_of_the_hour_when_clocks_change_is_refused(
    local: str, said: str
) -> None:
    with pytest.raises(Unusable, match=f"as of .* {said} in Europe/Berlin"):
        in_zone(datetime.fromisoformat(local), BERLIN, "as of")


@given(
    st.datetimes(EARLIEST, EARLIEST.replace(year=2035)),
    st.sampled_from(
        ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]
    ),
)
def test_a_local_time_is_exact_or_refused(local: datetime, name: str) -> None:
    zone = ZoneInfo(name)
    moments = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    try:
        found = in_zone(local, zone, "as of")
    except Unusable:
        assert len(moments) == 2
        return
    assert moments == {found.astimezone(UTC)}
    assert found.replace(tzinfo=None) == local


def test_a_day_alone_and_its_first_moment() -> None:
    assert day_alone("2026-03-31") == date(2026, 3, 31) == day_alone(date(2026, 3, 31))
    assert day_alone("2026-W14-2") == day_alone("20260331") == date(2026, 3, 31)
    for date_format in ("%d.%m.%Y", "%d.%m.%Y %H:%M"):
        assert day_alone("2026-03-31", date_format) == date(2026, 3, 31)
    midnight = datetime.fromisoformat("2026-03-31")
    assert day_alone("2026-03-31T00:00") is day_alone(midnight) is None
    assert day_alone(20260331) is day_alone("today") is None
    assert day_start(date(2026, 3, 31), BERLIN).isoformat() == (
        "2026-03-31T00:00:00+02:00"
    )
    cairo = day_start(date(2024, 4, 26), ZoneInfo("Africa/Cairo"))
    assert cairo.astimezone(UTC) == datetime(2024, 4, 25, 22, tzinfo=UTC)


def test_a_time_is_in_utc_or_there_is_none() -> None:
    assert moment("2026-03-31T14:05", "at", BERLIN) == "2026-03-31T12:05:00Z"
    midnight = datetime(2026, 3, 31, tzinfo=BERLIN)
    assert moment(midnight, "at", timespec="milliseconds") == "2026-03-30T22:00:00.000Z"
    assert moment(Decimal("1767225600.5"), "at") == "2026-01-01T00:00:00.500000Z"
    assert moment(None, "at") is moment(" ", "at") is moment("'", "at") is None


@pytest.mark.parametrize(
    ("text", "date_format", "found"),
    [
        ("31.03.2026", "%d.%m.%Y", "2026-03-30T22:00:00Z"),
        ("31.03.2026 14:05", "%d.%m.%Y %H:%M", "2026-03-31T12:05:00Z"),
        ("310320261405", "%d%m%Y%H%M", "2026-03-31T12:05:00Z"),
        ("2026-03-31T14:05Z", "%d.%m.%Y", "2026-03-31T14:05:00Z"),
        ("2026-03-31", "%d.%m.%Y %H:%M", "2026-03-30T22:00:00Z"),
    ],
)
def test_a_time_is_read_in_the_format_of_the_settings(
    text: str, date_format: str, found: str
) -> None:
    read = moment(text, "at", BERLIN, date_format=date_format, day_begins=True)
    assert read == found


@pytest.mark.parametrize(
    ("value", "zone", "said"),
    [
        ("2026-03-31", BERLIN, "at is a day without a time of day: '2026-03-31'"),
        (date(2026, 3, 31), BERLIN, "at is a day without a time of day: 2026-03-31"),
        ("2026-03-31T14:05", None, "at has no time zone: '2026-03-31T14:05'"),
        ("2026-10-25T02:30", BERLIN, "at 2026-10-25 02:30:00 exists twice"),
        (0, BERLIN, "at is not a time: 0 would be in the year 1970"),
        (20260331, None, "at is not a time: 20260331 would be in the year 1970"),
        (20260331140500, None, "20260331140500 would be in the year 2612"),
        (Decimal("46112.5"), None, "at is not a time: 46112.5 would be in the year"),
    ],
)
def test_an_inexact_time_is_refused_or_left_out(
    value: object, zone: ZoneInfo | None, said: str
) -> None:
    with pytest.raises(Inexact, match=re.escape(said)):
        moment(value, "at", zone)
    assert moment_if_exact(value, "at", zone) is None


@pytest.mark.parametrize(
    ("date_format", "advice"),
    [
        (None, "write it as 2026-03-31T14:05:00Z"),
        ("", "set date_format, or write it as 2026-03-31T14:05:00Z"),
        ("%d.%m.%Y", "write it as %d.%m.%Y or 2026-03-31T14:05:00Z"),
    ],
)
@pytest.mark.parametrize("read", [moment, moment_if_exact])
def test_text_that_is_not_a_time_is_refused_with_an_example(
    read: Any, date_format: str | None, advice: str
) -> None:
    with pytest.raises(Unusable) as refused:
        read("3/31", "at", date_format=date_format)
    assert not isinstance(refused.value, Inexact)
    assert str(refused.value) == f"at is not a time: '3/31'; {advice}"


def test_a_time_zone_has_a_name_of_the_tz_database() -> None:
    assert zone_named("UTC") is UTC
    assert zone_named("Europe/Berlin") == BERLIN
    for name in ("Europe/Atlantis", "../../etc/passwd", "", "Europe"):
        with pytest.raises(ValueError, match=f"{name!r} is not a time zone; write one"):
            zone_named(name)
