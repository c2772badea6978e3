"""How SQLite writes the fragments of the common text."""

from __future__ import annotations

import re
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from backhaul.store.sql.dialect import Fragments, render

if TYPE_CHECKING:
    from collections.abc import Callable


def _member(column: str, path: str) -> str:
    # SQLite ends a whole query at the first value that is not JSON.
    return f"CASE WHEN json_valid({column}) THEN json_extract({column}, '{path}') END"


def _document(column: str) -> str:
    return f"CASE WHEN json_valid({column}) THEN {column} ELSE '{{}}' END"


def _later(column: str, seconds: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', {column}, ({seconds}) || ' seconds')"


_NEXT_COMMAND_NUMBER = """
    (SELECT 1 + coalesce(max(seq), 0) FROM (
      SELECT max(seq) AS seq FROM commands
      UNION ALL SELECT max(seq) FROM stock_targets) numbered)
"""
FRAGMENTS: Fragments = {
    "next_command_number": lambda _: _NEXT_COMMAND_NUMBER,
    "member": _member,
    "number": _member,
    "flag": lambda column, path: f"coalesce({_member(column, path)}, 0)",
    "has": lambda column, path: f"({_member(column, path)} IS NOT NULL)",
    "elements": lambda column, path: f"json_each({_document(column)}, '{path}')",
    "document": _document,
    "contains": lambda text, part: f"instr({text}, {part}) > 0",
    "ascii_text": lambda column: f"CAST({column} AS TEXT)",
    "same_letters": lambda left, right: f"({left} = {right} COLLATE NOCASE)",
    "epoch": lambda column: f"((julianday({column}) - 2440587.5) * 86400)",
    "later": _later,
    "new_id": lambda _: "",
    "batch": lambda _: "",
    "hint": lambda text: text,
    "least": lambda *values: f"min({', '.join(values)})",
    "greatest": lambda *values: f"max({', '.join(values)})",
    "same": lambda left, right: f"({left} IS {right})",
}


Pick: TypeAlias = "Callable[[dict[str, object]], tuple[object, ...]]"
_NAMED = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|:([A-Za-z_]\w*)""")


@cache
def rendered(sql: str) -> str:
    """Return a statement of the common text as SQLite runs it."""
    return render(sql, FRAGMENTS) if "⟦" in sql else sql


@cache
def numbered(sql: str) -> tuple[str, Pick]:
    """Return a rendered statement with `?1` for its first name, and what picks values.

    sqlite3 spends half a microsecond on each named value.
    """
    names: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match[1]
        return f"?{names.setdefault(name, len(names) + 1)}" if name else match[0]

    text = _NAMED.sub(number, rendered(sql))
    if len(names) > 1:
        return text, itemgetter(*names)
    return text, lambda values: tuple(values[name] for name in names)
