"""Health checks of an installation, each with a fix; terms: docs/glossary.md.

Every check yields results: passed, or a problem and its fix.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class State(StrEnum):
    """The severity; only `FAIL` keeps Backhaul from working."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Result(Struct, frozen=True):
    """The check, the store or connection it is about, and what it found."""

    check: str
    about: str
    state: State
    said: str
    fix: str = ""

    def __post_init__(self) -> None:
        if self.state is not State.OK and not self.fix:
            raise ValueError(
                f"{self.check}: "
                "this check found a problem and names no fix; the author of "
                "the check must add one"
            )


def ok(check: str, said: str, about: str = "") -> Result:
    return Result(check, about, State.OK, said)


def warn(check: str, said: str, fix: str, about: str = "") -> Result:
    return Result(check, about, State.WARN, said, fix)


def fail(check: str, said: str, fix: str, about: str = "") -> Result:
    return Result(check, about, State.FAIL, said, fix)
