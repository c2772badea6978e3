"""Versions of one object: a total order, and the same end whatever the order."""

from __future__ import annotations

import itertools
import json
from functools import reduce
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.core.fold import Judgement, Version, judge, supersedes
from support import payloads
from support.databases import fold_all, rows, started_store

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

VERSIONS = st.builds(
    Version,
    updated_at=st.sampled_from(
        [f"2026-03-01T12:00:0{second}.000Z" for second in range(3)]
    ),
    sequence=st.integers(0, 3),
    delivered=st.booleans(),
    read_at=st.sampled_from(["", "2026-03-01T12:00:01.000Z"]),
    digest=st.sampled_from([b"a", b"b", b"c"]),
)


def fold(held: Version | None, incoming: Version) -> Version | None:
    return incoming if supersedes(held, incoming) else held


@given(versions=st.lists(VERSIONS, min_size=1, max_size=7), chance=st.randoms())
def test_any_order_with_duplicates_ends_in_the_same_version(
    versions: list[Version], chance: Random
) -> None:
    straight = reduce(fold, versions, None)
    shuffled = versions * 2
    chance.shuffle(shuffled)
    assert reduce(fold, shuffled, None) == straight == max(versions)


@given(one=VERSIONS, two=VERSIONS, three=VERSIONS)
def test_order_is_total(one: Version, two: Version, three: Version) -> None:
    assert (one < two) + (two < one) + (one == two) == 1
    if one < two and two < three:
        assert one < three


@given(held=VERSIONS, incoming=VERSIONS)
def test_judgement_agrees_with_the_order(held: Version, incoming: Version) -> None:
    judgement = judge(held, incoming)
    if held.digest == incoming.digest:
        assert judgement is Judgement.SAME
    else:
        newer = supersedes(held, incoming)
        assert judgement is (Judgement.NEWER if newer else Judgement.STALE)


@given(incoming=VERSIONS)
def test_first_version_is_news(incoming: Version) -> None:
    assert judge(None, incoming) is Judgement.NEWER
    assert supersedes(None, incoming)
    assert not supersedes(incoming, incoming)


BASE = Version("2026-03-01T12:00:00.000Z", 5, True, "", b"m")
# Each beats BASE by one field although every later field speaks against it.
HIGHER = {
    "updated_at": Version("2026-03-01T12:00:00.001Z", 0, False, "", b"a"),
    "sequence": Version(BASE.updated_at, 6, False, "", b"a"),
    "read_at": Version(BASE.updated_at, 5, True, "2026-03-01T12:00:00.000Z", b"a"),
    "digest": Version(BASE.updated_at, 5, True, "", b"n"),
}


@pytest.mark.parametrize("field", HIGHER)
def test_fields_count_in_the_order_of_precedence(field: str) -> None:
    assert judge(BASE, HIGHER[field]) is Judgement.NEWER
    assert judge(HIGHER[field], BASE) is Judgement.STALE


def test_delivery_beats_what_was_read() -> None:
    """A delivery's bytes were frozen with the change; a read may be of any moment."""
    delivered = Version(BASE.updated_at, 0, True, "", b"a")
    read = Version(BASE.updated_at, 0, False, "2026-03-01T13:00:00.000Z", b"z")
    assert judge(read, delivered) is Judgement.NEWER
    assert judge(delivered, read) is Judgement.STALE


def test_older_delivery_does_not_win_after_the_newer_content_came_twice() -> None:
    """Same second, no hurry: A (3), B (5), and B read back without a sequence."""
    a = Version(BASE.updated_at, 3, True, "", b"a")
    b = Version(BASE.updated_at, 5, True, "", b"b")
    b_read = Version(BASE.updated_at, 0, False, "2026-03-01T12:00:01.000Z", b"b")
    for order in itertools.permutations([a, b, b_read]):
        assert reduce(fold, order, None) == b


DELIVERED_A = payloads.envelope("orders/updated", payloads.order(note="a"), sequence=3)
DELIVERED_B = payloads.envelope("orders/updated", payloads.order(note="b"), sequence=5)
READ_B = json.dumps(payloads.order(note="b")).encode()
ARRIVALS = [
    payloads.arrival(DELIVERED_A),
    payloads.arrival(DELIVERED_B),
    payloads.arrival(READ_B, "orders/read", kind="read"),
]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_mirror_ends_in_the_same_version_too(
    order: tuple[int, ...], tmp_path: Path
) -> None:
    async with started_store(tmp_path / "backhaul.db") as store:
        for index in order:
            await store.inbox.append(ARRIVALS[index])
            await fold_all(store)
        query = "SELECT json_extract(document, '$.note'), sequence FROM orders"
        assert rows(store.path, query) == [("b", 5)]
