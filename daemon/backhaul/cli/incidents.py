"""`backhaul incidents`: parcels that crossed a cancellation, until resolved."""

from typing import Annotated

import typer

from backhaul.cli import showing
from backhaul.cli.changing import change, who
from backhaul.cli.context import ConfigOption, JsonOption, explainer
from backhaul.store.deciding import LONGEST_REASON

incidents = typer.Typer(
    no_args_is_help=True,
    help="What left goods and stock apart, until an operator resolves it.",
)
COLUMNS = ("id", "at", "store", "command_id", "says")


@incidents.command("list")
def list_incidents(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the open incidents, the oldest first.

    An incident is a parcel that left while its order was cancelled or refunded, or a
    cancellation that restocked units which had shipped. Times are UTC.
    """
    with explainer(config) as known:
        rows = known.incidents()
    if as_json:
        showing.json(rows)
        return
    shown = [{**row, "command_id": row["command_id"][:8]} for row in rows]
    showing.table(shown, COLUMNS, "no open incidents")


@incidents.command("resolve")
def resolve(
    incident: Annotated[int, typer.Argument(help="Its number in the list.")],
    reason: Annotated[str, typer.Option("--reason", help="What was done about it.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close an incident, once the parcel is stopped or the stock is corrected."""
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise typer.BadParameter(f"give 1 to {LONGEST_REASON} characters")
    asked = {"id": incident, "who": who(), "reason": reason.strip()}
    done = change(config, "incidents/resolve", asked)
    if as_json:
        showing.json(done)
    else:
        typer.echo(f"incident {incident} is resolved: {done['says']}")
