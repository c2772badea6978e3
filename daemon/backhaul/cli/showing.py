"""How commands print: a table for people, JSON for programs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backhaul.cli.fitting import ARROW, LABEL_WIDTH, fit
from backhaul.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import JustifyMethod

    from backhaul.cli.fitting import Line, Section

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
"""Columns of a terminal that nobody made smaller."""
_NAMES = {"job", "store", "state", "kind", "topic", "fingerprint", "name"}


def json(document: object) -> None:
    """Print one JSON document."""
    typer.echo(msgspec.json.format(msgspec.json.encode(_plain(document)), indent=2))


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], none: str) -> None:
    """Print rows as a table, or `none` in words where there are none.

    A column that is empty in every row is left out: it would take room from the others.
    """
    console = _console()
    if not rows:
        console.print(none)
        return
    told = [c for c in columns if any(row[c] not in (None, "") for row in rows)]
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in told:
        # A name broken into pieces can be neither read nor copied; prose gives way.
        whole = console.width >= _USUAL_WIDTH and column in _NAMES
        fixed = _is_time(column) or column == "id" or whole
        shown.add_column(_heading(column), overflow="fold", no_wrap=fixed)
    for row in rows:
        shown.add_row(*(_cell(_short(column, row[column])) for column in told))
    console.print(shown)


def _heading(column: str) -> str:
    name = column.replace("_", " ")
    return f"{name.removesuffix(' at')} (UTC)" if _is_time(column) else name


def grid(rows: Sequence[Sequence[Any]], columns: Sequence[str], none: str) -> None:
    """Print rows as they are: numbers to the right, nothing left out or renamed."""
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
    """Leave out the year and what is below a second: a row should fit a terminal."""
    if _is_time(column) and isinstance(value, str):
        return value[5:19].replace("T", " ")
    return value


def timeline(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what happened: when, what, how it came out; why stands below if long."""
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


def finding(state: str, text: str) -> None:
    """Print a state and a sentence that fits beside it, wrapped below itself."""
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
    """Print what one should know besides."""
    _console(stderr=True).print(text, style="dim")


def record(fields: Iterable[tuple[str, object]]) -> None:
    """Print one thing: a name and a value per line."""
    console = _console(soft_wrap=True)
    for name, value in fields:
        line = Text(f"{name.replace('_', ' '):<22}", style="dim")
        console.print(line.append_text(_cell(value, dim=False)))


def terminal() -> tuple[int, int] | None:
    """Return columns and lines of the terminal that is printed to, if it is one."""
    console = _console()
    return (console.width, console.height) if console.is_terminal else None


def screen(sections: list[Section], size: tuple[int, int] | None) -> None:
    """Print lines as they fit a terminal of that size, or whole where it is none."""
    console = _console(soft_wrap=True)
    if size is None:
        lines = [line for section in sections for line in section.lines]
    else:
        width, height = size
        lines = fit(sections, width, height - 1)
    for line in lines:
        console.print(_told(line))


def _told(line: Line) -> Text:
    color = _COLORS.get(line.state, "")
    text = Text()
    if line.label or line.says:
        text.append(f"{line.label:<{LABEL_WIDTH}} ", style=color or "dim")
        text.append(line.says, style=color)
    if line.type:
        text.append(f"{ARROW}{line.type}")
    return text


def _console(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """Return a terminal that takes text for what it is, never for markup."""
    return Console(
        stderr=stderr, soft_wrap=soft_wrap, highlight=False, markup=False, emoji=False
    )


def _cell(value: object, *, dim: bool = True) -> Text:
    text = "" if value is None else printable(_decoded(value))
    return Text(text, style=_COLORS.get(text, "" if dim else "not dim"))


def _decoded(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return _decoded(value) if isinstance(value, bytes) else value
