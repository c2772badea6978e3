"""What stock lists from files change, through the host, for each article."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import from_text
from connectors.dropping import Drop
from scenes import payloads
from scenes.back_office import ScriptedConnector, host_of
from scenes.clock import VirtualClock
from scenes.databases import append_and_fold, started_store
from scenes.payloads import envelope
from scenes.stored import stock_targets, value_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Place, Store

CASES = Path(__file__).parents[1] / "connectors" / "cases"


class Files:
    """A folder, its connector, and the host that plans commands for its files."""

    def __init__(self, folder: Path, store: Store, clock: VirtualClock) -> None:
        self.drop = Drop(folder)
        self.store = store
        self._host = host_of(
            ScriptedConnector("erp"), store, clock=clock, wait_seconds=600
        )
        self._taken: set[str] = set()

    async def put(self, name: str, content: str | bytes, at: str, **more: Any) -> None:
        self.drop.options |= more
        path = self.drop.put(name, content)
        seconds = datetime.fromisoformat(at).timestamp()
        os.utime(path, (seconds, seconds))
        await self.drop.pull()
        for key, record in self.drop.host.records.items():
            if key not in self._taken:
                await self._host.emit(record)
        self._taken |= self.drop.host.records.keys()

    async def sell(self, *skus: str) -> None:
        for sku in skus:
            variant = payloads.variant(f"v_{sku}", sku=sku, stock=50)
            product = payloads.product(f"p_{sku}", variants=[variant])
            await append_and_fold(self.store, envelope("products/create", product))

    def targets(self) -> dict[str, int]:
        planned = stock_targets(self.store.place, "planned")
        return {each.sku or "": each.quantity for each in planned}


@pytest.fixture
async def files(database: Place, tmp_path: Path) -> AsyncIterator[Files]:
    clock = VirtualClock(from_text("2026-04-02T00:00:00.000Z"))
    folder = tmp_path / "drop"
    folder.mkdir()
    async with started_store(database, clock) as store:
        yield Files(folder, store, clock)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1), (1, 3, 2)], ids=str)
@pytest.mark.parametrize("day", ["2026-03-31", "2026-04-01"])
async def test_of_lists_of_one_day_the_last_written_counts(
    files: Files, order: tuple[int, ...], day: str
) -> None:
    """The order of reading does not matter, nor the day of writing."""
    await files.sell("LB-100")
    for number in order:
        content = (CASES / f"21-day-{number}.csv").read_bytes()
        at = f"{day}T0{number}:00:00Z"
        await files.put(f"stock-levels-{number}.csv", content, at)
    assert files.targets() == {"LB-100": 30}


async def test_an_article_that_a_full_list_leaves_out_is_set_to_zero(
    files: Files,
) -> None:
    await files.sell("A3", "B7")
    zero = {"absent": "zero", "absent_limit": 0.5}
    first = "sku,quantity\nA3,5\nB7,2\n"
    await files.put("stock-levels.csv", first, "2026-03-31T10:00:00Z", **zero)
    case = (CASES / "19-absent-article.csv").read_bytes()
    await files.put("stock-levels.csv", case, "2026-03-31T11:00:00Z")
    assert files.targets() == {"A3": 5, "B7": 0}


async def test_by_default_an_absent_article_keeps_its_stock(files: Files) -> None:
    await files.sell("A3", "B7")
    first = "sku,quantity\nA3,5\nB7,2\n"
    await files.put("stock-levels.csv", first, "2026-03-31T10:00:00Z")
    case = (CASES / "19-absent-article.csv").read_bytes()
    await files.put("stock-levels.csv", case, "2026-03-31T11:00:00Z")
    assert files.targets() == {"A3": 5, "B7": 2}


async def test_a_corrected_list_of_the_same_time_counts(files: Files) -> None:
    await files.sell("A3")
    header = "sku,quantity,as_of\n"
    for hour, quantity in ((10, 5), (11, 7)):
        content = f"{header}A3,{quantity},2026-03-31T09:00Z\n"
        at = f"2026-03-31T{hour}:00:00Z"
        await files.put("stock-levels.csv", content, at)
    assert files.targets() == {"A3": 7}


AHEAD = {
    "as_of": ("A3,7,2027-03-31T10:00Z", "2026-03-31T10:00:00Z"),
    "another century": ("A3,7,2126-03-31", "2026-03-31T10:00:00Z"),
    "the file's modification time": ("A3,7,", "2031-01-01T00:00:00Z"),
    "a day in the file's time": ("A3,7,2031-01-01", "2031-01-01T05:00:00Z"),
}
"""Counts from the far future: a row, and the time of its file."""


@pytest.mark.parametrize(("row", "at"), AHEAD.values(), ids=list(AHEAD))
async def test_a_count_that_lies_ahead_is_refused_and_the_next_one_counts(
    row: str, at: str, files: Files
) -> None:
    await files.sell("A3")
    header = "sku,quantity,as_of\n"
    await files.put("stock-levels.csv", f"{header}{row}\n", at)
    assert files.targets() == {}
    reason = value_of(files.store.place, "quarantine", "reason")
    assert "more than a day in the future" in reason
    content = f"{header}A3,9,2026-04-01T10:00Z\n"
    await files.put("stock-levels.csv", content, "2026-04-01T10:00:00Z")
    assert files.targets() == {"A3": 9}


async def test_a_clock_that_is_some_hours_ahead_does_no_harm(files: Files) -> None:
    await files.sell("A3")
    await files.put("stock-levels.csv", "sku,quantity\nA3,7\n", "2026-04-02T14:00:00Z")
    assert files.targets() == {"A3": 7}


SEVERAL = tuple(f"A{number}" for number in range(12))
FULL: dict[str, Any] = {"absent": "zero", "absent_limit": 0.1}
OLD = {
    "a time": ("2026-03-31T10:00Z", "2026-03-30T10:00Z"),
    "a day": ("2026-03-31", "2026-03-30"),
    "the file's time": ("", "2026-03-30T10:00Z"),
}
"""The `as_of` of a list, and of an older list that arrives later."""


def a_list(as_of: str, *skus: str) -> str:
    return "sku,quantity,as_of\n" + "".join(f"{sku},5,{as_of}\n" for sku in skus)


@pytest.mark.parametrize(("first", "second"), OLD.values(), ids=list(OLD))
async def test_an_old_full_list_that_comes_late_is_a_question(
    first: str, second: str, files: Files
) -> None:
    await files.sell(*SEVERAL)
    await files.put(
        "stock-levels.csv", a_list(first, *SEVERAL), "2026-03-31T15:00:00Z", **FULL
    )
    await files.put(
        "stock-levels.csv", a_list(second, *SEVERAL[1:]), "2026-03-31T16:00:00Z"
    )
    assert files.targets() == dict.fromkeys(SEVERAL, 5)
    reason = value_of(files.store.place, "quarantine", "reason")
    assert "leaves out 1 of the 12 SKUs" in reason
    assert "the list was counted before some of these, at 2026-03-30T" in reason


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2026-03-30T10:00Z", "2026-03-31T10:00Z"),
        ("2026-03-31", "2026-03-31"),
        ("2026-03-30", "2026-03-31"),
        ("", ""),
    ],
)
async def test_a_newer_full_list_is_no_question(
    first: str, second: str, files: Files
) -> None:
    await files.sell(*SEVERAL)
    await files.put(
        "stock-levels.csv", a_list(first, *SEVERAL), "2026-03-31T15:00:00Z", **FULL
    )
    await files.put(
        "stock-levels.csv", a_list(second, *SEVERAL[1:]), "2026-03-31T16:00:00Z"
    )
    assert files.targets() == dict.fromkeys(SEVERAL, 5) | {"A0": 0}
