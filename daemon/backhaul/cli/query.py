"""`backhaul search`, `why`, `query` and `export`: questions to the mirror."""

from __future__ import annotations

import csv
import os
import sys
import tempfile
import threading
from collections import Counter
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import msgspec
import typer
from msgspec.structs import replace

from backhaul.cli import output
from backhaul.cli.context import (
    ConfigOption,
    JsonOption,
    LimitOption,
    console,
    reader,
)
from backhaul.cli.daemon_client import change
from backhaul.errors import BackhaulError, Unusable
from backhaul.maintenance.search_indexer import detail_of
from backhaul.store.export_and_query import FILE, LONGEST_SECONDS, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import ChangedObject, FoundObject, TimelineEntry


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Format(StrEnum):
    """How rows are written."""

    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"


def chosen(as_csv: bool, as_json: bool, as_jsonl: bool) -> Format | None:
    """Return the chosen format, if any. Raises BackhaulError for several."""
    flags = {Format.CSV: as_csv, Format.JSON: as_json, Format.JSONL: as_jsonl}
    formats = [form for form, is_set in flags.items() if is_set]
    if len(formats) > 1:
        raise BackhaulError("--csv, --json and --jsonl cannot be combined; choose one")
    return formats[0] if formats else None


def write(
    form: Format,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    stream: TextIO,
) -> int:
    """Write the rows and return how many there were. Raises BackhaulError."""
    if form is not Format.CSV:
        _check_names(columns)
    return _WRITERS[form](columns, rows, stream)


def _check_names(columns: Sequence[str]) -> None:
    """Refuse repeated column names, which a JSON object cannot hold."""
    repeated = [name for name, times in Counter(columns).items() if times > 1]
    if repeated:
        raise BackhaulError(
            "several columns of the result have the same name"
            f" ({', '.join(repeated)}), and JSON needs different names; rename the"
            " columns with AS, or use --csv"
        )


def cell(value: object) -> object:
    """Return the value of a CSV cell that no spreadsheet runs as a formula.

    Numbers stay numbers: -5 is a quantity. Text that begins like a formula gets an
    apostrophe, which spreadsheets hide (OWASP, CSV injection).
    """
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    if isinstance(text, str) and text.startswith(_FORMULA):
        return f"'{text}"
    return text


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]], stream: TextIO) -> int:
    count = 0
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(columns)
    for count, row in enumerate(rows, 1):  # noqa: B007 - the count is what is returned
        writer.writerow([cell(value) for value in row])
    return count


def _json(columns: Sequence[str], rows: Iterable[Sequence[Any]], stream: TextIO) -> int:
    count = 0
    stream.write("[")
    for count, row in enumerate(rows, 1):
        stream.write("\n" if count == 1 else ",\n")
        stream.write(_object(columns, row))
    stream.write("\n]\n" if count else "]\n")
    return count


def _jsonl(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], stream: TextIO
) -> int:
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - the count is what is returned
        stream.write(f"{_object(columns, row)}\n")
    return count


def _object(columns: Sequence[str], row: Sequence[Any]) -> str:
    named = {name: _plain(value) for name, value in zip(columns, row, strict=True)}
    return msgspec.json.encode(named).decode()


