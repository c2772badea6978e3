"""What the running daemon tells of itself, and what of it the database knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul import jobs
from backhaul.control import Control, NoDaemon
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
