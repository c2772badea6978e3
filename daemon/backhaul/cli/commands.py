"""`backhaul commands`, `incidents` and `targets`: lists and decisions."""

import sys
from typing import Annotated, Any

import typer

from backhaul.cli import command_view, context, output
from backhaul.cli.context import (
    ConfigOption,
    JsonOption,
    LimitOption,
    OptionalReason,
    ReasonOption,
    explainer,
)
from backhaul.cli.daemon_client import ask, change, who
from backhaul.cli.events import StateOption, print_list, require_known
from backhaul.core.lifecycle import Kind
from backhaul.errors import BackhaulError
from backhaul.platform import requests
from backhaul.settings import Settings
from backhaul.store.contract import Command
from backhaul.store.deciding import LONGEST_REASON, RESTOCK_UNSHIPPED
from backhaul.store.sqlite.explaining import Explainer
from backhaul.store.sqlite.outbox_reading import Wanted

commands = typer.Typer(no_args_is_help=True, help="What is asked of the platform.")

CommandArgument = Annotated[str, typer.Argument(help="The id, or how it begins.")]


@commands.command("list")
def list_commands(
    config: ConfigOption = None,
    state: StateOption = None,
    store: Annotated[str | None, typer.Option(help="Only this store.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="Only this kind.")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="What is planned, as it would be sent.")
    ] = False,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List commands: those that wait for a person first, then the newest."""
    wanted = Wanted("planned" if plan else state, store, kind)
    with explainer(config) as known:
        total = known.count_commands(wanted)
        if store is not None and not total:
            configured = context.settings(config).stores
            require_known(store, [*configured, *known.stores()], "--store")
        if plan:
            shown = _list_plan(known, context.settings(config), wanted, limit, as_json)
        else:
            shown = _list_rows(known, wanted, limit, as_json)
    if total > shown:
        output.note(f"and {total - shown} more; see --limit")


def _list_rows(known: Explainer, wanted: Wanted, limit: int, as_json: bool) -> int:
    rows = known.commands(wanted, limit)
    shown = [{**row, "id": row["id"][:8]} for row in rows]
    columns = ("id", "created_at", "kind", "about", "state", "reason")
    print_list(rows if as_json else shown, columns, "no commands", as_json)
    return len(rows)


def _list_plan(
    known: Explainer, settings: Settings, wanted: Wanted, limit: int, as_json: bool
) -> int:
    """Print what would be sent, in the order of planning."""
    found = [_request(settings, *row) for row in known.plan(wanted, limit)]
    if as_json:
        output.json(found)
        return len(found)
    for row in found:
        told = f"  ({row['reason']})" if row["reason"] else ""
        typer.echo(f"{row['id'][:8]}  {row['method']} {row['path']}{told}")
        typer.echo(f"          {row['body']}")
    if not found:
        typer.echo("nothing is planned")
    return len(found)


def _request(settings: Settings, command: Command, reason: str) -> dict[str, Any]:
    # The parts load the HTTP client: only who looks at a plan waits for it.
    from backhaul.app.wiring import build_dialect

    known = command.store in settings.stores
    body = b""
    if known:
        body = requests.body(command, build_dialect(settings, command.store))
    return {
        "id": command.id,
        "store": command.store,
        "connector": command.instance,
        "method": "POST",
        "path": requests.path(command),
        "body": body.decode() or f"(store {command.store} is in the settings no more)",
        "reason": reason,
    }


@commands.command("show")
def show_command(
    command: CommandArgument,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one command: what was asked and sent, what is known of it, what one can do.

    Times are UTC.
    """
    found = known_command(command, config)
    if as_json:
        output.json({**found, "next": command_view.next_steps(found)})
    else:
        live, _ = ask(context.settings(config))
        command_view.show(found, (live or {}).get("stores", {}).get(found["store"]))


def known_command(command: str, config: ConfigOption) -> dict[str, Any]:
    """Return the one command that is meant. Raises BackhaulError."""
    with explainer(config) as known:
        found = known.command(command)
    if found is None:
        raise BackhaulError(
            f"no command, or more than one, begins with {command!r}; "
            "see: backhaul commands list"
        )
    return found


Found = dict[str, Any]


def settle(
    command: CommandArgument,
    config: ConfigOption = None,
    applied: Annotated[
        bool, typer.Option("--applied", help="You know that it took effect.")
    ] = False,
    reason: OptionalReason = None,
    as_json: JsonOption = False,
) -> None:
    """Read the platform again for a command in doubt, or say that it took effect.

    Reads now and then as `push.check_after` says, from the first look on. What the last
    look does not find is sent again, unless `push.on_absent` is "park".
    """
    if applied and reason is None:
        raise typer.BadParameter("--applied needs --reason")
    verb = "settle --applied" if applied else "settle"
    _decide(command, config, verb, reason or "", as_json)


def park(
    command: CommandArgument,
    reason: ReasonOption,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop a command that is planned or in doubt, until a person decides."""
    _decide(command, config, "park", reason, as_json)


def drop(
    command: CommandArgument,
    reason: ReasonOption,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a parked command up: it is not to be done any more."""
    _decide(command, config, "drop", reason, as_json)


def resend(
    command: CommandArgument,
    reason: ReasonOption,
    config: ConfigOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask back.")] = False,
    restock_unshipped: Annotated[
        bool,
        typer.Option(
            "--restock-unshipped",
            help="Of a cancellation: put back only what has not shipped.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send a parked or rejected command again, once you have seen what is sent.

    If it did take effect before, it takes effect twice. `--restock-unshipped` cancels
    the order without the restock; once that is applied, the units that are in no parcel
    are added to the stock.
    """
    found = known_command(command, config)
    if restock_unshipped:
        _decide(command, config, RESTOCK_UNSHIPPED, reason, as_json)
        return
    request = change(config, "commands/preview", {"command": found["id"]})
    if not yes:
        _ask(found, request)
    more = {"shown": request["state"], "body": request["body"]}
    _decide(found["id"], config, "resend", reason, as_json, more)
    if {"*", found["instance"]} & set(context.settings(config).dry_run_connections):
        output.note("a dry run is on: it is planned, and sent once that is over")


def _ask(found: Found, request: Found) -> None:
    """Show what is about to be sent and what speaks against it; go on after a yes."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to be asked; say --yes to send it")
    output.record(
        [
            ("to be sent", f"{request['method']} {request['path']}"),
            ("body", request["body"]),
            ("it is", f"{found['state']}: {found['reason']}"),
        ]
    )
    command_view.history(found)
    typer.confirm("Send it?", abort=True)


def _decide(
    command: str,
    config: ConfigOption,
    verb: str,
    reason: str,
    as_json: bool,
    more: dict[str, Any] | None = None,
) -> None:
    found = known_command(command, config)
    asked = {"command": found["id"], "verb": verb, "who": who(), "reason": reason}
    done = change(config, "commands/decide", {**asked, **(more or {})})
    if as_json:
        output.json(done)
    else:
        typer.echo(f"{found['id'][:8]} was {found['state']}, is {done['state']} now")


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
        output.json(rows)
        return
    shown = [{**row, "command_id": row["command_id"][:8]} for row in rows]
    output.table(shown, COLUMNS, "no open incidents")


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
        output.json(done)
    else:
        typer.echo(f"incident {incident} is resolved: {done['says']}")


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
        output.json({"store": store, "was": was})
        return
    typer.echo(f"resumed; they were stopped: {was}" if was else "they were not stopped")
