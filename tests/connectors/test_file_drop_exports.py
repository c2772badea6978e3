"""Changes exported as files: complete, written once, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_connectors.file_drop.output_files import cell_text, content_of, file_name
from backhaul_sdk import Absent, Applied, Found, Rejected
from backhaul_sdk.testing import Failure, PushBench, PushContract, sample_change
from connectors.dropping import Drop
from connectors.examples import documented

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from backhaul_connectors.file_drop import FileDrop


class ExportBench(PushBench):
    """A folder from which an ERP takes its files."""

    secrets: Sequence[str] = ("no password is set for a folder",)
    failures = (Failure.BREAKS,)

    def __init__(self, path: Path, options: Mapping[str, Any]) -> None:
        self._path = path
        self._drop = Drop(path, {**options, "exports": "outbox"})
        self._made: list[FileDrop] = []

    def connector(self) -> FileDrop:
        self._made.append(found := self._drop.connector())
        return found

    async def close(self) -> None:
        for connector in self._made:
            await connector.close()

    def state(self) -> object:
        return {path: path.lstat().st_mtime_ns for path in self._path.rglob("*")}

    def example(self) -> Mapping[str, object]:
        return documented("file_drop")

    async def effects(self) -> Sequence[int]:
        found = (self._path / "outbox").glob("[!.]*.csv")
        texts = [path.read_text("utf-8-sig") for path in found]
        return [
            int(next(csv.DictReader(io.StringIO(text)))["order"].lstrip("#")) - 1001
            for text in texts
        ]

    def change(self, number: int, topic: str | None = None) -> Any:
        return sample_change(number, topic or "order.placed")

    def tries(self) -> int:
        return len(list((self._path / "exported").glob("*")))

    async def fail(self, failure: Failure) -> None:
        (self._path / "outbox").rename(self._path / "aside")
        (self._path / "outbox").touch()

    async def recover(self) -> None:
        (self._path / "outbox").unlink()
        (self._path / "aside").rename(self._path / "outbox")

    async def unplug(self) -> None:
        self._path.rename(self._path.with_suffix(".away"))

    async def plug_in(self) -> None:
        self._path.with_suffix(".away").rename(self._path)


class Exports(PushContract):
    """Shared by folders here and over there."""


class TestExports(Exports):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> ExportBench:
        path = tmp_path / "drop"
        path.mkdir()
        return ExportBench(path, {})


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path, {"exports": "outbox"})


def only_file(drop: Drop) -> str:
    (path,) = (drop.path / "outbox").iterdir()
    return path.read_text("utf-8-sig")


async def test_an_order_has_a_row_for_each_item(drop: Drop) -> None:
    change = sample_change(1)
    items = [{"sku": "A", "quantity": 1}, {"sku": "B", "quantity": 2, "title": "=1+1"}]
    change = replace(change, document={**change.document, "items": items})
    connector = drop.connector()
    await connector.open()
    assert isinstance(await connector.push(change), Applied)
    rows = list(csv.DictReader(io.StringIO(only_file(drop))))
    assert [(row["order"], row["sku"], row["quantity"]) for row in rows] == [
        ("#1002", "A", "1"),
        ("#1002", "B", "2"),
    ]
    assert rows[1]["title"] == "'=1+1"


async def test_json_has_the_whole_document(drop: Drop) -> None:
    drop.options["export_format"] = "jsonl"
    connector = drop.connector()
    await connector.open()
    change = sample_change(1, "stock.changed")
    await connector.push(change)
    said = json.loads(only_file(drop))
    assert said["document"] == change.document
    assert (said["id"], said["topic"]) == (change.id, "stock.changed")


async def test_an_export_that_the_back_office_removed_is_still_found(
    drop: Drop,
) -> None:
    connector = drop.connector()
    await connector.open()
    change = sample_change(1)
    assert isinstance(await connector.lookup(change), Absent)
    await connector.push(change)
    for path in (drop.path / "outbox").iterdir():
        path.unlink()
    assert await connector.lookup(change) == Found(file_name(change, "csv"))


async def test_a_file_that_never_got_its_name_is_absent(drop: Drop) -> None:
    connector = drop.connector()
    await connector.open()
    change = sample_change(1)
    await connector.push(change)
    (path,) = (drop.path / "outbox").iterdir()
    path.rename(path.with_name(f".{path.name}.tmp"))
    assert isinstance(await connector.lookup(change), Absent)


async def test_a_change_without_a_folder_is_refused(tmp_path: Path) -> None:
    connector = Drop(tmp_path).connector()
    await connector.open()
    said = await connector.push(sample_change(1))
    assert isinstance(said, Rejected)
    assert "set exports" in said.reason


@given(id=st.text(max_size=40), object_id=st.text(max_size=80), at=st.text(max_size=40))
def test_no_name_leads_elsewhere(id: str, object_id: str, at: str) -> None:
    change = replace(sample_change(1), id=id, object_id=object_id, occurred_at=at)
    name = file_name(change, "csv")
    assert "/" not in name
    assert name.isascii()
    assert len(name) < 200


@given(text=st.text())
def test_no_exported_text_is_a_formula(text: str) -> None:
    change = sample_change(1)
    document = {**change.document, "name": text}
    content = content_of(replace(change, document=document), "csv").decode("utf-8-sig")
    row = next(csv.DictReader(io.StringIO(content, newline="")))
    is_number = text.removeprefix("-").replace(".", "", 1).isdecimal()
    assert not row["order"].startswith(("=", "+", "@", "\t", "\r"))
    assert not row["order"].startswith("-") or is_number
    assert row["order"].removeprefix("'") == text.removeprefix("'")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (-5, "-5"),
        ("-5.00", "-5.00"),
        ("1499.00", "1499.00"),
        (None, ""),
        (True, "true"),
        ("+49 170 1", "'+49 170 1"),
        ("+491701", "'+491701"),
        ("-1+cmd|' /C calc'!A0", "'-1+cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
    ],
)
def test_numbers_stay_numbers_and_nothing_runs(value: object, cell: str) -> None:
    assert cell_text(value) == cell
