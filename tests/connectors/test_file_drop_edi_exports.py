"""New orders as EDI files: complete, written once, and read back with equal values."""

from __future__ import annotations

import asyncio
import io
import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_connectors.file_drop.edi import exports
from backhaul_connectors.file_drop.edi.envelope import Envelopes
from backhaul_connectors.file_drop.edi.exports import EdiExports
from backhaul_connectors.file_drop.edi.segments import segments_of
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import Absent, Applied, Found, NotSent, Rejected
from backhaul_sdk.fields import Unusable
from backhaul_sdk.testing import MemoryDocuments, sample_change
from connectors.dropping import Drop
from connectors.examples import documented
from connectors.test_file_drop_exports import ExportBench, Exports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backhaul_connectors.file_drop import FileDrop
    from backhaul_connectors.file_drop.edi.syntax import Segment
    from backhaul_sdk import Change

PARTIES = {"own_id": "4098765000001", "partner_id": "4012345000009"}
FORMATS = ("edifact", "x12")
ENDINGS = {"edifact": "edi", "x12": "x12"}


class EdiBench(ExportBench):
    """A folder from which a warehouse takes its orders."""

    def __init__(self, path: Path, export_format: str) -> None:
        super().__init__(path, {"export_format": export_format, "edi": PARTIES})
        self._documents = MemoryDocuments()
        self._ending = ENDINGS[export_format]

    def connector(self) -> FileDrop:
        found = super().connector()
        found.documents = self._documents
        return found

    async def effects(self) -> Sequence[int]:
        found = (self._path / "outbox").glob(f"[!.]*.{self._ending}")
        return [int(number_in(path.read_bytes())) - 1001 for path in found]


class TestExports(Exports):
    @pytest.fixture(params=FORMATS)
    def bench(self, tmp_path: Path, request: pytest.FixtureRequest) -> EdiBench:
        path = tmp_path / "drop"
        path.mkdir()
        return EdiBench(path, request.param)


def body_of(content: bytes) -> list[Segment]:
    """Return the segments of the only message; its envelopes are checked."""
    (message,) = (
        (list(each.segments))
        for each in Envelopes(segments_of(io.BytesIO(content), "")).messages()
    )
    return message


def number_in(content: bytes) -> str:
    first = body_of(content)[0]
    return first.value(2)


def control_in(content: bytes) -> str:
    last = list(segments_of(io.BytesIO(content), ""))[-1]
    return last.value(2)


def writer(export_format: str, **edi: Any) -> EdiExports:
    settings = Settings.model_validate(
        {
            "path": "/x",
            "exports": "outbox",
            "export_format": export_format,
            "edi": {**PARTIES, **edi},
        }
    )
    documents = MemoryDocuments()
    return EdiExports(settings, lambda: documents)


def written(change: Change, export_format: str, **edi: Any) -> list[Segment]:
    return body_of(asyncio.run(writer(export_format, **edi).content(change)))


def order(**changes: Any) -> Change:
    change = sample_change(1)
    return replace(change, document={**change.document, **changes})


def item(sku: str, quantity: int = 1, title: str = "") -> dict[str, Any]:
    return {"sku": sku, "quantity": quantity, "title": title}


TEXT = st.text(
    st.one_of(st.sampled_from("?+:'*~>|^ A"), st.characters(codec="latin-1")),
    max_size=60,
)
UNICODE = st.text(
    st.one_of(st.sampled_from("?+:'"), st.characters(codec="utf-8")), max_size=60
)
ASCII = st.text(
    st.one_of(st.sampled_from("?+:'*~>|^ A"), st.characters(codec="ascii")),
    max_size=55,
)


def one_line(text: str) -> str:
    """Return what the writers make of a text: control characters are blanks."""
    controls = {"Cc", "Zl", "Zp"}
    plain = "".join(" " if unicodedata.category(c) in controls else c for c in text)
    return " ".join(plain.split())


def is_code(text: str) -> bool:
    return bool(text.strip()) and all(c.isprintable() for c in text)


@given(
    sku=TEXT.map(lambda t: t.strip()[:35].strip()).filter(is_code),
    street=TEXT,
    name=TEXT,
    quantity=st.integers(1, 9_999),
)
def test_edifact_is_read_back_whatever_the_texts(
    sku: str, street: str, name: str, quantity: int
) -> None:
    to = {"name": name, "address1": street, "city": "B", "country": "DE"}
    change = order(shippingAddress=to, items=[item(sku, quantity)])
    found = {each.tag: each for each in written(change, "edifact")}
    assert found["LIN"].value(3) == sku
    assert found["QTY"].value(1, 2) == str(quantity)
    (party,) = (
        each
        for each in written(change, "edifact")
        if each.tag == "NAD" and each.value(1) == "DP"
    )
    joined = {at: " ".join(party.elements[at - 1]) for at in (4, 5)}
    assert same_letters(joined[5], street)
    if one_line(name):
        assert same_letters(joined[4], name)


