"""Scheduled jobs: run when due or on request, pause and resume."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from loguru import logger
from msgspec import Struct

from backhaul.core.clock import from_text, to_text
from backhaul.core.quiet_hours import QuietHours
from backhaul.errors import BackhaulError, Busy
from backhaul.push.send_windows import JOBS, Burst
from backhaul.settings import Connector, PushJob
from backhaul.settings.jobs import polling_job
from backhaul.store.operations import AuditEntry, JobRun, Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from backhaul.app.schedule import Schedule
    from backhaul.connect.polling import PollSchedule
    from backhaul.core.clock import Clock
    from backhaul.push.dispatcher import Dispatcher
    from backhaul.settings import Scheduled, Settings
    from backhaul.store.operations import JobKey, JobRuns, JobState, ReportEnd

LATE = timedelta(minutes=1)
"""A run that begins later than this counts as a catch-up for missed runs."""
AT_ONCE = "at once"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATABASE_JOBS = frozenset({("prune", ""), ("backup", "")})


class JobWork(Struct, frozen=True):
    """What a job does: `start` begins a run that was due at a time, and returns.

    A job that sends a `kind` of command opens the send window of that kind; its
    `pause` closes it. If an operator requests a run, `start_now` begins it if set.
    """

    start: Callable[[str], None]
    kind: str | None = None
    pause: Callable[[str | None], None] = lambda _: None
    start_now: Callable[[str], None] | None = None


class Jobs:
    """Runs the jobs of the settings: on schedule, on demand and on request."""

    def __init__(
        self,
        settings: Settings,
        runs: JobRuns,
        clock: Clock,
        schedule: Schedule | None = None,
    ) -> None:
        self._jobs = settings.planned_jobs()
        self._plans, self._rules = plans(settings), rules(settings)
        self._at_once = at_once(settings)
        self._dry_run = settings.dry_run_connections
        self._runs = runs
        self._clock = clock
        self._schedule = schedule
        self._works: dict[JobKey, JobWork] = {}
        self._dispatchers: dict[str, Dispatcher] = {}
        self._paused: set[JobKey] = set()
        self._begun: set[JobKey] = set()
        self._is_loaded = False

    def does(self, name: str, store: str, start: Callable[[], None]) -> None:
        """Set what a job starts; its end is reported by `reporter` or `report`.

        A job that the settings do not plan is left out: a server makes its own backups.
        """
        if (name, store) in self._jobs:
            self._works[name, store] = JobWork(lambda _: start())

    def reporter(self, name: str, store: str = "") -> ReportEnd:
        """Return the function that reports the end of a job's run."""
        return partial(self._ended, (name, store))

    async def report(self, store: str, name: str, before: str, detail: str) -> None:
        """Report that the run of a store's job has ended, which began before a time."""
        await self._ended((name, store), before, detail)

    def polls(self, connector: str, polls: PollSchedule) -> None:
        """Let a job poll a connector; `reporter(polling_job(…))` reports its end."""
        key = (polling_job(connector), "")
        job = self._jobs[key]
        self._works[key] = JobWork(
            lambda _: polls.fall_due(),
            pause=polls.pause,
            start_now=lambda _: polls.wake(),
        )
        if job.quiet and self._schedule is not None:
            polls.set_quiet(QuietHours(job.quiet, self._schedule.zone))

    def sends(self, store: str, dispatcher: Dispatcher) -> None:
        """Let the jobs of a store open the send windows of its dispatcher."""
        self._dispatchers[store] = dispatcher
        for name, kind in JOBS.items():
            self._works[name, store] = JobWork(
                partial(dispatcher.open, kind), kind, partial(dispatcher.pause, kind)
            )
            if self._schedule is not None:
                self._run_on_demand((name, store), dispatcher, self._schedule)
            self._apply_send_window((name, store))

    def _run_on_demand(
        self, key: JobKey, dispatcher: Dispatcher, schedule: Schedule
    ) -> None:
        """Let the job run whenever a command is planned, while it has no schedule."""

        async def run() -> None:
            await burst.run(dispatcher.wake)

        kind = JOBS[key[0]]
        start = schedule.on_demand(label(key), run)
        record = partial(self._record, key)
        burst = Burst(kind, dispatcher.windows, self._clock, start, record)
        dispatcher.send_in_runs(kind, burst)

    async def _record(self, key: JobKey, began: str, ended: str, sent: int) -> bool:
        """Record a run on demand; return False if the database was busy."""
        run = JobRun(key, Trigger.PLANNED, began, began, JOBS[key[0]])
        try:
            await self._runs.record(run, ended, f"sent {sent}")
        except Busy as error:
            logger.bind(action="job.busy", job=label(key)).warning(
                "a run of {} could not be recorded: {}", label(key), error
            )
            return False
        return True

    async def close(self) -> None:
        """Record the runs that the stop of the daemon interrupts."""
        for dispatcher in self._dispatchers.values():
            for burst in dispatcher.bursts.values():
                await burst.record_sent()

    def _apply_send_window(self, key: JobKey) -> None:
        """Apply the settings of a push job to its send window."""
        name, store = key
        if name not in JOBS:
            return
        job, windows = self._jobs[key], self._dispatchers[store].windows
        windows.set_enabled(JOBS[name], job.enabled)
        windows.set_send_at_once(JOBS[name], key in self._at_once)
        quiet = None
        if job.quiet and self._schedule is not None:
            quiet = QuietHours(job.quiet, self._schedule.zone)
        windows.set_quiet(JOBS[name], quiet)
        self._dispatchers[store].wake()

    async def load(
        self,
        store: str | None = None,
        connectors: Collection[str] = (),
        *,
        alone: bool = True,
    ) -> None:
        """Restore send windows, pauses and missed runs of a store and its connections.

        The store "" stands for the jobs of the whole database, and None for all jobs.
        `alone` says that no other daemon may run jobs: then the first call ends the
        runs of all jobs.
        """
        keys = self._keys_of(store, connectors)
        is_first, self._is_loaded = alone and not self._is_loaded, True
        plans = self._jobs if is_first else {key: self._jobs[key] for key in keys}
        states = await self._runs.register(_in_words(plans), alone=is_first)
        for key in keys:
            if key in self._works:  # else its store was given up meanwhile
                self._take_up(key, self._works[key], states[key])

    def _keys_of(self, store: str | None, connectors: Collection[str]) -> list[JobKey]:
        """Return the jobs that run here of a store, or of the whole database."""
        if store is None:
            return list(self._works)
        polled = {(polling_job(name), "") for name in connectors}
        own = polled if store else _DATABASE_JOBS
        return [key for key in self._works if key in own or (store and key[1] == store)]

    def leave(self, store: str, connectors: Collection[str]) -> None:
        """Run the jobs of a store and its connections no longer."""
        for key in self._keys_of(store, connectors):
            del self._works[key]
            if self._schedule is not None:
                self._schedule.remove_all(label(key))
        self._dispatchers.pop(store, None)

    def _take_up(self, key: JobKey, work: JobWork, state: JobState) -> None:
        if work.kind and state.started_at:
            opened = state.ended_at or state.started_at
            work.start(min(opened, to_text(self._clock.now())))
        if state.paused_at:
            self._paused.add(key)
            work.pause(state.paused_at)
            return
        last = from_text(max(state.since, state.started_at or ""))
        if self._polls_often(key):
            last = EPOCH  # its runs are not recorded: it polls at every start
        owed = state.due_at if state.interrupted else None
        self._plan(key, last, from_text(owed) if owed else None)

    def _plan(self, key: JobKey, last: datetime, owed: datetime | None = None) -> None:
        if self._schedule is not None and key not in self._at_once:
            call = partial(self._due, key)
            self._schedule.add(label(key), self._jobs[key], call, last, owed)

    async def replan(self, settings: Settings) -> None:
        """Apply new settings; paused jobs stay paused.

        A changed interval starts now. May raise Busy; then nothing has changed.
        """
        planned, eager = settings.planned_jobs(), at_once(settings)
        scheduled = self._at_once - eager
        changed = {
            key: planned[key]
            for key in self._works
            if planned[key] != self._jobs[key] or key in self._at_once ^ eager
        }
        await self._runs.replan(_in_words(changed))
        self._jobs, self._at_once = planned, eager
        self._plans, self._rules = plans(settings), rules(settings)
        for key in changed:
            self._apply_send_window(key)
            if key in scheduled and key not in self._paused:
                # Commands planned so far were released: their retries need no run.
                self._works[key].start(to_text(self._clock.now()))
            if self._schedule is not None:
                self._schedule.remove(label(key))
            if key not in self._paused:
                self._plan(key, self._clock.now())

    def status(self) -> dict[str, dict[str, Any]]:
        """Return each job's next run, schedule and rule, by its label."""
        runs = self._schedule.next_runs() if self._schedule else {}
        moments = {name: run and to_text(run) for name, run in runs.items()}
        return {"jobs": moments, "plans": self._plans, "rules": self._rules}

    async def _due(self, key: JobKey, due: datetime) -> None:
        late = self._clock.now() - due > LATE
        if late and not self._polls_often(key):
            logger.bind(action="job.caught_up", job=label(key)).info(
                "{} was due at {} and runs now", label(key), to_text(due)
            )
        try:
            await self._start(key, Trigger.CATCH_UP if late else Trigger.SCHEDULE, due)
        except Busy as error:
            logger.bind(action="job.busy", job=label(key)).warning(
                "a run of {} could not be recorded: {}", label(key), error
            )
            self._works[key].start(to_text(self._clock.now()))

    async def _start(
        self,
        key: JobKey,
        trigger: Trigger,
        due: datetime,
        entry: AuditEntry | None = None,
    ) -> int:
        """Record the run, then begin it; return how many commands it releases."""
        work, at = self._works[key], to_text(self._clock.now())
        let_out = 0
        if trigger is Trigger.OPERATOR or not self._polls_often(key):
            self._begun.add(key)
            run = JobRun(key, trigger, to_text(due), at, work.kind)
            let_out = await self._runs.begin(run, entry)
        is_asked = trigger is Trigger.OPERATOR
        (work.start_now if is_asked and work.start_now else work.start)(at)
        return let_out

    def _polls_often(self, key: JobKey) -> bool:
        """Return whether a job polls a connector at an interval, often of seconds."""
        job = self._jobs[key]
        return isinstance(job, Connector) and job.trigger == "interval"

    async def _ended(
        self, key: JobKey, before: str, detail: str, *, failed: bool = False
    ) -> None:
        if self._polls_often(key) and key not in self._begun:
            return
        self._begun.discard(key)
        try:
            await self._runs.end(key, before, detail, failed=failed)
        except Busy as error:
            logger.bind(action="job.busy", job=label(key)).warning(
                "the end of {} could not be recorded: {}", label(key), error
            )

    async def run(self, name: str, store: str | None, who: str) -> list[dict[str, Any]]:
        """Run a job now, even one that is paused. Raises BackhaulError."""
        keys, started = self._called(name, store), []
        if not self._works:
            raise BackhaulError(
                "jobs run in the daemon, and no daemon runs; start it with:"
                " backhaul run"
            )
        for key in keys:
            entry, now = AuditEntry(who, "jobs run", label(key)), self._clock.now()
            dispatcher = self._dispatchers.get(key[1]) if key[0] in JOBS else None
            before = dispatcher.sent(JOBS[key[0]]) if dispatcher else 0
            planned = await self._start(key, Trigger.OPERATOR, now, entry)
            done = "started"
            if dispatcher is not None:
                done = await self._sent(JOBS[key[0]], dispatcher, before, planned)
            started.append({"job": key[0], "store": key[1], "done": done})
        return started

    async def _sent(
        self, kind: str, dispatcher: Dispatcher, before: int, planned: int
    ) -> str:
        """Return how many commands a run sent, and why other `planned` ones wait."""
        await dispatcher.wait_until_sent(kind)
        sent = dispatcher.sent(kind) - before
        waiting = max(planned - sent, 0)
        reason = dispatcher.why_waiting(kind)
        if reason:
            return f"sent {sent}, {waiting} waiting: {reason}"
        if waiting and self._dry_run:
            return f"sent {sent}, {waiting} waiting: a dry run is on"
        more = "not due yet, or behind another command of its order or product"
        return f"sent {sent}, {waiting} waiting: {more}" if waiting else f"sent {sent}"

    async def pause(
        self, name: str, store: str | None, who: str
    ) -> list[dict[str, Any]]:
        """Pause a job until it is resumed. Raises BackhaulError."""
        keys = self._called(name, store)
        since = await self._runs.pause(keys, _audit_entry(who, "jobs pause", keys))
        self._paused |= {*keys}
        for key in keys:
            logger.bind(action="job.paused", job=label(key)).info(
                "{} is paused", label(key)
            )
            if key in self._works:
                self._works[key].pause(since)
            if self._schedule is not None:
                self._schedule.remove(label(key))
        return _each(keys, "paused")

    async def resume(
        self, name: str, store: str | None, who: str
    ) -> list[dict[str, Any]]:
        """Resume a job; it runs at its next time. Raises BackhaulError."""
        keys = self._called(name, store)
        await self._runs.resume(keys, _audit_entry(who, "jobs resume", keys))
        self._paused -= {*keys}
        for key in keys:
            logger.bind(action="job.resumed", job=label(key)).info(
                "{} is resumed", label(key)
            )
            if key in self._works:
                self._works[key].pause(None)
            if self._schedule and label(key) not in self._schedule.next_runs():
                self._plan(key, self._clock.now())
        return _each(keys, "resumed")

    def _called(self, name: str, store: str | None) -> list[JobKey]:
        """Return the named jobs. Raises BackhaulError with the known names."""
        stores = [at for job, at in self._jobs if job == name]
        if not stores:
            known = ", ".join(dict.fromkeys(job for job, _ in self._jobs))
            raise BackhaulError(f"no job is called {name!r}; the jobs are: {known}")
        if store is None:
            return [(name, at) for at in stores]
        if store not in stores:
            known = ", ".join(filter(None, stores))
            raise BackhaulError(
                f"store {store!r} has no job {name}; the stores with this job are:"
                f" {known}"
                if known
                else f"job {name} is not a job of one store; leave out --store"
            )
        return [(name, store)]


