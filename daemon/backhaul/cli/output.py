"""Prints tables, records and JSON, and lays lines out for the terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import force_setattr, replace
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backhaul.core.clock import pause
from backhaul.observe.redaction import printable
from backhaul.store.shown_fields import fields, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import JustifyMethod


LABEL_WIDTH = 18
ARROW = "  run: "
_LEAST_SAID = 12
"""With less room for the sentence, its command gets a line of its own."""


class Line(Struct, frozen=True):
    """A label, a sentence and the command to type.

    `state` sets the color. Control characters are removed, because the texts may come
    from other systems.
    """

    label: str
    says: str
    type: str = ""
    state: str = ""

    def __post_init__(self) -> None:
        for name in ("label", "says", "type"):
            force_setattr(self, name, printable(getattr(self, name)))


class Section(Struct, frozen=True):
    """Lines of one kind; `all_of` is the command that lists all of them.

    Urgent sections are shortened last.
    """

    lines: list[Line]
    all_of: str = ""
    urgent: bool = False


def fit(sections: list[Section], width: int, height: int) -> list[Line]:
    """Return as many lines as fit the height, each cut to the width.

    The longest section is shortened first. A command is never cut: it moves to a line
    of its own if it leaves no room for the sentence.
    """
    kept = [len(section.lines) for section in sections]
    while len(shown := _shown(sections, kept, width)) > height:
        longest = _longest(sections, kept)
        if longest is None:
            break
        kept[longest] -= 1
    return shown


def _longest(sections: list[Section], kept: list[int]) -> int | None:
    """Return the section to shorten next; each keeps its first line."""
    able = [place for place, number in enumerate(kept) if number > 1]
    patient = [place for place in able if not sections[place].urgent]
    return max(patient or able, key=lambda place: kept[place], default=None)


def _shown(sections: list[Section], kept: list[int], width: int) -> list[Line]:
    shown: list[Line] = []
    for section, number in zip(sections, kept, strict=True):
        lines = section.lines[:number]
        if left := len(section.lines) - number:
            lines.append(Line("", f"and {left} more", section.all_of))
        for line in lines:
            shown += _within(line, width)
    return shown


def _within(line: Line, width: int) -> list[Line]:
    label, room = cut(line.label, LABEL_WIDTH), width - LABEL_WIDTH - 1
    beside = room - len(ARROW) - len(line.type) if line.type else room
    if beside >= min(_LEAST_SAID, cell_len(line.says)):
        return [replace(line, label=label, says=cut(line.says, beside))]
    return [Line(label, cut(line.says, room), "", line.state), Line("", "", line.type)]


def cut(text: str, width: int) -> str:
    """Return the text, or as much of it as fits, followed by an ellipsis."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)) + "…"


def packed(pieces: list[str], width: int, between: str = "; ") -> list[str]:
    """Return the pieces joined into as few lines as possible."""
    lines: list[str] = []
    for piece in pieces:
        if lines and len(lines[-1]) + len(between + piece) <= width:
            lines[-1] += between + piece
        else:
            lines.append(piece)
    return lines


_COLORS = {
    "parked": "bold red",
    "rejected": "red",
    "quarantined": "red",
    "uncertain": "yellow",
    "waiting": "yellow",
    "applied": "green",
    "folded": "green",
    "confirmed": "green",
    "fail": "bold red",
    "warn": "yellow",
    "ok": "green",
}
_USUAL_WIDTH = 80
"""Columns of a usual terminal."""
_NAMES = {"job", "store", "state", "kind", "topic", "fingerprint", "name"}


def json(document: object) -> None:
    """Print one JSON document."""
    typer.echo(msgspec.json.format(msgspec.json.encode(plain(document)), indent=2))


def json_line(document: object) -> None:
    """Print one JSON document on one line."""
    typer.echo(msgspec.json.encode(plain(document)))


def table(
    records: Sequence[Mapping[str, Any] | Struct], columns: Sequence[str], none: str
) -> None:
    """Print records as a table, or the text `none` if there are no records.

    A column that is empty in every row is left out, to save room for the others.
    """
    console = _console()
    rows = [fields(each) if isinstance(each, Struct) else each for each in records]
    if not rows:
        console.print(none)
        return
    filled = [c for c in columns if any(row[c] not in (None, "") for row in rows)]
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in filled:
        # A wrapped name cannot be copied, so only prose wraps.
        whole = console.width >= _USUAL_WIDTH and column in _NAMES
        fixed = _is_time(column) or column == "id" or whole
        shown.add_column(_heading(column), overflow="fold", no_wrap=fixed)
    for row in rows:
        shown.add_row(*(_cell(_short(column, row[column])) for column in filled))
    console.print(shown)


