"""Rows as CSV, JSON or JSON lines, to a stream or whole into a file."""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Format(StrEnum):
    """How rows are written."""

    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"


def chosen(as_csv: bool, as_json: bool, as_jsonl: bool) -> Format | None:
    """Return the one format asked for, if any."""
    flags = {Format.CSV: as_csv, Format.JSON: as_json, Format.JSONL: as_jsonl}
    wanted = [form for form, is_wanted in flags.items() if is_wanted]
    if len(wanted) > 1:
        raise BackhaulError("choose one of --csv, --json and --jsonl")
    return wanted[0] if wanted else None


def write(
    form: Format,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    stream: TextIO,
) -> int:
    """Write rows as they come; return how many. Raises BackhaulError."""
    if form is not Format.CSV:
        _check_names(columns)
    return _WRITERS[form](columns, rows, stream)


def _check_names(columns: Sequence[str]) -> None:
    """Refuse names that an object could hold once only."""
    repeated = [name for name, times in Counter(columns).items() if times > 1]
    if repeated:
        raise BackhaulError(
            f"several columns are called {', '.join(repeated)}, and an object has room"
            " for one: give each a name of its own with AS, or take --csv"
        )


def cell(value: object) -> object:
    """Return what stands in a CSV cell: text can never be taken for a formula.

    A number stays one: -5 is a quantity. Text that begins like a formula gets an
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
def output(file: Path | None) -> Iterator[TextIO]:
    """Open where to write: standard output, or a file that appears whole or not at all.

    The file can be read by its owner only: it may hold people's addresses. A device or
    a pipe is written to as it is: nothing may take the place of /dev/null. Raises
    BackhaulError where it cannot be written, PermissionError where it may not.
    """
    if file is None:
        yield sys.stdout
        return
    try:
        with _piping(file) if _flows(file) else _replacing(file) as stream:
            yield stream
    except PermissionError:
        raise  # has an exit code of its own
    except OSError as error:
        hint = "; make the folder" if isinstance(error, FileNotFoundError) else ""
        problem = f"{file}: cannot be written: {error.strerror}{hint}"
        raise BackhaulError(problem) from None


def _flows(file: Path) -> bool:
    return file.is_char_device() or file.is_fifo()


def _piping(file: Path) -> TextIO:
    return file.open("w", encoding="utf-8", newline="")


@contextmanager
def _replacing(file: Path) -> Iterator[TextIO]:
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as stream:  # noqa: PTH123 - a handle
            yield stream
            stream.flush()
            os.fsync(handle)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
