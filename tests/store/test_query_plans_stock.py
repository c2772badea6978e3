"""Query plans for the list of stock, among many SKUs."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store.filters import Filter, Sort
from backhaul.store.sql.dialect import render
from backhaul.store.sql.read_models import stock, stock_details
from backhaul.store.sqlite.dialect import FRAGMENTS
from backhaul.store.stock_lists import PushState
from scenes.databases import open_for_reading, started_store

if TYPE_CHECKING:
    from pathlib import Path

OPEN_ONLY = {
    *("targets_waiting", "targets_open", "targets_held", "targets_parked"),
    *("commands_lane", "commands_parked", "commands_uncertain"),
}
"""Indexes of the few rows that are open; a scan of them is bounded by a LIMIT."""
FILTERS = {
    "all": Filter(),
    "words": Filter(words=("lamp",), connector="erp", below="5", since="2026"),
    "a SKU": Filter(sku="SKU-1"),
    "a product": Filter(object="prod_1"),
    **{state.value: Filter(state=state.value) for state in PushState},
}


class Recorder:
    """Passes statements to a connection, and records their plans."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.steps: list[str] = []
        self.sorts: list[bool] = []

    def execute(self, query: str, values: Any = ()) -> Any:
        text = render(query, FRAGMENTS)
        plan = self._database.execute(f"EXPLAIN QUERY PLAN {text}", values)
        steps = [step for *_, step in plan]
        self.steps += steps
        self.sorts.append(any(step.endswith("B-TREE FOR ORDER BY") for step in steps))
        return self._database.execute(text, values)


@pytest.mark.parametrize("sort", [Sort.USUAL, Sort.LOWEST])
@pytest.mark.parametrize("name", FILTERS)
async def test_a_page_of_stock_reads_no_table_whole(
    name: str, sort: Sort, tmp_path: Path
) -> None:
    path = tmp_path / "b.db"
    async with started_store(path, SystemClock()):
        pass
    with closing(open_for_reading(path)) as database:
        recorder: Any = Recorder(database)
        stock.find(recorder, FILTERS[name], ["main"], 101, None, sort, 10)
        stock_details.with_details(recorder, [("main", "prod_1", "var_1")])
        stock.count_states(recorder)
    scans = {step for step in recorder.steps if step.startswith("SCAN")}
    tables = {step for step in scans if "INDEX" in step and "VIRTUAL" not in step}
    assert {step.split()[4] for step in tables} <= OPEN_ONLY
    own = {"SCAN o", "SCAN w", "SCAN c", "SCAN counted"}
    assert scans - tables - own == {step for step in scans if "VIRTUAL TABLE" in step}
    along = name in {"all", "words"}
    index = "levels_listed" if sort is Sort.LOWEST else "variants_listed"
    assert any(index in step for step in recorder.steps) is along
    assert recorder.sorts[0] is not along
