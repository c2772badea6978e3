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
"""A clock that is off by this much since the last look was set, not slewed."""
UNBELIEVED = timedelta(days=2)
"""A last run further ahead than this was dated by a wrong clock."""
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
    """When a job runs, as the settings say; cron lines and quiet hours in `zone`."""

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
        """When the run that is being started was due."""

    def next(self, last: datetime) -> datetime | None:
        """Return the first run after `last`, in UTC; it may be past."""
        last = last.astimezone(UTC)  # elsewhere a sum of times forgets summer time
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
        """Return the first run after `last`, which the clock of then has dated."""
        if last - now > UNBELIEVED or not self._cron:
            last = min(last, now)
        return self.next(last)

    def set_back(self, planned: datetime, now: datetime, jump: timedelta) -> datetime:
        """Return when to run what was planned before the clock went back by `jump`."""
        anew = self.next(now) or planned
        if self._cron:
            return anew if jump > UNBELIEVED else planned
        return min(self.quiet.over(planned.astimezone(UTC) - jump), anew)

    def get_next_fire_time(
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        """Return a run to come: what was missed in between is not owed."""
        self.due = previous_fire_time or now
        following = self.next(previous_fire_time or now)
        if following is not None and following <= now:
            following = self.next(now)
        return following


class OnDemand(BaseTrigger):  # type: ignore[misc]  # apscheduler has no types
    """Runs when somebody asks for it; in between its next time is out of reach."""

    def get_next_fire_time(self, *_: datetime | None) -> datetime:
        """Return a time that does not come: APScheduler drops jobs without one."""
        return _OUT_OF_REACH


def _says_a_failure(record: logging.LogRecord) -> bool:
    """Return False for a run that a stop cancels before it began: that is no error."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, asyncio.CancelledError)


class Schedule:
    """Awaits functions, with the moment they were due, when their jobs' times come."""

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
                "max_instances": 2,  # one under way, one to tell it of another
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

        What was missed since the `last` run is made up for, once; so is a run that is
        `owed` since a moment.
        """
        if not job.enabled:
            return
        timetable, now = Timetable(job, self.zone, self._chance), self._clock.now()
        # What is owed is late, whatever the clock said that was since set back.
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
        """Return what starts a run of this job: at a moment, or in the next turn.

        A run that is asked for and has not begun is replaced.
        """

        async def run() -> None:
            # APScheduler cancels what runs when it stops, and would log that as error.
            with suppress(asyncio.CancelledError):
                await call()

        def start(at: datetime | None) -> None:
            if not self._is_stopped:
                # Of the past: due whatever a clock shows that somebody may just set.
                self._scheduler.modify_job(id_, next_run_time=at or _LONG_AGO)

        id_ = f"{name} on demand"
        self._scheduler.add_job(
            run, OnDemand(), id=id_, name=name, next_run_time=_OUT_OF_REACH
        )
        return start

    def remove(self, name: str) -> None:
        """Take a job out; one that is not in does no harm."""
        if self._scheduler.get_job(name) is not None:
            self._scheduler.remove_job(name)

    def missed_twice(self, name: str, last: datetime) -> bool:
        """Tell whether two runs of a job that is planned have passed since `last`."""
        job = self._scheduler.get_job(name)
        first = job and job.trigger.next(last)
        second = first and job.trigger.next(first)
        return second is not None and second < self._clock.now()

    def start(self) -> None:
        """Begin. Call from the running event loop."""
        self._scheduler.start()

    def stop(self) -> None:
        """End; safe to call before `start`. No run on demand is started any more."""
        self._is_stopped = True
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    async def watch(self) -> None:
        """Look whether somebody sets the machine's clock, for ever."""
        while True:
            self._notice()
            await self._clock.sleep(WATCH_SECONDS)

    def _notice(self) -> None:
        """See whether the clock was set since the last call.

        Each run of a job calls it too: one that runs on a clock which is set forth and
        back again between two looks would be planned for the time it showed meanwhile.
        """
        offset = self._offset()
        jump, self._last_offset = offset - self._last_offset, offset
        if abs(jump.total_seconds()) > JUMP_SECONDS:
            self._jumped(jump)

    def _offset(self) -> timedelta:
        """Return what only a clock that is set can change."""
        elapsed = timedelta(seconds=self._clock.monotonic())
        return self._clock.now() - _NEVER - elapsed

    def _jumped(self, jump: timedelta) -> None:
        """Keep what is planned in step with the clock; what is due now runs once."""
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
    """Calls one after the other; what falls due meanwhile is called once after it."""

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
        """Call now, or let the call under way be followed by another."""
        # A coroutine: APScheduler runs plain functions in threads of their own. And it
        # would drop what falls due while the last run of a job is still under way.
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
    """The moments of a cron line."""

    def __init__(self, line: str, zone: tzinfo) -> None:
        self._zone = zone
        self._trigger = _trigger(line, zone)
        self._every_hour = line.split()[1].startswith("*")

    def after(self, moment: datetime) -> datetime | None:
        """Return the first one after a moment.

        In the hour that is passed twice, lines that name their hours do not run again;
        where an hour is left out, what was due within runs after it.
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
    # Cron fires on either where both are restricted; APScheduler only on both.
    return OrTrigger(
        [CronTrigger(**{**fields, left_out: "*"}, timezone=zone) for left_out in _DAYS],
    )


def _spell(name: str, field: str) -> str:
    """Spell a cron field out, value by value.

    APScheduler counts weekdays from Monday, reads `jan-6` as January and refuses some
    steps that cron accepts.
    """
    numbers = cron_numbers(name, field)
    words = [_WEEKDAYS[n] if name == "weekday" else str(n) for n in numbers]
    return ",".join(dict.fromkeys(words))
