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

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from backhaul.settings import Settings
    from backhaul.store.sqlite.explaining import Row


ASK_SECONDS = 5.0
NOBODY = "is not running; start it with: backhaul run"


def ask(settings: Settings) -> tuple[dict[str, Any] | None, str]:
    """Return what the running daemon tells of itself, or else why it does not."""
    try:
        return Control(settings.state_dir).get("/api/status", ASK_SECONDS), ""
    except NoDaemon:
        return None, NOBODY
    except BackhaulError as error:
        return None, f"does not answer: {error}"


def job_rows(
    settings: Settings,
    live: Mapping[str, Any] | None,
    states: Mapping[tuple[str, str], Row],
) -> list[dict[str, Any]]:
    """Return of each job when it runs, did and will.

    The daemon knows what is in force: the settings may be different by now.
    """
    told = live or {}
    next_runs = told.get("jobs", {})
    plans = told.get("plans") or jobs.plans(settings)
    rules = told.get("rules") or jobs.rules(settings)
    return [
        {
            "job": key[0],
            "store": key[1],
            "when": words,
            "rule": rules.get(label),
            **_last(states.get(key, {})),
            "next_run_at": next_runs.get(label),
        }
        for label, words in plans.items()
        for key in [jobs.key_of(label)]
    ]


def _last(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of the last run."""
    known = {name: state.get(name) for name in ("paused_at", "outcome", "detail")}
    return known | {
        "last_run_at": state.get("started_at"),
        "trigger": state.get("trigger"),
    }


CHANGE_SECONDS = 3_600.0
"""Looking through every event takes its time."""


def change(config: Path | None, name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what came of the change. Raises BackhaulError.

    Without a daemon the lock is taken for as long as the change needs.
    """
    settings = context.settings(config)
    path = f"/api/changes/{name}"
    try:
        done: dict[str, Any] = Control(settings.state_dir).post(
            path, asked, CHANGE_SECONDS
        )
    except NoDaemon:
        return asyncio.run(_by_itself(settings, name, asked))
    except ConnectionLost as error:
        raise BackhaulError(
            f"{error}; look whether it was done, and say it again: it is not done twice"
        ) from None
    return done


def who() -> str:
    """Return who sits there, for the audit: the person behind sudo, if there is one."""
    uid = os.getuid()
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return f"uid {uid}"
    return f"{user} (uid {uid})"


async def _by_itself(
    settings: Settings, name: str, asked: dict[str, Any]
) -> dict[str, Any]:
    # All that the daemon is made of: only who works without one waits for it to load.
    from backhaul.app.offline import offline

    async with offline(settings) as known:
        return await known[name](asked)
