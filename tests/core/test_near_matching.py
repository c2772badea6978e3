"""Near matches of a text: single-character differences, and the best candidates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backhaul.core.near_matching import (
    LONGEST,
    near_texts,
    ranked,
    without_misread_letters,
)

WORDS = st.text("abc019-_", min_size=1, max_size=12)


@given(WORDS, st.data())
def test_every_text_with_one_other_character_is_near(
    text: str, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from("09-_"))
    near = near_texts(text)
    left, right = text[:place], text[place + 1 :]
    assert {left + letter + right, text[:place] + letter + text[place:]} <= near
    assert left + right in near or not left + right
    if right:
        assert left + right[0] + text[place] + right[1:] in near


def test_digits_get_no_letters_and_a_long_text_matches_alone() -> None:
    assert "10a1" not in near_texts("1001")
    assert "10a1" in near_texts("10b1")
    long = "x" * (LONGEST + 1)
    assert near_texts(long) == {long}


def test_the_most_similar_is_first_and_others_are_left_out() -> None:
    assert ranked("lamp-2", ["tea", "lamp-20", "lamp-02", "lamp-2x-large"])[0] in {
        "lamp-20",
        "lamp-02",
    }
    assert "tea" not in ranked("lamp-2", ["tea", "lamp-20"])


def test_letters_that_look_like_digits_are_read_as_digits() -> None:
    assert without_misread_letters("1oO1lI") == "100111"
