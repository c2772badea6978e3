"""Scheduled jobs over a real store, and the work that they started."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from backhaul.app.jobs import Jobs
from backhaul.app.schedule import Schedule
from backhaul.settings import Settings
from scenes.clock import SettableClock
from scenes.databases import started_store
from scenes.stored import job_runs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from backhaul.store import Place
    from backhaul.store.sqlite.database import SqliteStore

STORE = {
    "base_url": "http://shop.test",
    "api_key": "svc_live_jobs",
    "webhook_secrets": ["whsec_jobs"],
}


def settings_of(
    jobs: Mapping[str, Any] | None = None,
    *,
    eager: bool = False,
    stores: tuple[str, ...] = ("main",),
) -> Settings:
    return Settings.model_validate(
        {
            "stores": dict.fromkeys(stores, STORE),
            "push": {"eager": eager},
            "jobs": jobs or {},
        }
    )


@dataclass(slots=True)
class Program:
    """The jobs from one start of the daemon to its end."""

    path: Path
    store: SqliteStore
    clock: SettableClock
    jobs: Jobs
    schedule: Schedule
    polled: list[datetime] = field(default_factory=list)

    def runs(self) -> list[tuple[str, str, str, str]]:
        return runs(self.path)


def runs(path: Place) -> list[tuple[str, str, str, str]]:
    """Return the recorded runs of all jobs, the oldest first."""
    return [(run.job, run.trigger, run.outcome, run.detail) for run in job_runs(path)]


@asynccontextmanager
async def program(
    path: Path, settings: Settings, later: timedelta = timedelta()
) -> AsyncIterator[Program]:
    """Start the scheduler with the incremental sync, at this time or `later`.

    Jobs become due by the machine's clock. With `later` the scheduler does not start.
    """
    clock = SettableClock(datetime.now(UTC) + later)
    schedule = Schedule(clock, lambda: 0.0)
    async with started_store(path, clock) as store:
        jobs = Jobs(settings, store.job_runs, clock, schedule)
        life = Program(path, store, clock, jobs, schedule)
        for name in settings.stores:
            jobs.does(
                "reconcile_incremental", name, lambda: life.polled.append(clock.now())
            )
        await jobs.load()
        if not later:
            schedule.start()
        try:
            yield life
        finally:
            schedule.stop()
