"""Webhooks in the files of receiver processes, for commands that read the database.

With `receivers` in `[public]`, a webhook reaches the database a moment after it was
answered. What a daemon that was killed had not moved waits for its next start.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

import typer

from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError
from backhaul.store import database_at, inbox_files, open_store
from backhaul.store.database import sole_writer

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.settings import Settings

MOVE_SECONDS = 5.0


def move_before_read(settings: Settings) -> None:
    """Wait until all webhooks that are answered by now are in the database.

    A warning says what may be missing: a command that only reads goes on without.
    """
    if not inbox_files(settings.state_dir):
        return
    try:
        if not _has_moved(settings):
            _warn(f"{_described(settings)}. The next start of the daemon moves them")
    except BackhaulError as error:
        _warn_of_late(error)


def move_before_copy(settings: Settings, database: Path) -> None:
    """Do the same for a copy of the database, without a daemon too."""
    try:
        move_left(settings, database, ask=True)
    except (BackhaulError, OSError) as error:  # as for a user who cannot write
        _warn_of_late(error)


def move_left(settings: Settings, database: Path, *, ask: bool = False) -> None:
    """Move what a daemon that was killed left in its state directory.

    With `ask`, a daemon that runs moves it. Raises AlreadyRunning, Busy, and
    BackhaulError if the schema is not the one of this version.
    """
    if not inbox_files(settings.state_dir):
        return
    if ask and _has_moved(settings):
        return
    if database_at(database).pending_migrations():
        raise BackhaulError(
            f"{_described(settings)}, and the database has the schema of another"
            " version. Start the daemon once, so that it moves them"
        )
    with sole_writer(settings.state_dir):
        asyncio.run(_move(settings.state_dir, database))


async def _move(state_dir: Path, database: Path) -> None:
    from backhaul.app.receiver_files import LeftFiles

    clock = SystemClock()
    store = open_store(database, clock)
    store.start()
    try:
        await LeftFiles(state_dir, store.inbox, clock).move_all()
    finally:
        await store.stop()


def _has_moved(settings: Settings) -> bool:
    """Let the daemon move all that is answered; return False if there is no daemon."""
    # Imported late, as in `_move`: most commands meet no such file.
    from backhaul.app.control_socket import Control, NoDaemon

    control = Control(settings.state_dir)
    try:
        control.post("/api/changes/receivers/move", {}, MOVE_SECONDS)
    except NoDaemon:
        return False
    return True


def _described(settings: Settings) -> str:
    names = ", ".join(each.name for each in inbox_files(settings.state_dir))
    return f"webhooks in {names} may not be in the database"


def _warn_of_late(error: Exception) -> None:
    _warn(f"webhooks that were answered a moment ago may be missing: {error}")


@functools.cache
def _warn(text: str) -> None:
    """Say something once: a command with --follow reads every second."""
    typer.echo(f"warning: {text}", err=True)
