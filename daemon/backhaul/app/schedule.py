"""Job scheduler: the only module that uses APScheduler."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from loguru import logger

from backhaul.core.quiet_hours import QuietHours
from backhaul.settings.jobs import cron_numbers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul.core.clock import Clock
    from backhaul.settings import Scheduled

WATCH_SECONDS = 5.0
JUMP_SECONDS = 2.0
"""A clock that moved by this much between two checks was set, not slewed."""
UNBELIEVED = timedelta(days=2)
"""A last run further in the future than this was recorded with a wrong clock."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_OUT_OF_REACH = datetime(9999, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_EXECUTOR = "apscheduler.executors.default"
_KEYWORDS = {
    "minute": "minute",
    "hour": "hour",
    "day": "day",
    "month": "month",
    "weekday": "day_of_week",
}
_DAYS = ("day", "day_of_week")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Timetable(BaseTrigger):  # type: ignore[misc]  # apscheduler has no types
    """The run times of a job by its settings; cron and quiet hours are in `zone`."""

    def __init__(
        self, job: Scheduled, zone: tzinfo, chance: Callable[[], float]
    ) -> None:
        self._every = timedelta(seconds=job.every)
        self._cron = (
            Cron(job.cron, zone) if job.trigger == "cron" and job.cron else None
        )
        self._jitter = timedelta(seconds=job.jitter or 0)
        self._chance = chance
        self.quiet = QuietHours(job.quiet, zone)
        self.due = _NEVER
        """When the present run was due."""

    def next(self, last: datetime) -> datetime | None:
        """Return the first run after `last`, in UTC; it may be in the past."""
        last = last.astimezone(UTC)  # sums of local times ignore daylight saving
        planned = self._cron.after(last) if self._cron else last + self._every
        if planned is None:
            return None
        moment = planned + self._delay()
        over = self.quiet.over(moment)
        if over == moment:
            return moment
        later = over + self._delay()
        return over if self.quiet.holds(later) else later

    def _delay(self) -> timedelta:
        return self._jitter * self._chance()

    def first(self, last: datetime, now: datetime) -> datetime | None:
        """Return the first run after `last`, even if the clock was wrong then."""
        if last - now > UNBELIEVED or not self._cron:
            last = min(last, now)
        return self.next(last)

    def set_back(self, planned: datetime, now: datetime, jump: timedelta) -> datetime:
        """Return the new time of a planned run after the clock went back by `jump`."""
        following = self.next(now) or planned
        if self._cron:
            return following if jump > UNBELIEVED else planned
        return min(self.quiet.over(planned.astimezone(UTC) - jump), following)

    def get_next_fire_time(
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        """Return the next run in the future; missed runs are not repeated."""
        self.due = previous_fire_time or now
        following = self.next(previous_fire_time or now)
        if following is not None and following <= now:
            following = self.next(now)
        return following


class OnDemand(BaseTrigger):  # type: ignore[misc]  # apscheduler has no types
    """Runs on request only; otherwise its next time is never reached."""

    def get_next_fire_time(self, *_: datetime | None) -> datetime:
        """Return a time that is never reached: APScheduler drops jobs without one."""
        return _OUT_OF_REACH


def _says_a_failure(record: logging.LogRecord) -> bool:
    """Return False for a run that a stop cancelled before it began."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, asyncio.CancelledError)


class Schedule:
    """Calls each job's function when it is due, and passes the time it was due."""

    def __init__(self, clock: Clock, chance: Callable[[], float]) -> None:
        self._clock = clock
        self._chance = chance
        self._last_offset = self._offset()
        self._is_stopped = False
        # misfire_grace_time: by default a run that is a second late is dropped.
        self._scheduler = AsyncIOScheduler(
            job_defaults={
                "misfire_grace_time": None,
                "coalesce": True,
                "max_instances": 2,  # one runs, the other marks that one more is due
            }
        )

        logging.getLogger(_EXECUTOR).addFilter(_says_a_failure)

    @property
    def zone(self) -> tzinfo:
        """The zone of this machine."""
        zone: tzinfo = self._scheduler.timezone
        return zone

    def add(
        self,
        name: str,
        job: Scheduled,
        call: Callable[[datetime], Awaitable[None]],
        last: datetime | None = None,
        owed: datetime | None = None,
    ) -> None:
        """Add a job unless it is disabled.

        Runs that were missed since the `last` run are caught up once. So is an
        interrupted run that was due at `owed`.
        """
        if not job.enabled:
            return
        timetable, now = Timetable(job, self.zone, self._chance), self._clock.now()
        # An owed run is late, even if the clock was set back since.
        first = min(owed, now) if owed else timetable.first(last or now, now)
        if first is not None and first <= now < (over := timetable.quiet.over(now)):
            first = over
        self._scheduler.add_job(
            _SerialCalls(timetable, call, self._notice).fall_due,
            timetable,
            id=name,
            name=name,
            next_run_time=first,
        )

    def on_demand(
        self, name: str, call: Callable[[], Awaitable[None]]
    ) -> Callable[[datetime | None], None]:
        """Return a function that starts a run of this job, at a time or at once.

        A new request replaces a requested run that has not begun. A request for a job
        that was removed is ignored: its store is given up, and ends its work.
        """

        async def run() -> None:
            # At a stop APScheduler cancels runs, and would log that as an error.
            with suppress(asyncio.CancelledError):
                await call()

        def start(at: datetime | None) -> None:
            if not self._is_stopped and self._scheduler.get_job(id_) is not None:
                # A past time is due even if somebody is setting the clock.
                self._scheduler.modify_job(id_, next_run_time=at or _LONG_AGO)

        id_ = _on_demand(name)
        self._scheduler.add_job(
            run, OnDemand(), id=id_, name=name, next_run_time=_OUT_OF_REACH
        )
        return start

    def remove(self, name: str) -> None:
        """Remove a job if it is there."""
        if self._scheduler.get_job(name) is not None:
            self._scheduler.remove_job(name)

    def remove_all(self, name: str) -> None:
        """Remove a job, and the runs of it that may be requested."""
        self.remove(name)
        self.remove(_on_demand(name))

    def missed_twice(self, name: str, last: datetime) -> bool:
        """Return whether a job had two due times or more since `last`."""
        job = self._scheduler.get_job(name)
        first = job and job.trigger.next(last)
        second = first and job.trigger.next(first)
        return second is not None and second < self._clock.now()

    def start(self) -> None:
        """Start. Call from the running event loop."""
        self._scheduler.start()

    def stop(self) -> None:
        """Stop; safe to call before `start`. Later requests for a run are ignored."""
        self._is_stopped = True
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    async def watch(self) -> None:
        """Check periodically whether the machine's clock was set, until cancelled."""
        while True:
            self._notice()
            await self._clock.sleep(WATCH_SECONDS)

    def _notice(self) -> None:
        """Check whether the clock was set since the last call.

        Each run of a job calls this too. If the clock is set forward and back between
        two checks, the job would otherwise be planned for the wrong time.
        """
        offset = self._offset()
        jump, self._last_offset = offset - self._last_offset, offset
        if abs(jump.total_seconds()) > JUMP_SECONDS:
            self._jumped(jump)

    def _offset(self) -> timedelta:
        """Return wall clock minus monotonic clock: it changes if the clock is set."""
        elapsed = timedelta(seconds=self._clock.monotonic())
        return self._clock.now() - _NEVER - elapsed

    def _jumped(self, jump: timedelta) -> None:
        """Move planned runs with the clock; jobs that are due now run once."""
        logger.bind(action="clock.jumped").warning(
            "the clock was set by {:+.0f} seconds", jump.total_seconds()
        )
        now = self._clock.now()
        for job in self._timed() if jump < timedelta() else ():
            if job.next_run_time is not None:
                moved = job.trigger.set_back(job.next_run_time, now, -jump)
                self._scheduler.modify_job(job.id, next_run_time=moved)
        self._scheduler.wakeup()

    def next_runs(self) -> dict[str, datetime | None]:
        """Return when each job runs next."""
        return {job.name: getattr(job, "next_run_time", None) for job in self._timed()}

    def _timed(self) -> list[Any]:
        """Return the jobs that have a timetable."""
        jobs = self._scheduler.get_jobs()
        return [job for job in jobs if isinstance(job.trigger, Timetable)]


class _SerialCalls:
    """Calls a function serially; calls due meanwhile become one call afterwards."""

    def __init__(
        self,
        timetable: Timetable,
        call: Callable[[datetime], Awaitable[None]],
        notice: Callable[[], None],
    ) -> None:
        self._timetable = timetable
        self._call = call
        self._notice = notice
        self._owed: datetime | None = None
        self._calling = False

    async def fall_due(self) -> None:
        """Call now, or once more after the present call."""
        # A coroutine: APScheduler runs plain functions in separate threads. It would
        # also drop a call that is due while the previous one still runs.
        self._notice()
        self._owed = self._owed or self._timetable.due
        if self._calling:
            return
        self._calling = True
        try:
            while self._owed is not None:
                due, self._owed = self._owed, None
                await self._call(due)
        finally:
            self._calling = False


class Cron:
    """The times of a cron line."""

    def __init__(self, line: str, zone: tzinfo) -> None:
        self._zone = zone
        self._trigger = _trigger(line, zone)
        self._every_hour = line.split()[1].startswith("*")

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time after `moment`.

        Daylight saving: in the repeated hour, a line with fixed hours does not run
        again; runs that were due in the skipped hour run after it.
        """
        while True:
            start = (moment.astimezone(UTC) + _TICK).astimezone(self._zone)
            found: datetime | None = self._trigger.get_next_fire_time(None, start)
            if found is None or self._every_hour or not found.fold:
                return found and found.astimezone(UTC)
            moment = found


def _trigger(line: str, zone: tzinfo) -> BaseTrigger:
    pairs = zip(_KEYWORDS, line.split(), strict=True)
    fields = {_KEYWORDS[name]: _spell(name, text) for name, text in pairs}
    _, _, day, _, weekday = line.split()
    if "*" in {day[0], weekday[0]}:
        return CronTrigger(**fields, timezone=zone)
    # If both days are restricted, cron fires on either, APScheduler only on both.
    return OrTrigger(
        [CronTrigger(**{**fields, left_out: "*"}, timezone=zone) for left_out in _DAYS],
    )


def _spell(name: str, field: str) -> str:
    """Return a cron field as a list of all its values.

    This avoids differences: APScheduler counts weekdays from Monday, reads `jan-6` as
    January and refuses some steps that cron accepts.
    """
    numbers = cron_numbers(name, field)
    words = [_WEEKDAYS[n] if name == "weekday" else str(n) for n in numbers]
    return ",".join(dict.fromkeys(words))


def _on_demand(name: str) -> str:
    return f"{name} on demand"
