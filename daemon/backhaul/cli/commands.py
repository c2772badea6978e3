"""`backhaul commands` and `incidents`: lists and decisions."""

import sys
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from backhaul.cli import command_view, context, output
from backhaul.cli.bulk import DryRunOption, How, YesOption, decide_many
from backhaul.cli.context import (
    ConfigOption,
    FollowOption,
    JsonOption,
    LimitOption,
    OptionalReason,
    OrderOption,
    PlannedSinceOption,
    ReasonOption,
    StateOption,
    example,
    object_id,
    reader,
    reader_of,
    require_known,
)
from backhaul.cli.daemon_client import ask, change, who
from backhaul.cli.where import where_option, with_options
from backhaul.core.lifecycle import Kind, State
from backhaul.errors import BackhaulError
from backhaul.platform import requests
from backhaul.settings import Settings
from backhaul.store.bulk import BulkVerb
from backhaul.store.command_records import CommandDetail, ListedCommand
from backhaul.store.commands import LONGEST_REASON, RESTOCK_UNSHIPPED
from backhaul.store.filters import COMMANDS, NO_FILTER, Filter
from backhaul.store.matching import Command
from backhaul.store.read_models import Reader
from backhaul.store.shown_fields import fields

commands = typer.Typer(no_args_is_help=True, help="Outbound commands to the platform.")

Found = dict[str, Any]
CommandArgument = Annotated[
    str, typer.Argument(help="The command's id, or the first characters of the id.")
]
CommandsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMMAND", help="Ids of commands, or the first characters of the ids."
    ),
]
WhereOption = Annotated[
    Filter | None,
    where_option(
        COMMANDS,
        "state=rejected connector=erp since=1d",
        "the reason, the cause and the id, and in the payload of commands that are not"
        " applied",
    ),
]


