"""What the scheduled jobs ask of a store: their last runs, and which are paused."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from backhaul.store.deeds import Deed

JobKey: TypeAlias = tuple[str, str]
"""A job's name and its store, "" for a job of no store."""


class Trigger(StrEnum):
    """What started a run."""

    SCHEDULE = "schedule"
    CATCH_UP = "catch_up"
    PERSON = "person"
    PLANNED = "planned"
    """A command was planned, and the job has no schedule."""


class JobRun(Struct, frozen=True):
    """A run that begins; `kind` are the commands whose gate it opens, if it does."""

    key: JobKey
    trigger: Trigger
    due_at: str
    started_at: str
    kind: str | None = None


class JobState(Struct, frozen=True):
    """Where a job stands.

    Runs missed after `since` are owed. `due_at`, `started_at` and `ended_at` are of the
    last run; `interrupted`: the program ended before the run did.
    """

    since: str
    paused_at: str | None
    due_at: str | None
    started_at: str | None
    interrupted: bool
    ended_at: str | None = None


class Told(Protocol):
    """Tells that the work is over which began by a moment, and what came of it."""

    async def __call__(
        self, before: str, detail: str, /, *, failed: bool = False
    ) -> None: ...


class JobRuns(Protocol):
    """The runs of scheduled jobs. All verbs may raise Busy."""

    async def know(self, plans: Mapping[JobKey, str]) -> Mapping[JobKey, JobState]:
        """After a start, return where each job stands; what was running has ended.

        A job that is new, or whose plan has other words than before, owes nothing.
        """
        ...

    async def replan(self, plans: Mapping[JobKey, str]) -> None:
        """From now on these jobs run by other words; what they missed is not owed."""
        ...

    async def begin(self, run: JobRun, deed: Deed | None = None) -> int:
        """Write a run down; return how many new commands its gate lets out.

        The run of a gate has ended with that. Where it lets out nothing it is worth no
        row, and is written down once a minute only.
        """
        ...

    async def record(self, run: JobRun, ended_at: str, detail: str) -> None:
        """Write down a run that is over, with what came of it."""
        ...

    async def end(self, key: JobKey, before: str, detail: str, *, failed: bool) -> None:
        """End the runs begun by then. One that failed is not owed."""
        ...

    async def pause(self, keys: Collection[JobKey], deed: Deed) -> str:
        """Pause jobs; return since when. One that is paused is so anew.

        What a person let out meanwhile is not let out again after a restart.
        """
        ...

    async def resume(self, keys: Collection[JobKey], deed: Deed) -> None:
        """Let jobs run again; what they missed is not owed."""
        ...
