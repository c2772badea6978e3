"""Durations in buckets: percentiles are exact to 10 %, and counts add up."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from backhaul.core.histogram import (
    LAST_BUCKET,
    bucket_of,
    from_text,
    percentile,
    seconds_of,
    to_text,
)


@pytest.mark.parametrize("part", [0.5, 0.95, 0.99])
def test_a_percentile_is_exact_to_a_tenth(part: float) -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    values = sorted(chance.lognormvariate(-1, 2) for _ in range(5_000))
    found = percentile(Counter(map(bucket_of, values)), part)
    assert found == pytest.approx(values[int(part * len(values)) - 1], rel=0.1)


def test_the_counts_of_two_daemons_add_up() -> None:
    fast, slow = Counter({bucket_of(0.01): 98}), Counter({bucket_of(60.0): 2})
    both = from_text(to_text(fast)) + from_text(to_text(slow))
    assert percentile(both, 0.95) == pytest.approx(0.01, rel=0.1)
    assert percentile(both, 0.99) == pytest.approx(60, rel=0.1)


def test_the_shortest_and_the_longest_have_a_bucket() -> None:
    assert [bucket_of(each) for each in (-1.0, 0.0, 0.001)] == [0, 0, 0]
    assert bucket_of(1e9) == LAST_BUCKET
    assert seconds_of(0) == 0.001


def test_there_is_no_percentile_of_nothing() -> None:
    assert percentile({}, 0.5) is None
    assert to_text(Counter({3: 0})) == "{}"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a":1}', "null"])
def test_damaged_counts_are_none(text: str) -> None:
    assert from_text(text) == Counter()
