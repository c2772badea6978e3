"""Prepares every statement of the store that a run executed on a real PostgreSQL."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from backhaul.store.sql.dialect import Fragments, render
from backhaul.store.sqlite import connections
from backhaul.store.sqlite.dialect import rendered
from scenes import leftovers
from scenes.databases import make_database
from scenes.postgres import postgres
from scenes.statements_of_sqlite import SQLITE_ONLY

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = "/backhaul/store/sql/"
"""The code whose statements have to run on every engine."""
_TYPES = {"INTEGER": "bigint", "REAL": "double precision", "BLOB": "bytea"}
_VALUE = re.compile(r"'(?:[^']|'')*'|::\w+|:([a-z_]\w*)|\?(\d*)", re.IGNORECASE)
_UNKNOWN = re.compile(r"could not determine data type of parameter \$(\d+)")
_SKIPPED = ("PRAGMA", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "EXPLAIN")


class Recorder:
    """Stands for `connections.rendered`; remembers which statements the store ran."""

    def __init__(self) -> None:
        self._rendered = rendered
        self._seen: dict[str, str] = {}

    def __call__(self, sql: str) -> str:
        if sql not in self._seen:
            caller = sys._getframe(2).f_code.co_filename
            self._seen[sql] = caller.partition(TEXT)[2]
        return self._rendered(sql)

    def install(self) -> None:
        """Record from now on, in this process."""
        vars(connections)["rendered"] = self

    def keep(self) -> None:
        """Write what was recorded where the end of the run finds it."""
        found = {sql: module for sql, module in self._seen.items() if module}
        path = leftovers.folder("statements") / f"{os.getpid()}.json"
        path.write_text(json.dumps(found), encoding="utf-8")


def recorded() -> dict[str, str]:
    """Return the statements of all processes of this run, with their modules."""
    found: dict[str, str] = {}
    for path in leftovers.folder("statements").iterdir():
        found |= json.loads(path.read_text(encoding="utf-8"))
    return found


def faults() -> list[str]:
    """Return a line for each statement that PostgreSQL cannot prepare.

    Statements of `SQLITE_ONLY` are left out; an entry of it that no statement needs is
    a fault too.
    """
    statements = recorded()
    needed: set[str] = set()
    found: list[str] = []
    with postgres() as server, server.connect("public") as connection:
        for statement in _schema():
            connection.execute(statement)
        for sql, module in sorted(statements.items(), key=lambda item: item[1]):
            error = _prepare(connection, sql)
            reason = _reason(sql, module)
            if error and reason:
                needed.add(reason)
            elif error:
                found.append(f"{module}: {error}: {' '.join(sql.split())[:300]}")
    return found + [
        f"{entry}: not needed" for entry in SQLITE_ONLY if entry not in needed
    ]


def _reason(sql: str, module: str) -> str:
    """Return the entry of the list that a statement falls under, if any."""
    flat = " ".join(sql.split())
    return next(
        (
            entry
            for entry in SQLITE_ONLY
            if entry.partition(": ")[0] == module and entry.partition(": ")[2] in flat
        ),
        "",
    )


def _prepare(connection: psycopg.Connection, sql: str) -> str:
    """Prepare a statement; return PostgreSQL's error, empty if there is none."""
    if sql.lstrip().upper().startswith(_SKIPPED):
        return ""
    text = numbered(render(sql, FRAGMENTS))
    types: dict[int, str] = {}
    while True:
        last = max(types, default=0)
        declared = ", ".join(types.get(n, "unknown") for n in range(1, last + 1))
        head = f"PREPARE one ({declared})" if declared else "PREPARE one"
        try:
            connection.execute(f"{head} AS {text}".encode())
        except psycopg.Error as error:
            message = str(error).partition("\n")[0]
            unknown = _UNKNOWN.search(message)
            if unknown is None or int(unknown[1]) in types:
                return message
            types[int(unknown[1])] = "text"
        else:
            connection.execute("DEALLOCATE one")
            return ""


def numbered(sql: str) -> str:
    """Return a statement with `$1`, `$2` for its named or nameless values."""
    names: dict[str, int] = {}

    def replace(match: re.Match[str]) -> str:
        if match[1] is None and match[2] is None:
            return match[0]
        name = match[1] or f"?{match[2] or len(names) + 1}"
        return f"${names.setdefault(name, len(names) + 1)}"

    return _VALUE.sub(replace, sql)


def _path(path: str) -> str:
    return path.removeprefix("$").replace("[", ".").replace("]", "").strip(".")


def _member(column: str, path: str) -> str:
    steps = _path(path).replace(".", ",")
    return f"(({column})::jsonb #>> '{{{steps}}}')"


FRAGMENTS: Fragments = {
    "member": _member,
    "number": lambda column, path: f"{_member(column, path)}::bigint",
    "flag": lambda column, path: f"coalesce({_member(column, path)}::boolean, false)",
    "has": lambda column, path: f"({_member(column, path)} IS NOT NULL)",
    "elements": lambda column, path: (
        "jsonb_array_elements_text(coalesce(("
        f"({column})::jsonb #> '{{{_path(path).replace('.', ',')}}}'), '[]'))"
    ),
    "document": lambda column: f"coalesce({column}, '{{}}')",
    "contains": lambda text, part: f"(strpos({text}, {part}) > 0)",
    "ascii_text": lambda column: f"encode({column}, 'escape')",
    "same_letters": lambda left, right: f"(lower({left}) = lower({right}))",
    "epoch": lambda column: f"extract(epoch from ({column})::timestamptz)",
    "later": lambda column, seconds: (
        f"to_char(({column})::timestamptz AT TIME ZONE 'UTC'"
        f' + make_interval(secs => {seconds}), \'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"\')'
    ),
    "new_id": lambda column: f"RETURNING {column}",
    "hint": lambda _: "",
    "least": lambda *values: f"least({', '.join(values)})",
    "greatest": lambda *values: f"greatest({', '.join(values)})",
    "same": lambda left, right: f"({left} IS NOT DISTINCT FROM {right})",
}
"""How PostgreSQL writes the fragments of the common text."""


def _schema() -> Iterator[str]:
    """Yield the tables, keys and views of the store as PostgreSQL has them."""
    path = Path(tempfile.mkdtemp()) / "schema.db"
    make_database(path)
    with closing(sqlite3.connect(path)) as connection:
        named = "SELECT name FROM sqlite_master WHERE type = 'table'"
        for (table,) in connection.execute(named).fetchall():
            if not table.startswith(("sqlite_", "search_index")):
                yield from _table(connection, table)
        views = "SELECT sql FROM sqlite_master WHERE type = 'view' ORDER BY rowid"
        for (sql,) in connection.execute(views):
            yield sql.replace("IS NOT '", "IS DISTINCT FROM '")


def _table(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    columns = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
    lines = [
        f'"{name}" {_TYPES.get(kind, "text")}'
        + (" GENERATED BY DEFAULT AS IDENTITY" if kind == "INTEGER" and key else "")
        for _, name, kind, _, _, key in columns
    ]
    keys = [f'"{name}"' for *_, name, _, _, _, key in columns if key]
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(keys)})")
    yield f'CREATE TABLE "{table}" ({", ".join(lines)})'
    unique = (
        "SELECT m.sql FROM pragma_index_list(?) l JOIN sqlite_master m"
        ' ON m.name = l.name WHERE l."unique" AND m.sql IS NOT NULL'
    )
    yield from (sql for (sql,) in connection.execute(unique, (table,)))
