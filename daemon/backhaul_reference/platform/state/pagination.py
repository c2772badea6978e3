"""Pages of list rows with their total count."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backhaul_reference.platform.state.database import Rows


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a list is asked for, and in which order."""

    page: int = 1
    limit: int = 20
    updated_since_ms: int | None = None
    by_update: bool = False

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.limit


@dataclass(frozen=True, slots=True)
class Clause:
    """A further condition on the rows of a list; its text comes from our code only."""

    sql: str
    params: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """One page and the number of all rows."""

    rows: list[Any]
    total: int


def listing(
    rows: Rows,
    table: str,
    store_id: str,
    filters: Mapping[str, Any],
    window: Window,
    *,
    newest: str = "created_ms DESC, id DESC",
    within: Clause | None = None,
) -> Listing:
    """A page of a table: equality filters on columns, `search` as a substring."""
    terms = ["store_id = ?"]
    params: list[Any] = [store_id]
    for column, value in filters.items():
        if value is not None:
            found = column == "search"
            terms.append("INSTR(search, ?) > 0" if found else f"{column} = ?")
            params.append(value)
    if window.updated_since_ms is not None:
        terms.append("updated_ms >= ?")
        params.append(window.updated_since_ms)
    if within is not None:
        terms.append(within.sql)
        params.extend(within.params)
    where = " AND ".join(terms)
    order = "updated_ms, id" if window.by_update else newest
    total = rows.value(f"SELECT COUNT(*) FROM {table} WHERE {where}", params)  # noqa: S608  - table and columns are literals of this package
    sql = f"SELECT * FROM {table} WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"  # noqa: S608  - as above
    page = rows.all(sql, (*params, window.limit, window.offset))
    return Listing(page, total)
