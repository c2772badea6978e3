"""`[jobs.NAME]` tables and their schedules: intervals, cron lines, quiet hours."""

import re
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from backhaul.settings.values import (
    Count,
    Duration,
    FilePath,
    Quiet,
    Section,
    duration_text,
    parse_duration,
    quiet_text,
)

CRON_RANGES = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "weekday": (0, 7),
}
CRON_NAMES = {
    "month": "jan feb mar apr may jun jul aug sep oct nov dec",
    "weekday": "sun mon tue wed thu fri sat",
}
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?")


def check_cron(text: str) -> str:
    """Return a cron expression with one space between its five fields."""
    parts = text.split()
    if len(parts) != len(CRON_RANGES):
        raise ValueError(
            'must have the five fields of a cron line, such as "*/5 * * * *"'
        )
    for name, part in zip(CRON_RANGES, parts, strict=True):
        if not all(_is_cron_part(name, piece) for piece in part.split(",")):
            raise ValueError(f'has an invalid {name} field, "{part}"')
    _, _, day, month, weekday = parts
    longest = max(_MONTH_DAYS[number - 1] for number in cron_numbers("month", month))
    # Where the weekday is restricted too, cron runs on either.
    if min(cron_numbers("day", day)) > longest and weekday.startswith("*"):
        raise ValueError(f'matches no date: no month of "{month}" has a day "{day}"')
    return " ".join(parts)


def _is_cron_part(name: str, piece: str) -> bool:
    match = _PART.fullmatch(piece.lower())
    if match is None or int(match[3] or 1) == 0:
        return False
    numbers = [cron_number(name, value) for value in match.group(1, 2) if value]
    low, high = CRON_RANGES[name]
    return all(low <= number <= high for number in numbers) and numbers == sorted(
        numbers
    )


def cron_number(name: str, value: str) -> int:
    """Return the number of a cron value; -1, which no field accepts, if it has none."""
    names = CRON_NAMES.get(name, "").split()
    if value in names:
        return names.index(value) + CRON_RANGES[name][0]
    return int(value) if value.isdecimal() else -1


def cron_numbers(name: str, field: str) -> list[int]:
    """Return the numbers of a valid field such as `1-5`, `*/2` or `mon,wed`."""
    return [number for part in field.split(",") for number in _range(name, part)]


def _range(name: str, part: str) -> range:
    low, high = CRON_RANGES[name]
    span, _, step = part.lower().partition("/")
    first, _, last = span.partition("-")
    start = low if first == "*" else cron_number(name, first)
    if last:
        high = cron_number(name, last)
    elif first != "*" and not step:
        high = start
    return range(start, high + 1, int(step or 1))


Cron = Annotated[str, AfterValidator(check_cron)]


STARTS = frozenset({"trigger", "every", "cron"})
"""The settings that determine when a run starts; a store replaces all of them."""


class Scheduled(Section):
    """Something that runs on a schedule: a job, or a connection of a connector."""

    enabled: bool = Field(default=True, description="Whether the job runs.")
    trigger: Literal["interval", "cron"] = Field(
        default="interval",
        description="When a run starts. `interval`: after the time in `every`. "
        "`cron`: at the times in `cron`.",
    )
    every: Duration = Field(
        default=parse_duration("5s"),
        description='Time between two runs, with `trigger = "interval"`.',
    )
    cron: Cron | None = Field(
        default=None,
        description='When the runs start, with `trigger = "cron"`: the five fields of '
        'a cron line, such as "*/5 8-18 * * mon-fri". Weekdays 0 and 7 are Sunday.',
    )
    jitter: Duration | None = Field(
        default=None,
        description="Each run starts later by a random time, at most this long, so "
        "that not all runs start together.",
    )
    quiet: Quiet = Field(
        default=(),
        description="Quiet hours: times of the day without runs, in local time, such "
        'as "22:00-06:00". You can give one period or a list. If runs were due in '
        "quiet hours, one run starts when the quiet hours end.",
    )

    @model_validator(mode="after")
    def _one_trigger(self) -> Self:
        if self.trigger == "cron" and self.cron is None:
            raise ValueError(
                'has trigger = "cron", but no cron; set cron to a line such as "*/5'
                ' * * * *"'
            )
        is_cron = self.trigger == "cron"
        unused, needed = ("every", "interval") if is_cron else ("cron", "cron")
        if unused in self.model_fields_set and getattr(self, unused) is not None:
            raise ValueError(
                f'has {unused}, which applies only with trigger = "{needed}"'
            )
        return self

    @property
    def is_written(self) -> bool:
        """Whether the configuration gives a schedule: a start or quiet hours.

        Defaults do not count. A given value counts even if it equals the default, and
        whether it comes from the file, a store's table or an environment variable.
        `jitter` alone and an empty `quiet` name no time, so they do not count.
        """
        return bool(self.model_fields_set & STARTS or self.quiet)

    def schedule_text(self) -> str:
        """Return the schedule in words."""
        if not self.enabled:
            return "never: enabled = false"
        by_cron = self.trigger == "cron"
        words = [
            f"cron {self.cron}" if by_cron else f"every {duration_text(self.every)}"
        ]
        if self.jitter:
            words.append(f"up to {duration_text(self.jitter)} later")
        if self.quiet:
            words.append(self.quiet_hours_text())
        return ", ".join(words)

    def quiet_hours_text(self) -> str:
        """Return the quiet hours in words."""
        return f"not {quiet_text(self.quiet)}"


