"""`backhaul events` and `quarantine`: lists, and one row whole."""

from collections.abc import Iterable
from typing import Annotated

import typer

from backhaul.cli import showing
from backhaul.cli.context import ConfigOption, JsonOption, LimitOption, explainer
from backhaul.core.lifecycle import State
from backhaul.errors import BackhaulError
from backhaul.store.refolds import EventState

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
        showing.json(rows)
    else:
        showing.table(rows, columns, none)


def _show(found: dict[str, object], as_json: bool) -> None:
    if as_json:
        showing.json(found)
    else:
        showing.record(found.items())
