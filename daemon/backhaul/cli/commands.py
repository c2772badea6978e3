"""`backhaul commands list` and `show`: what is asked of the platform."""

from typing import Annotated, Any

import typer

from backhaul.cli import context, evidence, showing
from backhaul.cli.context import ConfigOption, JsonOption, LimitOption, explainer
from backhaul.cli.listings import StateOption, print_list, require_known
from backhaul.cli.live import ask
from backhaul.core.lifecycle import Kind
from backhaul.errors import BackhaulError
from backhaul.settings import Settings
from backhaul.shop import requests
from backhaul.store.contract import Command
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
        showing.note(f"and {total - shown} more; see --limit")


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
        showing.json(found)
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
    from backhaul.parts import build_dialect

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
        showing.json({**found, "next": evidence.next_steps(found)})
    else:
        live, _ = ask(context.settings(config))
        evidence.show(found, (live or {}).get("stores", {}).get(found["store"]))


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
