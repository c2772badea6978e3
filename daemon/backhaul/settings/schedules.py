"""When something runs: an interval or a cron line, a random delay, quiet hours."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from backhaul.settings.section import Section
from backhaul.settings.values import (
    Duration,
    Quiet,
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
