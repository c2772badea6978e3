"""How money, times and states are formatted."""

from __future__ import annotations

import pytest

from backhaul.admin.formatting import (
    MINUS,
    NARROW,
    at,
    money,
    platform_word,
    rate,
    sentence,
    with_times,
)

AT = "2026-03-01T12:00:05.123Z"
SHOWN = f'<time datetime="{AT}" title="{{0}}">{{0}}</time>'.format(
    "1 Mar 2026, 12:00:05 UTC"
)


@pytest.mark.parametrize(
    ("minor", "currency", "shown"),
    [
        (139_800, "INR", "₹1,398.00"),
        (0, "INR", "₹0.00"),
        (1_398, "JPY", "¥1,398"),
        (1_250, "KWD", f"KWD{NARROW}1.250"),
        (-139_800, "USD", f"{MINUS}$1,398.00"),
        (5, "EUR", "€0.05"),
        (123_456_789_012, "USD", "$1,234,567,890.12"),
        (100, "XYZ", f"XYZ{NARROW}1.00"),
        (100, None, "1.00"),
        (None, "INR", "—"),
    ],
)
def test_money_has_the_digits_and_the_sign_of_its_currency(
    minor: int | None, currency: str | None, shown: str
) -> None:
    assert money(minor, currency) == shown


def test_a_time_in_a_text_is_a_time_of_the_page() -> None:
    assert with_times(f"since {AT}: <b>") == f"since {SHOWN}: &lt;b&gt;"
    assert with_times(AT) == at(AT) == SHOWN
    assert with_times(None) == ""
    assert at(None) == "—"


@pytest.mark.parametrize("text", ["2026-99-99T12:00:00Z", "9999-12-31T23:59:60Z"])
def test_text_that_looks_like_a_time_is_shown_as_it_is(text: str) -> None:
    assert f">{text}<" in with_times(text)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.01, "<0.1"), (0.25, "0.2"), (9.96, "10"), (1234.5, "1\u202f234")],
)
def test_a_rate_is_short_and_not_0_while_something_flows(
    value: float, shown: str
) -> None:
    assert rate(value) == shown


def test_a_status_is_in_the_words_of_the_platform() -> None:
    partly = '<span class="badge wait">partially fulfilled</span>'
    assert platform_word("PARTIALLY_FULFILLED") == partly
    assert platform_word("<ODD>") == '<span class="badge off">&lt;odd&gt;</span>'
    assert platform_word(None) == ""


def test_a_sentence_has_a_beginning_and_an_end() -> None:
    assert [sentence(text) for text in ("it is so", "Why?", "", None)] == [
        *("It is so.", "Why?", "", "")
    ]
