"""The runs of scheduled jobs: the last one of each, and those worth a row."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import from_text
from backhaul.store.operations import JobState, Trigger
from backhaul.store.sql.family import Family, background, write
from backhaul.store.sql.operations.operators import add_entry

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from backhaul.store.operations import AuditEntry, JobKey, JobRun
    from backhaul.store.sql.family import Connection

IDLE_RUNS_EVERY = timedelta(minutes=1)
"""How often a run is recorded that opens a send window and releases no command."""
RUNNING, DONE, FAILED, INTERRUPTED = "running", "done", "failed", "interrupted"
_INTERRUPT_RUNS = """
    UPDATE job_runs SET outcome = :interrupted, ended_at = :now
    WHERE ended_at IS NULL AND {own}
"""
_INTERRUPT_JOBS = """
    UPDATE job_state SET outcome = :interrupted WHERE outcome = :running AND {own}
"""
_REGISTER = """
    INSERT INTO job_state (job, store, plan, since) VALUES (:job, :store, :plan, :now)
    ON CONFLICT (job, store) DO UPDATE SET plan = excluded.plan, since = excluded.since
    WHERE job_state.plan != excluded.plan
"""
_STATE = """
    SELECT since, paused_at, due_at, started_at, outcome, ended_at FROM job_state
    WHERE job = :job AND store = :store
"""
_SET_STATE = """
    UPDATE job_state SET trigger = :trigger, due_at = :due_at, started_at = :started_at,
        ended_at = :ended_at, outcome = :outcome, detail = :detail,
        seen = (SELECT coalesce(max(seq), 0) FROM commands)
    WHERE job = :job AND store = :store
"""
_ADD_RUN = """
    INSERT INTO job_runs
        (job, store, trigger, due_at, started_at, ended_at, outcome, detail)
    VALUES (:job, :store, :trigger, :due_at, :started_at, :ended_at, :outcome, :detail)
"""
_END = """
    UPDATE {table} SET ended_at = :now, outcome = :outcome, detail = :detail
    WHERE job = :job AND store = :store AND outcome = :running
      AND started_at <= :before
"""
_SEEN = "SELECT seen FROM job_state WHERE job = :job AND store = :store"
_RELEASED = """
    SELECT count(*) FROM commands WHERE seq > :seen AND store = :store AND kind = :kind
        AND state = 'planned' AND created_at <= :started_at
"""
_PAUSE = """
    INSERT INTO job_state (job, store, plan, since, paused_at)
    VALUES (:job, :store, '', :now, :now)
    ON CONFLICT (job, store) DO UPDATE SET paused_at = excluded.paused_at
"""
_RESUME = """
    UPDATE job_state SET paused_at = NULL, since = :now
    WHERE job = :job AND store = :store AND paused_at IS NOT NULL
"""


class SqlJobRuns(Family):
    """The tables `job_state` and `job_runs`."""

    @write
    def register(
        self,
        connection: Connection,
        plans: Mapping[JobKey, str],
        *,
        alone: bool = True,
    ) -> Mapping[JobKey, JobState]:
        now = self._now()
        words = {"interrupted": INTERRUPTED, "running": RUNNING, "now": now}
        own = "TRUE" if alone else "(job = :job AND store = :store)"
        for statement in (_INTERRUPT_RUNS, _INTERRUPT_JOBS):
            values = [words] if alone else [words | _place(key) for key in plans]
            connection.executemany(statement.format(own=own), values)
        _register(connection, plans, now)
        return {key: _state(connection, key) for key in plans}

    @write
    def replan(self, connection: Connection, plans: Mapping[JobKey, str]) -> None:
        _register(connection, plans, self._now())

    @write
    def begin(
        self, connection: Connection, run: JobRun, entry: AuditEntry | None = None
    ) -> int:
        if entry is not None:
            add_entry(connection, run.started_at, entry)
        if not run.kind:
            _record(connection, run, None, RUNNING, "")
            return 0
        released = _released(connection, run)
        idle = not released and run.trigger is Trigger.SCHEDULE
        if idle and _is_recent(connection, run):
            return 0
        detail = f"let out {released}"
        _record(connection, run, run.started_at, DONE, detail, with_row=not idle)
        return released

    @background
    def record(
        self, connection: Connection, run: JobRun, ended_at: str, detail: str
    ) -> None:
        _record(connection, run, ended_at, DONE, detail)

    @background
    def end(
        self,
        connection: Connection,
        key: JobKey,
        before: str,
        detail: str,
        *,
        failed: bool,
    ) -> None:
        outcome = FAILED if failed else DONE
        ended = {"now": self._now(), "outcome": outcome, "detail": detail}
        values = {**_place(key), **ended, "running": RUNNING, "before": before}
        for table in ("job_runs", "job_state"):
            connection.execute(_END.format(table=table), values)

    @write
    def pause(
        self, connection: Connection, keys: Collection[JobKey], entry: AuditEntry
    ) -> str:
        now = self._now()
        connection.executemany(_PAUSE, [{**_place(key), "now": now} for key in keys])
        add_entry(connection, now, entry)
        return now

    @write
    def resume(
        self, connection: Connection, keys: Collection[JobKey], entry: AuditEntry
    ) -> None:
        now = self._now()
        connection.executemany(_RESUME, [{**_place(key), "now": now} for key in keys])
        add_entry(connection, now, entry)


def _place(key: JobKey) -> dict[str, Any]:
    job, store = key
    return {"job": job, "store": store}


def _register(connection: Connection, plans: Mapping[JobKey, str], now: str) -> None:
    connection.executemany(
        _REGISTER,
        [{**_place(key), "plan": plan, "now": now} for key, plan in plans.items()],
    )


def _state(connection: Connection, key: JobKey) -> JobState:
    row = connection.execute(_STATE, _place(key)).fetchone()
    since, paused_at, due_at, started_at, outcome, ended_at = row
    interrupted = outcome == INTERRUPTED
    return JobState(since, paused_at, due_at, started_at, interrupted, ended_at)


def _record(
    connection: Connection,
    run: JobRun,
    ended_at: str | None,
    outcome: str,
    detail: str,
    *,
    with_row: bool = True,
) -> None:
    values = {
        **_place(run.key),
        "trigger": run.trigger.value,
        "due_at": run.due_at,
        "started_at": run.started_at,
        "ended_at": ended_at,
        "outcome": outcome,
        "detail": detail,
    }
    connection.execute(_SET_STATE, values)
    if with_row:
        connection.execute(_ADD_RUN, values)


def _released(connection: Connection, run: JobRun) -> int:
    """Count the commands planned since the last run that this run releases."""
    row = connection.execute(_SEEN, _place(run.key)).fetchone()
    values = {
        "seen": row[0] if row else 0,
        "store": run.key[1],
        "kind": run.kind,
        "started_at": run.started_at,
    }
    return int(connection.execute(_RELEASED, values).fetchone()[0])


def _is_recent(connection: Connection, run: JobRun) -> bool:
    """Return True if a run shortly before this one is recorded."""
    row = connection.execute(_STATE, _place(run.key)).fetchone()
    if row is None or row[3] is None:
        return False
    age = from_text(run.started_at) - from_text(row[3])
    return timedelta() <= age < IDLE_RUNS_EVERY
