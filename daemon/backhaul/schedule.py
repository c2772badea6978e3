"""Scheduled jobs: the only module that touches APScheduler.

A job only opens a gate and returns: the work has its own loop, so that a wake can never
be lost while a run is still busy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from apscheduler.triggers.base import BaseTrigger

    from backhaul.settings import Job

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
            self._scheduler.add_job(call, _trigger(job), id=name, name=name)

    def start(self) -> None:
        """Begin. Call from the running event loop."""
        self._scheduler.start()

    def stop(self) -> None:
        """End; safe to call before `start`."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def next_runs(self) -> dict[str, datetime | None]:
        """Return when each job runs next."""
        return {job.name: job.next_run_time for job in self._scheduler.get_jobs()}


def _trigger(job: Job) -> BaseTrigger:
    if job.trigger == "interval" or job.cron is None:
        return IntervalTrigger(seconds=job.every)
    minute, hour, day, month, weekday = job.cron.split()
    return CronTrigger(
        minute=minute,
        hour=hour,
        day=day,
        month=month,
        day_of_week=_weekdays(weekday),
    )


def _weekdays(field: str) -> str:
    """Name the weekdays of a cron field: cron counts from Sunday, APScheduler not."""
    named = [_WEEKDAYS[day] for part in field.split(",") for day in _days(part)]
    return ",".join(dict.fromkeys(named))


def _days(part: str) -> range:
    """Return the day numbers, Sunday 0 or 7, of one part such as `1-5` or `*/2`."""
    span, _, step = part.partition("/")
    if span == "*":
        return range(0, 7, int(step or 1))
    first, _, last = span.partition("-")
    end = _day(last) if last else 6 if step else _day(first)
    return range(_day(first), end + 1, int(step or 1))


def _day(text: str) -> int:
    return int(text) if text.isdigit() else _WEEKDAYS.index(text.lower())
