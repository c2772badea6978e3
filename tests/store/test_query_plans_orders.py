"""Query plans for lists of orders, among many orders."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store.sql.read_models.orders import ALL, OF_CUSTOMER, OF_TAB, WAITING
from scenes.databases import open_for_reading, started_store

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [
    "SEARCH c USING INDEX sqlite_autoindex_customers_1 (store=? AND id=?)",
    "SEARCH c USING INDEX commands_target (target=?)",
]
PLANS = {
    ALL: ["SEARCH o USING INDEX orders_listed (<expr>=? AND <expr><?)", *NAMES],
    OF_TAB: [
        "SEARCH o USING INDEX orders_tab (<expr>=? AND <expr>=? AND <expr><?)",
        *NAMES,
    ],
    OF_CUSTOMER: ["SEARCH o USING INDEX orders_customer (customer_id=?)", *NAMES],
    WAITING: [
        "SCAN commands USING INDEX commands_lane",
        "SCAN planned",
        "SCAN commands USING INDEX commands_parked",
        "SCAN parked",
        "SCAN incidents USING INDEX incidents_open",
        "SCAN unreadable_orders",
        "SCAN w",
        "SEARCH o USING INDEX sqlite_autoindex_orders_1 (store=? AND id=?)",
        *NAMES,
    ],
}
"""A scan here reads only open rows: the indexes have no others."""


@pytest.mark.parametrize("query", PLANS, ids=["all", "tab", "customer", "waiting"])
async def test_a_list_of_orders_reads_one_page(query: str, tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    async with started_store(path, SystemClock()):
        pass
    values = dict.fromkeys(re.findall(r":([a-z_]+)", query), "x") | {"limit": 51}
    with closing(open_for_reading(path)) as database:
        rows = database.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
    looks = [step for *_, step in rows if step.startswith(("SEARCH", "SCAN"))]
    assert looks == PLANS[query]
    is_sorted = query in {ALL, OF_TAB}
    assert any("B-TREE FOR ORDER BY" in step for *_, step in rows) is not is_sorted
