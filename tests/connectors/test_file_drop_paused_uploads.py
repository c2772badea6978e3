"""Uploads that pause, and programs that still write to an archived file."""

from __future__ import annotations

import io
import time
import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backhaul_connectors.file_drop.completeness import has_end_record
from backhaul_sdk import Fulfillment, StockAdjustment, StockLevel
from connectors.dropping import FULFILLMENTS, STOCK_DELTAS, Drop
from connectors.spreadsheets import workbook
from scenes.sshd import Sshd
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from backhaul_connectors.file_drop import FileDrop

NAME = "fulfillments-slow.csv"
BEFORE = f"{FULFILLMENTS}1001,DHL,JD1\n1002,DHL,JD22"
AFTER = "22\n1003,DHL,JD3\n"
WHOLE = {"1001": "JD1", "1002": "JD2222", "1003": "JD3"}


class Shift:
    """One connector that runs on while files are written, with a clock of ours."""

    def __init__(self, drop: Drop) -> None:
        self.drop = drop
        drop.options |= {"unchanged_seconds": 1, "incomplete_seconds": 60}
        self.connector: FileDrop = drop.connector()

    async def wait(self, seconds: float) -> None:
        """Let time pass; the connector is asked each two seconds."""
        end = self.drop.seconds + seconds
        while self.drop.seconds < end:
            self.drop.seconds = min(self.drop.seconds + 2, end)
            await self.connector.open()
            await self.drop.host.pull(self.connector)

    async def restart(self) -> None:
        await self.connector.close()
        self.connector = self.drop.connector()

    def numbers(self) -> dict[str, str | None]:
        records = self.drop.records()
        found = [r for r in records if isinstance(r, Fulfillment)]
        assert len(found) == len({r.order for r in found})
        return {r.order: r.tracking_number for r in found}

    @contextmanager
    def writer(self, name: str) -> Iterator[Callable[[str | bytes], int]]:
        """Lend a function that writes through one handle, as a slow upload does."""
        with (self.drop.path / name).open("wb", buffering=0) as stream:
            yield lambda c: stream.write(c.encode() if isinstance(c, str) else c)


@pytest.fixture(
    params=["folder", pytest.param("sftp", marks=pytest.mark.programs)], name="shift"
)
async def running_shift(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Shift]:
    if request.param == "folder":
        yield Shift(Drop(tmp_path))
        return
    server = Sshd(tmp_path_factory.mktemp("sshd"))
    server.start()
    shift = Shift(Drop(tmp_path, dict(server.settings())))
    yield shift
    await shift.connector.close()
    server.kill()


async def test_an_upload_that_pauses_in_a_row_is_read_when_it_is_whole(
    shift: Shift,
) -> None:
    with shift.writer(NAME) as write:
        write(BEFORE)
        await shift.wait(30)
        assert shift.drop.records() == []
        write(AFTER)
        await shift.wait(10)
    assert shift.numbers() == WHOLE
    assert shift.drop.reasons() == []
    assert shift.drop.files() == {f"archive/{NAME}"}


async def test_a_file_without_a_last_line_end_is_read_after_the_longer_wait(
    shift: Shift,
) -> None:
    shift.drop.put(NAME, f"{FULFILLMENTS}1001,DHL,JD1")
    await shift.wait(50)
    assert shift.drop.records() == []
    await shift.wait(20)
    assert shift.numbers() == {"1001": "JD1"}


async def test_rows_written_after_the_file_was_archived_are_read_and_reported(
    shift: Shift,
) -> None:
    with shift.writer(NAME) as write:
        write(f"{FULFILLMENTS}1001,DHL,JD1\n")
        await shift.wait(10)
        assert shift.drop.files() == {f"archive/{NAME}"}
        await shift.restart()
        write("1002,DHL,JD2222\n")
        await shift.wait(30)
        write("1003,DHL,JD3\n")
        await shift.wait(120)
    assert shift.numbers() == WHOLE
    assert shift.drop.reasons() == []
    notices = shift.connector.notices()
    assert any(f"archive/{NAME} grew after it was taken" in each for each in notices)
    await shift.wait(4_000)
    assert shift.connector.notices() == []


