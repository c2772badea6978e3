"""Global options, configuration and read access for every command."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from backhaul.cli import received
from backhaul.connect import registry
from backhaul.core.clock import SystemClock, normalize, to_text
from backhaul.core.lifecycle import State
from backhaul.errors import BackhaulError
from backhaul.settings import load_settings
from backhaul.settings.values import parse_duration
from backhaul.store import database_at
from backhaul.store.commands import LONGEST_REASON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backhaul.errors import Finding
    from backhaul.settings import Connector, Settings
    from backhaul.store.export_and_query import SqlConsole
    from backhaul.store.read_models import Reader


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Configuration file. Default: $BACKHAUL_CONFIG, else ./backhaul.toml, else"
        " /etc/backhaul/backhaul.toml.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def _moment(text: str) -> str:
    try:
        return normalize(text)
    except ValueError:
        pass
    try:
        ago = timedelta(seconds=parse_duration(text))
    except ValueError:
        problem = (
            f"{text!r} is not a time such as 2026-03-01, 2026-03-01T12:00Z or 2h (two"
            " hours ago)"
        )
        raise typer.BadParameter(problem) from None
    return to_text(SystemClock().now() - ago)


_TIME = (
    "Examples of TIME: 2026-03-01, 2026-03-01T12:00Z, 2h (two hours ago). The zone is"
    " UTC if TIME names none."
)
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        parser=_moment,
        help=f"Only events that arrived at TIME or later. {_TIME}",
    ),
]
PlannedSinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        parser=_moment,
        help=f"Only commands that were planned at TIME or later. {_TIME}",
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        parser=_moment,
        help=f"Only events that arrived before TIME. {_TIME}",
    ),
]
"""A time that the user typed, in the form of the database."""
StateOption = Annotated[
    State | None, typer.Option("--state", help="Show only this state.")
]
OrderOption = Annotated[
    str | None,
    typer.Option("--order", help="Show only this order: its number, name or id."),
]
FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow",
        "-f",
        help=""
        "After the list, show each new row, and each row whose state "
        "changes, until Ctrl-C."
        " With --json: one JSON object per line.",
    ),
]
LimitOption = Annotated[
    int,
    typer.Option("--limit", "-n", min=1, max=1_000_000, help="Number of rows to show."),
]


def settings(config: Path | None) -> Settings:
    """Load and validate the settings, with those of connectors.

    Raises ConfigurationError.
    """
    return load_settings(
        config,
        validate_connector=_check_connector,
        validate_together=registry.check_shared_sources,
        secret_options=registry.secret_fields,
    )


def one_store(settings: Settings, store: str | None) -> str:
    """Return the store named by `--store`, or the only one. Raises BackhaulError."""
    names = list(settings.stores)
    if store is None and len(names) == 1:
        return names[0]
    if store not in names:
        known = ", ".join(names)
        if store is None:
            raise BackhaulError(
                f"there are several stores; choose one with --store: {known}"
            )
        raise BackhaulError(f"no store is called {store!r}; the stores are: {known}")
    return store


def require_known(name: str, known: Iterable[str], hint: str) -> None:
    """Refuse an unknown name, because an empty list would look as if all is well."""
    names = sorted(set(known))
    if name not in names:
        there = ", ".join(names) or "none"
        raise typer.BadParameter(
            f"{name!r} does not exist; choose one of: {there}", param_hint=hint
        )


def _check_connector(_: str, connector: Connector) -> list[Finding]:
    found = registry.check(connector.type, connector.options)
    return found + registry.check_topics(connector.type, connector.topics)


def object_id(known: Reader, kind: str, name: str | None) -> str | None:
    """Return the id of the object that an operator names. Raises BackhaulError."""
    if name is None:
        return None
    found = {each.id: each for each in known.find_objects(kind, name)}
    if len(found) == 1:
        return next(iter(found))
    if not found:
        raise BackhaulError(
            f"the mirror has no {kind} {name!r}; Backhaul searched the"
            f" {known.searched_in(kind)}"
        )
    there = ", ".join(f"{each.id} of store {each.store}" for each in found.values())
    raise BackhaulError(f"several objects are called {name!r}; give an id: {there}")


@contextlib.contextmanager
def reader(config: Path | None) -> Iterator[Reader]:
    """Open the database read-only; this does not disturb a running daemon."""
    with reader_of(settings(config)) as opened:
        yield opened


@contextlib.contextmanager
def reader_of(settings: Settings) -> Iterator[Reader]:
    """Open the database of these settings read-only, with what is answered by now."""
    received.move_before_read(settings)
    with database_at(settings.place).reader() as opened:
        yield opened


@contextlib.contextmanager
def console(config: Path | None) -> Iterator[SqlConsole]:
    """Open the database read-only for SQL; this does not disturb a running daemon."""
    found = settings(config)
    received.move_before_read(found)
    with database_at(found.place).console(SystemClock()) as opened:
        yield opened


def example(*lines: str) -> str:
    """Return the examples that end a command's help, each without `backhaul`."""
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join([title, *(f"  backhaul {line}" for line in lines)])


def _show_flags_without_type(command: Any, context: Any) -> None:
    """Show a flag as `--json`, because `--json <bool>` looks as if it takes a value."""
    for each in command.get_params(context):
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    for below in getattr(command, "commands", {}).values():
        _show_flags_without_type(below, context)


class Program(TyperGroup):
    """The program, whose help shows flags without a type."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _show_flags_without_type(self, ctx)
        super().format_help(ctx, formatter)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            _show_flags_without_type(found, ctx)
        return found


def program() -> typer.Typer:
    """Return the program without any command."""
    made = typer.Typer(
        name="backhaul",
        cls=Program,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Sync an online store with a back office in both directions, and explain "
        "every change.",
    )
    made.callback()(_options)
    return made


def _options(
    _debug: Annotated[
        bool,
        typer.Option("--debug", help="Print the traceback of an unexpected error."),
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
    """Accept the options of every command."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("backhaul"))
        raise typer.Exit


def _written(reason: str | None) -> str | None:
    if reason is not None and not reason.strip():
        raise typer.BadParameter(
            "the reason is empty; write a reason for the audit log"
        )
    if reason is not None and len(reason) > LONGEST_REASON:
        raise typer.BadParameter(
            f"the reason is longer than {LONGEST_REASON} characters; shorten it"
        )
    return reason


WHY = "Your reason. The audit log stores it with your name."


ReasonOption = Annotated[str, typer.Option("--reason", help=WHY, callback=_written)]


OptionalReason = Annotated[
    str | None, typer.Option("--reason", help=WHY, callback=_written)
]