def print_list(
    rows: Sequence[Mapping[str, object] | Struct],
    columns: tuple[str, ...],
    none: str,
    as_json: bool,
) -> None:
    """Print a table, or JSON; `none` is the text for no rows."""
    if as_json:
        json(rows)
    else:
        table(rows, columns, none)


def follow(
    read: Callable[[int], Sequence[Struct]],
    columns: Sequence[str],
    *,
    shown: int,
    as_json: bool,
) -> None:
    """Print the last `shown` rows, then each that is new or has another state.

    `read` returns as many of the newest rows as it is asked for, the newest first.
    Only Ctrl-C ends it.
    """
    lines = _FollowedLines(columns)
    note("new rows appear below; Ctrl-C ends this")
    for rows in changes(read, shown):
        if as_json:
            for row in rows:
                json_line(row)
        else:
            lines.print(rows)


def changes(
    read: Callable[[int], Sequence[Struct]], shown: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield the last `shown` rows, then those that are new or have another state.

    The oldest row comes first. Without changes, an empty list comes from time to time.
    """
    rows = [fields(each) for each in read(max(shown, FOLLOWED_ROWS))]
    known = {row["id"]: row.get("state") for row in rows[shown:]}
    while True:
        yield [row for row in reversed(rows) if has_changed(row, known)]
        known = {row["id"]: row.get("state") for row in rows}
        pause(FOLLOW_SECONDS)
        rows = _back_to(known, read)


def has_changed(row: Mapping[str, Any], known: Mapping[object, object]) -> bool:
    """Return whether a row is new, or has another state than the known one."""
    return row["id"] not in known or known[row["id"]] != row.get("state")


def _back_to(
    known: Mapping[object, object], read: Callable[[int], Sequence[Struct]]
) -> list[dict[str, Any]]:
    """Read the newest rows, back to one that is known, however many are new."""
    limit = FOLLOWED_ROWS
    while True:
        rows = [fields(each) for each in read(limit)]
        if len(rows) < limit or rows[-1]["id"] in known:
            return rows
        limit *= 2


FOLLOWED_ROWS = 200
"""Rows whose state is watched."""
FOLLOW_SECONDS = 0.5


class _FollowedLines:
    """Prints rows as they come; a column widens when a longer value comes."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._widths = {column: len(_heading(column)) for column in columns}
        self._is_first = True

    def print(self, rows: Sequence[Mapping[str, Any]]) -> None:
        console = _console(soft_wrap=True)
        shown = [{c: _cell(_short(c, row[c])) for c in self._widths} for row in rows]
        for cells in shown:
            for column, cell in cells.items():
                self._widths[column] = max(self._widths[column], cell.cell_len)
        if self._is_first and rows:
            heads = {column: Text(_heading(column)) for column in self._widths}
            console.print(self._line(heads, console, "dim"))
            self._is_first = False
        for cells in shown:
            console.print(self._line(cells, console))

    def _line(self, cells: dict[str, Text], console: Console, style: str = "") -> Text:
        line = Text(style=style)
        for column, cell in cells.items():
            padded = cell.copy()
            padded.pad_right(self._widths[column] + 2 - cell.cell_len)
            line.append_text(padded)
        line.rstrip()
        if console.is_terminal:
            line.truncate(console.width, overflow="ellipsis")
        return line


def _heading(column: str) -> str:
    name = column.replace("_", " ")
    return f"{name.removesuffix(' at')} (UTC)" if _is_time(column) else name


def grid(rows: Sequence[Sequence[Any]], columns: Sequence[str], none: str) -> None:
    """Print rows unchanged: numbers right-aligned, no column left out or renamed."""
    console = _console()
    if not rows:
        console.print(none)
        return
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        numbers = all(isinstance(row[place], int | float | None) for row in rows)
        justify: JustifyMethod = "right" if numbers else "left"
        shown.add_column(Text(printable(column)), overflow="fold", justify=justify)
    for row in rows:
        shown.add_row(*map(_cell, row))
    console.print(shown)


def _is_time(column: str) -> bool:
    return column == "at" or column.endswith(("_at", "_since"))


def _short(column: str, value: object) -> object:
    """Leave out the year and fractions of a second, so that rows fit a terminal."""
    if _is_time(column) and isinstance(value, str):
        return value[5:19].replace("T", " ")
    return value


def timeline(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print each entry with time, subject and state; long details go below it."""
    console = _console(soft_wrap=True)
    subjects = [printable(f"{row['what']} {row['name']}") for row in rows]
    widest = max(map(len, subjects), default=0)
    for row, subject in zip(rows, subjects, strict=True):
        when = str(row["at"])[5:23].replace("T", " ")
        line = Text(f"{when}  ", style="dim").append(
            f"{subject:<{widest}}  ", style="not dim"
        )
        line.append_text(_cell(row["state"], dim=False).copy())
        detail = printable(str(row["detail"] or ""))
        if detail and len(line) + 2 + len(detail) <= console.width:
            line.append(f": {detail}", style="not bold not dim default")
            detail = ""
        console.print(line)
        for part in textwrap.wrap(detail, max(console.width - len(_INDENT), 20)):
            console.print(f"{_INDENT}{part}")


_INDENT = " " * 20


def labelled(label: str, text: str, width: int) -> None:
    """Print a label, which has `width` columns, and a text beside it.

    On a terminal the text is wrapped between words, under its own beginning.
    """
    console, parts = _console(soft_wrap=True), [printable(text)]
    if console.is_terminal:
        columns = max(console.width - width, 20)
        parts = textwrap.wrap(parts[0], columns, break_on_hyphens=False)
    for number, part in enumerate(parts or [""]):
        console.out(f"{'' if number else label:<{width}}{part}", highlight=False)


def finding(state: str, text: str) -> None:
    """Print a state with a sentence beside it, wrapped under its own beginning."""
    console = _console(soft_wrap=True)
    width = max(min(console.width, _USUAL_WIDTH) - _STATE_WIDTH, 20)
    parts = textwrap.wrap(
        printable(text), width, break_long_words=False, break_on_hyphens=False
    )
    for number, part in enumerate(parts):
        line = Text(
            f"{'' if number else state:<{_STATE_WIDTH}}", _COLORS.get(state, "")
        )
        console.print(line.append(part, style="not bold not dim default"))


_STATE_WIDTH = 6


def note(text: str) -> None:
    """Print a remark on stderr."""
    _console(stderr=True).print(text, style="dim")


def record(
    fields: Iterable[tuple[str, object]],
    *,
    exact: bool = False,
    most_json_lines: int | None = None,
) -> None:
    """Print one object: a name and a value per line, long JSON on indented lines.

    `exact` prints JSON as it is. `most_json_lines` shortens it.
    """
    console = _console(soft_wrap=True)
    for name, value in fields:
        line = Text(f"{name.replace('_', ' '):<22}", style="dim")
        if exact or (lines := _json_lines(value)) is None:
            console.print(line.append_text(_cell(value, dim=False)))
            continue
        line.rstrip()
        console.print(line)
        for each in lines[:most_json_lines]:
            console.print(Text(f"  {printable(each)}"))
        if left := len(lines[most_json_lines or len(lines) :]):
            console.print(Text(f"  … and {left} more lines; see --json", style="dim"))


_RECORD_WIDTH = _USUAL_WIDTH - 22


def _json_lines(value: object) -> list[str] | None:
    """Return indented lines of a JSON object or array; None if it is short or none.

    Only white space changes: numbers and escapes remain as they are.
    """
    text = _decoded(value) if isinstance(value, str | bytes) else ""
    if len(text) <= _RECORD_WIDTH or not text.startswith(("{", "[")):
        return None
    try:
        return msgspec.json.format(text, indent=2).splitlines()
    except (msgspec.DecodeError, UnicodeError):
        return None


def terminal() -> tuple[int, int] | None:
    """Return columns and lines of the terminal, or None without a terminal."""
    console = _console()
    return (console.width, console.height) if console.is_terminal else None


def screen(sections: list[Section], size: tuple[int, int] | None) -> None:
    """Print the sections to fit a terminal of that size, or in full without one."""
    console = _console(soft_wrap=True)
    if size is None:
        lines = [line for section in sections for line in section.lines]
    else:
        width, height = size
        lines = fit(sections, width, height - 1)
    for line in lines:
        console.print(_styled(line))


def redraw(sections: list[Section], size: tuple[int, int] | None) -> None:
    """Print the sections over what the terminal shows, without flicker."""
    console = _console(soft_wrap=True)
    width, height = size or (_USUAL_WIDTH, 24)
    erase_line, erase_below = "\x1b[K", "\x1b[J"
    console.file.write("\x1b[H")
    for line in fit(sections, width, height - 1):
        console.print(_styled(line), end=f"{erase_line}\n")
    console.file.write(erase_below)
    console.file.flush()


def _styled(line: Line) -> Text:
    color = _COLORS.get(line.state, "")
    text = Text()
    if line.label or line.says:
        text.append(f"{line.label:<{LABEL_WIDTH}} ", style=color or "dim")
        text.append(line.says, style=color)
    if line.type:
        text.append(f"{ARROW}{line.type}")
    return text


def _console(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """Return a console that never interprets text as markup."""
    return Console(
        stderr=stderr, soft_wrap=soft_wrap, highlight=False, markup=False, emoji=False
    )


def _cell(value: object, *, dim: bool = True) -> Text:
    text = "" if value is None else printable(_decoded(value))
    return Text(text, style=_COLORS.get(text, "" if dim else "not dim"))


def _decoded(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
