"""The clock, the format of times, and the backoff."""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import count, takewhile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.core.backoff_and_circuit import delay_seconds
from backhaul.core.clock import Clock, SystemClock, from_text, normalize, pause, to_text
from scenes.clock import VirtualClock

if TYPE_CHECKING:
    from types import FrameType

NORMAL = [
    ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678Z"),
    ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
    ("2026-01-02T03:04:05", "2026-01-02T03:04:05.000Z"),
    ("2026-01-02 03:04:05Z", "2026-01-02T03:04:05.000Z"),
    ("2026-01-02T03:04:05.6Z", "2026-01-02T03:04:05.600Z"),
    ("2026-01-02T03:04:05.678999Z", "2026-01-02T03:04:05.678Z"),
    ("2026-01-02T03:04:05+05:30", "2026-01-01T21:34:05.000Z"),
    ("2026-01-02T03:04:05-00:00", "2026-01-02T03:04:05.000Z"),
    ("2026-01-02T03:04:05.678+00:00", "2026-01-02T03:04:05.678Z"),
    ("2025-12-31T23:30:00-01:00", "2026-01-01T00:30:00.000Z"),
    ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00.000Z"),
    ("2038-01-19T03:14:08Z", "2038-01-19T03:14:08.000Z"),
    ("0999-01-01T00:00:00Z", "0999-01-01T00:00:00.000Z"),
    ("2026-W01-1T00:00:00.000Z", "2025-12-29T00:00:00.000Z"),
    ("2026-01-02T03:04:05.678z", "2026-01-02T03:04:05.678Z"),
    ("2026-01-02t03:04:05z", "2026-01-02T03:04:05.000Z"),
    ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"),
    ("2016-12-31T23:59:60.000Z", "2017-01-01T00:00:00.000Z"),
    ("1990-12-31T15:59:60-08:00", "1991-01-01T00:00:00.000Z"),
    ("2016-12-31t23:59:60.25z", "2017-01-01T00:00:00.250Z"),
]


@pytest.mark.parametrize(("text", "normal"), NORMAL, ids=str)
def test_normalize(text: str, normal: str) -> None:
    assert normalize(text) == normal
    assert normalize(normal) == normal


NO_TIME = [
    *["", "now", "2026", "2026-02-30T00:00:00Z", "2026-01-02T25:00:00Z", "12:00"],
    *["2026-01-02T03:04:60Z", "9999-99-99T99:99:99.999Z", "xxxxxxxxxxTxxxxxxxx.xxxZ"],
    *["2026-01-02T03:04:05.67zZ", "202\uff16-01-02T03:04:05.678Z", "1767323045"],
    *["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"],
    *["2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05.678Z\n", "\x00" * 24],
    *["2026-01-02T03:04:60.000Z", "2026-01-02T23:59:60+01:00", "z", "60", ":60z"],
    *["2026-01-02T23:59:60zz", "2026-01-02T23:60:60Z", "9999-12-31T23:59:60Z"],
    *["0001-01-01T00:59:60+05:00", "2026-01-02T23:59:60"],
]


@pytest.mark.parametrize("text", NO_TIME, ids=repr)
def test_text_that_is_no_time_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        normalize(text)


@given(text=st.text(max_size=30))
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    try:
        normal = normalize(text)
    except ValueError:
        return
    assert len(normal) == 24


