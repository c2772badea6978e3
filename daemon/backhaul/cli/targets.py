"""`backhaul targets`: whether the counts of the back office are made true."""

from typing import Annotated

import typer

from backhaul.cli import context, showing
from backhaul.cli.changing import change, who
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.errors import BackhaulError

targets = typer.Typer(
    no_args_is_help=True, help="Counts of the back office, as targets of stock."
)


@targets.command("resume")
def resume(
    store: Annotated[str, typer.Argument(help="The store, as the settings name it.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the counts of a store true again, after `target.stopped`.

    They were stopped because a step moved a variant that it was not addressed to: mend
    that first, or the next step stops them again.
    """
    stores = context.settings(config).stores
    if store not in stores:
        raise BackhaulError(f"no store {store}; there are: {', '.join(stores)}")
    was = change(config, "targets/resume", {"store": store, "who": who()})["was"]
    if as_json:
        showing.json({"store": store, "was": was})
        return
    typer.echo(f"resumed; they were stopped: {was}" if was else "they were not stopped")
