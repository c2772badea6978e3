"""`backhaul query` and `export`: the mirror in SQL, and as files."""

import sys
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from backhaul.cli import showing, writing_out
from backhaul.cli.context import ConfigOption, asker
from backhaul.cli.writing_out import Format
from backhaul.errors import Unusable

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
    with asker(config) as opened:
        found = opened.ask(_read_stdin() if sql == "-" else sql)
    if form is not None:
        writing_out.write(form, found.columns, found.rows, sys.stdout)
        return
    showing.grid(found.rows, found.columns, "no rows")


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
