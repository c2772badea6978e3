"""The index of a shipment file: large files, large orders, and interrupted reads."""

from __future__ import annotations

import errno
import random
from collections import defaultdict
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest

from backhaul_connectors.file_drop.csv_reader import CellOrigin, Position
from backhaul_connectors.file_drop.shipments import (
    MOST_BESIDE,
    MOST_ROWS,
    RUN_ROWS,
    OrderIndex,
    PlacedRow,
    ShipmentRow,
)
from backhaul_sdk import Bad, Fulfillment, Line
from connectors.dropping import FULFILLMENTS, Drop
from scenes.memory import peak_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul_connectors.file_drop.shipments import Siblings


@pytest.fixture
def index() -> Iterator[OrderIndex]:
    with TemporaryFile() as runs, TemporaryFile() as merged:
        yield OrderIndex(cast("BinaryIO", runs), cast("BinaryIO", merged))


def row_of(
    order: str, sku: str | None = "A", *named: str, parcel: str = "JD1"
) -> ShipmentRow:
    line = None if sku is None else Line(sku=sku, quantity=1)
    return ShipmentRow(order, "DHL", parcel, line, None, named)


def fill(index: OrderIndex, rows: Sequence[ShipmentRow]) -> None:
    """Add these rows as the first rows of a file, and sort them."""
    for number, row in enumerate(rows):
        index.add(Position(number * 100, number, number), row)
    for _ in index.sort():
        pass


def find(
    index: OrderIndex, rows: Mapping[int, ShipmentRow]
) -> Mapping[int, Siblings | None]:
    """Return the siblings of each of these rows; None for a crowded order."""
    origin = CellOrigin(file="f", dated="", row=1, locator="f:1", raw="")
    placed = [(number, PlacedRow(row, origin)) for number, row in rows.items()]
    found = index.siblings(placed)
    return {number: found.get(number) for number in rows}


def parcel_of(siblings: Siblings | None) -> list[int]:
    assert siblings is not None
    return [entry.number for entry, _ in siblings.parcel]


def test_rows_are_found_wherever_they_are_in_a_large_file(index: OrderIndex) -> None:
    """The rows of an order are in different runs."""
    orders = [str(number % 9_000) for number in range(RUN_ROWS * 2 + 5)]
    random.Random(1).shuffle(orders)  # noqa: S311 - no secret
    rows = [row_of(order) for order in orders]
    fill(index, rows)
    numbers = defaultdict[str, list[int]](list)
    for number, order in enumerate(orders, 1):
        numbers[order].append(number)
    wanted = {number: rows[number - 1] for number in range(1, len(rows), 41)}
    found = {n: parcel_of(each) for n, each in find(index, wanted).items()}
    assert found == {number: numbers[row.order] for number, row in wanted.items()}


def test_memory_does_not_grow_with_the_file(index: OrderIndex) -> None:
    rows = (row_of(str(number)) for number in range(RUN_ROWS * 3))
    with peak_bytes() as peak:
        for number, row in enumerate(rows):
            index.add(Position(number * 100, number, number), row)
        for _ in index.sort():
            pass
        assert parcel_of(find(index, {7: row_of("6")})[7]) == [7]
        assert peak() < 5_000_000


def test_memory_does_not_grow_with_the_parcels_of_an_order(index: OrderIndex) -> None:
    """Each parcel has the keys of the others, but there is one copy of each key."""
    rows = [row_of("1", parcel=f"JD{number}") for number in range(1_500)]
    fill(index, rows)
    with peak_bytes() as peak:
        found = find(index, dict(enumerate(rows[:500], 1)))
        assert peak() < 12_000_000
    assert {len(each.beside) for each in found.values() if each} == {MOST_BESIDE}


def test_a_position_leads_back_to_its_row(index: OrderIndex) -> None:
    fill(index, [row_of("1"), row_of("2"), row_of("1")])
    siblings = find(index, {1: row_of("1")})[1]
    assert siblings is not None
    positions = [entry.position for entry, _ in siblings.parcel]
    assert positions == [Position(0, 0, 0), Position(200, 2, 2)]


