"""Decisions about many commands or deliveries, after a preview."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from backhaul.cli import output
from backhaul.cli.context import ConfigOption, reader
from backhaul.cli.daemon_client import change, who
from backhaul.store.bulk import BulkVerb, Preview, preview

if TYPE_CHECKING:
    from backhaul.store.filters import Filter

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Show what would be changed, and change nothing."),
]


class How(Struct, frozen=True):
    """The options of a decision about many rows."""

    config: ConfigOption
    reason: str
    as_json: bool
    yes: bool
    dry_run: bool


def decide_many(rows: str, verb: BulkVerb, wanted: Filter, how: How) -> None:
    """Show what a decision does, ask for confirmation, and carry it out.

    `rows` is `commands` or `deliveries`.
    """
    with reader(how.config) as known:
        shown = preview(verb, known.bulk_selected(rows, wanted))
    if how.dry_run or not shown.changed:
        print_preview(shown, how.as_json)
        return
    if not how.yes:
        confirm(verb.value, shown)
    asked = {
        "verb": verb.value,
        "where": wanted.in_words(),
        "expected": shown.stores,
        "who": who(),
        "reason": how.reason,
    }
    _print_done(change(how.config, f"{rows}/change", asked), how.as_json)


def print_preview(shown: Preview, as_json: bool) -> None:
    """Print what will happen."""
    if as_json:
        output.json(shown)
    else:
        typer.echo("\n".join(shown.lines) or "no row matches")


def confirm(verb: str, shown: Preview) -> None:
    """Show what will happen, and ask for confirmation."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "without a terminal, the command cannot ask for confirmation; to change"
            f" {shown.changed:,} rows, add --yes, or --dry-run to see them"
        )
    print_preview(shown, as_json=False)
    typer.confirm(f"{verb.capitalize()} {shown.changed:,} rows?", abort=True)


def _print_done(done: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.json(done)
        return
    for each in done["states"]:
        typer.echo(f"{each['rows']:,} {each['state']}")
    if done["unchanged"]:
        typer.echo(f"{done['unchanged']:,} could not be changed:")
    for each in done["problems"]:
        typer.echo(f"  {str(each['row'])[:8]}: {each['problem']}")
