"""Scheduled jobs: the only module that touches APScheduler.

A job only opens a gate and returns: the work has its own loop, so that a wake can never
be lost while a run is still busy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from backhaul.settings.jobs import CRON_RANGES, cron_number

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from apscheduler.triggers.base import BaseTrigger

    from backhaul.settings import Job

_KEYWORDS = {
    "minute": "minute",
    "hour": "hour",
    "day": "day",
    "month": "month",
    "weekday": "day_of_week",
}
_DAYS = ("day", "day_of_week")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Schedule:
    """Calls functions when their triggers fire; late runs are made up for once."""

    def __init__(self) -> None:
        # misfire_grace_time: by default a run that is a second late is dropped.
        self._scheduler = AsyncIOScheduler(
            job_defaults={
                "misfire_grace_time": None,
                "coalesce": True,
                "max_instances": 1,
            }
        )

    def add(self, name: str, job: Job, call: Callable[[], None]) -> None:
        """Add a job unless it is disabled."""
        if job.enabled:
            self._scheduler.add_job(call, trigger_of(job), id=name, name=name)

    def start(self) -> None:
        """Begin. Call from the running event loop."""
        self._scheduler.start()

    def stop(self) -> None:
        """End; safe to call before `start`."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def next_runs(self) -> dict[str, datetime | None]:
        """Return when each job runs next."""
        jobs = self._scheduler.get_jobs()
        return {job.name: getattr(job, "next_run_time", None) for job in jobs}


def trigger_of(job: Job) -> BaseTrigger:
    """Return what fires as the settings say; cron lines in local time."""
    if job.trigger == "interval" or job.cron is None:
        return IntervalTrigger(seconds=job.every)
    pairs = zip(_KEYWORDS, job.cron.split(), strict=True)
    fields = {_KEYWORDS[name]: _spell(name, text) for name, text in pairs}
    _, _, day, _, weekday = job.cron.split()
    if "*" in {day[0], weekday[0]}:
        return CronTrigger(**fields)
    # Cron fires on either where both are restricted; APScheduler only on both.
    return OrTrigger(
        [CronTrigger(**{**fields, left_out: "*"}) for left_out in _DAYS],
    )


def _spell(name: str, field: str) -> str:
    """Spell a cron field out, value by value.

    APScheduler counts weekdays from Monday, reads `jan-6` as January and refuses some
    steps that cron accepts.
    """
    numbers = [number for part in field.split(",") for number in _numbers(name, part)]
    words = [_WEEKDAYS[n] if name == "weekday" else str(n) for n in numbers]
    return ",".join(dict.fromkeys(words))


def _numbers(name: str, part: str) -> range:
    """Return the numbers of one part such as `1-5`, `*/2` or `mon`."""
    low, high = CRON_RANGES[name]
    span, _, step = part.lower().partition("/")
    first, _, last = span.partition("-")
    start = low if first == "*" else cron_number(name, first)
    if last:
        high = cron_number(name, last)
    elif first != "*" and not step:
        high = start
    return range(start, high + 1, int(step or 1))