def _plain(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


_WRITERS: Mapping[Format, Callable[[Any, Any, TextIO], int]] = {
    Format.CSV: _csv,
    Format.JSON: _json,
    Format.JSONL: _jsonl,
}


@contextmanager
def open_output(file: Path | None, *, overwrite: bool = True) -> Iterator[TextIO]:
    """Open standard output, or a file that appears complete or not at all.

    Only the owner can read the file, because it may hold addresses. A device or a pipe
    is written to directly, so that /dev/null is not replaced. Raises BackhaulError if
    the file cannot be written, or exists and must not be overwritten; PermissionError
    if the user lacks the right to write it.
    """
    if file is None:
        yield sys.stdout
        return
    flows = _flows(file)
    if not (overwrite or flows) and os.path.lexists(file):
        raise BackhaulError(_EXISTS.format(file))
    try:
        with _piping(file) if flows else _whole(file, overwrite=overwrite) as stream:
            yield stream
    except FileExistsError:
        raise BackhaulError(_EXISTS.format(file)) from None
    except PermissionError:
        raise  # has an exit code of its own
    except OSError as error:
        hint = "; create the folder" if isinstance(error, FileNotFoundError) else ""
        problem = f"{file}: cannot be written: {error.strerror}{hint}"
        raise BackhaulError(problem) from None


def _flows(file: Path) -> bool:
    return file.is_char_device() or file.is_fifo()


def _piping(file: Path) -> TextIO:
    return file.open("w", encoding="utf-8", newline="")


_EXISTS = "{} exists already, and is not overwritten; choose another name"


@contextmanager
def _whole(file: Path, *, overwrite: bool) -> Iterator[TextIO]:
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as stream:  # noqa: PTH123 - a handle
            yield stream
            stream.flush()
            os.fsync(handle)
        if not overwrite:
            _link(Path(name), file)
        else:
            Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _link(finished: Path, file: Path) -> None:
    """Give a finished file its name; unlike a rename, a link replaces no file."""
    try:
        os.link(finished, file)
    except FileExistsError:
        raise
    except OSError:  # some file systems have no links
        finished.replace(file)
    else:
        finished.unlink()


PATIENCE_SECONDS = 2 * LONGEST_SECONDS
"""The limit for a query that SQLite does not stop at its own limit."""

CsvOption = Annotated[
    bool,
    typer.Option(
        "--csv",
        help="Print CSV. A text that looks like a spreadsheet formula gets a '"
        " in front.",
    ),
]
JsonArrayOption = Annotated[bool, typer.Option("--json", help="Print one JSON array.")]
JsonlOption = Annotated[
    bool, typer.Option("--jsonl", help="Print one JSON object per line.")
]


def query(
    sql: Annotated[
        str,
        typer.Argument(
            help="One statement that reads: SELECT, VALUES, WITH, EXPLAIN or PRAGMA."
            " Write - to read the statement from standard input."
        ),
    ],
    config: ConfigOption = None,
    as_csv: CsvOption = False,
    as_json: JsonArrayOption = False,
    as_jsonl: JsonlOption = False,
) -> None:
    """Run a read-only SQL query; docs/mirror.md lists the tables and columns.

    This command works on SQLite only. For a PostgreSQL database, use `psql`.
    """
    form = chosen(as_csv, as_json, as_jsonl)
    statement = _read_stdin() if sql == "-" else sql
    with console(config) as opened, _ended_after(PATIENCE_SECONDS):
        found = opened.query(statement, TABLE if form is None else FILE)
    if found.withheld:
        output.note(f"withheld, and shown as NULL: {', '.join(found.withheld)}")
    if form is not None:
        write(form, found.columns, found.rows, sys.stdout)
        return
    output.grid(found.rows, found.columns, "no rows")


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End the program if a query runs too long.

    SQLite cannot interrupt a single function call, and instr() of two long values may
    take minutes. Meanwhile the daemon could not checkpoint the write-ahead log.
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
    table: Annotated[str, typer.Argument(help="A table or view from docs/mirror.md.")],
    config: ConfigOption = None,
    as_csv: CsvOption = False,
    as_json: JsonArrayOption = False,
    as_jsonl: JsonlOption = False,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write. Default: standard output."),
    ] = None,
) -> None:
    """Export a whole table or view as CSV, JSON or JSON lines."""
    form = chosen(as_csv, as_json, as_jsonl) or Format.CSV
    with console(config) as opened:
        columns = opened.columns(table)
        rows = chain.from_iterable(opened.pages(table))
        with open_output(out) as stream:
            count = write(form, columns, rows, stream)
    if out is not None:
        typer.echo(f"{count} rows of {table} in {out}", err=True)


class SearchKind(StrEnum):
    """The kinds of objects in the index."""

    ORDER = "order"
    PRODUCT = "product"
    CUSTOMER = "customer"


