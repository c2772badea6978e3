"""`backhaul status`: the daemon and its work on one screen."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from backhaul.admin.accounts import TOKEN_FILE
from backhaul.cli import context, glance, showing
from backhaul.cli.context import ConfigOption, JsonOption, explainer
from backhaul.cli.live import ask, job_rows
from backhaul.core.clock import SystemClock
from backhaul.store.sqlite.board import Board
from backhaul.store.sqlite.outbox_reading import Wanted

if TYPE_CHECKING:
    from backhaul.settings import Settings
    from backhaul.store.sqlite.explaining import Explainer

PARKED_SHOWN = 3


def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show on one screen what is wrong, what runs, what waits, and what to type.

    What does not fit a terminal is cut; into a file or a pipe it goes whole.
    """
    settings = context.settings(config)
    live, silence = ask(settings)
    with explainer(config) as known:
        found = {"daemon": live, **_read(settings, known, live)}
    if as_json:
        showing.json(found)
        return
    said = {**found, "silence": silence, "token": _token(settings)}
    said["rehearsed"] = live["dry_run"] if live else settings.rehearsed
    terminal = showing.terminal()
    now = SystemClock().now()
    showing.screen(glance.sections(said, now, exact=terminal is None), terminal)


def _read(
    settings: Settings, known: Explainer, live: dict[str, Any] | None
) -> dict[str, Any]:
    glanced = known.glance(settings.stores, settings.connectors)
    for name, store in glanced["stores"].items():
        store |= {"sending": None, "stopped": {}, "paused": None}
        store |= (live or {}).get("stores", {}).get(name, {})
    for name, each in glanced["connectors"].items():
        each |= {"up": None, "reason": None, "worked_at": None}
        each |= (live or {}).get("connectors", {}).get(name, {})
    return {
        **known.counts(),
        "consistency": known.consistency(),
        "confirmations": known.confirmations(),
        "targets_stopped": known.stopped_targets(),
        **glanced,
        "parked": known.commands(Wanted(state="parked"), PARKED_SHOWN),
        "jobs": job_rows(settings, live, known.jobs()),
        "disk": _disk(settings),
    }


def _disk(settings: Settings) -> dict[str, Any]:
    database = settings.database_file
    log = database.with_name(f"{database.name}-wal")
    return {
        "database_bytes": database.stat().st_size,
        "log_bytes": log.stat().st_size if log.exists() else 0,
        "free_bytes": shutil.disk_usage(database.parent).free,
        "folder": str(database.parent),
    }


def _token(settings: Settings) -> str | None:
    """Return the file with which the first user is made, while there is no user."""
    file = settings.state_dir / TOKEN_FILE
    if not file.exists():
        return None
    board = Board(settings.database_file)
    try:
        return None if board.users() else str(file)
    finally:
        board.close()
