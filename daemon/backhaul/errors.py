"""Errors by consequence.

BackhaulError
├── Fatal                     the program stops; `exit_code` says why
│   ├── ConfigurationError    78  a setting is wrong; lists every finding
│   ├── PortInUse             69  a listener's address is taken
│   ├── PlatformUnavailable   69  a store's API does not answer
│   ├── OtherStore            78  the API is another store's than the mirror
│   ├── CorruptData           65  the database fails its own checks
│   ├── WriterFailed          70  what writes the database ended by itself
│   └── AlreadyRunning        75  another daemon holds the lock, or came after this one
├── Busy                      try again soon (answered 503 with Retry-After)
└── Unusable                  this one row or body is set aside, the rest goes on
    └── Unreadable            the same, of an object whose kind and id can be read
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence


def first_of(error: Exception) -> Exception:
    """Return what was raised: out of a group the first that is no error of ours."""
    if not isinstance(error, ExceptionGroup):
        return error
    found = [first_of(inner) for inner in error.exceptions]
    strange = [inner for inner in found if not isinstance(inner, BackhaulError)]
    return (strange or found)[0]


class BackhaulError(Exception):
    """Everything that Backhaul raises on purpose."""


class Fatal(BackhaulError):
    """The program cannot go on; the text is one line for the person who started it."""

    exit_code: ClassVar[int] = 1


class Finding(Struct, frozen=True):
    """One thing wrong in the configuration.

    `source` is the file or environment variable, `key` the dotted setting, `problem`
    what is wrong, `hint` how to mend it (may be empty).
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
    """The store's API does not answer as one."""

    exit_code = 69


class OtherStore(Fatal):
    """The API is another store's than the one that is mirrored."""

    exit_code = 78


class CorruptData(Fatal):
    """The database fails its own checks, or was made by a newer version."""

    exit_code = 65


class WriterFailed(Fatal):
    """What writes the database met what nobody foresaw; a new start may do."""

    exit_code = 70


class AlreadyRunning(Fatal):
    """Another daemon works on this database, or has begun to."""

    exit_code = 75


class Busy(BackhaulError):
    """Not now: the disk is full or the database locked."""

    def __init__(self, reason: str, retry_after_seconds: int = 1) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(reason)


class Unusable(BackhaulError):
    """A body or row that cannot be understood; kept in quarantine with this text."""


class Unreadable(Unusable):
    """An object that cannot be used, although it says which one it is.

    `kind` is `order`, `product`, `customer` or `level`; `object_id` is what the object
    is fetched by: the product of a level.
    """

    def __init__(self, reason: str, kind: str, object_id: str) -> None:
        self.kind = kind
        self.object_id = object_id
        super().__init__(reason)


def why(error: OSError) -> str:
    """Return what the system says of it, to end a sentence with."""
    return (error.strerror or str(error)).lower()