async def test_a_row_that_was_read_half_goes_to_an_operator_and_is_not_sent_twice(
    shift: Shift,
) -> None:
    with shift.writer(NAME) as write:
        write(BEFORE)
        await shift.wait(70)
        write(AFTER)
        await shift.wait(400)
    assert shift.numbers() == {**WHOLE, "1002": "JD22"}
    (reason,) = shift.drop.reasons()
    assert f"the writer of {NAME} continued row 2" in reason


async def test_a_half_row_that_could_not_be_used_is_read_when_it_is_whole(
    shift: Shift,
) -> None:
    with shift.writer(NAME) as write:
        write(f"{FULFILLMENTS}1001,DHL,JD1\n1002,D")
        await shift.wait(70)
        write("HL,JD2222\n1003,DHL,JD3\n")
        await shift.wait(400)
    assert shift.numbers() == WHOLE
    assert len(shift.drop.reasons()) == 1  # the half row, when it was all there was


async def test_the_rest_of_a_stock_file_without_keys_is_read_once(shift: Shift) -> None:
    with shift.writer("stock-deltas.csv") as write:
        write(f"{STOCK_DELTAS}A,-1,\n")
        await shift.wait(10)
        write("B,-1,\nC,-1,\n")
        await shift.wait(60)
        await shift.restart()
        await shift.wait(60)
    records = [r for r in shift.drop.records() if isinstance(r, StockAdjustment)]
    assert [r.sku for r in records] == ["A", "B", "C"]


async def test_the_rest_of_a_list_of_levels_is_read(shift: Shift) -> None:
    with shift.writer("stock-levels.csv") as write:
        write("sku,quantity\nA,30\n")
        await shift.wait(10)
        write("B,5\n")
        await shift.wait(60)
    records = [r for r in shift.drop.records() if isinstance(r, StockLevel)]
    assert [(r.sku, r.quantity) for r in records] == [("A", 30), ("B", 5)]


async def test_a_count_that_was_read_half_is_read_again_as_completed(
    shift: Shift,
) -> None:
    with shift.writer("stock-levels.csv") as write:
        write("sku,quantity\nA,1\nB,30")
        written = int(time.time())
        await shift.wait(70)
        # Over SFTP the time of a file is in whole seconds of the kernel's coarse clock,
        # which lags some milliseconds behind the real one.
        await until(lambda: time.time() > written + 1.1, "another second")
        write("0\nC,2\n")
        await shift.wait(400)
    records = [r for r in shift.drop.records() if isinstance(r, StockLevel)]
    counts = [(r.sku, r.quantity) for r in records]
    assert counts == [("A", 1), ("B", 30), ("B", 300), ("C", 2)]
    assert records[2].as_of > records[1].as_of
    assert shift.drop.reasons() == []


async def test_an_archived_file_that_was_rewritten_is_reported(shift: Shift) -> None:
    shift.drop.put(NAME, f"{FULFILLMENTS}1001,DHL,JD1\n")
    await shift.wait(10)
    archived = shift.drop.path / "archive" / NAME
    archived.write_text(f"{FULFILLMENTS}1009,DHL,JD9999\n")
    await shift.wait(60)
    assert shift.numbers() == {"1001": "JD1"}
    (reason,) = shift.drop.reasons()
    assert f"archive/{NAME}: the file changed in the archive" in reason


async def test_an_archived_file_that_is_only_touched_says_nothing(shift: Shift) -> None:
    shift.drop.put(NAME, f"{FULFILLMENTS}1001,DHL,JD1\n")
    await shift.wait(10)
    archived = shift.drop.path / "archive" / NAME
    archived.touch()
    await shift.wait(60)
    assert shift.drop.reasons() == []
    archived.unlink()
    await shift.wait(60)
    assert (shift.drop.reasons(), shift.connector.notices()) == ([], [])


@pytest.mark.parametrize("marker", ["{name}.done", "{stem}.ok", "{name}.md5"])
async def test_a_marker_makes_a_file_complete_whatever_its_end(
    tmp_path: Path, marker: str
) -> None:
    shift = Shift(Drop(tmp_path, {"done_file": marker, "require_done_file": True}))
    shift.drop.put(NAME, f"{FULFILLMENTS}1001,DHL,JD1")
    await shift.wait(100)
    assert shift.drop.records() == []
    shift.drop.put(marker.format(name=NAME, stem="fulfillments-slow"), "")
    await shift.wait(4)
    assert shift.numbers() == {"1001": "JD1"}
    assert shift.drop.files() == {f"archive/{NAME}"}