def search(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="Words to find, or the beginnings of words."),
    ] = None,
    config: ConfigOption = None,
    kind: Annotated[
        SearchKind | None, typer.Option(help="Find only this kind.")
    ] = None,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Rebuild the search index in the background."),
    ] = False,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Find orders, products and customers that contain all the words.

    The best matches come first. If more than 1,000 match, those with the words
    in the title come first, and then the newest. Without words, list what
    changed last in the mirror.
    """
    if rebuild:
        done = change(config, "search/rebuild", {})
        if as_json:
            output.json(done)
        else:
            typer.echo("the index is being rebuilt; search says how much is left")
        return
    text = " ".join(words or ())
    if not text.strip():
        with reader(config) as known:
            latest = _latest_changes(known, kind, limit)
        columns = ("kind", "title", "store", "id")
        none = f"the mirror has no {kind}" if kind else "the mirror is empty"
        output.print_list(latest, columns, none, as_json)
        return
    with reader(config) as known:
        rows = known.search(text, kind, limit)
        behind = known.unindexed()
    output.print_list(
        rows, ("kind", "title", "found", "id"), f"nothing contains {text!r}", as_json
    )
    if behind and not as_json:
        output.note(f"{behind} changes are not indexed yet")


def _latest_changes(
    known: Reader, kind: SearchKind | None, limit: int
) -> list[ChangedObject]:
    """Return the objects that changed last, each once; stock counts as its product."""
    found: dict[tuple[str, str, str], ChangedObject] = {}
    before: int | None = None
    while len(found) < limit:
        rows = known.latest_changes(kind, limit, before)
        for row in rows:
            if row.kind == "level":
                row = replace(row, kind=SearchKind.PRODUCT.value)
            found.setdefault((row.kind, row.store, row.id), row)
        full = len(rows) == limit
        before = rows[-1].change if full else known.not_searched(before)
        if before is None:
            break
    return list(found.values())[:limit]


_HIDDEN = {"name", "product_id"}
_AWAITING = "awaiting_confirmation"


class WhyKind(StrEnum):
    """The kinds of objects with a timeline."""

    ORDER = "order"
    PRODUCT = "product"
    SKU = "sku"
    CUSTOMER = "customer"


def why(
    kind: Annotated[WhyKind, typer.Argument(help="The kind of object.")],
    name: Annotated[
        str,
        typer.Argument(
            help="Order number, product handle, SKU, customer's e-mail, or an id."
        ),
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an object's full history: events, records, commands and stock moves."""
    with reader(config) as known:
        found = known.find_objects(kind, name)
        timelines = [(each, _timeline(known.timeline(kind, each))) for each in found]
        searched = known.searched_in(kind)
    if not timelines:
        raise BackhaulError(
            f"the mirror has no {kind} {name!r}; Backhaul searched the {searched}."
            f" If the {kind} is new, perhaps its webhook has not arrived yet. To"
            " list the webhooks: backhaul events list"
        )
    if as_json:
        output.json([{**_shown(each), "timeline": rows} for each, rows in timelines])
        return
    for each, rows in timelines:
        _print_history(kind, each, rows)


def _shown(found: FoundObject) -> dict[str, Any]:
    return {"name": found.name, "store": found.store, "id": found.id, **found.facts}


def _timeline(entries: list[TimelineEntry]) -> list[dict[str, Any]]:
    """Return the entries; an event's has a summary of its body while that is stored."""
    return [
        {
            "at": each.at,
            "what": each.what,
            "name": each.name,
            "state": each.state,
            "detail": detail_of(each),
        }
        for each in entries
    ]


def _print_history(
    kind: WhyKind, found: FoundObject, rows: list[dict[str, Any]]
) -> None:
    known = _shown(found)
    if known.get(_AWAITING) is not None:
        known[_AWAITING] = "yes" if known[_AWAITING] else "no"
    facts = [(k, v) for k, v in known.items() if v is not None and k not in _HIDDEN]
    output.record([(kind.value, found.name), *facts, ("times", "UTC")])
    output.timeline(rows)
