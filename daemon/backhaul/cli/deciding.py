"""`backhaul commands settle`, `park`, `resend` and `drop`: what people decide."""

import sys
from typing import Annotated, Any

import typer

from backhaul.cli import context, evidence, showing
from backhaul.cli.changing import change, who
from backhaul.cli.commands import CommandArgument, known_command
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.store.deciding import LONGEST_REASON, RESTOCK_UNSHIPPED

Found = dict[str, Any]


def _written(reason: str | None) -> str | None:
    if reason is not None and not reason.strip():
        raise typer.BadParameter("say why, for whoever looks at it later")
    if reason is not None and len(reason) > LONGEST_REASON:
        raise typer.BadParameter(f"it is longer than {LONGEST_REASON} characters")
    return reason


WHY = "Why; kept with your name."
ReasonOption = Annotated[str, typer.Option("--reason", help=WHY, callback=_written)]
OptionalReason = Annotated[
    str | None, typer.Option("--reason", help=WHY, callback=_written)
]


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

    Reads now and then as `push.looks` says, from the first look on. What the last
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
    if {"*", found["instance"]} & set(context.settings(config).rehearsed):
        showing.note("a dry run is on: it is planned, and sent once that is over")


def _ask(found: Found, request: Found) -> None:
    """Show what is about to be sent and what speaks against it; go on after a yes."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to be asked; say --yes to send it")
    showing.record(
        [
            ("to be sent", f"{request['method']} {request['path']}"),
            ("body", request["body"]),
            ("it is", f"{found['state']}: {found['reason']}"),
        ]
    )
    evidence.history(found)
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
        showing.json(done)
    else:
        typer.echo(f"{found['id'][:8]} was {found['state']}, is {done['state']} now")