def same_letters(found: str, text: str) -> bool:
    """Return True if two texts have the same letters; blanks divide the parts."""
    return found.replace(" ", "") == one_line(text).replace(" ", "")


@given(street=UNICODE)
def test_any_letter_can_be_written_as_utf_8(street: str) -> None:
    to = {"name": "Kim", "address1": street, "city": "B", "country": "DE"}
    found = written(order(shippingAddress=to), "edifact", charset="UNOW")
    (party,) = (e for e in found if e.tag == "NAD" and e.value(1) == "DP")
    assert same_letters(" ".join(party.elements[4]), street)


@given(
    sku=ASCII.map(lambda t: t.strip()[:48].strip()).filter(is_code),
    street=ASCII,
    city=ASCII.map(lambda t: t[:30]),
    quantity=st.integers(1, 9_999),
)
def test_x12_is_read_back_whatever_the_texts(
    sku: str, street: str, city: str, quantity: int
) -> None:
    to = {"name": "Kim", "address1": street, "city": city, "country": "DE"}
    change = order(shippingAddress=to, items=[item(sku, quantity)])
    found = {each.tag: each for each in written(change, "x12")}
    assert (found["W01"].value(5), found["W01"].value(1)) == (sku, str(quantity))
    assert found["N4"].value(1) == one_line(city)
    assert (found["N3"].value(1) if "N3" in found else "") == one_line(street)


def test_an_order_file_has_the_fields_a_warehouse_needs() -> None:
    to = {
        "name": "Kim Example",
        "phone": "+49 170 1",
        "address1": "Hof 1",
        "address2": "Hinterhaus",
        "city": "Köln",
        "zip": "50667",
        "country": "DE",
    }
    items = [item("LS-S", 2, "Linen shirt"), item("LS-M")]
    change = order(shippingAddress=to, items=items)
    content = asyncio.run(writer("edifact", association="EAN008").content(change))
    lines = content.decode("latin-1").replace("\n", "").split("'")
    assert lines[2:-2] == [
        "UNH+1+ORDERS:D:96A:UN:EAN008",
        "BGM+220+1002+9",
        "DTM+137:202601011200:203",
        "NAD+BY+4098765000001::92",
        "NAD+SU+4012345000009::92",
        "NAD+DP+++Kim Example+Hof 1:Hinterhaus+Köln++50667+DE",
        "CTA+DL+:Kim Example",
        "COM+?+49 170 1:TE",
        "COM+kim@example.com:EM",
        "CUX+2:EUR:9",
        *("LIN+1++LS-S:SA", "IMD+F++:::Linen shirt", "QTY+21:2:PCE"),
        *("LIN+2++LS-M:SA", "QTY+21:1:PCE"),
        *("UNS+S", "CNT+2:2", "UNT+18+1"),
    ]


@pytest.mark.parametrize(
    ("change", "export_format", "reason"),
    [
        (order(items=[]), "edifact", "has no items"),
        (order(items=[item("")]), "edifact", "SKU of item 1 () is missing"),
        (order(items=[item("A" * 36)]), "edifact", "longer than the 35 letters"),
        (order(items=[item("A" * 49)]), "x12", "longer than the 48 letters"),
        (order(items=[item("Größe")]), "x12", "which has letters that the file cannot"),
        (order(shippingAddress={}), "x12", "no shipping address"),
        (order(shippingAddress={"city": "東京"}), "edifact", 'charset = "UNOW"'),
        (order(shippingAddress={"city": "B" * 36}), "edifact", "city"),
        (order(shippingAddress={"address1": "B" * 141}), "edifact", "street"),
        (order(number=None, name="", id=""), "edifact", "order number is missing"),
        (order(shippingAddress={"country": "Germany"}), "edifact", "the country"),
        (order(shippingAddress={"country": "Germany"}), "x12", "the country"),
        (order(currency="EURO"), "edifact", "the currency"),
    ],
)
def test_an_order_that_cannot_be_written_says_why(
    change: Change, export_format: str, reason: str
) -> None:
    with pytest.raises(Unusable) as raised:
        written(change, export_format)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("name", "export_format", "expected"),
    [
        ("Łukasz Żółw", "edifact", "Lukasz Zólw"),
        ("Jürgen Weiß", "edifact", "Jürgen Weiß"),
        ("Jürgen Weiß", "x12", "Jurgen Weiss"),
        ("“Kim” \u2013 Example", "x12", '"Kim" - Example'),
    ],
)
def test_letters_without_a_place_in_the_charset_lose_their_accent(
    name: str, export_format: str, expected: str
) -> None:
    to = {"name": name, "address1": "Hof 1", "city": "B", "country": "DE"}
    found = written(order(shippingAddress=to), export_format)
    names = [e.value(4) for e in found if e.tag == "NAD" and e.value(1) == "DP"]
    names += [e.value(2) for e in found if e.tag == "N1"]
    assert names == [expected]