@pytest.mark.parametrize("name", [f"{NAME}.part", f"{NAME}.filepart", f"~${NAME}"])
async def test_names_of_unfinished_files_are_left_alone(
    tmp_path: Path, name: str
) -> None:
    shift = Shift(Drop(tmp_path, {"fulfillments": "*fulfillments*"}))
    shift.drop.put(name, f"{FULFILLMENTS}1001,DHL,JD1\n")
    await shift.wait(100)
    assert shift.drop.records() == []
    assert shift.connector.notices() == []
    await shift.wait(4_000)
    (notice,) = shift.connector.notices()
    assert "the name says that the file is not complete yet" in notice


async def test_unfinished_names_of_its_own_convention(tmp_path: Path) -> None:
    options = {"fulfillments": "fulfillments*", "unfinished": ["*.uploading"]}
    shift = Shift(Drop(tmp_path, options))
    path = shift.drop.put(f"{NAME}.uploading", f"{FULFILLMENTS}1001,DHL,JD1\n")
    await shift.wait(10)
    assert shift.drop.records() == []
    path.rename(shift.drop.path / NAME)
    await shift.wait(4)
    assert shift.numbers() == {"1001": "JD1"}


ARRAY = '[\n{"order": "1001", "tracking_company": "DHL", "tracking_number": "JD1"}\n'
QUOTED = f'{FULFILLMENTS}1001,DHL,"JD1\n'
SHEET = workbook(
    ["order", "tracking_company", "tracking_number"],
    ["1001", "DHL", "JD1"],
)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("fulfillments.xlsx", SHEET[:-40], SHEET[-40:]),
        ("fulfillments.xlsx", SHEET[:100], SHEET[100:]),
        ("fulfillments.csv", QUOTED, '"\n'),
        ("fulfillments.csv", FULFILLMENTS, "1001,DHL,JD1\n"),
        ("fulfillments.csv", f"{FULFILLMENTS}1001,DHL,J".encode("utf-16"), None),
    ],
    # A workbook holds the time at which it was made: no name for a test.
    ids=["its end record", "most of it", "a quotation mark", "rows", "UTF-16"],
)
async def test_each_format_has_an_end_of_its_own(
    tmp_path: Path, name: str, before: str | bytes, after: str | bytes | None
) -> None:
    shift = Shift(Drop(tmp_path))
    rest = "D1\n".encode("utf-16-le") if after is None else after
    with shift.writer(name) as write:
        write(before)
        await shift.wait(30)
        assert (shift.drop.records(), shift.drop.reasons()) == ([], [])
        write(rest)
        await shift.wait(10)
    assert shift.numbers() == {"1001": "JD1"}
    assert shift.drop.reasons() == []


def _zip(inner: bytes, comment: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as parts:
        parts.writestr("inner.zip", inner)
        parts.comment = comment
    return out.getvalue()


@settings(deadline=None)
@given(st.binary(max_size=50), st.data())
def test_no_beginning_of_an_archive_has_its_end_record(
    comment: bytes, data: st.DataObject
) -> None:
    whole = _zip(_zip(b"x", b""), comment)
    assert has_end_record(whole, len(whole))
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert not has_end_record(whole[:cut], cut)


@settings(deadline=None, max_examples=40)
@given(cut=st.integers(0, len(BEFORE + AFTER)), waits=st.sampled_from([3, 30, 70]))
async def test_wherever_an_upload_pauses_no_row_is_lost_or_sent_twice(
    tmp_path_factory: pytest.TempPathFactory, cut: int, waits: int
) -> None:
    shift = Shift(Drop(tmp_path_factory.mktemp("drop")))
    content = BEFORE + AFTER
    with shift.writer(NAME) as write:
        write(content[:cut])
        await shift.wait(waits)
        write(content[cut:])
        await shift.wait(300)
    numbers, said = shift.numbers(), " ".join(shift.drop.reasons())
    assert numbers.keys() == WHOLE.keys() or "was moved to held/" in said
    if numbers != WHOLE:
        assert "continued row" in said or "was moved to held/" in said
