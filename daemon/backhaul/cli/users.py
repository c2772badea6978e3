"""`backhaul users`: the users of the dashboard and their roles."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from backhaul.admin.accounts import FirstLoginToken
from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption, example
from backhaul.cli.daemon_client import change, who
from backhaul.store.operators import ROLES

users = typer.Typer(
    no_args_is_help=True, help="Users of the dashboard and their roles."
)

NameArgument = Annotated[str, typer.Argument(help="The login name.")]
ROLE_HELP = f"One of {', '.join(ROLES)}."
StdinOption = Annotated[
    bool, typer.Option("--stdin", help="Read the password from standard input.")
]


@users.command("list")
def list_users(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the users with their role and last login."""
    with context.reader(config) as known:
        rows = known.users()
    if as_json:
        output.json(rows)
        return
    none = "there is no user yet; add one: backhaul users add NAME"
    columns = ("name", "role", "login", "second_factor", "disabled_at")
    output.table(rows, (*columns, "last_login_at", "created_at"), none)


@users.command("add", epilog=example("users add asha --role operator"))
def add_user(
    name: NameArgument,
    role: Annotated[str, typer.Option(help=ROLE_HELP)] = "viewer",
    stdin: StdinOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a user; the command asks for the password."""
    asked = {"role": role, "password": _password(stdin)}
    _change("add", name, config, f"{name} can log in as {role}", as_json, asked)
    with suppress(OSError):  # the daemon refuses it anyway once a user exists
        FirstLoginToken(context.settings(config).state_dir).delete()


@users.command("role", epilog=example("users role asha viewer"))
def set_role(
    name: NameArgument,
    role: Annotated[str, typer.Argument(help=ROLE_HELP)],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change a user's role; it applies from the user's next request."""
    asked = {"role": role}
    _change("role", name, config, f"{name} is now {role}", as_json, asked)


@users.command("password", epilog=example("users password asha"))
def set_password(
    name: NameArgument,
    stdin: StdinOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set a new password and end the user's sessions."""
    asked = {"password": _password(stdin)}
    _change("password", name, config, f"{name} has a new password", as_json, asked)


@users.command("remove", epilog=example("users remove asha"))
def remove_user(
    name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Delete a user and end the user's sessions."""
    _change("remove", name, config, f"{name} can no longer log in", as_json, {})


@users.command("disable", epilog=example("users disable asha"))
def disable_user(
    name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """End a user's sessions and refuse every login, also by single sign-on."""
    _change("disable", name, config, f"{name} can no longer log in", as_json, {})


@users.command("enable", epilog=example("users enable asha"))
def enable_user(
    name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Let a disabled user log in again."""
    _change("enable", name, config, f"{name} can log in again", as_json, {})


@users.command("reset-totp", epilog=example("users reset-totp asha"))
def reset_totp(
    name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Remove a user's second factor, for example after the loss of a phone."""
    said = f"{name} has no second factor now"
    _change("resettotp", name, config, said, as_json, {})


def _password(stdin: bool) -> str:
    """Return the password; never from an argument, which every process can read."""
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
    message: str,
    as_json: bool,
    asked: dict[str, Any],
) -> None:
    done = change(config, f"users/{verb}", {"name": name, "who": who(), **asked})
    if as_json:
        output.json(done)
    else:
        typer.echo(message)
