"""`backhaul events refold`: fold stored events again."""

from typing import Annotated

import msgspec
import typer

from backhaul.cli import showing
from backhaul.cli.changing import change, who
from backhaul.cli.context import ConfigOption, JsonOption, TimeOption
from backhaul.cli.listings import EventStateOption
from backhaul.store.refolds import Selection


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
        showing.json(states)
        return
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    typer.echo(f"folded again: {told or 'no event is like that'}")
