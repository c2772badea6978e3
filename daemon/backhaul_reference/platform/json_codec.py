"""Strict, bounded JSON decoding and compact UTF-8 encoding."""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from backhaul_reference.platform.problems import Problem

Document = dict[str, Any]
MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class OddNumber:
    """A number in exponent notation, which no schema accepts."""

    text: str


def _number(text: str) -> Decimal | OddNumber:
    if "e" in text or "E" in text:
        return OddNumber(text)
    try:
        return Decimal(text)
    except InvalidOperation:
        return OddNumber(text)


DECODER = msgspec.json.Decoder(float_hook=_number)


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


def encode_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def decode_stored(text: str | bytes) -> Any:
    """Read JSON that this server wrote itself."""
    return msgspec.json.decode(text)


def decode_object(raw: bytes) -> Document:
    """Read a request body: one JSON object, or 400 INVALID_JSON."""
    try:
        value = DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "INVALID_JSON", "the body is not valid JSON") from error
    if not isinstance(value, dict):
        raise Problem(400, "INVALID_JSON", "the body must be a JSON object")
    if _deeper_than(value, MAX_DEPTH):
        raise Problem(400, "INVALID_JSON", "the body is nested too deeply")
    return value


def _deeper_than(value: Any, limit: int) -> bool:
    layer = [value]
    for _ in range(limit):
        layer = [child for node in layer for child in _children(node)]
        if not layer:
            return False
    return True


def _children(node: Any) -> list[Any]:
    found = node.values() if isinstance(node, dict) else node
    return [child for child in found if isinstance(child, (dict, list))]
