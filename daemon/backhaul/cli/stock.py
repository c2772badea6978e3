"""`backhaul stock`: stock counts that wait for an operator."""

import sys
from typing import Annotated

import typer
from msgspec.structs import asdict

from backhaul.cli import context, output
from backhaul.cli.context import (
    ConfigOption,
    JsonOption,
    OptionalReason,
    example,
    reader,
)
from backhaul.cli.daemon_client import change, who
from backhaul.errors import BackhaulError
from backhaul.store.command_records import ListedTarget
from backhaul.store.stock_targets import HeldFilter

stock = typer.Typer(no_args_is_help=True, help="Stock counts from the back office.")
targets = typer.Typer(no_args_is_help=True, help="The old name of `backhaul stock`.")


@targets.command("resume", hidden=True)
@stock.command("resume", epilog=example("stock resume main"))
def resume_targets(
    store: Annotated[
        str, typer.Argument(help="Name of the store in the configuration.")
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Allow the stock counts of a store again, after Backhaul stopped applying them.

    Backhaul stops stock counts when the adjustment of one variant also changes
    another variant; the log then shows `target.stopped`. Correct the cause
    first. Otherwise the next adjustment stops the stock counts again.
    """
    stores = context.settings(config).stores
    if store not in stores:
        known = ", ".join(stores)
        raise BackhaulError(f"no store is called {store!r}; the stores are: {known}")
    was = change(config, "stock/resume", {"store": store, "who": who()})["was"]
    if as_json:
        output.json({"store": store, "was": was})
        return
    said = f"resumed; they had been stopped: {was}" if was else "they were not stopped"
    typer.echo(f"stock counts of {store}: {said}")


SHOWN_HELD = 10


@stock.command(
    "release", epilog=example('stock release --sku LAMP-1 --reason "no newer count"')
)
def release_targets(
    config: ConfigOption = None,
    store: Annotated[
        str | None, typer.Option(help="Only counts of this store.")
    ] = None,
    connection: Annotated[
        str | None, typer.Option(help="Only counts that this connection submitted.")
    ] = None,
    sku: Annotated[str | None, typer.Option(help="Only counts of this SKU.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Release all counts on hold.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the counts and release none.")
    ] = False,
    reason: OptionalReason = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Apply stock counts that are on hold since the database was restored.

    Release a count only if the back office has no newer count of the SKU. If
    there is a newer count, submit the newer count: it replaces the count on
    hold.

    The platform can show stock movements that are missing in the restored
    database. Perhaps a newer count caused them. If you release the count,
    Backhaul treats these movements as if they happened after the count: to the
    counted quantity it adds units that arrived, and subtracts units that left.
    If a newer count did cause the movements, the stock in the store is wrong
    until the next count. If the known movements do not add up to the stock in
    the store, Backhaul parks the count.
    """
    wanted = HeldFilter(store, connection, sku)
    if everything == (wanted != HeldFilter()):
        raise typer.BadParameter(
            "choose stock counts with --store, --connection or --sku; or use --all"
            " without these options"
        )
    if reason is None and not dry_run:
        raise typer.BadParameter(
            "a release needs a reason for the audit log: add --reason. To list the"
            " stock counts only, add --dry-run"
        )
    with reader(config) as known:
        found = known.held_targets(wanted)
    if dry_run or not found:
        _print_held(found, as_json)
        return
    if not yes:
        _confirm_release(found)
    asked = {**asdict(wanted), "who": who(), "reason": reason}
    done = change(config, "stock/release", asked)
    if as_json:
        output.json(done)
    else:
        typer.echo(f"released {_counts(done['released'])}")


def _confirm_release(found: list[ListedTarget]) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "without a terminal, the command cannot ask for confirmation; to release"
            f" {_counts(len(found))}, add --yes"
        )
    _print_held(found, as_json=False)
    typer.confirm(f"Release {_counts(len(found))}?", abort=True)


def _print_held(found: list[ListedTarget], as_json: bool) -> None:
    """Print counts on hold: all as JSON, else the oldest ones."""
    columns = ("store", "sku", "quantity", "as_of", "stock", "reason")
    shown = found if as_json else found[:SHOWN_HELD]
    output.print_list(shown, columns, "no stock count is on hold", as_json)
    if len(found) > len(shown):
        output.note(f"and {len(found) - len(shown):,} more")


def _counts(number: int) -> str:
    return "1 stock count" if number == 1 else f"{number:,} stock counts"
