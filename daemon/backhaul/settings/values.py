"""Types of setting values with their checks, and the base of all tables."""

from __future__ import annotations

import re
from datetime import time
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
)

from backhaul.core.quiet_hours import Span, within
from backhaul_sdk.extras import require_extra

UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SPAN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
LONGEST_SECONDS = 366 * UNIT_SECONDS["d"]
SHORTEST_KEY = 32
"""The fewest characters of a key of `[cluster] key`."""
NAME_PATTERN = r"^[a-z0-9_]+$"
DATABASE_PREFIX = "sqlite:///"
POSTGRES_PREFIXES = ("postgresql://", "postgres://")


def parse_duration(value: object) -> float:
    """Return the seconds of a text such as "250ms", "5s", "2m", "1h" or "1d"."""
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError('must be a duration such as "250ms", "5s", "2m", "1h" or "1d"')
    seconds = float(match[1]) * UNIT_SECONDS[match[2]]
    if not 0 < seconds <= LONGEST_SECONDS:
        raise ValueError('must be longer than "0s" and at most "366d"')
    return seconds


def duration_text(seconds: float) -> str:
    """Return a duration as text, in the largest unit that divides it."""
    if not seconds:
        return "0s"
    whole = [(n, unit) for unit, n in UNIT_SECONDS.items() if seconds % n == 0]
    size, unit = max(whole, default=(UNIT_SECONDS["ms"], "ms"))
    return f"{round(seconds / size)}{unit}"


def parse_quiet(value: object) -> tuple[Span, ...]:
    """Return time spans from a text such as "22:00-06:00", or a list of them."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple):
        raise ValueError(_QUIET)
    spans = tuple(_span(text) for text in texts)
    minutes = (time(*divmod(minute, 60)) for minute in range(24 * 60))
    if all(any(within(minute, span) for span in spans) for minute in minutes):
        raise ValueError(
            "covers the whole day, so that the job never runs; give shorter quiet hours"
        )
    return spans


_QUIET = 'must be hours such as "22:00-06:00", or a list of them'


def _span(text: object) -> Span:
    match = _SPAN.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(_QUIET)
    hour, minute, until_hour, until_minute = map(int, match.groups())
    start, end = time(hour, minute), time(until_hour, until_minute)
    if start == end:
        raise ValueError(
            f'has the quiet hours "{text}", whose start and end are equal; give'
            " different times"
        )
    return start, end


def quiet_text(spans: tuple[Span, ...]) -> str:
    """Return quiet hours as they are written in the configuration."""
    return ", ".join(f"{start:%H:%M}-{end:%H:%M}" for start, end in spans)


def parse_delays(value: object) -> tuple[float, ...]:
    """Return the seconds of increasing delays such as ["0s", "2m", "10m"]."""
    if not isinstance(value, list | tuple) or not value:
        raise ValueError('must be a list of durations such as ["0s", "2m", "10m"]')
    delays = tuple(0.0 if text == "0s" else parse_duration(text) for text in value)
    if sorted(set(delays)) != list(delays):
        raise ValueError("must be in increasing order")
    return delays


def refuse_boolean(value: object) -> object:
    """Return the value unless it is true or false, which pydantic takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def check_base_url(value: str) -> str:
    """Return an http(s) URL without its trailing slash. Errors never quote it."""
    try:
        url = urlsplit(value)
        well_formed = bool(url.hostname) and url.port != 0
        (url.hostname or "").encode("idna")
    except ValueError:
        raise ValueError("is not a URL") from None
    if url.scheme not in {"http", "https"} or not well_formed:
        raise ValueError('must be a URL such as "https://shop.example"')
    if url.username is not None or url.password is not None:
        raise ValueError(
            "must not contain a user name or a password; remove the part before @"
        )
    if url.query or url.fragment or re.search(r"\s", value):
        raise ValueError("must not contain a query (?…), a fragment (#…) or spaces")
    return value.rstrip("/")


def check_host(value: str) -> str:
    """Return a valid host name or IP address."""
    try:
        value.encode("idna")
    except UnicodeError:
        well_formed = False
    else:
        well_formed = re.fullmatch(r"[^\s/@\x00-\x1f]+", value) is not None
    if not well_formed:
        raise ValueError('must be the name or address of a host such as "a.example"')
    return value


def check_database_url(value: SecretStr) -> SecretStr:
    """Return a valid URL of an SQLite file or a PostgreSQL database, or empty text."""
    text = value.get_secret_value()
    if text.startswith(POSTGRES_PREFIXES):
        check_postgres_url(text)
        require_extra("postgres")
    elif text and not text.startswith(DATABASE_PREFIX):
        raise ValueError(
            f'must begin with "{DATABASE_PREFIX}" and name a file, or with'
            f' "{POSTGRES_PREFIXES[0]}" and name a database'
        )
    elif text and not text.removeprefix(DATABASE_PREFIX).strip("/"):
        raise ValueError("must name a file after sqlite:///")
    return value


