"""Durations, calendars and addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.settings.jobs import check_cron
from backhaul.settings.values import (
    UNIT_SECONDS,
    check_base_url,
    check_host,
    parse_duration,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("5s", 5.0),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("1d", 86400.0),
        ("1.5h", 5400.0),
        (" 10 s ", 10.0),
        ("366d", 31622400.0),
    ],
)
def test_a_duration_is_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@given(st.integers(1, 500), st.sampled_from(["ms", "s", "m", "h"]))
def test_every_duration_is_its_number_times_its_unit(number: int, unit: str) -> None:
    assert parse_duration(f"{number}{unit}") == number * UNIT_SECONDS[unit]


@given(st.text() | st.integers() | st.none() | st.booleans())
def test_an_invalid_duration_is_refused_in_words(value: object) -> None:
    assert refusal(value).startswith("must be")


def refusal(value: object) -> str:
    """Return why the value is no duration; random text hardly ever is one."""
    try:
        parse_duration(value)
    except ValueError as error:
        return str(error)
    return "must be one"


@pytest.mark.parametrize(
    "text",
    [
        "* * * * *",
        "*/5 8-18 * * mon-fri",
        "0,30 6 1,15 jan-mar,12 0",
        "0 0 31 dec 7",
        "10-50/10 * * * SUN",
    ],
)
def test_a_calendar_is_accepted(text: str) -> None:
    assert check_cron(text) == text


def test_blanks_in_a_calendar_do_not_matter() -> None:
    assert check_cron("  0  6\t* * *") == "0 6 * * *"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://shop.example/", "https://shop.example"),
        ("http://127.0.0.1:8760", "http://127.0.0.1:8760"),
        ("https://example.org/shop/", "https://example.org/shop"),
        ("http://[::1]:80", "http://[::1]:80"),
    ],
)
def test_an_address_is_kept_without_its_last_slash(url: str, kept: str) -> None:
    assert check_base_url(url) == kept


@pytest.mark.parametrize(
    "url",
    [
        *("", "ftp://a", "https://", "https://a:99999", "https://a b", "https://a#b"),
        *("https://a..b", "https://.a", f"https://{'a' * 64}.b", "https://\u00fc..a"),
    ],
)
def test_an_address_that_cannot_be_called_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|must not contain"):
        check_base_url(url)


@pytest.mark.parametrize(
    "host",
    ["mail.shop.example", "127.0.0.1", "::1", "mail.", "a_b", "a" * 63, "m\u00fc.a"],
)
def test_a_host_is_kept(host: str) -> None:
    assert check_host(host) == host


@pytest.mark.parametrize(
    "host", ["mail..shop", ".mail", "", "a" * 64, "a b", "a\0b", "smtp://a", "a/b"]
)
def test_an_invalid_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="must be the name or address of a host"):
        check_host(host)
