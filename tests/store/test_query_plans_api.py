"""Query plans for frequent API requests on SQLite, among many rows."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store.sql.read_models.recent_changes import (
    AUDIT,
    OF_DECISIONS,
    QUERIES,
)
from backhaul.store.sql.records.submission import DETAIL
from scenes.databases import open_for_reading, started_store

if TYPE_CHECKING:
    from pathlib import Path

ASKED = {"record": DETAIL, "audit": AUDIT, **QUERIES, **OF_DECISIONS}
BY_KEY = re.compile(r"SEARCH .* USING (INTEGER PRIMARY KEY|(COVERING )?INDEX) ")
IDS = "SCAN json_each VIRTUAL TABLE INDEX 3:"
"""The requested ids, which are few."""


@pytest.mark.parametrize("name", ASKED)
async def test_rows_are_found_by_their_keys(name: str, tmp_path: Path) -> None:
    path, query = tmp_path / "b.db", ASKED[name]
    async with started_store(path, SystemClock()):
        pass
    with closing(open_for_reading(path)) as database:
        values = dict.fromkeys(re.findall(r":([a-z_]+)", query))
        rows = database.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
    steps = [step for *_, step in rows]
    read = [step for step in steps if step.startswith(("SEARCH", "SCAN"))]
    assert [step for step in read if not BY_KEY.match(step) and step != IDS] == []
    assert not any("B-TREE" in step or "MATERIALIZE" in step for step in steps)
