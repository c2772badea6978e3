"""What became of a change that a connector was asked to carry out."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Applied(Struct, frozen=True):
    """The system took it. `reference` is what the system calls it, where it says."""

    reference: str | None = None


class Rejected(Struct, frozen=True):
    """The system refused it for good; `reason` is for the person who mends it."""

    reason: str


class NotSent(Struct, frozen=True):
    """It certainly did not arrive: the host sends it again.

    `retry_after_seconds` is what the system asked for; None leaves it to the host.
    """

    reason: str
    retry_after_seconds: float | None = None


class Uncertain(Struct, frozen=True):
    """It may have arrived: the host asks `lookup` before anything is sent again.

    To one that takes an id once (`Spec.takes_once`) it is sent again without.
    """

    reason: str


class Found(Struct, frozen=True):
    """The system has it."""

    reference: str | None = None


class Absent(Struct, frozen=True):
    """The system was read and has it not, nor can it still come."""


class Unknown(Struct, frozen=True):
    """Nothing can be told; `reason` says why."""

    reason: str


Pushed: TypeAlias = Applied | Rejected | NotSent | Uncertain
LookedUp: TypeAlias = Found | Absent | Unknown
