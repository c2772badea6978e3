"""The runs of scheduled jobs: the last one of each, and those worth a row."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.core.clock import from_text, to_text
from backhaul.store.operations import JobState, Trigger
from backhaul.store.sql.operations.audit_log import add_entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping

    from backhaul.core.clock import Clock
    from backhaul.store.operations import AuditEntry, JobKey, JobRun
    from backhaul.store.sqlite.writer import Writer

REMEMBERED = timedelta(minutes=1)
"""So often the run of a gate is written down that lets out nothing."""
RUNNING, DONE, FAILED, INTERRUPTED = "running", "done", "failed", "interrupted"
_KNOW = """
    INSERT INTO job_state (job, store, plan, since) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT DO UPDATE SET plan = ?3, since = ?4 WHERE plan != ?3
"""
_STATE = """
    SELECT since, paused_at, due_at, started_at, outcome, ended_at FROM job_state
    WHERE job = ? AND store = ?
"""
_STARTED = """
    UPDATE job_state SET trigger = ?3, due_at = ?4, started_at = ?5, ended_at = ?6,
        outcome = ?7, detail = ?8, seen = (SELECT coalesce(max(seq), 0) FROM commands)
    WHERE job = ?1 AND store = ?2
"""
_RUN = """
    INSERT INTO job_runs
        (job, store, trigger, due_at, started_at, ended_at, outcome, detail)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_LET_OUT = """
    SELECT count(*) FROM commands WHERE seq > ? AND store = ? AND kind = ?
        AND state = 'planned' AND created_at <= ?
"""


class SqlJobRuns:
    """Keeps `job_state` and `job_runs`."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def register(self, plans: Mapping[JobKey, str]) -> Mapping[JobKey, JobState]:
        """After a start, return where each job stands; what was running has ended."""
        now = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> dict[JobKey, JobState]:
            connection.execute(
                "UPDATE job_runs SET outcome = ?, ended_at = ? WHERE ended_at IS NULL",
                (INTERRUPTED, now),
            )
            connection.execute(
                "UPDATE job_state SET outcome = ? WHERE outcome = ?",
                (INTERRUPTED, RUNNING),
            )
            connection.executemany(
                _KNOW, [(*key, plan, now) for key, plan in plans.items()]
            )
            return {key: _state(connection, key) for key in plans}

        return await self._writer.urgent(unit)

    async def replan(self, plans: Mapping[JobKey, str]) -> None:
        """From now on these jobs run by other words."""
        now = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> None:
            connection.executemany(
                _KNOW, [(*key, plan, now) for key, plan in plans.items()]
            )

        await self._writer.urgent(unit)

    async def begin(self, run: JobRun, deed: AuditEntry | None = None) -> int:
        """Write a run down; return how many new commands its gate lets out."""

        def unit(connection: sqlite3.Connection) -> int:
            if deed is not None:
                add_entry(connection, run.started_at, deed)
            let_out = _let_out(connection, run) if run.kind else 0
            idle = bool(run.kind) and not let_out and run.trigger is Trigger.SCHEDULE
            if idle and _remembered(connection, run):
                return 0
            ended = (run.started_at, DONE, f"let out {let_out}")
            end = ended if run.kind else (None, RUNNING, "")
            row = (*run.key, run.trigger.value, run.due_at, run.started_at, *end)
            connection.execute(_STARTED, row)
            if not idle:
                connection.execute(_RUN, row)
            return let_out

        return await self._writer.urgent(unit)

    async def record(self, run: JobRun, ended_at: str, detail: str) -> None:
        """Write down a run that is over, with what came of it."""
        row = (*run.key, run.trigger.value, run.due_at, run.started_at, ended_at)

        def unit(connection: sqlite3.Connection) -> None:
            connection.execute(_STARTED, (*row, DONE, detail))
            connection.execute(_RUN, (*row, DONE, detail))

        await self._writer.background(unit)

    async def end(self, key: JobKey, before: str, detail: str, *, failed: bool) -> None:
        """End the runs begun by then. One that failed is not owed."""
        outcome = FAILED if failed else DONE
        now = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> None:
            for table in ("job_runs", "job_state"):
                connection.execute(
                    f"UPDATE {table} SET ended_at = ?, outcome = ?, detail = ?"  # noqa: S608 - constants
                    " WHERE job = ? AND store = ? AND outcome = ? AND started_at <= ?",
                    (now, outcome, detail, *key, RUNNING, before),
                )

        await self._writer.background(unit)

    async def pause(self, keys: Collection[JobKey], deed: AuditEntry) -> str:
        """Pause jobs; return since when. One that is paused is so anew.

        What a person let out meanwhile is not let out again after a restart.
        """
        now = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "INSERT INTO job_state (job, store, plan, since, paused_at)"
                " VALUES (?1, ?2, '', ?3, ?3)"
                " ON CONFLICT DO UPDATE SET paused_at = ?3",
                [(*key, now) for key in keys],
            )
            add_entry(connection, now, deed)

        await self._writer.urgent(unit)
        return now

    async def resume(self, keys: Collection[JobKey], deed: AuditEntry) -> None:
        """Let jobs run again; what they missed is not owed."""
        now = to_text(self._clock.now())

        def unit(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "UPDATE job_state SET paused_at = NULL, since = ?"
                " WHERE job = ? AND store = ? AND paused_at IS NOT NULL",
                [(now, *key) for key in keys],
            )
            add_entry(connection, now, deed)

        await self._writer.urgent(unit)


def _state(connection: sqlite3.Connection, key: JobKey) -> JobState:
    since, paused_at, due_at, started_at, outcome, ended_at = connection.execute(
        _STATE, key
    ).fetchone()
    interrupted = outcome == INTERRUPTED
    return JobState(since, paused_at, due_at, started_at, interrupted, ended_at)


def _let_out(connection: sqlite3.Connection, run: JobRun) -> int:
    """Count what was planned since the last run and may leave with this one."""
    row = connection.execute(
        "SELECT seen FROM job_state WHERE job = ? AND store = ?", run.key
    ).fetchone()
    found: tuple[int] = connection.execute(
        _LET_OUT, (row[0] if row else 0, run.key[1], run.kind, run.started_at)
    ).fetchone()
    return found[0]


def _remembered(connection: sqlite3.Connection, run: JobRun) -> bool:
    """Tell whether a run shortly before this one is written down."""
    row = connection.execute(_STATE, run.key).fetchone()
    if row is None or row[3] is None:
        return False
    age = from_text(run.started_at) - from_text(row[3])
    return timedelta() <= age < REMEMBERED
