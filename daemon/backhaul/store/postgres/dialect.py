"""How PostgreSQL writes the common text: fragments, values, and the names of types."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from math import isfinite
from struct import pack
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types import numeric

from backhaul.store.sql.dialect import Fragments, render

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from psycopg.abc import AdaptContext, Buffer, DumperKey
    from psycopg.adapt import PyFormat


def _steps(path: str) -> str:
    """Return the path of a JSON value such as `$.a[0].b` as PostgreSQL's `a,0,b`."""
    return re.sub(r"[.\[\]]+", ",", path.removeprefix("$")).strip(",")


def _member(column: str, path: str) -> str:
    return f"(({column})::json #>> '{{{_steps(path)}}}')"


FRAGMENTS: Fragments = {
    "next_command_number": lambda _: (
        "nextval(pg_get_serial_sequence('commands', 'seq'))"
    ),
    "member": _member,
    "number": lambda column, path: f"{_member(column, path)}::bigint",
    "flag": lambda column, path: f"coalesce({_member(column, path)}::boolean, false)",
    "has": lambda column, path: f"({_member(column, path)} IS NOT NULL)",
    "elements": lambda column, path: (
        "json_array_elements_text(coalesce(("
        f"({column})::json #> '{{{_steps(path)}}}'), '[]'))"
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
    "batch": lambda _: "",
    "hint": lambda _: "",
    "least": lambda *values: f"least({', '.join(values)})",
    "greatest": lambda *values: f"greatest({', '.join(values)})",
    "same": lambda left, right: f"({left} IS NOT DISTINCT FROM {right})",
}
_VALUE = re.compile(
    r"""'(?:[^']|'')*'|"[^"]*"|::\w+|:([A-Za-z_]\w*)|(\?)|(%)""",
)


@cache
def with_values(sql: str) -> str:
    """Return a statement of the common text with psycopg's places for its values.

    `:name` becomes `%(name)s`, `?` becomes `%s`, and any other `%` is doubled.
    """

    def place(match: re.Match[str]) -> str:
        name, question, percent = match.groups()
        if name:
            return f"%({name})s"
        if question:
            return "%s"
        return "%%" if percent else match[0].replace("%", "%%")

    return _typed(_VALUE.sub(place, render(sql, FRAGMENTS)))


# A value that is only compared with NULL has no type; such values are texts here.
_MISSING = re.compile(r"(%s|%\(\w+\)s|\$\d+)(?=\s+IS\s+(?:NOT\s+)?NULL)")


def _typed(text: str) -> str:
    return _MISSING.sub(r"\1::text", text)


_ONE_ROW = re.compile(
    r"\s*(?:(INSERT INTO [^()]+\([^()]+\))\s*VALUES\s*\((?P<row>.*?)\)"
    r"(?P<conflict>\s*ON CONFLICT.*)?"
    r"|(?P<update>UPDATE \w+ SET .*?)(?P<which>\bWHERE\b.*)"
    r"|(?P<delete>DELETE FROM \w+)\s*(?P<whose>\bWHERE\b.*))\s*",
    re.DOTALL,
)


@cache
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return a statement with `$1`, `$2` for its values, and their names in order.

    A value without a name has an empty one.
    """
    names: list[str] = []

    def place(match: re.Match[str]) -> str:
        name, question, _ = match.groups()
        if not name and not question:
            return match[0]
        if not name or name not in names:
            names.append(name or "")
        return f"${names.index(name) + 1 if name else len(names)}"

    return _typed(_VALUE.sub(place, render(sql, FRAGMENTS))), tuple(names)


@cache
def batched(sql: str, types: tuple[str, ...]) -> bytes:
    """Return a statement for one row as one for a column of values for each `$n`.

    It is a plain INSERT … VALUES, UPDATE or DELETE; `types` are those of its values.
    """
    text, _ = numbered(sql)
    found = _ONE_ROW.fullmatch(text)
    if found is None:
        raise ValueError(f"cannot run for a batch of rows: {sql}")
    columns = ", ".join(f"%b::{each}[]" for each in types)
    names = ", ".join(f"p{n}" for n, _ in enumerate(types, 1))
    rows = f"unnest({columns}) AS given({names})"
    if row := found["row"]:
        conflict = found["conflict"] or ""
        text = f"{found[1]} SELECT {row} FROM {rows} {conflict}"  # noqa: S608 - ours
    elif update := found["update"]:
        text = f"{update} FROM {rows} {found['which']}"
    else:
        text = f"{found['delete']} USING {rows} {found['whose']}"
    return re.sub(r"\$(\d+)", r"given.p\1", text).encode()


_TYPES = (
    (r"\bINTEGER PRIMARY KEY\b", "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
    (r"\bINTEGER\b", "bigint"),
    (r"\bBLOB\b", "bytea"),
    (r"\bREAL\b", "double precision"),
    (r"\bTEXT\b", 'text COLLATE "C"'),
    (r"\) WITHOUT ROWID\b", ")"),
    (r"\binstr\(", "strpos("),
    (r"(\w+) COLLATE NOCASE", r"lower(\1)"),
    (r"\bIS NOT '", "IS DISTINCT FROM '"),
)


def schema(statements: tuple[str, ...]) -> Iterator[str]:
    """Yield statements of `store/sql/schema` as PostgreSQL creates the same objects."""
    for statement in statements:
        text = render(statement, FRAGMENTS)
        if "CREATE VIEW" not in text:
            for pattern, replacement in _TYPES:
                text = re.sub(pattern, replacement, text)
        yield re.sub(*_TYPES[-1], text)


# Every escape is matched, so that the second of two backslashes begins none.
_ESCAPE = re.compile(r"\\u0000|\\.", re.DOTALL)


def without_zeros(text: str) -> str:
    """Return a text or document with U+FFFD in place of each zero byte.

    No text of PostgreSQL may hold one. Its escape in a document goes too: each query
    that reads a member of the document would fail, and a query over many rows with it.
    """
    if "\\u0000" in text:
        text = _ESCAPE.sub(_without_zero, text)
    return text.replace("\0", "\ufffd")


def _without_zero(escape: re.Match[str]) -> str:
    return r"\ufffd" if escape[0] == r"\u0000" else escape[0]


def sendable(values: Any) -> Any:
    """Return the values of a statement with texts that PostgreSQL can hold."""
    if isinstance(values, dict):
        return dict(zip(values, sendable([*values.values()]), strict=True))
    return [without_zeros(v) if isinstance(v, str) else v for v in values]


_LARGEST = 2**63 - 1


class NumberDumper(Dumper):
    """Sends a number without its type, unless it is too large for a bigint."""

    def dump(self, obj: float) -> bytes:
        return repr(obj).encode()

    def quote(self, obj: float) -> Buffer:
        if not isfinite(obj):
            return super().quote(obj)  # a word in quotes
        return b" %s" % self.dump(obj)  # `-` before a sign would begin a comment

    def get_key(self, obj: float, format: PyFormat) -> DumperKey:
        return self.cls if abs(obj) <= _LARGEST else (self.cls, NumberDumper)

    def upgrade(self, obj: float, format: PyFormat) -> Dumper:
        return self if abs(obj) <= _LARGEST else LargeNumberDumper(self.cls)


class LargeNumberDumper(NumberDumper):
    """Sends a number that no bigint is equal to."""

    oid = psycopg.adapters.types["numeric"].oid


class YesNoDumper(Dumper):
    """Sends True as '1', which is a number or a boolean, as the place demands."""

    def dump(self, obj: bool) -> bytes:
        return b"1" if obj else b"0"


class RefusingDumper(Dumper):
    """Refuses what no column holds. The driver would send text that means it."""

    def dump(self, obj: object) -> NoReturn:
        raise psycopg.ProgrammingError(f"no column holds a {type(obj).__name__}")


class YesNoLoader(Loader):
    """Reads a boolean as 1 or 0, as SQLite has it."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data) in {b"t", b"\x01"})


class YesNoBinaryLoader(YesNoLoader):
    format = Format.BINARY


class NumericLoader(Loader):
    """Reads a numeric value as a whole number where it is one."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


class NumericBinaryLoader(numeric.NumericBinaryLoader):
    def load(self, data: Buffer) -> Any:
        value = super().load(data)
        return int(value) if value == value.to_integral_value() else float(value)


class Column(list[Any]):
    """The values of one column for all rows of a batch, and their type."""

    def __init__(self, values: Iterable[Any], type_: str) -> None:
        super().__init__(values)
        self.type = type_


def _whole(values: list[Any]) -> list[bytes]:
    return [int(each).to_bytes(8, signed=True) for each in values]


def _real(values: list[Any]) -> list[bytes]:
    return [pack("!d", each) for each in values]


def _text(values: list[Any]) -> list[bytes]:
    together = "".join(values)
    if "\0" in together or "\\u0000" in together:
        values = [*map(without_zeros, values)]
    return [each.encode() for each in values]


def _bytes(values: list[Any]) -> list[bytes]:
    return values


_ELEMENTS = {
    "bigint": (20, _whole),
    "text": (25, _text),
    "bytea": (17, _bytes),
    "double precision": (701, _real),
}
"""The number of a type in PostgreSQL's catalog, and how it sends values."""
_NULL = b"\xff\xff\xff\xff", b""


class ColumnDumper(Dumper):
    """Sends a column as an array, in a tenth of the time of literals."""

    format = Format.BINARY

    def dump(self, obj: Column) -> bytes:
        number, dump = _ELEMENTS[obj.type]
        head = pack("!5i", 1, 1, number, len(obj), 1)
        given = dump([each for each in obj if each is not None])
        sizes = [len(each).to_bytes(4) for each in given]
        sent = iter([*zip(sizes, given, strict=True)])
        if len(given) < len(obj):
            sent = iter([_NULL if each is None else next(sent) for each in obj])
        return head + b"".join(chain.from_iterable(sent))


_DUMPERS: tuple[tuple[type, type[Dumper]], ...] = (
    (bool, YesNoDumper),
    (int, NumberDumper),
    (float, NumberDumper),
    (tuple, RefusingDumper),
    (list, RefusingDumper),
    (Column, ColumnDumper),
)
_LOADERS: tuple[tuple[str, type[Loader]], ...] = (
    ("bool", YesNoLoader),
    ("bool", YesNoBinaryLoader),
    ("numeric", NumericLoader),
    ("numeric", NumericBinaryLoader),
)


def adapt(connection: AdaptContext) -> None:
    """Let a connection send and read values as the common text has them."""
    if (adapters := connection.adapters) is not None:
        for kind, dumper in _DUMPERS:
            adapters.register_dumper(kind, dumper)
        for name, loader in _LOADERS:
            adapters.register_loader(name, loader)
