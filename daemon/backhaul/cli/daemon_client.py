"""Asks the running daemon, or acts offline if none runs."""

from __future__ import annotations

import asyncio
import getpass
import os
from typing import TYPE_CHECKING, Any

from backhaul.app import jobs
from backhaul.app.control_socket import ConnectionLost, Control, NoDaemon
from backhaul.cli import context
from backhaul.errors import BackhaulError
from backhaul.store.shown_fields import job_row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from backhaul.settings import Settings
    from backhaul.store.read_records import JobStatus


ASK_SECONDS = 5.0
NOT_RUNNING = "is not running; start it with: backhaul run"


def ask(settings: Settings) -> tuple[dict[str, Any] | None, str]:
    """Return the running daemon's status, or None and the reason."""
    try:
        return Control(settings.state_dir).get("/api/status", ASK_SECONDS), ""
    except NoDaemon:
        return None, NOT_RUNNING
    except BackhaulError as error:
        return None, f"does not answer: {error}"


def job_rows(
    settings: Settings,
    live: Mapping[str, Any] | None,
    states: Mapping[tuple[str, str], JobStatus],
) -> list[dict[str, Any]]:
    """Return each job's schedule, last run and next run.

    The daemon's own plans win, because the settings may have changed since it started.
    """
    status = live or {}
    next_runs = status.get("jobs", {})
    plans = status.get("plans") or jobs.plans(settings)
    rules = status.get("rules") or jobs.rules(settings)
    return [
        job_row(key, words, rules.get(label), states.get(key), next_runs.get(label))
        for label, words in plans.items()
        for key in [jobs.key_of(label)]
    ]


CHANGE_SECONDS = 3_600.0
"""Reprocessing every event can take this long."""


def change(config: Path | None, name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Make a change through the daemon and return its result. Raises BackhaulError.

    Without a daemon, this process takes the lock and makes the change itself.
    """
    settings = context.settings(config)
    path = f"/api/changes/{name}"
    try:
        done: dict[str, Any] = Control(settings.state_dir).post(
            path, asked, CHANGE_SECONDS
        )
    except NoDaemon:
        return asyncio.run(_offline(settings, name, asked))
    except ConnectionLost as error:
        raise BackhaulError(
            f"{error}; check whether the action was done, then run the command"
            " again: repeating is safe"
        ) from None
    return done


def who() -> str:
    """Return the user for the audit log: the one behind sudo, if there is one."""
    uid = os.getuid()
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container may run under a uid without a name
        return f"uid {uid}"
    return f"{user} (uid {uid})"


async def _offline(
    settings: Settings, name: str, asked: dict[str, Any]
) -> dict[str, Any]:
    # This loads all parts of the daemon, which other commands do not need.
    from backhaul.app.offline import offline

    async with offline(settings) as known:
        return await known[name](asked)
