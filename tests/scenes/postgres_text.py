"""Prepares all SQL statements of a test run on a real PostgreSQL server."""

from __future__ import annotations

import json
import os
import re
import sys

import psycopg

from backhaul.store.postgres.dialect import FRAGMENTS, schema
from backhaul.store.sql.dialect import render
from backhaul.store.sql.schema import STATEMENTS
from backhaul.store.sqlite import connections
from backhaul.store.sqlite.dialect import rendered
from scenes import leftovers
from scenes.postgres import postgres
from scenes.statements_of_sqlite import SQLITE_ONLY

TEXT = "/backhaul/store/sql/"
"""The code whose statements must run on every engine."""
_VALUE = re.compile(r"'(?:[^']|'')*'|::\w+|:([a-z_]\w*)|\?(\d*)", re.IGNORECASE)
_UNKNOWN = re.compile(r"could not determine data type of parameter \$(\d+)")
_SKIPPED = ("PRAGMA", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "EXPLAIN")


class Recorder:
    """Replaces `connections.rendered`, and records the statements of the store."""

    def __init__(self) -> None:
        self._rendered = rendered
        self._seen: dict[str, str] = {}

    def __call__(self, sql: str) -> str:
        if sql not in self._seen:
            caller = sys._getframe(2).f_code.co_filename
            self._seen[sql] = caller.partition(TEXT)[2]
        return self._rendered(sql)

    def install(self) -> None:
        """Start to record in this process."""
        vars(connections)["rendered"] = self

    def keep(self) -> None:
        """Write the recorded statements to the session's folder."""
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
        for statement in schema(STATEMENTS):
            connection.execute(statement.encode())
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
    """Return the entry of `SQLITE_ONLY` that matches a statement, if any."""
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
    """Return a statement with `$1`, `$2` in place of its parameters."""
    names: dict[str, int] = {}

    def replace(match: re.Match[str]) -> str:
        if match[1] is None and match[2] is None:
            return match[0]
        name = match[1] or f"?{match[2] or len(names) + 1}"
        return f"${names.setdefault(name, len(names) + 1)}"

    return _VALUE.sub(replace, sql)
