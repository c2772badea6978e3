"""The column of the reason is read where it exists, and never guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import Cancellation, StockAdjustment
from backhaul_sdk.testing import MemoryHost
from connectors.tables import SqliteTables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MOVED = "SELECT * FROM moved"


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[SqliteTables]:
    made = SqliteTables(tmp_path / "erp.db")
    yield made
    await made.close()


async def taken(tables: SqliteTables, **options: Any) -> MemoryHost:
    connector = tables.connector(**options)
    await connector.check()
    await connector.open()
    host = MemoryHost()
    await host.pull(connector)
    return host


def move(tables: SqliteTables, column: str, *reasons: str) -> None:
    tables.run(f"CREATE TABLE moved (id, sku, adjustment, at{column})")
    for number, reason in enumerate(reasons):
        values = f"{number}, 'A', -1, '2020-01-01'"
        tables.run(f"INSERT INTO moved VALUES ({values}{reason})")  # noqa: S608 - ours


@pytest.mark.parametrize("where", [{"table": "moved"}, {"query": MOVED}])
@pytest.mark.parametrize(
    ("column", "value", "columns", "reason"),
    [
        (", reason", ", 'damaged'", {}, "DAMAGED"),
        (", reason", ", NULL", {}, "MANUAL_ADJUSTMENT"),
        ("", "", {}, "MANUAL_ADJUSTMENT"),
        (", reason", ", 'damaged'", {"reason": ""}, "MANUAL_ADJUSTMENT"),
        (", why", ", 'damaged'", {"reason": "why"}, "DAMAGED"),
    ],
)
async def test_a_reason_is_read_where_its_column_exists(
    tables: SqliteTables,
    where: dict[str, str],
    column: str,
    value: str,
    columns: dict[str, str],
    reason: str,
) -> None:
    move(tables, column, value)
    source = {**where, "changed_at": "at", "columns": columns}
    host = await taken(tables, stock_deltas=source)
    (found,) = host.records.values()
    assert isinstance(found, StockAdjustment)
    assert found.reason == reason


async def test_an_unknown_reason_is_mapped_or_refused(tables: SqliteTables) -> None:
    move(tables, ", reason", ", 'Bruch'", ", 'Schwund'")
    source = {"table": "moved", "changed_at": "at"}
    words = {"bruch": "DAMAGED"}
    host = await taken(tables, stock_deltas=source, reason_map=words)
    (found,) = host.records.values()
    assert isinstance(found, StockAdjustment)
    assert found.reason == "DAMAGED"
    (bad,) = host.bad.values()
    assert bad.reason.startswith(
        "the reason 'Schwund' is unknown; use CORRECTION, DAMAGED"
    )


async def test_a_cancellation_has_its_reason_too(tables: SqliteTables) -> None:
    tables.run("CREATE TABLE void (id, order_number, restock, reason, at)")
    tables.run("INSERT INTO void VALUES (1, 'A', 'yes', 'fraud', '2020-01-01')")
    host = await taken(tables, cancellations={"table": "void", "changed_at": "at"})
    (found,) = host.records.values()
    assert isinstance(found, Cancellation)
    assert found.reason == "FRAUD"
