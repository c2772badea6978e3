"""Global options, configuration and read access for every command."""

from __future__ import annotations

import contextlib
import sqlite3
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.connect import registry
from backhaul.core.clock import SystemClock, normalize
from backhaul.errors import BackhaulError
from backhaul.settings import load_settings
from backhaul.store.deciding import LONGEST_REASON
from backhaul.store.sqlite.asking import Asker
from backhaul.store.sqlite.explaining import Explainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.errors import Finding
    from backhaul.settings import Connector, Settings


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Configuration file; else $BACKHAUL_CONFIG, ./backhaul.toml, "
        "/etc/backhaul/backhaul.toml.",
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON: one array or object.")
]


def _moment(text: str) -> str:
    try:
        return normalize(text)
    except ValueError:
        problem = f"{text!r} is not a time such as 2026-03-01 or 2026-03-01T12:00Z"
        raise typer.BadParameter(problem) from None


TimeOption = Annotated[str | None, typer.Option(metavar="TIME", parser=_moment)]
"""A time of a person's, as the database has it; without a zone it is UTC."""
LimitOption = Annotated[
    int,
    typer.Option(
        "--limit", "-n", min=1, max=1_000_000, help="Rows to show, newest first."
    ),
]


def settings(config: Path | None) -> Settings:
    """Load and check everything, connectors included. Raises ConfigurationError."""
    return load_settings(
        config,
        validate_connector=_check_connector,
        validate_together=registry.check_shared_sources,
        secret_options=registry.secret_fields,
    )


def one_store(settings: Settings, store: str | None) -> str:
    """Return the store of `--store`, or the only one. Raises BackhaulError."""
    names = list(settings.stores)
    if store is None and len(names) == 1:
        return names[0]
    if store not in names:
        known = ", ".join(names)
        raise BackhaulError(f"say which store with --store; there are {known}")
    return store


def _check_connector(_: str, connector: Connector) -> list[Finding]:
    found = registry.check(connector.type, connector.options)
    return found + registry.check_topics(connector.type, connector.topics)


@contextlib.contextmanager
def reading(database: Path) -> Iterator[None]:
    """Tell a schema that is behind this version from a bug. Raises BackhaulError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        # The schema loads much: only who lacks some of it waits for that.
        from backhaul.store import opening

        ahead = opening.pending(database)
        if not ahead:
            raise
        raise BackhaulError(
            f"{database}: its schema is {len(ahead)} steps behind this version,"
            " named by: backhaul migrate --plan; restart the daemon, or without one:"
            " backhaul migrate"
        ) from None


@contextlib.contextmanager
def explainer(config: Path | None) -> Iterator[Explainer]:
    """Open the database read-only; a running daemon is not disturbed."""
    file = settings(config).database_file
    opened = Explainer(file)
    try:
        with reading(file):
            yield opened
    finally:
        opened.close()


@contextlib.contextmanager
def asker(config: Path | None) -> Iterator[Asker]:
    """Open the database for questions in SQL; a running daemon is not disturbed."""
    file = settings(config).database_file
    opened = Asker(file, SystemClock())
    try:
        with reading(file):
            yield opened
    finally:
        opened.close()


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
