"""`backhaul events` and `backhaul quarantine`: lists and decisions."""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
import typer

from backhaul.cli import output
from backhaul.cli.context import (
    ConfigOption,
    JsonOption,
    LimitOption,
    OptionalReason,
    ReasonOption,
    TimeOption,
    explainer,
)
from backhaul.cli.daemon_client import change, who
from backhaul.core.lifecycle import State
from backhaul.errors import BackhaulError
from backhaul.store.refolds import EventState, Selection

events = typer.Typer(no_args_is_help=True, help="What arrived and what became of it.")
quarantine = typer.Typer(no_args_is_help=True, help="What could not be used.")

StateOption = Annotated[State | None, typer.Option("--state", help="Only this state.")]
EventStateOption = Annotated[
    EventState | None, typer.Option("--state", help="Only this state.")
]


@events.command("list")
def list_events(
    config: ConfigOption = None,
    state: EventStateOption = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List events, the newest first."""
    with explainer(config) as known:
        rows = known.events(state, topic, limit)
    columns = ("id", "received_at", "topic", "about", "state", "detail")
    print_list(rows, columns, "no events", as_json)


@events.command("show")
def show_event(
    event: Annotated[int, typer.Argument(help="The event's number.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one event with its headers and its body as it came."""
    with explainer(config) as known:
        found = known.event(event)
    if found is None:
        raise BackhaulError(f"there is no event {event}; see: backhaul events list")
    _show(found, as_json)


@quarantine.command("list")
def list_quarantine(
    config: ConfigOption = None, limit: LimitOption = 20, as_json: JsonOption = False
) -> None:
    """List what was set aside, the newest first."""
    with explainer(config) as known:
        rows = known.quarantine(limit)
    columns = ("id", "at", "source", "name", "about", "locator", "reason")
    print_list(rows, columns, "nothing is in quarantine", as_json)


@quarantine.command("show")
def show_quarantined(
    row: Annotated[int, typer.Argument(help="The row's number.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one row as it came, and why it was set aside."""
    with explainer(config) as known:
        found = known.quarantined(row)
    if found is None:
        raise BackhaulError(f"there is no row {row}; see: backhaul quarantine list")
    _show(found, as_json)


def require_known(name: str, known: Iterable[str], hint: str) -> None:
    """Refuse a name that nobody has: that nothing is listed would say all is well."""
    names = sorted(set(known))
    if name not in names:
        there = ", ".join(names) or "none"
        raise typer.BadParameter(
            f"{name!r} is none; there are: {there}", param_hint=hint
        )


def print_list(
    rows: list[dict[str, object]], columns: tuple[str, ...], none: str, as_json: bool
) -> None:
    if as_json:
        output.json(rows)
    else:
        output.table(rows, columns, none)


def _show(found: dict[str, object], as_json: bool) -> None:
    if as_json:
        output.json(found)
    else:
        output.record(found.items())


def refold(
    ids: Annotated[
        list[int] | None, typer.Argument(help="Numbers of events.", show_default=False)
    ] = None,
    config: ConfigOption = None,
    state: EventStateOption = None,
    since: TimeOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every event that is kept.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fold stored events again: after an update, a mended setting, or to be sure.

    TIME is as in 2026-03-01 or 2026-03-01T12:00Z; without a zone it is UTC.

    An event that was folded already changes nothing. One that can be folded now leaves
    quarantine.
    """
    selection = Selection(tuple(ids or ()), state, since)
    if everything == (selection != Selection()):
        raise typer.BadParameter("name events, --state or --since, or else say --all")
    asked = {**msgspec.to_builtins(selection), "who": who()}
    states = change(config, "events/refold", asked)
    if as_json:
        output.json(states)
        return
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    typer.echo(f"folded again: {told or 'no event is like that'}")


RowArgument = Annotated[int, typer.Argument(help="The row's number.")]


def edit(
    row: RowArgument,
    fields: Annotated[
        list[str],
        typer.Option("--set", metavar="NAME=VALUE", help="A field, and what it is."),
    ],
    kind: Annotated[
        str | None,
        typer.Option(help="What a row is that never became a record: fulfill, …"),
    ] = None,
    reason: OptionalReason = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mend a row of a connector, field by field, and try it again.

    The fields are those of the record, such as `order` or `sku`; a list is JSON.
    """
    pairs = [text.partition("=") for text in fields]
    if wrong := [name for name, equals, _ in pairs if not equals or not name]:
        raise typer.BadParameter(f"say NAME=VALUE, not {wrong[0]!r}")
    asked = {"fields": {name: value for name, _, value in pairs}, "kind": kind}
    _change("edit", row, reason or "mended", config, as_json, asked)


def retry(
    row: RowArgument,
    reason: OptionalReason = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try a row again as it is, once what was missing is there."""
    _change("retry", row, reason or "tried again", config, as_json)


def correct(
    row: RowArgument,
    reason: OptionalReason = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a shipment's tracking number for an order that was shipped whole.

    Nothing is shipped. Where the store takes no further number for a fulfilled order,
    the command is rejected, and says so.
    """
    _change("correct", row, reason or "the number was corrected", config, as_json)


def drop_row(
    row: RowArgument,
    reason: ReasonOption,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a row up: it stays to be read, and is tried no more."""
    _change("drop", row, reason, config, as_json)


def _change(
    verb: str,
    row: int,
    reason: str,
    config: ConfigOption,
    as_json: bool,
    more: dict[str, Any] | None = None,
) -> None:
    asked = {"row": row, "who": who(), "reason": reason, **(more or {})}
    done = change(config, f"quarantine/{verb}", asked)
    if as_json:
        output.json(done)
    else:
        typer.echo(f"row {row}: {done['state']}")
