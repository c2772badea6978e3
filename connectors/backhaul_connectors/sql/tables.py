"""Tables by the names that the settings give, every part of a name quoted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import column, inspect, table
from sqlalchemy.sql import quoted_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnClause, Connection, TableClause


def quoted_column(name: str) -> ColumnClause[Any]:
    return column(quoted_name(name, quote=True))


def table_of(name: str, columns: Iterable[str] = ()) -> TableClause:
    """Return the table called `name` or `schema.name`."""
    schema, own = split(name)
    quoted = quoted_name(own, quote=True)
    found = tuple(map(quoted_column, columns))
    if schema is None:
        return table(quoted, *found)
    return table(quoted, *found, schema=quoted_name(schema, quote=True))


def split(name: str) -> tuple[str | None, str]:
    """Return schema and table."""
    schema, _, own = name.rpartition(".")
    return schema or None, own


def lack(connection: Connection, name: str, columns: Iterable[str]) -> str:
    """Say which table or column is not there; empty if all is."""
    schema, own = split(name)
    found = inspect(connection)
    if own not in (*found.get_table_names(schema), *found.get_view_names(schema)):
        return f"there is no table {name}"
    there = [each["name"] for each in found.get_columns(own, schema)]
    if missing := [each for each in columns if each not in there]:
        has = ", ".join(there)
        return f"table {name} has no column {missing[0]}; it has: {has}"
    return ""


def is_unique(connection: Connection, name: str, key: str) -> bool:
    """Tell whether the table keeps a value from standing in the column twice."""
    schema, own = split(name)
    found = inspect(connection)
    unique: list[object] = [
        each["column_names"]
        for each in found.get_indexes(own, schema)
        if each["unique"]
    ]
    unique += [
        each["column_names"] for each in found.get_unique_constraints(own, schema)
    ]
    unique.append(found.get_pk_constraint(own, schema)["constrained_columns"])
    return [key] in unique
