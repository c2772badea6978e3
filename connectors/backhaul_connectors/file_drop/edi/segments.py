"""Splits an interchange into segments, in steps and with little memory.

pydifact reads each EDIFACT segment that has a release character. Other segments are
split here: the library checks each character, and needs half a minute for 100,000
articles.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.edi.syntax import (
    BLANKS,
    HEAD_BYTES,
    Segment,
    syntax_of,
)
from backhaul_connectors.file_drop.files import FileUnreadable
from backhaul_sdk.extras import missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from backhaul_connectors.file_drop.edi.syntax import Syntax


CHUNK_BYTES = 65_536
MOST_LETTERS = 100_000
"""Most characters of a segment: with a wrong terminator the file would be one."""
CHARSETS = {
    "UNOA": "utf-8",
    "UNOB": "utf-8",
    "UNOW": "utf-8",
    "UNOY": "utf-8",
    "UNOC": "iso8859-1",
    "UNOD": "iso8859-2",
    "UNOE": "iso8859-5",
    "UNOF": "iso8859-7",
    "UNOG": "iso8859-3",
    "UNOH": "iso8859-4",
    "UNOI": "iso8859-6",
    "UNOJ": "iso8859-8",
    "UNOK": "iso8859-9",
}
"""The encodings of the syntax identifiers. A and B are ASCII; as some programs write
other letters all the same, they are read as UTF-8, and refused if they are not."""
_NOTHING = "\x1a\ufeff"


def segments_of(stream: BinaryIO, encoding: str) -> Iterator[Segment]:
    """Yield the segments of an interchange. Raises FileUnreadable.

    `encoding` is the one of the settings; empty means that of the interchange.
    """
    head = stream.read(HEAD_BYTES)
    syntax = syntax_of(head)
    if syntax is None:
        raise FileUnreadable("the file does not begin with UNA, UNB or ISA")
    stream.seek(0)
    texts = _texts(stream, syntax, encoding or _encoding(head, syntax))
    for number, text in enumerate(texts, 1):
        yield _segment(text, number, syntax)


def _encoding(head: bytes, syntax: Syntax) -> str:
    if syntax.name == "X12":
        return "utf-8"
    at = head.find(b"UNB") + 4
    identifier = head[at : at + 4].decode("latin-1")
    if identifier not in CHARSETS:
        raise FileUnreadable(
            f"the interchange has the character set {identifier!r}, which Backhaul does"
            " not know; set encoding, such as utf-8 or iso8859_1"
        )
    return CHARSETS[identifier]


def _texts(stream: BinaryIO, syntax: Syntax, encoding: str) -> Iterator[str]:
    """Yield the text of each segment without its terminator."""
    dropped = dict.fromkeys(map(ord, f"{syntax.dropped}{_NOTHING}"))
    decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
    rest, is_first = "", True
    while content := stream.read(CHUNK_BYTES):
        rest += decoder.decode(content).translate(dropped)
        if is_first:
            rest = rest.lstrip(BLANKS)[syntax.length :]
            is_first = False
        *whole, rest = _parts(rest, syntax)
        yield from (text.lstrip(BLANKS) for text in whole)
        if len(rest) > MOST_LETTERS:
            raise FileUnreadable(
                f"a segment has more than {MOST_LETTERS:,} characters, as when the"
                f" segments do not end with {syntax.terminator!r}; ask the sender"
            )
    if rest.strip(BLANKS):
        raise FileUnreadable(
            f"the last segment {rest.strip(BLANKS)[:40]!r} has no end"
            f" ({syntax.terminator!r}); perhaps the file is incomplete. Ask the sender"
            " to send it again"
        )


def _parts(text: str, syntax: Syntax) -> list[str]:
    """Split at each terminator that is not released; the last part has no end."""
    parts = text.split(syntax.terminator)
    release = syntax.release
    if not release or release not in text:
        return parts
    joined: list[str] = [parts[0]]
    for part in parts[1:]:
        before = joined[-1]
        if (len(before) - len(before.rstrip(release))) % 2:
            joined[-1] = f"{before}{syntax.terminator}{part}"
        else:
            joined.append(part)
    return joined


def _segment(text: str, number: int, syntax: Syntax) -> Segment:
    (tag, *_), *elements = _split(text, syntax)
    tag = tag.strip(BLANKS)
    if len(tag) not in (2, 3) or not tag.isalnum():
        raise FileUnreadable(
            f"segment {number} begins with {text[:20]!r}, which is not the name of a"
            " segment; the file may be damaged. Ask the sender to send it again"
        )
    return Segment(tag, tuple(elements), number)


def _split(text: str, syntax: Syntax) -> list[tuple[str, ...]]:
    if syntax.release and syntax.release in text:
        return _released(text, syntax)
    elements = text.split(syntax.element)
    if elements[0] == "ISA":
        return [(element,) for element in elements]
    return [tuple(element.split(syntax.component)) for element in elements]


def _released(text: str, syntax: Syntax) -> list[tuple[str, ...]]:
    """Split a segment with release characters by pydifact."""
    try:
        from pydifact.control.characters import Characters
        from pydifact.exceptions import EDISyntaxError
        from pydifact.parser import Parser
        from pydifact.tokenizer import Tokenizer
    except ImportError:
        raise FileUnreadable(f"EDIFACT needs {missing_extra('edi')}") from None
    advice = (syntax.component, syntax.element, ".", syntax.release, " ")
    characters = Characters.from_str(f"{''.join(advice)}{syntax.terminator}")
    tokens = Tokenizer().get_tokens(f"{text}{syntax.terminator}", characters)
    try:
        (found,) = Parser().convert_tokens_to_raw_segments(tokens)
    except (EDISyntaxError, ValueError) as error:
        raise FileUnreadable(
            f"the segment {text[:40]!r} is not valid: {error}"
        ) from None
    return [(each,) if isinstance(each, str) else tuple(each) for each in found]
