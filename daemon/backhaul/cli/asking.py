"""`backhaul query` and `export`: the mirror in SQL, and as files."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from backhaul.cli import showing, writing_out
from backhaul.cli.context import ConfigOption, asker
from backhaul.cli.writing_out import Format
from backhaul.errors import Unusable
from backhaul.store.sqlite.asking import FILE, LONGEST_SECONDS, TABLE

PATIENCE_SECONDS = 2 * LONGEST_SECONDS
"""For a query that SQLite does not end at its own bound."""

CsvOption = Annotated[
    bool,
    typer.Option("--csv", help="Write CSV; text that looks like a formula gets a '."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write one JSON array.")]
JsonlOption = Annotated[bool, typer.Option("--jsonl", help="Write an object a line.")]


def query(
    sql: Annotated[
        str, typer.Argument(help="One statement that reads; - takes it from stdin.")
    ],
    config: ConfigOption = None,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
    as_jsonl: JsonlOption = False,
) -> None:
    """Ask the mirror in SQL (docs/mirror.md names its tables); it cannot be changed."""
    form = writing_out.chosen(as_csv, as_json, as_jsonl)
    statement = _read_stdin() if sql == "-" else sql
    with asker(config) as opened, _ended_after(PATIENCE_SECONDS):
        found = opened.ask(statement, TABLE if form is None else FILE)
    if found.withheld:
        showing.note(f"withheld, and shown as NULL: {', '.join(found.withheld)}")
    if form is not None:
        writing_out.write(form, found.columns, found.rows, sys.stdout)
        return
    showing.grid(found.rows, found.columns, "no rows")


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End the program if a query does not end by itself.

    SQLite cannot interrupt one call of a function, and instr() of two long values may
    take minutes. Until then the log of the database could not be taken up.
    """
    timer = threading.Timer(seconds, _end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end() -> None:
    said = f"stopped after {PATIENCE_SECONDS:.0f} s: one function call took too long\n"
    os.write(sys.stderr.fileno(), said.encode())
    os._exit(1)


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unusable(f"the statement on stdin is not UTF-8: {error}") from None


def export(
    table: Annotated[str, typer.Argument(help="A table or view of docs/mirror.md.")],
    config: ConfigOption = None,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
    as_jsonl: JsonlOption = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write to this file, whole or not at all; else to stdout."),
    ] = None,
) -> None:
    """Write a whole table, page by page: CSV, or what else is asked for."""
    form = writing_out.chosen(as_csv, as_json, as_jsonl) or Format.CSV
    with asker(config) as opened:
        columns = opened.columns(table)
        rows = chain.from_iterable(opened.pages(table))
        with writing_out.output(out) as stream:
            count = writing_out.write(form, columns, rows, stream)
    if out is not None:
        typer.echo(f"{count} rows of {table} in {out}", err=True)
