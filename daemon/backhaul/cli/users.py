"""`backhaul users`: who may use the dashboard, and their roles."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from backhaul.admin.accounts import FirstLoginToken
from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.cli.daemon_client import change, who
from backhaul.store.sqlite.board import Board
from backhaul.store.users import ROLES

users = typer.Typer(no_args_is_help=True, help="Who may use the dashboard.")

NameArgument = Annotated[str, typer.Argument(help="The name to log in with.")]
ROLE_HELP = f"One of {', '.join(ROLES)}."
StdinOption = Annotated[
    bool, typer.Option("--stdin", help="Read the password from the standard input.")
]


@users.command("list")
def list_users(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List everybody who may log in."""
    file = context.settings(config).database_file
    board = Board(file)
    try:
        with context.reading(file):
            rows = board.users()
    finally:
        board.close()
    if as_json:
        output.json(rows)
        return
    none = "nobody may log in yet; add somebody with: backhaul users add NAME"
    output.table(rows, ("name", "role", "last_login_at", "created_at"), none)


@users.command("add")
def add_user(
    name: NameArgument,
    role: Annotated[str, typer.Option(help=ROLE_HELP)] = "viewer",
    stdin: StdinOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add somebody; asks for the password."""
    asked = {"role": role, "password": _password(stdin)}
    _change("add", name, config, f"{name} may log in as {role}", as_json, asked)
    with suppress(OSError):  # the daemon refuses it anyhow, now that somebody is there
        FirstLoginToken(context.settings(config).state_dir).delete()


@users.command("role")
def set_role(
    name: NameArgument,
    role: Annotated[str, typer.Argument(help=ROLE_HELP)],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change what somebody may do, from the next click on."""
    asked = {"role": role}
    _change("role", name, config, f"{name} is {role} now", as_json, asked)


@users.command("password")
def set_password(
    name: NameArgument,
    stdin: StdinOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give somebody a new password, and end every session begun with the old one."""
    asked = {"password": _password(stdin)}
    _change("password", name, config, f"{name} has a new password", as_json, asked)


@users.command("remove")
def remove_user(
    name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Take somebody away; sessions end at once."""
    _change("remove", name, config, f"{name} may log in no more", as_json, {})


def _password(stdin: bool) -> str:
    """Never an argument: the list of processes shows those to everybody."""
    if stdin:
        return sys.stdin.readline().rstrip("\n")
    asked = typer.prompt(
        "Password", hide_input=True, confirmation_prompt=True, err=True
    )
    return str(asked)


def _change(
    verb: str,
    name: str,
    config: Path | None,
    told: str,
    as_json: bool,
    asked: dict[str, Any],
) -> None:
    done = change(config, f"users/{verb}", {"name": name, "who": who(), **asked})
    if as_json:
        output.json(done)
    else:
        typer.echo(told)
