"""Splitting interchanges into segments, against an independent parser."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydifact.control.characters import Characters
from pydifact.parser import Parser
from pydifact.segments import Segment as OtherSegment
from pydifact.serializer import Serializer
from pydifact.tokenizer import Tokenizer

from backhaul_connectors.file_drop.edi import segments as splitting
from backhaul_connectors.file_drop.edi.segments import segments_of
from backhaul_connectors.file_drop.edi.syntax import has_trailer, syntax_of
from backhaul_connectors.file_drop.files import FileUnreadable
from connectors.dropping import Drop
from connectors.interchanges import FILES

LETTERS = st.text(
    st.one_of(st.sampled_from("?+:'*~>A1 "), st.characters(codec="latin-1"))
).map(lambda text: "".join(letter for letter in text if letter.isprintable()))
VALUES = LETTERS.filter(lambda text: text == text.strip() != "")
ELEMENTS = st.lists(st.lists(VALUES, min_size=1, max_size=3), min_size=1, max_size=4)
HEAD = "UNB+UNOC:3+A+B+260331:1405+1'"


def split(content: bytes) -> list[tuple[str, ...]]:
    """Return each segment: its tag, and its elements joined by a NUL."""
    return [
        (each.tag, *("\0".join(element) for element in each.elements))
        for each in segments_of(io.BytesIO(content), "")
    ]


@given(st.lists(ELEMENTS, max_size=5))
def test_the_output_of_the_library_is_read_back(
    segments: list[list[list[str]]],
) -> None:
    """Any text, with every delimiter, in any place."""
    theirs = [OtherSegment("FTX", *elements) for elements in segments]
    text = HEAD + Serializer().serialize(theirs, with_una_header=False)
    _, *found = split(text.encode("latin-1"))
    assert found == [
        ("FTX", *("\0".join(element) for element in elements)) for elements in segments
    ]


@given(st.lists(ELEMENTS, max_size=5))
def test_the_library_reads_the_same_segments(segments: list[list[list[str]]]) -> None:
    theirs = [OtherSegment("FTX", *elements) for elements in segments]
    text = HEAD + Serializer().serialize(theirs, with_una_header=False)
    tokens = Tokenizer().get_tokens(text, Characters.from_str("UNA:+.? '"))
    found = [
        tuple("\0".join([each] if isinstance(each, str) else each) for each in segment)
        for segment in Parser().convert_tokens_to_raw_segments(tokens)
    ]
    assert split(text.encode("latin-1")) == found


@given(st.lists(ELEMENTS, min_size=1, max_size=9), st.integers(1, 40))
def test_the_chunk_size_makes_no_difference(
    segments: list[list[list[str]]], size: int
) -> None:
    theirs = [OtherSegment("FTX", *elements) for elements in segments]
    content = (HEAD + Serializer().serialize(theirs, with_una_header=False)).encode(
        "latin-1"
    )
    whole = split(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "CHUNK_BYTES", size)
        assert split(content) == whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # ISO 9735: a released character stands for itself, and ?? is a question mark.
        ("FTX+10?+10=20'", ("FTX", "10+10=20")),
        ("FTX+What??'", ("FTX", "What?")),
        ("FTX+a?'b+c'", ("FTX", "a'b", "c")),
        ("FTX+???''", ("FTX", "?'")),
        # Omitted elements and components, also at the end.
        ("FTX+++a::b:'", ("FTX", "", "", "a\0\0b\0")),
        ("FTX'", ("FTX",)),
    ],
)
def test_examples_of_the_standard(text: str, expected: tuple[str, ...]) -> None:
    assert split(f"{HEAD}{text}".encode())[1] == expected


@pytest.mark.parametrize(
    "head",
    [
        b"UNA,quantity\n1,2\n",
        b"UNB,quantity\n",
        b"ISA*00*short~",
        b"ISABEL,1\n",
        b"ISA,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r\n",
        b"order,sku\n",
        b"",
    ],
)
def test_other_files_are_not_read_as_edi(head: bytes) -> None:
    assert syntax_of(head) is None
    assert has_trailer(head, head) is None


@pytest.mark.parametrize(
    ("end", "is_whole"),
    [
        ("UNZ+1+7'", True),
        ("UNZ+1+7'\r\n\x1a", True),
        ("UNZ+1+7", False),
        ("UNT+5+1'", False),
    ],
)
def test_the_end_of_a_file_is_its_last_segment(end: str, is_whole: bool) -> None:
    assert has_trailer(HEAD.encode(), end.encode()) is is_whole


def test_a_file_without_terminators_fills_no_memory() -> None:
    content = HEAD.encode() + b"FTX+" + b"A" * 300_000
    with pytest.raises(FileUnreadable, match="more than 100,000 characters"):
        split(content)


PROGRAM = """
import io, sys
sys.modules["pydifact"] = None
from backhaul_connectors.file_drop.edi.segments import segments_of
from backhaul_connectors.file_drop.files import FileUnreadable
try:
    list(segments_of(io.BytesIO(sys.argv[1].encode()), ""))
except FileUnreadable as error:
    print(error)
"""


def test_a_missing_library_is_named_with_its_extra() -> None:
    text = f"{HEAD}FTX+a?+b'"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, text],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pip install 'backhaul[edi]'" in done.stdout


EDITS = st.lists(
    st.tuples(
        st.integers(0, 2_000),
        st.integers(0, 30),
        st.one_of(st.sampled_from([b"'", b"+", b"?", b"~", b"*", b":"]), st.binary()),
    ),
    min_size=1,
    max_size=6,
)


COUNT_AT = (FILES / "x12-846.edi").read_bytes().index(b"SE*10*") + 3


@example(name="x12-846.edi", edits=[(COUNT_AT, 2, b"x")])
@given(name=st.sampled_from(sorted(path.name for path in FILES.iterdir())), edits=EDITS)
def test_a_damaged_interchange_has_rows_or_a_reason(
    name: str, edits: list[tuple[int, int, bytes]]
) -> None:
    """Another exception would stop the file, and be raised again at each pull."""
    content = (FILES / name).read_bytes()
    for at, removed, added in edits:
        start = at % (len(content) + 1)
        content = content[:start] + added + content[start + removed :]
    with TemporaryDirectory() as folder:
        names = {"fulfillments": "*.edi", "stock_levels": "*.edi"}
        drop = Drop(Path(folder), names)
        drop.put(name, content)
        asyncio.run(drop.pull())
        left = {f"archive/{name}", f"held/{name}"} & drop.files()
    assert left or not content
