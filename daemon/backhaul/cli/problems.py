"""The current problems, as `backhaul status` shows them."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.alerting.problem import LISTS, Facts, Problem
from backhaul.alerting.problems import find_problems
from backhaul.app.control_socket import Control
from backhaul.cli.output import Line
from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from backhaul.settings import Settings
    from backhaul.store.read_models import Reader

SHOWN = 3
"""Problems of one kind that are shown if a command lists them all."""


def current(
    settings: Settings, known: Reader, live: Mapping[str, Any] | None
) -> list[Problem]:
    """Return the problems the daemon finds; without it, those of the database."""
    if live is not None:
        try:
            found = Control(settings.state_dir).get("/api/problems")
            return msgspec.convert(found, list[Problem])
        except (BackhaulError, msgspec.ValidationError):
            pass  # it has just ended, or is of another version
    return find_problems(_facts(settings, known))


def _facts(settings: Settings, known: Reader) -> Facts:
    now = SystemClock().now()
    silence = {
        name: each.silent_after
        for name, each in settings.connectors.items()
        if each.silent_after is not None
    }
    return Facts(
        status=_stopped_daemon(settings),
        conditions=known.conditions(silence),
        drift_rows=settings.alerts.drift_rows,
        silence=silence,
        now=now.timestamp(),
        backups_missed=_unknown,
        free_bytes=shutil.disk_usage(settings.database_file.parent).free,
    )


def _unknown(_: datetime) -> bool:
    """Only the daemon knows its schedule, and says when a backup is late."""
    return False


def _stopped_daemon(settings: Settings) -> dict[str, Any]:
    """Return the status of a daemon that does not run."""
    empty = ("connectors", "news", "jobs", "subscriptions", "refused")
    return {
        "stores": {name: {"stopped": {}} for name in settings.stores},
        "dry_run": settings.dry_run_connections,
        **{name: {} for name in empty},
    }


def lines(found: Sequence[Problem]) -> Iterator[Line]:
    """Yield a line for each problem; only the first of many equal ones are shown."""
    number = Counter(problem.kind for problem in found)
    seen: Counter[str] = Counter()
    for problem in found:
        kind = problem.kind
        seen[kind] += 1
        more = number[kind] - SHOWN if kind in LISTS else 0
        if more <= 0 or seen[kind] <= SHOWN:
            yield Line(problem.subject, problem.text, problem.command, problem.severity)
        elif seen[kind] == SHOWN + 1:
            yield Line(
                problem.subject, f"and {more} more", LISTS[kind], problem.severity
            )
