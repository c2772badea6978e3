"""What the daemon did in one minute, and how it stood at the end of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping


class Sample(Struct, frozen=True):
    """Counts of a minute, mean seconds in it, and what waited at its end."""

    at: str
    webhooks: int
    folded: int
    applied: int
    platform_seconds: float | None
    heartbeat_seconds: float | None
    events_waiting: int
    commands_open: int
    parked: int


class Samples(Protocol):
    """Keeps a day of samples."""

    async def keep(self, sample: Sample, since: str) -> None:
        """Keep a sample; forget those before `since`. May raise Busy."""
        ...

    async def mirrored(self) -> Mapping[str, int]:
        """Count what is mirrored, by table: it reads an index from end to end."""
        ...