@commands.command(
    "list",
    epilog=example(
        "commands list --state parked",
        "commands list --order 1001",
        "commands list --where 'state=rejected connector=erp since=1d'",
        "commands list --follow",
    ),
)
def list_commands(
    config: ConfigOption = None,
    state: StateOption = None,
    store: Annotated[str | None, typer.Option(help="Show only this store.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="Show only this kind.")] = None,
    order: OrderOption = None,
    since: PlannedSinceOption = None,
    where: WhereOption = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the request of each planned command.")
    ] = False,
    limit: LimitOption = 20,
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> None:
    """List commands: parked commands first, then the newest.

    With --follow, commands are in the order of planning, the newest last.
    """
    if plan and follow:
        raise typer.BadParameter("--plan and --follow cannot be combined")
    known_settings = context.settings(config)
    state = State.PLANNED if plan else state
    with reader_of(known_settings) as known:
        about = object_id(known, "order", order)
        terms = {"state": state, "store": store, "kind": kind, "since": since}
        selected = with_options(where, **terms, object=about)
        total = known.count_commands(selected)
        if store is not None and not total:
            require_known(store, [*known_settings.stores, *known.stores()], "--store")
        if follow:
            shown = total
        elif plan:
            shown = _list_plan(known, known_settings, selected, limit, as_json)
        else:
            shown = _list_rows(known, selected, limit, as_json)
    if follow:
        _follow(known_settings, selected, limit, as_json)
    if total > shown:
        output.note(f"and {total - shown} more; see --limit")


COMMAND_COLUMNS = ("id", "created_at", "kind", "about", "state", "reason")


def _list_rows(known: Reader, selected: Filter, limit: int, as_json: bool) -> int:
    rows = known.commands(selected, limit)
    shown = rows if as_json else [replace(row, id=row.id[:8]) for row in rows]
    output.print_list(shown, COMMAND_COLUMNS, _no_commands(selected), as_json)
    return len(rows)


def _no_commands(selected: Filter) -> str:
    if selected == NO_FILTER:
        return "no commands"
    return "no command matches; without a filter: backhaul commands list"


def _follow(settings: Settings, selected: Filter, limit: int, as_json: bool) -> None:
    def read(number: int) -> list[ListedCommand]:
        with reader_of(settings) as known:
            # Parked commands come first in the list, and would hide the newest ones.
            parked = known.count_commands(replace(selected, state=State.PARKED))
            rows = known.commands(selected, number + parked)
        rows.sort(key=lambda row: row.created_at, reverse=True)
        return rows if as_json else [replace(row, id=row.id[:8]) for row in rows]

    output.follow(read, COMMAND_COLUMNS, shown=limit, as_json=as_json)


def _list_plan(
    known: Reader,
    settings: Settings,
    selected: Filter,
    limit: int,
    as_json: bool,
) -> int:
    """Print the requests of planned commands, in the order of planning."""
    found = [_request(settings, *row) for row in known.plan(selected, limit)]
    if as_json:
        output.json(found)
        return len(found)
    for row in found:
        reason = f"  ({row['reason']})" if row["reason"] else ""
        typer.echo(f"{row['id'][:8]}  {row['method']} {row['path']}{reason}")
        typer.echo(f"          {row['body']}")
    if not found:
        typer.echo("no command is planned")
    return len(found)


def _request(settings: Settings, command: Command, reason: str) -> dict[str, Any]:
    # This loads the HTTP client, which no other listing needs.
    from backhaul.app.wiring import build_dialect

    known = command.store in settings.stores
    body = b""
    if known:
        body = requests.body(command, build_dialect(settings, command.store))
    return {
        "id": command.id,
        "store": command.store,
        "connection": command.instance,
        "method": "POST",
        "path": requests.path(command),
        "body": body.decode()
        or f"(store {command.store} is no longer in the configuration)",
        "reason": reason,
    }


@commands.command("show", epilog=example("commands show 3f2a9c01"))
def show_command(
    command: CommandArgument,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one command: its request, attempts, evidence and the next actions.

    Times are UTC.
    """
    found = known_command(command, config)
    if as_json:
        output.json(_as_json(found))
    else:
        live, _ = ask(context.settings(config))
        command_view.show(found, (live or {}).get("stores", {}).get(found.store))


def _as_json(found: CommandDetail) -> Found:
    digests = (found.digest, found.request_digest)
    digest, request_digest = (each and each.hex() for each in digests)
    shown = fields(found) | {"digest": digest, "request_digest": request_digest}
    return {**shown, "next": command_view.next_steps(found)}


def known_command(command: str, config: ConfigOption) -> CommandDetail:
    """Return the command with this id or first characters. Raises BackhaulError."""
    with reader(config) as known:
        found = known.command(command)
    if found is None:
        raise BackhaulError(
            f"no command has the id {command!r}, or several ids begin with"
            f" {command!r}; see: backhaul commands list"
        )
    return found


def resolve_command(
    commands: CommandsArgument = None,
    where: WhereOption = None,
    config: ConfigOption = None,
    applied: Annotated[
        bool,
        typer.Option(
            "--applied",
            help="Mark the command as applied, because you know that it took effect.",
        ),
    ] = False,
    reason: OptionalReason = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check the outcome of uncertain or parked commands, or mark one as applied.

    Backhaul checks the platform immediately. It repeats the check after the
    times in `push.check_after`. If the last check finds no effect, Backhaul
    sends the command again. With `push.on_absent = "park"` Backhaul parks the
    command instead. With several commands or --where, the command first shows
    what will happen, and asks for confirmation.
    """
    how = How(config, reason or "", as_json, yes, dry_run)
    if not applied:
        _decide_each(commands, where, "resolve", BulkVerb.CHECK, how)
        return
    if reason is None:
        raise typer.BadParameter(
            "--applied needs a reason for the audit log; add --reason"
        )
    if where is not None or commands is None or len(commands) != 1:
        raise typer.BadParameter("--applied is only for one command")
    _decide(commands[0], config, "resolve --applied", reason, as_json)


def park(
    reason: ReasonOption,
    commands: CommandsArgument = None,
    where: WhereOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop planned or uncertain commands until an operator decides about them."""
    how = How(config, reason, as_json, yes, dry_run)
    _decide_each(commands, where, "park", BulkVerb.PARK, how)


def discard(
    reason: ReasonOption,
    commands: CommandsArgument = None,
    where: WhereOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Discard parked commands: they become `rejected` and will not be sent.

    For a planned or uncertain command, type `backhaul commands park` first.
    """
    how = How(config, reason, as_json, yes, dry_run)
    _decide_each(commands, where, "discard", BulkVerb.DISCARD, how)


def _decide_each(
    commands: list[str] | None,
    where: Filter | None,
    verb: str,
    many: BulkVerb,
    how: How,
) -> None:
    """Decide about one command, or about several after a preview."""
    if bool(commands) == (where is not None):
        raise typer.BadParameter("choose commands by id, or by --where FILTER")
    if commands and len(commands) == 1 and not how.dry_run:
        _decide(commands[0], how.config, verb, how.reason, how.as_json)
        return
    if where is None:
        found = [known_command(each, how.config) for each in commands or ()]
        where = Filter(keys=tuple(each.id for each in found))
    decide_many("commands", many, where, how)


def resend(
    command: CommandArgument,
    reason: ReasonOption,
    config: ConfigOption = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation.")
    ] = False,
    restock_unshipped: Annotated[
        bool,
        typer.Option(
            "--restock-unshipped",
            help="For a cancellation: restock only the units that have not shipped.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send a parked or rejected command again, after showing the request.

    Caution: if the command already took effect, it can take effect a second
    time. Only a platform that supports idempotency keys prevents this.
    `--restock-unshipped` first cancels the order without a restock. After that,
    Backhaul puts the unshipped units back into stock.
    """
    found = known_command(command, config)
    if restock_unshipped:
        _decide(command, config, RESTOCK_UNSHIPPED, reason, as_json)
        return
    request = change(config, "commands/preview", {"command": found.id})
    if not yes:
        _ask(found, request)
    more = {"shown": request["state"], "body": request["body"]}
    _decide(found.id, config, "resend", reason, as_json, more)
    if {"*", found.instance} & set(context.settings(config).dry_run_connections):
        output.note(
            "a dry run is on: the command is planned, and sent after the dry run"
        )


def _ask(found: CommandDetail, request: Found) -> None:
    """Show the request and the command's history, then ask for confirmation."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "without a terminal, the command cannot ask for confirmation; to send"
            " the command, add --yes"
        )
    output.record(
        [
            ("to be sent", f"{request['method']} {request['path']}"),
            ("body", request["body"]),
            ("state", f"{found.state}: {found.reason}"),
        ],
        exact=True,
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
    asked = {"command": found.id, "verb": verb, "who": who(), "reason": reason}
    done = change(config, "commands/decide", {**asked, **(more or {})})
    if as_json:
        output.json(done)
    else:
        typer.echo(f"{found.id[:8]} was {found.state}, is {done['state']} now")


incidents = typer.Typer(
    no_args_is_help=True,
    help="Wrong results in the store, such as a parcel for a cancelled order, that an"
    " operator must correct.",
)
COLUMNS = ("id", "at", "store", "command_id", "says")


@incidents.command("list")
def list_incidents(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the open incidents, the oldest first.

    In most incidents, a parcel left although its order was cancelled or
    refunded, or a cancellation restocked units that had shipped. Times are UTC.
    """
    with reader(config) as known:
        rows = known.incidents()
    if as_json:
        output.json(rows)
        return
    shown = [replace(row, command_id=row.command_id[:8]) for row in rows]
    output.table(shown, COLUMNS, "no open incidents")


@incidents.command(
    "resolve", epilog=example('incidents resolve 3 --reason "parcel was stopped"')
)
def resolve_incident(
    incident: Annotated[int, typer.Argument(help="The incident's number (id).")],
    reason: Annotated[
        str, typer.Option("--reason", help="How you corrected the problem.")
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close an incident after you stopped the parcel or corrected the stock."""
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise typer.BadParameter(
            f"the reason must have 1 to {LONGEST_REASON} characters"
        )
    asked = {"id": incident, "who": who(), "reason": reason.strip()}
    done = change(config, "incidents/resolve", asked)
    if as_json:
        output.json(done)
    else:
        typer.echo(f"incident {incident} is resolved: {done['says']}")
