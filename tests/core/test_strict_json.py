"""The strict JSON parser: exact numbers, limited depth, and only valid JSON."""

from __future__ import annotations

import contextlib
import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.core import strict_json
from backhaul.errors import Unusable

REFUSED = {
    "nan": b'{"a":NaN}',
    "infinity": b'{"a":Infinity}',
    "minus-infinity": b'{"a":-Infinity}',
    "empty": b"",
    "blank": b" ",
    "two-documents": b"{} {}",
    "cut": b'{"a":"b',
    "trailing-comma": b"[1,]",
    "single-quotes": b"{'a':1}",
    "leading-zero": b"01",
    "plus": b"+1",
    "hexadecimal": b"0x1",
    "comment": b"{}//x",
    "byte-order-mark": b"\xef\xbb\xbf{}",
    "utf-16": '{"a":1}'.encode("utf-16"),
    "latin-1": b'"\xe9"',
    "overlong-utf-8": b'"\xc0\xaf"',
    "surrogate-in-utf-8": b'"\xed\xa0\x80"',
    "control-character": b'"\x01"',
    "exponent-beyond-decimal": b'{"a":1e999999999999999999999}',
    "tiny-beyond-decimal": b'{"a":1e-999999999999999999999}',
    "endless-integer": b"1" * 5_000,
    "html": b"<html>",
    "null-byte": b"\x00",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(Unusable, match="the body is not JSON"):
        strict_json.decode(REFUSED[name])


def nested(levels: int, pair: tuple[bytes, bytes]) -> bytes:
    return pair[0] * levels + b"1" + pair[1] * levels


PAIRS = {"lists": (b"[", b"]"), "objects": (b'{"a":', b"}"), "both": (b'[{"a":', b"}]")}


@pytest.mark.parametrize("name", PAIRS)
def test_depth_is_bounded_at_64(name: str) -> None:
    levels = 32 if name == "both" else 64
    strict_json.decode(nested(levels, PAIRS[name]))
    with pytest.raises(Unusable, match="more than 64 levels"):
        strict_json.decode(nested(levels + 1, PAIRS[name]))


@pytest.mark.parametrize("name", PAIRS)
def test_depth_beyond_any_stack_is_refused_too(name: str) -> None:
    with pytest.raises(Unusable):
        strict_json.decode(nested(100_000, PAIRS[name]))


def test_brackets_in_texts_are_no_depth() -> None:
    assert strict_json.decode(b'{"a":"' + b"[" * 100 + b'"}') == {"a": "[" * 100}


def test_many_brackets_side_by_side_are_no_depth() -> None:
    assert len(strict_json.decode(b"[" + b"[],{}," * 500 + b"1]")) == 1001


def test_of_two_members_with_one_name_the_last_counts() -> None:
    """RFC 8259 does not define it; all readers of the same bytes must agree."""
    body = b'{"id":"a","data":{"x":1},"id":"b","data":{"x":2}}'
    assert strict_json.decode(body) == {"id": "b", "data": {"x": 2}}
    raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    assert bytes(raw["data"]) == b'{"x":2}'


HALVES = {
    "high": (rb'"tea \ud83d"', "tea \ufffd"),
    "low": (rb'"\uDE00!"', "\ufffd!"),
    "high-and-text": (rb'"\ud800\u0041"', "\ufffdA"),
    "high-and-high": (rb'"\uD83D\ud83d\ude00"', "\ufffd\U0001f600"),
    "low-and-high": (rb'"\ude00\ud83d"', "\ufffd\ufffd"),
    "backslash": (rb'"\\ud83d \\\ud83d"', "\\ud83d \\\ufffd"),
    "letters": (rb'"\ud55c\ud7ff \ud83d"', "\ud55c\ud7ff \ufffd"),
    "name": (rb'{"\ud83d":1}', {"\ufffd": 1}),
}


@pytest.mark.parametrize("name", HALVES)
def test_half_an_emoji_becomes_the_mark_for_what_is_missing(name: str) -> None:
    text, document = HALVES[name]
    assert strict_json.decode(text) == document
    whole = strict_json.replace_half_surrogates(text)
    assert len(whole) == len(text)
    assert json.loads(whole) == document


@given(st.text(st.characters(), max_size=12))
def test_only_halves_change(text: str) -> None:
    pairs = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert strict_json.decode(json.dumps(text).encode()) == pairs


@pytest.mark.parametrize("text", [rb'"\ud83', rb'"\ud83d', rb'"\ud83d",', rb'"\ud8zz"'])
def test_half_an_emoji_excuses_nothing_else(text: bytes) -> None:
    with pytest.raises(Unusable, match="the body is not JSON"):
        strict_json.decode(text)


NUMBERS = {
    b"1.10": "1.10",
    b"0.1": "0.1",
    b"1499.00": "1499.00",
    b"-0.0": "-0.0",
    b"1e2": "1E+2",
    b"1E+400": "1E+400",
    b"123456789012345678901234567890.123456789": None,
    b"0.1000000000000000055511151231257827": None,
}


@pytest.mark.parametrize("text", NUMBERS, ids=bytes.decode)
def test_fractions_keep_every_digit(text: bytes) -> None:
    found = strict_json.decode(text)
    assert type(found) is Decimal
    written = (NUMBERS[text] or text.decode()).encode()
    assert strict_json.encode(found) == written
    assert strict_json.decode(written) == found


@pytest.mark.parametrize("number", [0, -1, 2**53 + 1, 2**63, 2**64, -(10**30), 10**400])
def test_whole_numbers_of_any_size_keep_every_digit(number: int) -> None:
    found = strict_json.decode(str(number).encode())
    assert (found, type(found)) == (number, int)
    assert strict_json.encode(found) == str(number).encode()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(document=DOCUMENTS)
def test_round_trip_is_exact_and_canonical(document: Any) -> None:
    written = strict_json.encode(document)
    again = strict_json.decode(written)
    assert again == document
    assert strict_json.encode(again) == strict_json.encode(strict_json.decode(written))


@given(st.dictionaries(TEXTS, st.integers(), max_size=6), st.randoms())
def test_order_of_members_does_not_matter(members: dict[str, int], chance: Any) -> None:
    shuffled = list(members.items())
    chance.shuffle(shuffled)
    assert strict_json.encode(dict(shuffled)) == strict_json.encode(members)


@given(body=st.binary(max_size=60))
def test_any_bytes_are_read_or_unusable(body: bytes) -> None:
    with contextlib.suppress(Unusable):
        strict_json.encode(strict_json.decode(body))


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"[]", "list"), (b"1", "int"), (b'"x"', "str"), (b"null", "NoneType")],
    ids=str,
)
def test_a_json_object_is_required(body: bytes, kind: str) -> None:
    with pytest.raises(Unusable, match=f"is a JSON {kind}, not an object"):
        strict_json.decode_object(body)
