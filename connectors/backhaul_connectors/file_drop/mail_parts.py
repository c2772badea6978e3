"""Finds the attachments of a message by its BODYSTRUCTURE, and decodes them."""

from __future__ import annotations

import binascii
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.utils import collapse_rfc2231_value, decode_params, unquote
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul_connectors.file_drop.files import FileUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEEPEST = 20
"""Most levels of parts that are read: messages inside messages have no limit."""
PLAIN = ("7bit", "8bit", "binary")
BLANKS = b" \t\r\n"
_UNDECODABLE = (HeaderParseError, LookupError, ValueError)


class Attachment(Struct, frozen=True):
    """A named part of a message; `octets` is its size before it is decoded."""

    part: str
    name: str
    encoding: str
    octets: int
    is_inline: bool = False

    @property
    def about_bytes(self) -> int:
        """Return about how large the content is once it is decoded."""
        return self.octets * 3 // 4 if self.encoding == "base64" else self.octets


def attachments_of(structure: Any) -> list[Attachment]:
    """Return the named parts, those of messages inside the message too.

    A report, such as that a message could not be delivered, has none: it contains
    another message only as evidence.
    """
    return list(_parts(structure, "", 0))


def _parts(body: Any, number: str, depth: int) -> Iterator[Attachment]:
    if depth > DEEPEST or not body:
        return
    if isinstance(body[0], list | tuple):
        children, kind = _children(body)
        if kind != "report":
            for place, child in enumerate(children, 1):
                yield from _parts(child, _inside(number, place), depth + 1)
        return
    number = number or "1"
    if (text_of(body[0]).lower(), text_of(body[1]).lower()) == ("message", "rfc822"):
        inner = body[8] if len(body) > 8 else None
        if inner:
            is_single = not isinstance(inner[0], list | tuple)
            yield from _parts(inner, f"{number}.1" if is_single else number, depth + 1)
        return
    disposition = _disposition(body)
    if name := _name(disposition, body[2]):
        yield Attachment(
            part=number,
            name=name,
            encoding=text_of(body[5]).lower(),
            octets=int(body[6] or 0),
            is_inline=text_of(disposition[0]).lower() == "inline",
        )


def _children(body: Any) -> tuple[Sequence[Any], str]:
    """Return the parts of a multipart body, and its subtype."""
    if isinstance(body[0], list):
        children, rest = body[0], body[1:]
    else:
        children = list(takewhile(lambda part: isinstance(part, tuple), body))
        rest = body[len(children) :]
    return children, text_of(rest[0]).lower() if rest else ""


def _inside(number: str, place: int) -> str:
    return f"{number}.{place}" if number else str(place)


def _disposition(body: Any) -> tuple[Any, Any]:
    """Return the disposition and its parameters; a text has its lines before them."""
    place = 9 if text_of(body[0]).lower() == "text" else 8
    found = body[place] if len(body) > place else None
    if isinstance(found, tuple) and len(found) > 1:
        return found[0], found[1]
    return "", None


def _name(disposition: tuple[Any, Any], parameters: Any) -> str:
    """Return the file name; the name of the content type is the older notation."""
    named = _parameters(disposition[1]).get("filename")
    return named or _parameters(parameters).get("name", "")


def _parameters(raw: Any) -> dict[str, str]:
    """Return decoded parameters, which may be in pieces (RFC 2231)."""
    if not isinstance(raw, tuple):
        return {}
    pairs: list[tuple[str, Any]] = [
        (text_of(name), text_of(value))
        for name, value in zip(raw[::2], raw[1::2], strict=False)
    ]
    try:
        decoded: list[tuple[str, Any]] = decode_params([("", ""), *pairs])[1:]
    except _UNDECODABLE:
        decoded = pairs
    return {name.lower(): _value(value) for name, value in decoded}


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        try:
            return unquote(collapse_rfc2231_value(value))
        except _UNDECODABLE:
            return str(value[2])
    return decoded_text(unquote(value))


def decoded_text(text: str) -> str:
    """Return a header's text; words in `=?utf-8?B?…?=` are decoded (RFC 2047)."""
    try:
        return str(make_header(decode_header(text)))
    except _UNDECODABLE:
        return text


def text_of(value: Any) -> str:
    """Return what the server wrote as text; raw letters are UTF-8 or Windows-1252."""
    if not isinstance(value, bytes):
        return "" if value is None else str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("cp1252", "replace")


class PartDecoder:
    """Decodes the content of a part piece by piece. Raises FileUnreadable."""

    def __init__(self, encoding: str) -> None:
        if encoding not in (*PLAIN, "base64", "quoted-printable"):
            raise FileUnreadable(
                f"the attachment is encoded as {encoding!r}, which is not read. Ask the"
                " sender to send it as base64, as current mail programs do"
            )
        self._encoding = encoding
        self._rest = b""

    def decode(self, content: bytes) -> bytes:
        """Return what is complete with these bytes."""
        if self._encoding in PLAIN:
            return content
        if self._encoding == "base64":
            return self._decode_base64(content)
        found = self._rest + content
        end = found.rfind(b"\n") + 1
        self._rest = found[end:]
        return binascii.a2b_qp(found[:end])

    def finish(self) -> bytes:
        """Return the rest at the end of the part."""
        if self._encoding == "base64" and self._rest:
            raise FileUnreadable(DAMAGED)
        return binascii.a2b_qp(self._rest)

    def _decode_base64(self, content: bytes) -> bytes:
        found = self._rest + content.translate(None, BLANKS)
        end = len(found) // 4 * 4
        self._rest = found[end:]
        try:
            return binascii.a2b_base64(found[:end], strict_mode=True)
        except binascii.Error:
            raise FileUnreadable(DAMAGED) from None


DAMAGED = (
    "the attachment was damaged on its way: its base64 encoding is cut or has other"
    " characters. Ask the sender to send it again"
)