OFFSETS = st.integers(-24 * 60 + 1, 24 * 60 - 1).map(
    lambda minutes: timezone(timedelta(minutes=minutes))
)
MOMENTS = st.datetimes(
    datetime(2, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    datetime(9998, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    timezones=OFFSETS,
)


@given(one=MOMENTS, two=MOMENTS)
def test_order_of_texts_is_order_of_time(one: datetime, two: datetime) -> None:
    first, second = normalize(one.isoformat()), normalize(two.isoformat())
    assert len(first) == len(second) == 24
    if first < second:
        assert one < two
    assert abs(from_text(first) - one) < timedelta(milliseconds=1)


@given(
    moment=MOMENTS.map(lambda moment: moment.replace(microsecond=0)),
    fraction=st.text("0123456789", max_size=12),
    mark=st.sampled_from("Tt "),
    zone=st.sampled_from(["Z", "z", "+00:00", "-00:00", "own"]),
)
def test_every_form_of_rfc_3339_is_read(
    moment: datetime, fraction: str, mark: str, zone: str
) -> None:
    if zone != "own":
        moment = moment.replace(tzinfo=UTC)
    day, clock = moment.isoformat()[:19].split("T")
    offset = moment.isoformat()[19:] if zone == "own" else zone
    digits = f".{fraction}" if fraction else ""
    read = from_text(f"{day}{mark}{clock}{digits}{offset}")
    assert read == moment + timedelta(microseconds=int(f"{fraction:0<6}"[:6]))
    assert normalize(f"{day}{mark}{clock}{digits}{offset}") == to_text(read)


@given(day=st.dates(date(1972, 1, 1), date(9998, 1, 1)), offset=OFFSETS)
def test_a_leap_second_is_the_first_second_of_the_next_day(
    day: date, offset: timezone
) -> None:
    last = datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=UTC)
    local = last.astimezone(offset).isoformat()
    leap = f"{local[:17]}60{local[19:]}"
    assert from_text(leap) == last + timedelta(seconds=1)


def test_time_is_written_in_utc_whatever_its_zone() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 999_999, timezone(timedelta(hours=2)))
    assert to_text(moment) == "2026-01-02T01:04:05.999Z"


async def test_clock_of_the_machine() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0.001)
    assert clock.monotonic() - before >= 0.001
    assert clock.now().tzinfo is UTC


async def test_virtual_clock_wakes_in_the_order_of_time() -> None:
    clock = VirtualClock()
    woken: list[tuple[float, float]] = []

    async def sleeper(clock: Clock, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    tasks = [asyncio.ensure_future(sleeper(clock, s)) for s in (3.0, 1.0, 2.0)]
    await clock.await_sleeper(2.0)
    await clock.advance(2.5)
    assert woken == [(1.0, 1.0), (2.0, 2.0)]
    await clock.advance(0.5)
    assert woken[-1] == (3.0, 3.0)
    await asyncio.gather(*tasks)


CHANCES = st.floats(0, 1, exclude_max=True)


@given(
    attempt=st.integers(1, 10**6),
    base=st.floats(0.001, 100),
    cap=st.floats(0.001, 10**4),
    chance=CHANCES,
)
def test_wait_is_bounded(attempt: int, base: float, cap: float, chance: float) -> None:
    wait = delay_seconds(attempt, base_seconds=base, cap_seconds=cap, chance=chance)
    assert min(base, cap) / 2 <= wait <= cap
    again = delay_seconds(
        attempt + 1, base_seconds=base, cap_seconds=cap, chance=chance
    )
    assert again >= wait


@pytest.mark.parametrize(
    ("attempt", "least", "most"),
    [(1, 0.5, 1), (2, 1, 2), (3, 2, 4), (9, 128, 256), (10, 150, 300), (99, 150, 300)],
)
def test_wait_doubles_up_to_the_cap(attempt: int, least: float, most: float) -> None:
    waits = [
        delay_seconds(attempt, base_seconds=1, cap_seconds=300, chance=chance)
        for chance in (0.0, 0.5, 0.999_999_999)
    ]
    assert waits[0] == least
    assert waits[1] == pytest.approx((least + most) / 2)
    assert waits[2] == pytest.approx(most)


def test_ctrl_c_ends_a_pause_wherever_it_comes() -> None:
    """An Event releases its lock before it waits; an interrupt there once failed."""

    def is_interrupted(after: int) -> bool:
        """Press Ctrl-C at one of the calls in a pause; return whether it exists."""
        left, own = after, sys._getframe()

        def press(frame: FrameType, event: str, _: object) -> None:
            nonlocal left
            left -= event.startswith("c_") and frame is not own
            if left < 0:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

        sys.setprofile(press)
        try:
            pause(0)
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
        return False

    presses = list(takewhile(bool, map(is_interrupted, count())))
    assert len(presses) >= 2
