"""A row that PostgreSQL would have to change is refused, with its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backhaul.errors import BackhaulError
from backhaul.store import sql
from backhaul.store.sqlite.movable_rows import is_json, tables
from backhaul.store.sqlite.moving import open_source
from scenes.damaged_rows import delete_rows, overwrite, overwrite_text
from store.move_places import contents, fill, some_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store.moving import Row

DAMAGE = "so the row is damaged"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a database with one row in some tables."""
    rows = {name: found[:1] for name, found in some_rows().items()}
    fill(tmp_path / "backhaul.db", rows)
    return tmp_path / "backhaul.db"


def read(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield every row as a move reads it."""
    with open_source(path, tables()) as source:
        for table in tables():
            for row in source.rows(table):
                yield table.name, row


@pytest.mark.parametrize(
    ("table", "column", "value", "said"),
    [
        ("orders", "number", "abc", "has text instead of a whole number"),
        ("orders", "number", 1.5, "has a fraction instead of a whole number"),
        ("orders", "name", b"abc", "has bytes instead of text"),
        ("orders", "id", None, "has no value instead of text"),
        ("inbox", "digest", 7, "has a whole number instead of bytes"),
        ("metric_samples", "platform_seconds", "x", "has text instead of a fraction"),
        ("kv", "value", "a\0b", "has a NUL character"),
        ("commands", "payload", '{"delta": -5, "va', "has other text than JSON"),
        ("commands", "payload", "", "has other text than JSON"),
        ("orders", "document", '{"a":"\\u0000"}', "has a NUL character"),
    ],
)
def test_a_value_that_cannot_be_moved_is_named(
    path: Path, table: str, column: str, value: object, said: str
) -> None:
    overwrite(path, table, {column: value})
    with pytest.raises(BackhaulError) as refused:
        list(read(path))
    text = str(refused.value)
    assert f"{path}: table {table}, row with " in text
    assert f": the column {column} {said}" in text
    assert "nothing was moved" in text
    assert (DAMAGE in text) == ("NUL" not in said)


def test_text_that_is_not_utf_8_is_named(path: Path) -> None:
    overwrite_text(path, "orders", "name", b"caf\xe9")
    with pytest.raises(BackhaulError, match="text that is not UTF-8 instead of text"):
        list(read(path))


def test_the_key_of_the_row_is_named(path: Path) -> None:
    overwrite(path, "orders", {"store": "main", "id": "ord_1", "number": "abc"})
    with pytest.raises(BackhaulError, match="row with store 'main', id 'ord_1': the"):
        list(read(path))


@pytest.mark.parametrize(
    "text", ['{"a":"\\\\u0000"}', "null", '["\\ud83d\\ude00"]', "[1e999]"]
)
def test_json_that_only_resembles_damage_is_moved(path: Path, text: str) -> None:
    overwrite(path, "orders", {"document": text})
    (row,) = [row for table, row in read(path) if table == "orders"]
    assert text in row


def test_rows_of_one_kind_do_not_excuse_another(path: Path) -> None:
    """The move caches the types of valid rows only."""
    delete_rows(path, "kv")
    fill(path, {"kv": [("a", "1"), ("b", "2"), ("c", "3")]})
    overwrite(path, "kv", {"value": b"2"}, name="b")
    with pytest.raises(BackhaulError, match="row with name 'b'"):
        list(read(path))


def test_nothing_else_is_changed_on_the_way(path: Path) -> None:
    found: dict[str, list[Row]] = {table.name: [] for table in tables()}
    for table, row in read(path):
        found[table].append(row)
    assert {name: sorted(each, key=repr) for name, each in found.items()} == contents(
        path
    )


def test_every_document_whose_members_are_read_is_known() -> None:
    """In PostgreSQL one row without valid JSON fails a query over all rows."""
    readers = "member|number|flag|has|elements|document"
    pattern = re.compile(rf'\b(?:{readers})\("(\w+\.)?(\w+)"')
    read_in_sql = {
        column
        for file in Path(sql.__path__[0]).rglob("*.py")
        for _, column in pattern.findall(file.read_text())
    }
    columns = [column for table in tables() for column in table.columns]
    # this `value` belongs to an element, not to the table `kv`
    read_columns = read_in_sql & {column.name for column in columns} - {"value"}
    assert read_columns == {column.name for column in columns if is_json(column)}
