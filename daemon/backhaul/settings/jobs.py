"""`[jobs.NAME]` tables and schedules: intervals, cron lines, quiet hours."""

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
    """Return the five fields of a cron expression, one blank between them."""
    parts = text.split()
    if len(parts) != len(CRON_RANGES):
        raise ValueError('must have five fields, such as "*/5 * * * *"')
    for name, part in zip(CRON_RANGES, parts, strict=True):
        if not all(_is_cron_part(name, piece) for piece in part.split(",")):
            raise ValueError(f'has a wrong {name}, "{part}"')
    _, _, day, month, weekday = parts
    longest = max(_MONTH_DAYS[number - 1] for number in cron_numbers("month", month))
    # Where the weekday is restricted too, cron runs on either.
    if min(cron_numbers("day", day)) > longest and weekday.startswith("*"):
        raise ValueError(f'never comes: no month of "{month}" has a day "{day}"')
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
    """Return -1, which no field accepts, for what is neither number nor name."""
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
"""The settings that say when a run starts; they belong together."""


class Scheduled(Section):
    """Something that runs on a schedule: a job, or a connection of a connector."""

    enabled: bool = Field(default=True, description="Whether the job runs at all.")
    trigger: Literal["interval", "cron"] = Field(
        default="interval",
        description="What starts it: a fixed interval (`every`) or the calendar "
        "(`cron`).",
    )
    every: Duration = Field(
        default=parse_duration("5s"),
        description='Time between two runs, with `trigger = "interval"`.',
    )
    cron: Cron | None = Field(
        default=None,
        description='The five fields of a cron line, with `trigger = "cron"`, such as '
        '"*/5 8-18 * * mon-fri"; weekday 0 and 7 are Sunday.',
    )
    jitter: Duration | None = Field(
        default=None,
        description="Delays each run by up to this time, at random, so that not all "
        "begin at once.",
    )
    quiet: Quiet = Field(
        default=(),
        description="Hours of the local day in which it does not run, such as "
        '"22:00-06:00", or a list of them; what falls due within runs once at their '
        "end.",
    )

    @model_validator(mode="after")
    def _one_trigger(self) -> Self:
        if self.trigger == "cron" and self.cron is None:
            raise ValueError('has trigger = "cron" but no cron')
        is_cron = self.trigger == "cron"
        unused, needed = ("every", "interval") if is_cron else ("cron", "cron")
        if unused in self.model_fields_set and getattr(self, unused) is not None:
            raise ValueError(f'has {unused}, which needs trigger = "{needed}"')
        return self

    @property
    def is_written(self) -> bool:
        """Whether somebody wrote a schedule: a start or quiet hours, not a default.

        A value equal to the default counts, wherever it comes from: the file, a
        store's own table or an environment variable. `jitter` alone and an empty
        `quiet` name no time, so they do not count.
        """
        return bool(self.model_fields_set & STARTS or self.quiet)

    def in_words(self) -> str:
        """Return for a person when it runs."""
        if not self.enabled:
            return "never: enabled = false"
        by_cron = self.trigger == "cron"
        words = [
            f"cron {self.cron}" if by_cron else f"every {duration_text(self.every)}"
        ]
        if self.jitter:
            words.append(f"up to {duration_text(self.jitter)} later")
        if self.quiet:
            words.append(self.quiet_words())
        return ", ".join(words)

    def quiet_words(self) -> str:
        """Return for a person when it does not run."""
        return f"not {quiet_text(self.quiet)}"


def polling_job(connector: str) -> str:
    """Return the name of the job that polls a connector."""
    return f"connector_{connector}"


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
