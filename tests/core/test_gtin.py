"""GTINs are recognized in every spelling, and by their check digit."""

from __future__ import annotations

import pytest

from backhaul.core.sku_matching import has_gtin_length, normalized, spellings


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("96385074", "00000096385074"),
        ("036000291452", "00036000291452"),
        ("4006381333931", "04006381333931"),
        ("10614141000415", "10614141000415"),
        ("4006381333930", None),
        ("4.01E+12", None),
        ("400638133393", None),
        ("", None),
        ("\u0664006381333931", None),
    ],
)
def test_a_number_is_one_with_its_check_digit_only(
    text: str, whole: str | None
) -> None:
    assert normalized(text) == whole


def test_every_spelling_is_of_the_same_article() -> None:
    assert spellings("00036000291452") == [
        "036000291452",
        "0036000291452",
        "00036000291452",
    ]
    assert {normalized(text) for text in spellings("00000096385074")} == {
        "00000096385074"
    }


def test_a_text_of_other_length_is_none() -> None:
    assert not has_gtin_length("123")
    assert has_gtin_length("4006381333930")
