"""What became of a change that a connector was asked to carry out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Applied:
    """The system took it. `reference` is what the system calls it, where it says."""

    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The system refused it for good; `reason` is for the person who mends it."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """It certainly did not arrive: the host sends it again.

    `retry_after_seconds` is what the system asked for; None leaves it to the host.
    """

    reason: str
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Uncertain:
    """It may have arrived: the host asks `lookup` before anything is sent again.

    To one that takes an id once (`Spec.takes_once`) it is sent again without.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """The system has it."""

    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """The system was read and has it not, nor can it still come."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing can be told; `reason` says why."""

    reason: str


Pushed: TypeAlias = Applied | Rejected | NotSent | Uncertain
LookedUp: TypeAlias = Found | Absent | Unknown