def test_an_order_of_a_hundred_thousand_rows_hides_no_other(index: OrderIndex) -> None:
    rows = [row_of("crowded")] * 100_000
    fill(index, [row_of("before"), *rows, row_of("after"), row_of("before")])
    wanted = {1: row_of("before"), 50_000: row_of("crowded"), 100_002: row_of("after")}
    found = find(index, wanted)
    assert found[50_000] is None
    assert parcel_of(found[1]) == [1, 100_003]
    assert parcel_of(found[100_002]) == [100_002]


def test_an_order_of_as_many_rows_as_allowed_is_not_crowded(index: OrderIndex) -> None:
    """A refused row of the order is not one of them."""
    for _ in range(3):
        index.add_refused("#most")
    fill(index, [row_of("most")] * MOST_ROWS + [row_of("more")] * (MOST_ROWS + 1))
    found = find(index, {1: row_of("most"), MOST_ROWS + 1: row_of("more")})
    assert len(parcel_of(found[1])) == MOST_ROWS
    assert found[MOST_ROWS + 1] is None


def test_equal_rows_are_counted_in_the_order_of_the_file(index: OrderIndex) -> None:
    rows = [row_of("1", f"{number % 2}") for number in range(5)]
    fill(index, rows)
    found = find(index, {3: rows[2]})[3]
    assert found is not None
    ordinals = [(entry.number, ordinal) for entry, ordinal in found.parcel]
    assert ordinals == [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)]
    assert [entry.key for entry, _ in found.parcel] == [row.key() for row in rows]


def test_keys_of_other_rows_are_those_that_their_records_have(
    index: OrderIndex,
) -> None:
    keyed = row_of("1", "C", "k1")
    rows = [row_of("1"), row_of("1", None), keyed]
    fill(index, rows)
    found = find(index, {2: rows[1]})[2]
    assert found is not None
    assert found.names_articles
    assert set(found.beside) == {rows[0].key(), keyed.key(), keyed.earlier_key()}


def test_refused_rows_alone_name_articles_of_their_order(index: OrderIndex) -> None:
    for _ in range(RUN_ROWS + 1):
        index.add_refused("1")
    fill(index, [row_of("1", None), row_of("2", None)])
    found = find(index, {1: row_of("1", None), 2: row_of("2", None)})
    named = {n: each and each.names_articles for n, each in found.items()}
    assert named == {1: True, 2: False}


def test_a_file_without_usable_rows_has_no_siblings(index: OrderIndex) -> None:
    fill(index, [])
    assert find(index, {}) == {}


def test_a_full_disk_stops_the_reading() -> None:
    with Path("/dev/full").open("wb", 0) as full, TemporaryFile() as merged:
        index = OrderIndex(cast("BinaryIO", full), cast("BinaryIO", merged))
        with pytest.raises(OSError, match="space") as raised:
            fill(index, [row_of("1")])
    assert raised.value.errno == errno.ENOSPC


async def test_rows_of_a_crowded_order_are_refused_and_others_shipped(
    tmp_path: Path,
) -> None:
    drop = Drop(tmp_path)
    rows = [f"crowded,DHL,JD{number}\n" for number in range(MOST_ROWS + 1)]
    drop.put("fulfillments.csv", "".join([FULFILLMENTS, "1,DHL,JD1\n", *rows]))
    await drop.pull()
    assert [type(record) for record in drop.records()] == [Fulfillment]
    assert len(drop.reasons()) == MOST_ROWS + 1
    assert set(drop.reasons()) == {drop.reasons()[0]}
    assert "more than 5,000 rows of order crowded" in drop.reasons()[0]


async def test_a_reading_that_is_broken_off_leaves_no_temporary_file(
    tmp_path: Path,
) -> None:
    folder, copies = tmp_path / "drop", tmp_path / "copies"
    folder.mkdir()
    copies.mkdir()
    drop = Drop(folder, {"batch_rows": 1, "copies": copies})
    drop.put("fulfillments.csv", f"{FULFILLMENTS}1,DHL,JD1\n2,DHL,JD2\n")
    connector = drop.connector()
    await connector.open()
    async with aclosing(connector.pull(None)) as batches:
        batch = await anext(batches)
        assert not any(isinstance(record, Bad) for record in batch.records)
        assert len(open_below(copies)) == 2
    assert open_below(copies) == []


def open_below(folder: Path) -> list[Path]:
    """Return the files in a folder that this process holds open, also nameless ones."""
    files = (link.resolve() for link in Path("/proc/self/fd").iterdir())
    return [path for path in files if path.is_relative_to(folder)]
