"""JSON as this program trusts it: exact numbers, bounded depth, no NaN."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import msgspec

from backhaul.errors import Unusable

MAX_DEPTH = 64
_NO_BRACKET = bytes(set(range(256)) - set(b"[{"))

# An exponent beyond what Decimal holds is an ArithmeticError.
_NOT_JSON = (
    msgspec.DecodeError,
    UnicodeDecodeError,
    RecursionError,
    ArithmeticError,
)
# Every escape is matched, so that the second of two backslashes begins none.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\u[dD](?P<half>[89a-fA-F])[0-9a-fA-F]{2}"
    rb"|\\.",
    re.DOTALL,
)
_decoder = msgspec.json.Decoder(float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number", order="sorted")


def decode(text: bytes) -> Any:
    """Read one JSON document; fractions become Decimal. Raises Unusable.

    A text that was cut in the middle of an emoji ends in U+FFFD.
    """
    try:
        document = _decoded(text)
    except _NOT_JSON as error:
        raise Unusable(f"the body is not JSON: {error}") from None
    brackets = text.translate(None, _NO_BRACKET)  # faster than to count each kind
    if len(brackets) > MAX_DEPTH and _deeper(document, MAX_DEPTH):
        raise Unusable(
            f"the JSON of the body is nested more than {MAX_DEPTH} levels deep"
        )
    return document


def replace_half_surrogates(text: bytes) -> bytes:
    """Return JSON in which each half of a surrogate pair is the escape of U+FFFD.

    Stores cut texts after a number of UTF-16 units, perhaps within an emoji; no decoder
    accepts the rest. Nothing else changes, and all offsets stay the same.
    """
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(_whole, text)


def storable(text: str) -> str:
    """Return text with lone surrogates replaced, which no database stores.

    They occur in odd file names, and in JSON that was cut within an emoji.
    """
    return text if text.isascii() else text.encode(errors="replace").decode()


def _whole(escape: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if escape["half"] else escape[0]


def _decoded(text: bytes) -> Any:
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        # Only after a failure: most documents cost nothing more.
        if (repaired := replace_half_surrogates(text)) == text:
            raise
        return _decoder.decode(repaired)


def decode_object(text: bytes) -> dict[str, Any]:
    """Read one JSON object. Raises Unusable."""
    document = decode(text)
    if not isinstance(document, dict):
        raise Unusable(f"the body is a JSON {type(document).__name__}, not an object")
    return document


def encode(document: object) -> bytes:
    """Write canonical JSON: sorted keys, no white space, numbers as they were read."""
    return _encoder.encode(document)


def _deeper(node: object, levels: int) -> bool:
    if not isinstance(node, dict | list):
        return False
    if levels == 0:
        return True
    children = node.values() if isinstance(node, dict) else node
    return any(_deeper(child, levels - 1) for child in children)
