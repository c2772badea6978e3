"""Versions of one object have a total order; conflicts are detected."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from backhaul.core.fold import (
    Version,
    VersionComparison,
    as_of,
    compare_versions,
    join,
    supersedes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

SECONDS = st.sampled_from([f"2026-03-01T12:00:0{second}.000Z" for second in range(4)])
SHOWN = st.builds(
    Version,
    updated_at=SECONDS,
    sequence=st.integers(0, 3),
    delivered=st.booleans(),
    seen_at=SECONDS,
    digest=st.sampled_from([b"a", b"b", b"c"]),
    standing=st.sampled_from([0, 1, 4, 5, 1 << 4, 1 << 6]),
)
READ = SHOWN.map(lambda version: replace(version, delivered=False, sequence=0))
CONFIRMING = READ.map(lambda version: replace(version, confirmed_at=version.seen_at))
VERSIONS = SHOWN.map(lambda v: v if v.delivered else replace(v, sequence=0))
MANY = st.lists(VERSIONS, min_size=1, max_size=7)


def folded(versions: Sequence[Version]) -> Version:
    held = reduce(join, versions, None)
    assert held is not None
    return held


def shuffled(versions: Sequence[Version], chance: Random) -> list[Version]:
    return chance.sample([*versions] * 2, 2 * len(versions))


@given(versions=MANY, chance=st.randoms())
def test_any_order_with_duplicates_ends_in_the_same_version(
    versions: list[Version], chance: Random
) -> None:
    straight = folded(versions)
    assert folded(shuffled(versions, chance)) == straight
    assert not any(supersedes(straight, version) for version in versions)


@given(one=VERSIONS, two=VERSIONS, three=VERSIONS)
def test_order_is_total(one: Version, two: Version, three: Version) -> None:
    assert supersedes(one, two) + supersedes(two, one) + (one == two) == 1
    if supersedes(one, two) and supersedes(two, three):
        assert supersedes(one, three)


@given(one=VERSIONS, two=VERSIONS)
def test_a_conflict_is_the_same_from_either_side(one: Version, two: Version) -> None:
    """The result of a comparison does not depend on which version comes first."""
    doubts = {
        compare_versions(one, two) is VersionComparison.CONFLICT,
        compare_versions(two, one) is VersionComparison.CONFLICT,
    }
    assert len(doubts) == 1


@given(held=VERSIONS, incoming=VERSIONS)
def test_versions_without_a_conflict_follow_the_order(
    held: Version, incoming: Version
) -> None:
    judgement = compare_versions(held, incoming)
    assert (judgement is VersionComparison.SAME) == (held.digest == incoming.digest)
    if judgement is VersionComparison.NEWER:
        assert supersedes(held, incoming)
    if judgement is VersionComparison.STALE:
        assert not supersedes(held, incoming)


@settings(max_examples=200)
@given(
    versions=MANY,
    confirming=st.lists(CONFIRMING, min_size=1, max_size=3),
    chance=st.randoms(),
)
def test_confirming_reads_end_the_same_when_folded_again(
    versions: list[Version], confirming: list[Version], chance: Random
) -> None:
    """A version that a confirming read lowered is folded by the next pass."""
    last = max(version.confirmed_at for version in confirming)
    alive = [v for v in versions if v.seen_at > last]
    alive += [v for v in confirming if v.seen_at == last]
    expected = folded(alive)
    held = folded(
        [v for _ in range(4) for v in shuffled(versions + confirming, chance)]
    )
    assert replace(held, confirmed_at="") == replace(expected, confirmed_at="")


@given(one=VERSIONS | CONFIRMING, two=VERSIONS | CONFIRMING)
def test_two_versions_join_alike_from_either_side(one: Version, two: Version) -> None:
    assert folded([one, two]) == folded([two, one])


@given(one=VERSIONS | CONFIRMING, two=VERSIONS | CONFIRMING)
def test_a_known_winner_changes_no_result(one: Version, two: Version) -> None:
    wins = supersedes(one, two)
    assert compare_versions(one, two, wins=wins) is compare_versions(one, two)
    joined = join(one, two, wins=wins)
    assert joined == join(one, two)
    confirmed_at = max(one.confirmed_at, two.confirmed_at)
    assert joined == replace(two if wins else one, confirmed_at=confirmed_at)


@settings(max_examples=200)
@given(
    before=MANY,
    confirming=CONFIRMING,
    after=st.lists(VERSIONS, max_size=3),
    chance=st.randoms(),
)
def test_a_confirming_read_counts_whenever_it_comes(
    before: list[Version], confirming: Version, after: list[Version], chance: Random
) -> None:
    """In one pass, older events never win over a read, even if the read loses."""
    read_at = confirming.confirmed_at
    seen = [replace(v, seen_at=min(v.seen_at, read_at)) for v in before]
    same = [replace(v, digest=confirming.digest, seen_at=at(9)) for v in after]
    versions = [*seen, confirming, *same]
    held = folded(chance.sample(versions, len(versions)))
    assert held.digest == confirming.digest


@given(incoming=VERSIONS)
def test_a_first_version_is_newer(incoming: Version) -> None:
    assert compare_versions(None, incoming) is VersionComparison.NEWER
    assert supersedes(None, incoming)
    assert not supersedes(incoming, incoming)


def at(second: int) -> str:
    return f"2026-03-01T12:00:{second:02}.000Z"


BASE = Version(at(10), 5, delivered=True, seen_at=at(11), digest=b"m")
BARE = replace(BASE, sequence=0)
CANCELLED, FULFILLED, PAID = 1 << 4, 2, 1 << 2
READ_AFTER = Version(at(10), 0, delivered=False, seen_at=at(12), digest=b"r")
NEWER, STALE, CONFLICT = (
    VersionComparison.NEWER,
    VersionComparison.STALE,
    VersionComparison.CONFLICT,
)

CASES: dict[str, tuple[Version, Version, VersionComparison, bool]] = {
    "later": (BARE, replace(BARE, updated_at=at(11), digest=b"n"), NEWER, True),
    "earlier": (BARE, replace(BARE, updated_at=at(9), digest=b"n"), STALE, False),
    "next in sequence": (BASE, replace(BASE, sequence=6, digest=b"a"), NEWER, True),
    "before in sequence": (BASE, replace(BASE, sequence=4, digest=b"z"), STALE, False),
    "tie": (BARE, replace(BARE, seen_at=at(12), digest=b"a"), CONFLICT, True),
    "tie the other way": (
        BARE,
        replace(BARE, seen_at=at(9), digest=b"z"),
        CONFLICT,
        False,
    ),
    "a tie of sequence": (BASE, replace(BASE, digest=b"n"), CONFLICT, True),
    "half a sequence": (BASE, replace(BARE, digest=b"z"), CONFLICT, False),
    "time against sequence": (
        BASE,
        replace(BASE, updated_at=at(12), sequence=4, digest=b"n"),
        CONFLICT,
        True,
    ),
    "read afterwards": (BARE, READ_AFTER, NEWER, True),
    "read before": (BARE, replace(READ_AFTER, seen_at=at(10)), CONFLICT, False),
    "delivered after a read": (
        READ_AFTER,
        replace(BARE, seen_at=at(13)),
        CONFLICT,
        True,
    ),
    "read afterwards, no match for a sequence": (BASE, READ_AFTER, CONFLICT, False),
    "older in a later read": (
        BASE,
        replace(READ_AFTER, updated_at=at(9)),
        CONFLICT,
        False,
    ),
    "older in an earlier read": (
        BASE,
        replace(READ_AFTER, updated_at=at(9), seen_at=at(10)),
        STALE,
        False,
    ),
    "no longer cancelled": (
        replace(BASE, standing=CANCELLED | FULFILLED),
        replace(BASE, updated_at=at(12), sequence=9, standing=FULFILLED, digest=b"n"),
        CONFLICT,
        False,
    ),
    "an older cancellation": (
        replace(BASE, standing=FULFILLED),
        replace(BASE, updated_at=at(9), sequence=4, standing=CANCELLED, digest=b"n"),
        CONFLICT,
        True,
    ),
    "paid and unfulfilled again": (
        replace(BASE, standing=FULFILLED),
        replace(BASE, updated_at=at(12), sequence=9, standing=PAID, digest=b"n"),
        CONFLICT,
        True,
    ),
    "further within one second": (
        BARE,
        replace(BARE, standing=PAID, digest=b"a", seen_at=at(9)),
        NEWER,
        True,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_judged_by_all_the_evidence(case: str) -> None:
    held, incoming, judgement, wins = CASES[case]
    assert compare_versions(held, incoming) is judgement
    assert supersedes(held, incoming) is wins


LOWER = Version(at(3), 0, delivered=False, seen_at=at(20), digest=b"c")
CONFIRMED = replace(LOWER, confirmed_at=LOWER.seen_at)


def test_only_a_confirming_read_lowers_the_current_version() -> None:
    high = replace(BASE, standing=CANCELLED | FULFILLED)
    assert compare_versions(high, LOWER) is CONFLICT
    assert not supersedes(high, LOWER)
    assert compare_versions(high, CONFIRMED) is NEWER
    assert supersedes(high, CONFIRMED)


def test_a_version_that_came_during_the_read_is_not_lowered() -> None:
    later = replace(BASE, seen_at=at(21))
    assert compare_versions(later, CONFIRMED) is STALE
    tie = replace(CONFIRMED, updated_at=later.updated_at)
    assert compare_versions(later, tie) is CONFLICT
    assert not supersedes(later, tie)


def test_a_version_seen_before_the_confirming_read_does_not_come_back() -> None:
    assert compare_versions(CONFIRMED, BASE) is CONFLICT
    assert not supersedes(CONFIRMED, BASE)
    after = replace(BASE, seen_at=at(21))
    assert compare_versions(CONFIRMED, after) is NEWER
    held = join(CONFIRMED, after)
    assert not supersedes(held, replace(BASE, updated_at=at(30)))


@pytest.mark.parametrize("order", ["xrq", "xqr", "rxq", "rqx", "qxr", "qrx"])
def test_the_order_of_arrival_does_not_choose_the_content(order: str) -> None:
    """A forged time, the read that corrects it, and an event about the same change."""
    versions = {
        "x": Version(at(50), 0, delivered=True, seen_at=at(19), digest=b"x"),
        "r": CONFIRMED,
        "q": Version(at(3), 0, delivered=True, seen_at=at(21), digest=b"c"),
    }
    assert folded([versions[name] for name in order]).digest == b"c"


def test_the_later_of_two_confirming_reads_stays() -> None:
    earlier = replace(CONFIRMED, updated_at=at(9), digest=b"e", seen_at=at(19))
    earlier = replace(earlier, confirmed_at=earlier.seen_at)
    for order in itertools.permutations([earlier, CONFIRMED]):
        assert folded(order) == CONFIRMED


@given(held=VERSIONS, now=SECONDS)
def test_a_version_seen_in_the_future_is_older_than_all_later_ones(
    held: Version, now: str
) -> None:
    """After the clock was set back, a new read decides over all earlier versions."""
    known = as_of(now, held)
    read = replace(held, digest=b"read", delivered=False, sequence=0, seen_at=now)
    read = replace(read, confirmed_at=now)
    assert compare_versions(known, read) is VersionComparison.NEWER
    assert join(known, read) == read
    assert (known == held) == (held.seen_at <= now and held.confirmed_at <= now)
