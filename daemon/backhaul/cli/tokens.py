"""`backhaul tokens`: the tokens with which programs use the HTTP API."""

from typing import Annotated, Any

import msgspec
import typer

from backhaul.admin.tokens import state_of
from backhaul.cli import context, output
from backhaul.cli.context import ConfigOption, JsonOption, example
from backhaul.cli.daemon_client import change, who
from backhaul.core.clock import SystemClock, to_text
from backhaul.store.tokens import Scope

tokens = typer.Typer(
    no_args_is_help=True, help="Tokens with which programs use the HTTP API."
)

NameArgument = Annotated[
    str, typer.Argument(help="Name of the token, such as the program that has it.")
]


@tokens.command("list")
def list_tokens(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the tokens with their scope, last use and state."""
    with context.reader(config) as known:
        found = known.tokens()
    now = to_text(SystemClock().now())
    rows = [
        msgspec.structs.asdict(each) | {"state": state_of(each, now)} for each in found
    ]
    if as_json:
        output.json(rows)
        return
    none = "there is no token yet; create one: backhaul tokens create NAME"
    columns = ("name", "scope", "state", "last_used_at", "expires_at", "created_at")
    output.table(rows, columns, none)


@tokens.command(
    "create",
    epilog=example(
        "tokens create warehouse-app --scope operate",
        "tokens create reports --expires 90d",
    ),
)
def create_token(
    name: NameArgument,
    scope: Annotated[
        Scope,
        typer.Option(
            help="read: read everything. operate: also submit records, and do what an"
            " operator can do."
        ),
    ] = Scope.READ,
    expires: Annotated[
        str | None,
        typer.Option(help="Time until the token expires, such as 90d. Default: never."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a token and print it. Backhaul shows the token only once."""
    asked = {"scope": scope.value, "expires": expires}
    done = _change("create", name, config, asked)
    if as_json:
        output.json(done)
        return
    typer.echo(done["token"])
    until = f"; it expires at {done['expires_at']}" if done["expires_at"] else ""
    output.note(f"store the token now, because Backhaul cannot show it again{until}")


@tokens.command("revoke", epilog=example("tokens revoke warehouse-app"))
def revoke_token(
    name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Revoke a token: Backhaul refuses it from now on."""
    done = _change("revoke", name, config, {})
    if as_json:
        output.json(done)
    else:
        typer.echo(f"the token {name} is revoked; programs with it get the status 401")


def _change(
    verb: str, name: str, config: ConfigOption, asked: dict[str, Any]
) -> dict[str, Any]:
    return change(config, f"tokens/{verb}", {"name": name, "who": who(), **asked})