@pytest.mark.parametrize(
    ("export_format", "name"), [("edifact", "edifact_order"), ("x12", "x12_order")]
)
def test_an_order_is_written_once(
    export_format: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[int] = []
    write = getattr(exports, name)

    def counted(*arguments: Any) -> bytes:
        times.append(arguments[2])
        content: bytes = write(*arguments)
        return content

    monkeypatch.setattr(exports, name, counted)
    asyncio.run(writer(export_format).content(order()))
    assert len(times) == 1


@pytest.fixture(params=FORMATS)
def drop(tmp_path: Path, request: pytest.FixtureRequest) -> Drop:
    options = {"exports": "outbox", "export_format": request.param, "edi": PARTIES}
    return Drop(tmp_path, options)


async def opened(drop: Drop, documents: MemoryDocuments) -> FileDrop:
    connector = drop.connector()
    connector.documents = documents
    await connector.open()
    return connector


def files(drop: Drop) -> list[bytes]:
    return [path.read_bytes() for path in (drop.path / "outbox").iterdir()]


async def test_control_numbers_are_unique_also_after_a_restart(drop: Drop) -> None:
    documents = MemoryDocuments()
    for number in range(4):
        connector = await opened(drop, documents)
        assert isinstance(await connector.push(sample_change(number)), Applied)
    assert len({control_in(content) for content in files(drop)}) == 4


async def test_control_numbers_are_new_after_a_restore_of_the_database(
    drop: Drop, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = 1_800_000_000.0
    monkeypatch.setattr("backhaul_sdk.clock.time.time", lambda: at)
    documents = MemoryDocuments()
    restored = MemoryDocuments(dict(documents.kept))
    await (await opened(drop, documents)).push(sample_change(1))
    at += 60
    await (await opened(drop, restored)).push(sample_change(2))
    assert len({control_in(content) for content in files(drop)}) == 2


async def test_a_file_that_was_begun_keeps_its_number(drop: Drop) -> None:
    """After a kill before the rename: the partner sees one interchange, not two."""
    documents = MemoryDocuments()
    connector = await opened(drop, documents)
    change = sample_change(1)
    await connector.push(change)
    (path,) = (drop.path / "outbox").iterdir()
    first = path.read_bytes()
    path.rename(path.with_name(f".{path.name}.tmp"))
    assert isinstance(await connector.lookup(change), Absent)
    again = await opened(drop, documents)
    assert isinstance(await again.push(change), Applied)
    assert files(drop) == [first]
    assert isinstance(await again.lookup(change), Found)


async def test_an_order_that_cannot_be_written_is_refused_for_good(drop: Drop) -> None:
    connector = await opened(drop, MemoryDocuments())
    said = await connector.push(order(items=[item("")]))
    assert isinstance(said, Rejected)
    assert "is missing" in said.reason
    assert files(drop) == []


async def test_an_order_without_a_number_is_not_sent(drop: Drop) -> None:
    connector = drop.connector()
    await connector.open()
    assert isinstance(await connector.push(sample_change(1)), NotSent)
    assert files(drop) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"export_format": "edifact"}, "edi.own_id is missing"),
        ({"export_format": "x12", "edi": {"own_id": "A"}}, "edi.partner_id is missing"),
        (
            {"export_format": "x12", "edi": {**PARTIES, "own_id": "A" * 16}},
            "longer than the 15 letters",
        ),
        (
            {"export_format": "x12", "edi": {**PARTIES, "own_qualifier": "1"}},
            "must have two letters",
        ),
    ],
)
def test_settings_that_cannot_be_written_are_refused(
    tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        Settings.model_validate({"path": tmp_path, "exports": "outbox", **options})


def test_a_test_is_marked() -> None:
    for export_format in FORMATS:
        content = asyncio.run(writer(export_format, test=True).content(order()))
        (message,) = Envelopes(segments_of(io.BytesIO(content), "")).messages()
        assert message.interchange.is_test


@pytest.mark.parametrize(
    ("version", "header"), [("004010", "U*00401"), ("005010", "^*00501")]
)
def test_the_version_of_x12_is_in_the_header(version: str, header: str) -> None:
    content = asyncio.run(writer("x12", x12_version=version).content(order()))
    assert header in content.decode()
    assert version in content.decode()


def test_the_example_of_the_page_is_valid() -> None:
    example = documented("file_drop_edi")
    host = ("type", "topics")
    options = {name: value for name, value in example.items() if name not in host}
    found = Settings.model_validate(options)
    assert found.edi.own_id == PARTIES["own_id"]
