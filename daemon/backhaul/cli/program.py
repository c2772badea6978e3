"""The program `backhaul`: its name, and the options that hold for every command."""

from importlib.metadata import version
from typing import Annotated

import typer


def program() -> typer.Typer:
    """Return it without any command."""
    made = typer.Typer(
        name="backhaul",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Carries a back office's work back to its store, "
        "and the store's news back.",
    )
    made.callback()(_options)
    return made


def _options(
    _debug: Annotated[
        bool, typer.Option("--debug", help="Print the traceback of a bug.")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=lambda wanted: _print_version(wanted),
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Take the options that hold for every command."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("backhaul"))
        raise typer.Exit
