"""The delay of a `Retry-After` header, in every form that servers send."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_sdk.calls import LONGEST_REST_SECONDS, Answer
from backhaul_sdk.retry_after import (
    IMPLAUSIBLE_SECONDS,
    LONGEST_PLAUSIBLE_SECONDS,
    wait_seconds,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EPOCH = int(NOW.timestamp())
HTTP_NOW = format_datetime(NOW, usegmt=True)
VALUES = [
    ("", None),
    (" ", None),
    ("soon", None),
    ("-5", None),
    ("+5", None),
    ("1e3", None),
    ("NaN", None),
    ("inf", None),
    ("0x10", None),
    ("\u0665", None),
    ("0", 0.0),
    ("5", 5.0),
    (" 5 ", 5.0),
    ("0.5", 0.5),
    ("120.", 120.0),
    ("3600", 3_600.0),
    ("86400", 86_400.0),
    ("86401", IMPLAUSIBLE_SECONDS),
    ("259200", IMPLAUSIBLE_SECONDS),
    ("999999999", IMPLAUSIBLE_SECONDS),
    ("1764090000", 0.0),
    (f"{EPOCH + 30}", 30.0),
    (f"{EPOCH + 30}.0", 30.0),
    (f"{(EPOCH + 30) * 1_000}", 30.0),
    (f"{(EPOCH + 30) * 1_000_000}", 30.0),
    (f"{EPOCH + 400_000}", IMPLAUSIBLE_SECONDS),
    ("9" * 20, IMPLAUSIBLE_SECONDS),
    ("9" * 400, IMPLAUSIBLE_SECONDS),
    ("5, 10", 10.0),
    ("5,soon", 5.0),
    (",", None),
    ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0),
    ("Sunday, 01-Mar-26 12:00:30 GMT", 30.0),
    ("Sun Mar  1 12:00:30 2026", 30.0),
    ("Wed, 25 Nov 2015 17:00:00 GMT", 0.0),
    ("Fri, 31 Dec 9999 23:59:59 GMT", IMPLAUSIBLE_SECONDS),
    ("2026-03-01T12:00:30Z", 30.0),
    ("2026-03-01T13:00:30+01:00", 30.0),
]


@pytest.mark.parametrize(("value", "seconds"), VALUES, ids=repr)
def test_a_value_is_a_delay_a_moment_or_nothing(
    value: str, seconds: float | None
) -> None:
    wait = wait_seconds(value, "", NOW)
    assert wait == pytest.approx(seconds, abs=0.01) if seconds else wait == seconds


def test_a_moment_is_compared_with_the_clock_of_the_server() -> None:
    ahead = NOW + timedelta(hours=3)
    date = format_datetime(ahead, usegmt=True)
    until = format_datetime(ahead + timedelta(seconds=20), usegmt=True)
    assert wait_seconds(until, date, NOW) == 20.0
    assert wait_seconds(f"{int(ahead.timestamp()) + 20}", date, NOW) == 20.0


@given(st.text() | st.integers(min_value=-(10**25)).map(str) | st.floats().map(str))
def test_no_value_causes_an_absurd_wait(value: str) -> None:
    wait = wait_seconds(value, HTTP_NOW, NOW)
    assert wait is None or 0 <= wait <= LONGEST_PLAUSIBLE_SECONDS


@given(st.integers(0, 10**12).map(str))
def test_no_connector_leaves_a_system_alone_for_more_than_five_minutes(
    value: str,
) -> None:
    wait = Answer(429, {"retry-after": value}, b"").retry_after_seconds
    assert wait is not None
    assert 0 <= wait <= LONGEST_REST_SECONDS
