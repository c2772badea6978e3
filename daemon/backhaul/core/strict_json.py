"""JSON as this program trusts it: exact numbers, bounded depth, no NaN."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from backhaul.errors import Unusable

MAX_DEPTH = 64

# An exponent beyond what Decimal holds is an ArithmeticError.
_NOT_JSON = (
    msgspec.DecodeError,
    UnicodeDecodeError,
    RecursionError,
    ArithmeticError,
)
_decoder = msgspec.json.Decoder(float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number", order="sorted")


def decode(text: bytes) -> Any:
    """Read one JSON document; fractions become Decimal. Raises Unusable."""
    try:
        document = _decoder.decode(text)
    except _NOT_JSON as error:
        raise Unusable(f"the body is not JSON: {error}") from None
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _deeper(document, MAX_DEPTH):
        raise Unusable(f"the body nests deeper than {MAX_DEPTH} levels")
    return document


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
