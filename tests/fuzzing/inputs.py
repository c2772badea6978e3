"""Inputs that are nearly right: seeds with a member, a word or some bytes exchanged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import DrawFn, SearchStrategy

WORDS = [
    *(b"NaN", b"sNaN", b"Infinity", b"1e999", b"-1e999", b"1E+1000000", b"9" * 5_000),
    *(b"-0", b"1_0", b"0x10", b"\xd9\xa3", b"1e308", b"18446744073709551616"),
    *(b"0001-01-01T00:00:00+14:00", b"9999-12-31T23:59:59-14:00", b"2026-02-30"),
    *(b"0001-01-01", b"9999-12-31T24:00:00Z", b"Mon, 01 Jan 0001 00:00:00 +9999"),
    *(b"\\ud800", b"\xed\xa0\x80", b"\x00", b"\x1d", b"\x85", b"\xff", b"\xef\xbb\xbf"),
    *(b"http://[", b"//[::1", b"https://a:b@c:99999/", b"mailto:x", b"\\", b"%00"),
    *(b"https://x/01/\xd9\xa1", b"https://[x/01/04006381333931", b"]C1", b"(01)"),
    *(b"[" * 3_000, b'{"a":' * 3_000, b'"' * 300, b"=cmd|'/c calc'!A1", b"'", b"../"),
    *(b"\r", b"\n", b"\t", b",", b";", b"{}", b"[]", b"null", b"true", b"\xe2\x80\xae"),
]
"""What has broken parsers before, ours or others'."""
NUMBERS = (-1, 0, 10**12, 2**63, 2**64, 10**30, -(10**400), 1e300, 1e11, -1e17, 0.5)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(NUMBERS),
    st.floats(),
    st.text(max_size=30),
    st.sampled_from([word.decode("utf-8", "replace") for word in WORDS]),
    st.text(alphabet="\ud800\udfffa\x00\x1d\u202e", max_size=4),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner)
    ),
    max_leaves=6,
)


SWAPPED: tuple[Any, ...] = (
    *(word.decode("utf-8", "surrogateescape") for word in WORDS),
    *(*NUMBERS, None, True, [], {}, [None], [[]], {"": 1}, [{}, 1], "", " "),
)


def swapped(seed: bytes) -> Iterator[bytes]:
    """Yield a seed with each of its members, or lines, exchanged for each of these."""
    try:
        document = json.loads(seed)
    except ValueError:
        lines = seed.split(b"\n")
        for at in range(len(lines)):
            for word in WORDS:
                yield b"\n".join([*lines[:at], word, *lines[at + 1 :]])
    else:
        for other in _with_each_place(document):
            yield json.dumps(other).encode()


def _with_each_place(document: Any) -> Iterator[Any]:
    yield from SWAPPED
    if isinstance(document, dict):
        for name, value in document.items():
            for other in _with_each_place(value):
                yield {**document, name: other}
    elif isinstance(document, list):
        for at, value in enumerate(document):
            for other in _with_each_place(value):
                yield [*document[:at], other, *document[at + 1 :]]


def near(seeds: tuple[bytes, ...]) -> SearchStrategy[bytes]:
    """Return inputs like these, and a few like nothing at all."""
    seed = st.sampled_from(seeds)
    return (
        seed.flatmap(_with_another_member)
        | st.builds(_spliced, seed, st.lists(_CUTS, min_size=1, max_size=3))
        | st.binary(max_size=80)
    )


_CUTS = st.tuples(
    st.floats(0, 1),
    st.integers(0, 12),
    st.sampled_from(WORDS)
    | st.binary(max_size=6)
    | st.text(max_size=6).map(str.encode),
)


def _spliced(seed: bytes, cuts: list[tuple[float, int, bytes]]) -> bytes:
    for share, length, word in cuts:
        at = int(share * len(seed))
        seed = seed[:at] + word + seed[at + length :]
    return seed


def _with_another_member(seed: bytes) -> SearchStrategy[bytes]:
    try:
        document = json.loads(seed)
    except ValueError:
        return st.just(seed)
    return _disturbed(document).map(lambda found: json.dumps(found).encode())


@st.composite
def _disturbed(draw: DrawFn, document: Any) -> Any:
    """Return the document with another value in one place of it."""
    if isinstance(document, dict) and document and draw(st.integers(0, 9)):
        name = draw(st.sampled_from(sorted(document)))
        return {**document, name: draw(_disturbed(document[name]))}
    if isinstance(document, list) and document and draw(st.integers(0, 9)):
        at = draw(st.integers(0, len(document) - 1))
        return [*document[:at], draw(_disturbed(document[at])), *document[at + 1 :]]
    return draw(VALUES)
