"""`backhaul events refold`: fold stored events again."""

from typing import Annotated

import msgspec
import typer

from backhaul.cli import showing
from backhaul.cli.changing import change
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.core.clock import normalize
from backhaul.store.refolds import Selection


def refold(
    ids: Annotated[
        list[int] | None, typer.Argument(help="Numbers of events.", show_default=False)
    ] = None,
    config: ConfigOption = None,
    state: Annotated[
        str | None, typer.Option("--state", help="Only this state: quarantined, …")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only what arrived since, RFC 3339.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every event that is kept.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fold stored events again: after an update, a mended setting, or to be sure.

    An event that was folded already changes nothing. One that can be folded now leaves
    quarantine.
    """
    selection = Selection(tuple(ids or ()), state, _moment(since))
    if everything == (selection != Selection()):
        raise typer.BadParameter("name events, --state or --since, or else say --all")
    states = change(config, "events/refold", msgspec.to_builtins(selection))
    if as_json:
        showing.json(states)
        return
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    typer.echo(f"folded again: {told or 'no event is like that'}")


def _moment(since: str | None) -> str | None:
    try:
        return since and normalize(since)
    except ValueError:
        problem = f"--since {since}: write a time as 2026-03-01T12:00:00Z"
        raise typer.BadParameter(problem) from None