def check_postgres_url(text: str) -> None:
    """Raise ValueError if this is not the URL of one PostgreSQL database.

    Several hosts may be given, as libpq allows: `//a:5432,b:5432/backhaul`. The port
    of a host is therefore left to the driver.
    """
    url = urlsplit(text)
    if re.search(r"\s", text):
        raise ValueError("must not contain spaces; write a space as %20")
    if url.fragment:
        raise ValueError('must not contain "#"; write it as %23 in a password')
    # A password with / or ? ends there for a parser, and its rest would be shown.
    if "@" in f"{url.path}{url.query}":
        raise ValueError(
            "contains a special character of a name or password; write / as %2F, ?"
            " as %3F and @ as %40"
        )
    if not url.path.strip("/"):
        raise ValueError('must end with the name of a database, such as ".../backhaul"')


def without_password(url: str) -> str:
    """Return a database's URL for people: without the password and the parameters."""
    parts = urlsplit(url)
    account, at, hosts = parts.netloc.rpartition("@")
    user = account.partition(":")[0]
    return f"{parts.scheme}://{user}{at}{hosts}{parts.path}"


def check_secret(value: SecretStr) -> SecretStr:
    """Return a secret that can be sent in a header; refuse signs of a bad paste."""
    text = value.get_secret_value()
    if not text:
        raise ValueError("is empty")
    if not re.fullmatch(r"[!-~]+", text):
        raise ValueError(
            "contains a space, a line break or a character outside ASCII; copy the"
            " secret again"
        )
    return value


def check_key(value: SecretStr) -> SecretStr:
    """Return a key that nobody can guess."""
    if len(check_secret(value).get_secret_value()) < SHORTEST_KEY:
        raise ValueError(
            f"has fewer than {SHORTEST_KEY} characters; make a key with: openssl"
            " rand -base64 32"
        )
    return value


def check_not_empty(values: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    if not values:
        raise ValueError("must not be empty")
    return values


def check_path(value: object) -> object:
    """Return a path; an empty one would mean the working directory."""
    if value == "":
        raise ValueError("must not be empty")
    if "\0" in str(value):
        raise ValueError("must not contain a zero byte")
    return value


def check_network(value: str) -> str:
    """Return a valid IP address or network, such as 10.0.0.0/8."""
    try:
        ip_network(value, strict=False)
    except ValueError:
        raise ValueError('must be an address or network such as "10.0.0.0/8"') from None
    return value


_WrittenDuration = Annotated[str, Field(pattern=f"^{_DURATION.pattern}$")]
Duration: TypeAlias = Annotated[
    float, BeforeValidator(parse_duration, json_schema_input_type=_WrittenDuration)
]
"""Seconds, written with a unit, such as "5s"."""
Delays: TypeAlias = Annotated[
    tuple[float, ...],
    BeforeValidator(parse_delays, json_schema_input_type=list[_WrittenDuration]),
]
"""Seconds after an event, in increasing order."""
Quiet: TypeAlias = Annotated[
    tuple[Span, ...],
    BeforeValidator(parse_quiet, json_schema_input_type=str | list[str]),
]
"""Time spans of the local day."""
Count: TypeAlias = Annotated[int, BeforeValidator(refuse_boolean), Field(ge=1)]
Port: TypeAlias = Annotated[int, BeforeValidator(refuse_boolean), Field(ge=0, le=65535)]
Seconds: TypeAlias = Annotated[
    float, BeforeValidator(refuse_boolean), Field(gt=0, le=3600, allow_inf_nan=False)
]
Name: TypeAlias = Annotated[str, Field(pattern=NAME_PATTERN, max_length=64)]
Text: TypeAlias = Annotated[str, Field(min_length=1)]
Host: TypeAlias = Annotated[str, AfterValidator(check_host)]
BaseUrl: TypeAlias = Annotated[str, AfterValidator(check_base_url)]
DatabaseUrl: TypeAlias = Annotated[SecretStr, AfterValidator(check_database_url)]
Secret: TypeAlias = Annotated[SecretStr, AfterValidator(check_secret)]
Secrets: TypeAlias = Annotated[tuple[Secret, ...], AfterValidator(check_not_empty)]
Keys: TypeAlias = Annotated[
    tuple[Annotated[SecretStr, AfterValidator(check_key)], ...],
    AfterValidator(check_not_empty),
]
Networks: TypeAlias = tuple[Annotated[str, AfterValidator(check_network)], ...]
FilePath: TypeAlias = Annotated[Path, BeforeValidator(check_path)]


class Section(BaseModel):
    """Base of all tables: frozen, no unknown keys, no input in error texts."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
