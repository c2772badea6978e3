"""Query plans for commands and stock counts, among many old commands."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store.sql.commands.repository import DUE, INTERRUPTED
from backhaul.store.sql.commands.uncertain import LAST_ADJUSTED, SIBLINGS
from backhaul.store.sql.operations.gauges import OPEN_STORES
from backhaul.store.sql.records.repository import UNREPORTED as UNREPORTED_ROWS
from backhaul.store.sql.stock_targets.stock_snapshot import (
    UNREPORTED,
    UNREPORTED_RESTOCK,
)
from scenes.databases import open_for_reading, started_store

if TYPE_CHECKING:
    from pathlib import Path

LEDGER = "ledger_adjustment"
PLANS = {
    UNREPORTED: [
        "SEARCH c USING INDEX commands_target (target=?)",
        f"SEARCH l USING COVERING INDEX {LEDGER} (store=? AND adjustment_id=?)",
    ],
    UNREPORTED_RESTOCK: [
        "SEARCH i USING INDEX order_items_variant (variant_id=?)",
        "SEARCH l USING INDEX ledger_cause (cause=?)",
        "SEARCH c USING INDEX commands_target (target=?)",
        "SEARCH o USING INDEX sqlite_autoindex_orders_1 (store=? AND id=?)",
    ],
    DUE: [
        "SEARCH c USING INDEX commands_free (store=? AND kind=? AND due_at<?)",
        "SEARCH o USING INDEX commands_in_flight (store=? AND lane=?)",
        "SEARCH o USING INDEX commands_lane"
        " (store=? AND lane=? AND hold_reason=? AND seq<?)",
    ],
    INTERRUPTED: ["SCAN commands USING INDEX commands_in_flight"],
    LAST_ADJUSTED: ["SCAN commands"],
    SIBLINGS: ["SEARCH commands USING INDEX commands_target (target=?)"],
    UNREPORTED_ROWS: [
        "SEARCH quarantine USING INDEX quarantine_unreported (name=?)",
    ],
}
"""The start of each plan. A scan here reads the newest row and ends."""


@pytest.mark.parametrize(
    "query",
    PLANS,
    ids=["count", "restock", "claim", "start", "habits", "order", "rows"],
)
async def test_a_query_reads_few_of_the_commands_that_took_effect(
    query: str, tmp_path: Path
) -> None:
    path = tmp_path / "b.db"
    async with started_store(path, SystemClock()):
        pass
    values = dict.fromkeys(re.findall(r":([a-z_]+)", query))
    with closing(open_for_reading(path)) as database:
        rows = database.execute(
            f"EXPLAIN QUERY PLAN {query}",
            values or ["main"] * query.count("?"),
        ).fetchall()
    looks = [step for *_, step in rows if step.startswith(("SEARCH", "SCAN"))]
    assert looks[: len(PLANS[query])] == PLANS[query]
    assert not any("TEMP B-TREE" in step for *_, step in rows)


async def test_stores_with_open_work_are_found_among_their_open_rows(
    tmp_path: Path,
) -> None:
    path = tmp_path / "b.db"
    async with started_store(path, SystemClock()):
        pass
    with closing(open_for_reading(path)) as database:
        rows = database.execute(f"EXPLAIN QUERY PLAN {OPEN_STORES}").fetchall()
    looks = [step for *_, step in rows if step.startswith(("SEARCH", "SCAN"))]
    assert looks == [
        "SCAN commands USING INDEX commands_lane",
        "SCAN stock_targets USING INDEX targets_open",
        "SCAN stock_targets USING INDEX targets_unread",
        "SCAN refetch_queue USING COVERING INDEX refetch_queue_due",
    ]
