"""Errors by consequence.

BackhaulError
├── Fatal                     the program stops; `exit_code` says why
│   ├── ConfigurationError    78  a setting is wrong; lists every finding
│   ├── PortInUse             69  a listener's address is taken
│   ├── PlatformUnavailable   69  a store's API does not answer
│   ├── DatabaseUnavailable   69  the database server does not answer, or refuses
│   ├── OtherStore            78  the API key belongs to another store
│   ├── CorruptData           65  the database fails its own checks
│   ├── WriterFailed          70  the database's writer ended unexpectedly
│   ├── AlreadyRunning        75  another daemon holds the lock, or started later
│   ├── Superseded            75  another daemon took over the database
│   └── CommitsLost           70  the database lacks what it had confirmed
├── Busy                      try again soon (HTTP 503 with Retry-After)
│   └── ReadFailed            the database cannot be read now
└── Unusable                  one row or body is quarantined, the rest continues
    └── Unreadable            the same, for an object with a readable kind and id
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence


def first_of(error: Exception) -> Exception:
    """Return the error, or out of a group the first that is not a BackhaulError."""
    if not isinstance(error, ExceptionGroup):
        return error
    found = [first_of(inner) for inner in error.exceptions]
    unexpected = [inner for inner in found if not isinstance(inner, BackhaulError)]
    return (unexpected or found)[0]


class BackhaulError(Exception):
    """Everything that Backhaul raises on purpose."""


class Fatal(BackhaulError):
    """The program cannot continue; the text is one line for the user."""

    exit_code: ClassVar[int] = 1


class Finding(Struct, frozen=True):
    """One error in the configuration.

    `source` is the file or environment variable, `key` the dotted setting, `problem`
    what is wrong, `hint` how to correct it (may be empty).
    """

    source: str
    key: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.source}: {self.key}" if self.key else self.source
        return f"{place}: {self.problem}" + (f" ({self.hint})" if self.hint else "")


class ConfigurationError(Fatal):
    """The configuration cannot be used."""

    exit_code = 78

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))


class PortInUse(Fatal):
    """A listener's address is taken by another program."""

    exit_code = 69


class PlatformUnavailable(Fatal):
    """The store's API cannot be reached, or the answer is not that of the platform."""

    exit_code = 69


class DatabaseUnavailable(Fatal):
    """The database server cannot be reached, or refuses this user."""

    exit_code = 69


class OtherStore(Fatal):
    """The API key belongs to another store than the mirrored one."""

    exit_code = 78


class CorruptData(Fatal):
    """The database fails its own checks, or a newer version created it."""

    exit_code = 65


class WriterFailed(Fatal):
    """The database's writer met an unexpected error; a restart may help."""

    exit_code = 70


class AlreadyRunning(Fatal):
    """Another daemon uses this database, or has started to."""

    exit_code = 75


class Superseded(Fatal):
    """Another daemon took over the database; a restart lets this one stand by."""

    exit_code = 75


class CommitsLost(Fatal):
    """The database lacks what it had confirmed, as after a bad failover."""

    exit_code = 70


class Busy(BackhaulError):
    """Temporarily impossible: the disk is full or the database is locked."""

    def __init__(self, reason: str, retry_after_seconds: int = 1) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(reason)


class ReadFailed(Busy):
    """The database cannot be read; the cause is the driver's error."""


class Unusable(BackhaulError):
    """A body or row cannot be used; it is quarantined with this text."""


class Unreadable(Unusable):
    """An object cannot be used, but its kind and id are known.

    `kind` is `order`, `product`, `customer` or `level`; `object_id` is the id to fetch
    the object by: for a level, that of its product.
    """

    def __init__(self, reason: str, kind: str, object_id: str) -> None:
        self.kind = kind
        self.object_id = object_id
        super().__init__(reason)


def why(error: OSError) -> str:
    """Return the system's text for the error, to end a sentence with."""
    return (error.strerror or str(error)).lower()