def polling_job(connector: str) -> str:
    """Return the name of the job that polls a connector."""
    return f"connector_{connector}"


class Job(Scheduled):
    """A scheduled job."""

    def for_store(self, own: "StoreJob") -> Self:
        """Return the job with the settings that one store has for it.

        A store that sets `trigger`, `every` or `cron` replaces all of them and `eager`:
        an `eager` given with the shared schedule must not override the store's
        schedule.
        """
        given = own.model_fields_set
        replaced = STARTS | {"eager"} if given & STARTS else frozenset()
        values = {name: getattr(self, name) for name in self.model_fields_set}
        values = {name: values[name] for name in values.keys() - replaced}
        values |= {name: getattr(own, name) for name in given}
        return type(self).model_construct(**values)


class PushJob(Job):
    """A job that sends commands has one more setting."""

    eager: bool | None = Field(
        default=None,
        description="`true`: Backhaul sends each planned command immediately, but not "
        "in quiet hours (`quiet`). `false`: Backhaul sends planned commands only when "
        "the job runs. Without this setting: if you set `trigger`, `every`, `cron` or "
        "`quiet` for the job, the default is `false`. Otherwise the value of `[push] "
        "eager` applies.",
    )

    def sends_at_once(self, eager: bool) -> bool:
        """Return whether commands are sent when planned; `eager` is `[push] eager`."""
        if self.eager is not None:
            return self.eager
        return eager and not self.is_written

    def rule(self, eager: bool, *, eager_is_written: bool) -> str:
        """Return in words when commands are sent, and which setting decides.

        `eager` is `[push] eager`; `eager_is_written` is true if it is not the default.
        """
        if not self.enabled:
            return "no command is sent, because enabled = false is set for the job"
        if self.sends_at_once(eager):
            return f"commands are sent when planned, because {self._why_at_once()}"
        why = self._why_scheduled(eager_is_written)
        return f"commands are sent only then, because {why}"

    def _why_at_once(self) -> str:
        if not self.eager:
            return "no schedule is set for the job"
        unused = sorted(self.model_fields_set & (STARTS | {"jitter"}))
        why = "eager = true is set for the job"
        return f"{why}; ignored: {', '.join(unused)}" if unused else why

    def _why_scheduled(self, eager_is_written: bool) -> str:
        if self.eager is False:
            return "eager = false is set for the job"
        if not self.is_written:
            return "[push] eager = false"
        why = "a schedule is set for the job"
        return f"{why} and overrides [push] eager" if eager_is_written else why


class StoreJob(PushJob):
    """Settings of a job that apply only to one store.

    The first name is the store's, the second is the job's. If you leave out a setting
    here, the value in `[jobs.NAME]` applies. The schedule is an exception. If you set
    `trigger`, `every` or `cron` here, this store ignores all four of `trigger`,
    `every`, `cron` and `eager` of `[jobs.NAME]`. `eager` is then `false`, unless you
    set it here too. Only jobs that send commands have `eager`.
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
    """A job that runs every hour by default."""

    every: Duration = Field(
        default=parse_duration("1h"),
        description='Time between two runs, with `trigger = "interval"`.',
    )


class PollJob(Job):
    """A job that runs every five minutes by default."""

    every: Duration = Field(
        default=parse_duration("5m"),
        description='Time between two runs, with `trigger = "interval"`.',
    )


class FullSyncJob(Job):
    """A job that runs every six hours by default."""

    every: Duration = Field(
        default=parse_duration("6h"),
        description='Time between two runs, with `trigger = "interval"`.',
    )


class BackupJob(Job):
    """The job that backs up the database has two more settings."""

    every: Duration = Field(
        default=parse_duration("1d"),
        description='Time between two runs, with `trigger = "interval"`.',
    )
    folder: FilePath | None = Field(
        default=None,
        description="Folder for the backups. Without this setting it is `backups` in "
        "`state_dir`. Use another disk if possible.",
    )
    keep: Count = Field(
        default=3,
        description="Number of backups that Backhaul keeps. Backhaul deletes older "
        "backups.",
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
        description="Poll: reads the changes at the platform since the last poll, and "
        "repairs the webhook subscription. It runs every 5 minutes by default.",
    )
    reconcile_full: FullSyncJob = Field(
        default=FullSyncJob(),
        description="Full sync: compares the complete lists of the platform with the "
        "mirror, and corrects the mirror. It runs every 6 hours by default.",
    )
    audit: PollJob = Field(
        default=PollJob(),
        description="Searches the platform's stock history for commands that took "
        "effect late or twice, and for adjustments that another "
        "Backhaul daemon made. "
        "It runs every 5 minutes by default.",
    )
    prune: HourlyJob = Field(
        default=HourlyJob(),
        description="Deletes data that is older than `database.retention_days`. It "
        "runs every hour by default.",
    )
    backup: BackupJob = Field(
        default=BackupJob(),
        description="Copies the database to a file, checks the copy, and deletes the "
        "oldest backups. It runs once a day by default, and never on PostgreSQL.",
    )
