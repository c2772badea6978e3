"""When a file is read, where it is archived, and what a second file adds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from backhaul_sdk import CheckFailed, Fulfillment, StockAdjustment
from connectors.dropping import CANCELLATIONS, FULFILLMENTS, STOCK_DELTAS, Drop

if TYPE_CHECKING:
    from pathlib import Path

ONE = f"{FULFILLMENTS}1001,BlueDart,BD1\n"


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


def rows(first: int, number: int, row: str = "{},BlueDart,BD{}\n") -> str:
    return "".join(row.format(n, n) for n in range(first, first + number))


async def test_a_file_stays_until_its_last_row_is_acknowledged(drop: Drop) -> None:
    drop.options["batch_rows"] = 2
    drop.put("fulfillments.csv", FULFILLMENTS + rows(0, 5))
    first, second, third = await drop.batches()
    assert [len(batch.records) for batch in (first, second, third)] == [2, 2, 1]
    for batch in (first, second):
        await batch.ack()
        assert drop.files() == {"fulfillments.csv"}
    await third.ack()
    assert drop.files() == {"archive/fulfillments.csv"}
    await third.ack()
    assert drop.files() == {"archive/fulfillments.csv"}


async def test_a_stored_but_unacknowledged_file_is_archived_next_time(
    drop: Drop,
) -> None:
    drop.put("fulfillments.csv", ONE)
    (batch,) = await drop.batches()
    drop.host.commit(batch)
    (again,) = await drop.batches()
    assert again.records == []
    await drop.pull()
    assert drop.files() == {"archive/fulfillments.csv"}


async def test_nothing_in_the_archive_is_replaced(drop: Drop) -> None:
    for order in (1001, 1002, 1003):
        drop.put("fulfillments.csv", FULFILLMENTS + rows(order, 1))
        await drop.pull()
    kept = [f"archive/fulfillments{n}.csv" for n in ("", "-2", "-3")]
    assert drop.files() == set(kept)
    assert "1001" in (drop.path / kept[0]).read_text("utf-8")
    assert len(drop.records()) == 3


async def test_a_file_is_read_when_it_is_stable(drop: Drop) -> None:
    drop.options["unchanged_seconds"] = 1.0
    connector = drop.connector()
    await connector.open()
    path = drop.put("fulfillments.csv", FULFILLMENTS)
    for second, more in ((0.0, rows(0, 1)), (0.9, rows(1, 1)), (1.8, "")):
        drop.seconds = second
        await drop.host.pull(connector)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(more)
    assert drop.records() == []
    drop.seconds = 3.0
    await drop.host.pull(connector)
    assert len(drop.records()) == 2


async def test_a_done_file_makes_it_ready_at_once(drop: Drop) -> None:
    drop.options["unchanged_seconds"] = 60
    drop.put("fulfillments.csv", ONE)
    assert (await drop.pull()).records == {}
    drop.put("fulfillments.csv.done", "")
    assert len((await drop.pull()).records) == 1
    assert drop.files() == {"archive/fulfillments.csv"}


async def test_a_done_file_that_is_older_means_the_file_before(drop: Drop) -> None:
    drop.options |= {"require_done_file": True}
    done = drop.put("fulfillments.csv.done", "")
    path = drop.put("fulfillments.csv", ONE)
    os.utime(done, ns=(0, path.stat().st_mtime_ns - 1))
    assert (await drop.pull()).records == {}
    os.utime(done)
    assert len((await drop.pull()).records) == 1


async def test_a_missing_done_file_is_reported(drop: Drop) -> None:
    drop.options |= {"require_done_file": True}
    done = drop.put("fulfillments.csv.done", "")
    path = drop.put("fulfillments.csv", ONE)
    os.utime(done, ns=(0, path.stat().st_mtime_ns - 1))
    connector = drop.connector()
    await connector.open()
    for second in (0, 599):
        drop.seconds = second
        await drop.host.pull(connector)
        assert drop.reasons() == []
    drop.seconds = 600
    await drop.host.pull(connector)
    await drop.host.pull(connector)
    (reason,) = drop.reasons()
    assert "'fulfillments.csv.done' is missing, or older" in reason
    os.utime(done)
    await drop.host.pull(connector)
    assert len(drop.records()) == 1
    assert drop.files() == {"archive/fulfillments.csv"}


@pytest.mark.parametrize(
    "name",
    [
        "fulfillments.csv.tmp",
        "fulfillments.csv.PART",
        ".fulfillments.csv",
        "orders.csv",
        "fulfillments.txt",
    ],
)
async def test_other_names_are_left_alone(drop: Drop, name: str) -> None:
    drop.put(name, ONE)
    assert (await drop.pull()).records == {}
    assert drop.files() == {name}


async def test_links_folders_and_empty_files_are_left_alone(
    drop: Drop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.csv"
    secret.write_text(ONE, encoding="utf-8")
    (drop.path / "fulfillments-link.csv").symlink_to(secret)
    (drop.path / "fulfillments-folder.csv").mkdir()
    os.mkfifo(drop.path / "fulfillments-pipe.csv")
    drop.put("fulfillments-empty.csv", "")
    host = await drop.pull()
    assert (host.records, host.bad) == ({}, {})


async def test_names_match_whatever_their_capitals(drop: Drop) -> None:
    drop.options["cancellations"] = "Storno*.CSV"
    drop.put("STORNO-Mai.csv", f"{CANCELLATIONS}1001,yes,\n")
    assert len((await drop.pull()).records) == 1


async def test_a_kind_may_be_switched_off(drop: Drop) -> None:
    drop.options["fulfillments"] = ""
    drop.put("fulfillments.csv", ONE)
    assert (await drop.pull()).records == {}


async def test_a_corrected_file_adds_the_changed_rows_only(drop: Drop) -> None:
    drop.put("fulfillments.csv", f"{FULFILLMENTS}1001,BlueDart,BD1\n1002,,BD2\n")
    await drop.pull()
    corrected = "Tracking Number;ORDER;tracking company\nBD1;#1001;bluedart\nBD9;1002;"
    drop.put("fulfillments.csv", corrected)
    await drop.pull()
    numbers = [r.tracking_number for r in drop.records() if isinstance(r, Fulfillment)]
    assert numbers == ["BD1", "BD2", "BD9"]


async def test_equal_stock_deltas_are_two_events(drop: Drop) -> None:
    row = "LS-S,-1,DAMAGED\n"
    drop.put("stock-deltas-1.csv", STOCK_DELTAS + row + row)
    drop.put("stock-deltas-2.csv", STOCK_DELTAS + row)
    assert len((await drop.pull()).records) == 3


async def test_the_same_stock_file_dropped_twice_counts_once(drop: Drop) -> None:
    content = f"{STOCK_DELTAS}LS-S,-1,DAMAGED\n"
    for name in ("stock-deltas-1.csv", "stock-deltas-2.csv", "stock-deltas-1.csv"):
        drop.put(name, content)
        await drop.pull()
    assert len(drop.records()) == 1


async def test_key_columns_name_a_movement(drop: Drop) -> None:
    drop.options["key_columns"] = ["Document", "line"]
    header = "document,line,sku,adjustment,reason\n"
    drop.put("stock-deltas-1.csv", f"{header}D1,1,LS-S,-1,\nD1,2,LS-S,-1,\n")
    drop.put("stock-deltas-2.csv", f"{header}D1,2,LS-S,-1,\nD2,1,LS-S,-1,\n,1,A,1,\n")
    await drop.pull()
    assert len(drop.records()) == 3
    assert drop.reasons() == ["the key column is empty"]


async def test_a_missing_key_column_holds_the_file(drop: Drop) -> None:
    drop.options["key_columns"] = ["document"]
    drop.put("stock-deltas.csv", f"{STOCK_DELTAS}LS-S,-1,\n")
    await drop.pull()
    assert drop.records() == []
    assert "column document is missing" in drop.reasons()[0]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
async def test_utf8_is_read_with_and_without_mark(drop: Drop, mark: str) -> None:
    drop.put("fulfillments.csv", f"{mark}{FULFILLMENTS}1001,Café,BD1\n")
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, Fulfillment)
    assert (record.order, record.tracking_company) == ("1001", "Café")


async def test_a_windows_file_is_read(drop: Drop) -> None:
    content = f"{FULFILLMENTS}1001,Café €,BD1\n1002,Zoë,BD2\n".encode("cp1252")
    drop.put("fulfillments.csv", content)
    await drop.pull()
    names = [r.tracking_company for r in drop.records() if isinstance(r, Fulfillment)]
    assert names == ["Café €", "Zoë"]


async def test_a_damaged_utf8_file_is_not_read_as_windows_text(drop: Drop) -> None:
    content = f"{FULFILLMENTS}1001,Café,BD1\n1002,Zoë,BD2\n1003,".encode()
    drop.put("fulfillments.csv", content + b"Caf\xe9,BD3\n")
    await drop.pull()
    assert len(drop.records()) == 2
    (bad,) = drop.host.bad.values()
    assert "not valid text" in bad.reason
    assert bad.raw.endswith("1003,Caf\ufffd,BD3")
    assert bad.raw.encode()


async def test_a_file_replaced_before_its_acknowledgement_is_read_too(
    drop: Drop,
) -> None:
    drop.put("fulfillments.csv", ONE)
    (batch,) = await drop.batches()
    drop.host.commit(batch)
    drop.put("fulfillments.csv", f"{FULFILLMENTS}1002,BlueDart,BD2\n")
    await batch.ack()
    assert drop.files() == {"fulfillments.csv"}
    await drop.pull()
    assert len(drop.records()) == 2


async def test_a_stock_file_that_grew_goes_on_where_it_ended(drop: Drop) -> None:
    content = STOCK_DELTAS + rows(0, 3, "LS-{},-1,OTHER\n")
    drop.put("stock-deltas.csv", content)
    (batch,) = await drop.batches()
    drop.host.commit(batch)
    drop.put("stock-deltas.csv", content + rows(3, 2, "LS-{},-1,OTHER\n"))
    await drop.pull()
    skus = [r.sku for r in drop.records() if isinstance(r, StockAdjustment)]
    assert skus == [f"LS-{n}" for n in range(5)]


@pytest.mark.parametrize("change", ["LS-9,-1,OTHER\n", "half a row"])
async def test_a_stock_file_changed_while_it_is_read_is_held(
    drop: Drop, change: str
) -> None:
    drop.options["batch_rows"] = 2
    content = STOCK_DELTAS + rows(0, 5, "LS-{},-1,OTHER\n")
    drop.put("stock-deltas.csv", content.rstrip("\n"))
    first, *_ = await drop.batches()
    drop.host.commit(first)
    changed = content.replace("LS-0,-1,OTHER\n", change)
    drop.put("stock-deltas.csv", changed)
    await drop.pull()
    assert len(drop.records()) == 2
    assert "was changed after its first 2 rows were taken" in drop.reasons()[0]


async def test_a_file_written_to_while_it_is_read_is_left_for_later(
    drop: Drop,
) -> None:
    drop.options["batch_rows"] = 2
    path = drop.put("fulfillments.csv", FULFILLMENTS + rows(0, 5))
    connector = drop.connector()
    await connector.open()
    async for batch in connector.pull(None):
        drop.host.commit(batch)
        await batch.ack()
        with path.open("a", encoding="utf-8") as stream:
            stream.write(rows(5, 1))
    assert len(drop.records()) == 2
    assert drop.files() == {"fulfillments.csv"}
    await drop.pull()
    assert len(drop.records()) == 6


async def test_a_file_that_vanishes_does_not_stop_the_others(drop: Drop) -> None:
    drop.put("fulfillments-1.csv", ONE)
    drop.put("fulfillments-2.csv", f"{FULFILLMENTS}1002,,\n")
    connector = drop.connector()
    await connector.open()
    async for batch in connector.pull(None):
        drop.host.commit(batch)
        (drop.path / "fulfillments-2.csv").unlink(missing_ok=True)
    assert len(drop.records()) == 1


@pytest.mark.parametrize("cursor", ["", "null", "{", '{"name": 1}', "[]", "row 7"])
async def test_an_unreadable_cursor_starts_over(drop: Drop, cursor: str) -> None:
    drop.host.cursor = cursor
    drop.put("fulfillments.csv", ONE)
    assert len((await drop.pull()).records) == 1


async def test_check_explains_each_problem(drop: Drop, tmp_path: Path) -> None:
    drop.path = tmp_path / "nowhere"
    with pytest.raises(CheckFailed, match="nowhere is not a folder"):
        await drop.connector().check()
    drop.path.mkdir()
    (drop.path / "archive").touch(0o400)
    with pytest.raises(CheckFailed, match="archive must be a folder"):
        await drop.connector().check()