def label(key: JobKey) -> str:
    """Return the name of a job, such as `prune` or `push_fulfillments:main`."""
    return ":".join(filter(None, key))


def key_of(called: str) -> JobKey:
    """Return the key of the job with this name."""
    name, _, store = called.partition(":")
    return name, store


def at_once(settings: Settings) -> set[JobKey]:
    """Return the jobs whose commands leave as soon as they are planned."""
    jobs = settings.planned_jobs().items()
    eager = settings.push.eager
    return {k for k, j in jobs if isinstance(j, PushJob) and j.sends_at_once(eager)}


def plans(settings: Settings) -> dict[str, str]:
    """Return in words when each job runs, by its label."""
    eager = at_once(settings)
    return {
        label(key): words(job, at_once=key in eager)
        for key, job in settings.planned_jobs().items()
    }


def rules(settings: Settings) -> dict[str, str]:
    """Return in words when the commands of each push job leave, by its label."""
    push = settings.push
    is_written = "eager" in push.model_fields_set
    return {
        label(key): job.rule(push.eager, eager_is_written=is_written)
        for key, job in settings.planned_jobs().items()
        if isinstance(job, PushJob)
    }


def words(job: Scheduled, *, at_once: bool) -> str:
    """Return in words when a job does its work."""
    if not (at_once and job.enabled):
        return job.schedule_text()
    return f"{AT_ONCE}, {job.quiet_hours_text()}" if job.quiet else AT_ONCE


def _in_words(jobs: Mapping[JobKey, Scheduled]) -> dict[JobKey, str]:
    return {key: job.schedule_text() for key, job in jobs.items()}


def _audit_entry(who: str, action: str, keys: Collection[JobKey]) -> AuditEntry:
    return AuditEntry(who, action, ", ".join(map(label, keys)))


def _each(keys: Collection[JobKey], done: str) -> list[dict[str, Any]]:
    return [{"job": job, "store": store, "done": done} for job, store in keys]
