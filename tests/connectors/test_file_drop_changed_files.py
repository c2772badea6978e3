"""A stock file that grew or changed after it was read is continued or held."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.file_drop.files import MOST_REMEMBERED
from backhaul_sdk import StockAdjustment
from connectors.dropping import FULFILLMENTS, STOCK_DELTAS, Drop

if TYPE_CHECKING:
    from pathlib import Path

A, B = "stock-deltas-a.csv", "stock-deltas-b.csv"


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


def changes(*skus: str) -> str:
    return STOCK_DELTAS + "".join(f"{sku},-1,OTHER\n" for sku in skus)


def taken(drop: Drop) -> list[str]:
    return [r.sku for r in drop.records() if isinstance(r, StockAdjustment)]


async def take(drop: Drop, name: str, content: str) -> None:
    drop.put(name, content)
    await drop.pull()


async def take_first_row(drop: Drop, name: str, content: str) -> None:
    """Take one row, as if the daemon were killed then."""
    drop.options["batch_rows"] = 1
    path = drop.put(name, content)
    first, *_ = await drop.batches()
    drop.host.commit(first)
    path.unlink()


async def test_a_stock_file_that_grew_goes_on_behind_another_file(drop: Drop) -> None:
    await take(drop, A, changes("A1", "A2"))
    await take(drop, B, changes("B1"))
    await take(drop, A, changes("A1", "A2", "A3"))
    await take(drop, B, changes("B1", "B2"))
    await take(drop, A, changes("A1", "A2", "A3", "A4"))
    assert taken(drop) == ["A1", "A2", "B1", "A3", "B2", "A4"]
    assert drop.reasons() == []


async def test_another_file_of_the_same_name_is_read_whole(drop: Drop) -> None:
    for name, sku in ((A, "A1"), (B, "B1"), (A, "A2"), (B, "B2")):
        await take(drop, name, changes(sku))
    assert taken(drop) == ["A1", "B1", "A2", "B2"]


async def test_a_stock_file_that_was_put_aside_in_the_middle_goes_on(
    drop: Drop,
) -> None:
    await take_first_row(drop, A, changes("A1", "A2"))
    await take(drop, B, changes("B1"))
    drop.put(A, changes("A1", "A2"))
    (batch,) = await drop.batches()
    assert [r.sku for r in batch.records if isinstance(r, StockAdjustment)] == ["A2"]


async def test_a_stock_file_changed_behind_its_first_rows_is_held(drop: Drop) -> None:
    await take_first_row(drop, A, changes("A1", "A2"))
    await take(drop, B, changes("B1"))
    await take(drop, A, changes("A0", "A1", "A2"))
    assert taken(drop) == ["A1", "B1"]
    (reason,) = drop.reasons()
    assert f"{A} was moved to held/" in reason
    assert "was changed after its first 1 rows were taken" in reason
    assert f"held/{A}" in drop.files()


async def test_a_stock_file_that_ended_in_half_a_row_is_held(drop: Drop) -> None:
    await take(drop, A, changes("A1", "A2").removesuffix("OTHER\n"))
    await take(drop, B, changes("B1"))
    await take(drop, A, changes("A1", "A2", "A3"))
    assert taken(drop) == ["A1", "A2", "B1"]
    assert "was changed after its first 2 rows were taken" in drop.reasons()[0]


async def test_a_last_row_that_only_lacked_its_line_end_was_whole(drop: Drop) -> None:
    await take(drop, A, changes("A1", "A2").rstrip("\n"))
    await take(drop, A, changes("A1", "A2", "A3"))
    assert taken(drop) == ["A1", "A2", "A3"]
    assert drop.reasons() == []


async def test_a_held_file_stays_held_and_the_next_file_is_read(drop: Drop) -> None:
    changed = changes("A0", "A1", "A2")
    await take_first_row(drop, A, changes("A1", "A2"))
    await take(drop, A, changed)
    await take(drop, B, changes("B1"))
    await take(drop, A, changed)
    await take(drop, "stock-deltas-c.csv", changed)
    await take(drop, A, f"{changed}A3,-1,OTHER\n")
    assert taken(drop) == ["A1", "B1"]
    await take(drop, A, changes("A4"))
    assert taken(drop) == ["A1", "B1", "A4"]


async def test_shipments_in_between_push_no_stock_file_out_of_memory(
    drop: Drop,
) -> None:
    await take(drop, A, changes("A1"))
    for number in range(MOST_REMEMBERED + 1):
        row = f"{FULFILLMENTS}{number},,\n"
        drop.put(f"fulfillments-{number}.csv", row)
    await drop.pull()
    await take(drop, A, changes("A1", "A2"))
    assert taken(drop) == ["A1", "A2"]


async def test_the_number_of_remembered_names_is_limited(drop: Drop) -> None:
    await take(drop, A, changes("A1"))
    await take(drop, B, changes("B1"))
    for number in range(MOST_REMEMBERED):
        drop.put(f"stock-deltas-{number:03}.csv", changes(f"N{number}"))
    await drop.pull()
    before = len(taken(drop))
    await take(drop, B, changes("B1", "B2"))
    assert taken(drop)[before:] == ["B2"]
    await take(drop, A, changes("A1", "A2"))
    assert taken(drop)[before:] == ["B2", "A1", "A2"]
    assert len(drop.host.cursor or "") < 600 * MOST_REMEMBERED


async def test_where_an_older_version_ended_is_understood(drop: Drop) -> None:
    await take_first_row(drop, A, changes("A1", "A2"))
    found = json.loads(drop.host.cursor or "")
    known = ("name", "sha256", "size", "row", "rows")
    drop.host.cursor = json.dumps({name: found[name] for name in known})
    await take(drop, B, changes("B1"))
    await take(drop, A, changes("A1", "A2", "A3"))
    assert taken(drop) == ["A1", "B1", "A2", "A3"]
