"""`backhaul migrate --to`: moves the database to PostgreSQL, or back to a file."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from backhaul.cli import output, received
from backhaul.core.clock import SystemClock, pause
from backhaul.errors import AlreadyRunning
from backhaul.store import database_at, move_database, prepare_live_move
from backhaul.store.database import sole_writer
from backhaul_sdk.extras import missing_extra

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from backhaul.settings import Settings
    from backhaul.store import Place
    from backhaul.store.moving import Moved, Step

_FILE = "sqlite:///"
_SERVER = ("postgresql://", "postgres://")
WAIT_SECONDS = 1.0
_DOING = {"copy": "copying", "index": "indexing", "compare": "comparing"}


def place_of(url: str) -> Place:
    """Return the place that a URL names. Raises BadParameter."""
    if url.startswith(_FILE) and url.removeprefix(_FILE).strip("/"):
        return Path(url.removeprefix(_FILE))
    if url.startswith(_SERVER):
        if missing := missing_extra("postgres"):
            raise typer.BadParameter(f"the URL needs {missing}")
        return url
    raise typer.BadParameter("the URL must be postgresql://HOST/NAME or sqlite:///PATH")


def move_live(
    settings: Settings, source: Place, target: Place, *, as_json: bool
) -> None:
    """Move a file while new daemons on the server receive webhooks.

    Says when to move the address of the webhooks, and when to stop the old daemon.
    """
    if isinstance(source, str) or isinstance(target, Path):
        raise typer.BadParameter(
            "--live works only for a move from a SQLite file to PostgreSQL; leave"
            " out --live"
        )
    if prepare_live_move(source, target, SystemClock()):
        _say(
            "1. Start daemons with the new database.url on other machines, or on"
            " this machine with another state_dir and other ports. Until the data"
            " has moved, these daemons only receive webhooks."
        )
        _await(lambda: any(each.is_alive for each in database_at(target).members()))
        _say(
            "   A new daemon runs.\n"
            "2. Send the webhooks to the new daemons: change the load balancer, or the"
            " address of the subscription.\n"
            "3. When webhooks arrive at a new daemon, stop the old one: systemctl stop"
            " backhaul.socket backhaul.service. This command then moves the data."
        )
        _await(partial(_is_stopped, settings.state_dir))
    move(settings, source, target, as_json=as_json, live=True)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _await(is_so: Callable[[], bool]) -> None:
    while not is_so():
        pause(WAIT_SECONDS)


def _is_stopped(state_dir: Path) -> bool:
    try:
        with sole_writer(state_dir):
            return True
    except AlreadyRunning:
        return False


def move(
    settings: Settings,
    source: Place,
    target: Place,
    *,
    as_json: bool,
    live: bool = False,
) -> None:
    """Move the database while no daemon runs; print what to configure."""
    if isinstance(source, Path) and source == settings.place:
        received.move_left(settings, source)
    with sole_writer(settings.state_dir), _Screen(quiet=as_json) as screen:
        done = move_database(source, target, SystemClock(), screen.show, live=live)
    if as_json:
        output.json(_document(done))
        return
    typer.echo(f"{done.source}: moved to {done.target}: {_extent(done)}")
    if done.aside is not None:
        typer.echo(f"the file is now {done.aside}, and no daemon starts with it")
    if live:
        typer.echo("one of the new daemons takes over now; do not start the old one")
        return
    typer.echo("write this into the configuration, then start the daemon:")
    typer.echo(f'\n[database]\nurl = "{done.url}"')
    if isinstance(target, str):
        typer.echo("\na password is not shown: see docs/how-to/move-to-postgresql.md")


def _extent(done: Moved) -> str:
    if not done.tables:
        return "an interrupted move is complete"
    rows = sum(table.rows for table in done.tables)
    return f"{rows:,} rows of {len(done.tables)} tables, compared with equal digests"


def _document(done: Moved) -> dict[str, object]:
    tables = {t.name: {"rows": t.rows, "digest": t.digest} for t in done.tables}
    aside = None if done.aside is None else str(done.aside)
    places = {"from": done.source, "to": done.target, "url": done.url}
    return {**places, "aside": aside, "tables": tables}


class _Screen:
    """Shows a progress bar for each table on a terminal, and nothing elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self._shown = ("", "")
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=Console(stderr=True),
            disable=quiet or not sys.stderr.isatty(),
        )
        self._bar = self._progress.add_task("checking", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, step: Step) -> None:
        """Show the step; a table begins a bar of its own."""
        text = f"{_DOING[step.what]} {step.table}"
        if self._shown != (step.what, step.table):
            self._shown = (step.what, step.table)
            self._progress.reset(self._bar, description=text)
        self._progress.update(self._bar, completed=step.done, total=step.total)
