"""`[jobs.NAME]`: when the scheduled jobs run."""

from typing import Literal, Self, TypeAlias

from pydantic import Field

from backhaul.settings.schedules import STARTS, Scheduled
from backhaul.settings.section import Section
from backhaul.settings.values import Count, Duration, FilePath, parse_duration


class Job(Scheduled):
    """A scheduled job."""

    def altered(self, by: "StoreJob") -> Self:
        """Return the job with what one store has of its own.

        A store that says when the job starts replaces the shared `trigger`, `every`,
        `cron` and `eager`: an `eager` that stands beside the shared schedule must not
        overrule the store's.
        """
        given = by.model_fields_set
        replaced = STARTS | {"eager"} if given & STARTS else frozenset()
        values = {name: getattr(self, name) for name in self.model_fields_set}
        values = {name: values[name] for name in values.keys() - replaced}
        values |= {name: getattr(by, name) for name in given}
        return type(self).model_construct(**values)


class PushJob(Job):
    """A job that sends has one setting more."""

    eager: bool | None = Field(
        default=None,
        description="Whether commands leave as soon as they are planned. Left out: "
        "they leave only when the job runs where `trigger`, `every`, `cron` or `quiet` "
        "is written for it, and else as `[push] eager` says. With true only `quiet` "
        "holds them back.",
    )

    def sends_at_once(self, eager: bool) -> bool:
        """Return whether commands leave when planned, `[push] eager` given."""
        if self.eager is not None:
            return self.eager
        return eager and not self.is_written

    def rule(self, eager: bool, *, eager_is_written: bool) -> str:
        """Return for a person when commands leave, and which setting says so.

        `eager` is that of `[push]`, and `eager_is_written` whether somebody wrote it.
        """
        if not self.enabled:
            return "no command leaves, enabled = false is set for the job"
        if self.sends_at_once(eager):
            return f"commands leave when planned, {self._why_at_once()}"
        return f"commands leave only then, {self._why_scheduled(eager_is_written)}"

    def _why_at_once(self) -> str:
        if not self.eager:
            return "no schedule is written for the job"
        unused = sorted(self.model_fields_set & (STARTS | {"jitter"}))
        why = "eager = true is set for the job"
        return f"{why}; without effect: {', '.join(unused)}" if unused else why

    def _why_scheduled(self, eager_is_written: bool) -> str:
        if self.eager is False:
            return "eager = false is set for the job"
        if not self.is_written:
            return "[push] eager = false"
        why = "a schedule is written for the job"
        return f"{why} and overrules [push] eager" if eager_is_written else why


class StoreJob(PushJob):
    """A job where one store differs from `[jobs.NAME]`, whose settings it has.

    What is left out is as there, but `trigger`, `every` and `cron` belong together:
    with one of them given, the others are not taken over, and neither is `eager`, which
    only the jobs that send have.
    """


StoreJobName: TypeAlias = Literal[
    "push_fulfillments",
    "push_cancellations",
    "push_adjustments",
    "reconcile_incremental",
    "reconcile_full",
    "audit",
]


PUSH_JOBS = frozenset({"push_fulfillments", "push_cancellations", "push_adjustments"})
"""The jobs that send commands."""


class HourlyJob(Job):
    """A scheduled job that is in no hurry."""

    every: Duration = Field(
        default=parse_duration("1h"),
        description='Time between two runs, with `trigger = "interval"`.',
    )


class PollJob(Job):
    """A job that reads what is new."""

    every: Duration = Field(
        default=parse_duration("5m"),
        description='Time between two runs, with `trigger = "interval"`.',
    )


class SweepJob(Job):
    """A job that reads everything."""

    every: Duration = Field(
        default=parse_duration("6h"),
        description='Time between two runs, with `trigger = "interval"`.',
    )


class BackupJob(Job):
    """The job that copies the database has two settings more."""

    every: Duration = Field(
        default=parse_duration("1d"),
        description='Time between two runs, with `trigger = "interval"`.',
    )
    folder: FilePath | None = Field(
        default=None,
        description="Where the backups lie; backups in state_dir unless set. Another "
        "disk is better.",
    )
    keep: Count = Field(
        default=3, description="How many are kept; the oldest above that go."
    )


class Jobs(Section):
    """The jobs, by name."""

    push_fulfillments: PushJob = Field(
        default=PushJob(), description="Sends the fulfillments that are due."
    )
    push_cancellations: PushJob = Field(
        default=PushJob(), description="Sends the cancellations that are due."
    )
    push_adjustments: PushJob = Field(
        default=PushJob(), description="Sends the stock adjustments that are due."
    )
    reconcile_incremental: PollJob = Field(
        default=PollJob(),
        description="Asks the platform for what changed and no webhook told; looks "
        "after the webhook subscription.",
    )
    reconcile_full: SweepJob = Field(
        default=SweepJob(),
        description="Holds every row of the platform against the mirror.",
    )
    audit: PollJob = Field(
        default=PollJob(),
        description="Looks for our own tags in the platform's stock history: what "
        "landed late or twice, and another daemon that sends under this name.",
    )
    prune: HourlyJob = Field(
        default=HourlyJob(),
        description="Erases what is older than `database.retention_days`; every hour "
        "unless set.",
    )
    backup: BackupJob = Field(
        default=BackupJob(),
        description="Copies the database to a file, checks it, and throws the oldest "
        "away.",
    )
