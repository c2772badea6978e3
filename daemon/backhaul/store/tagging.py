"""What the audit of the platform's history asks of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.core.effect_proof import Move, TagMeaning


class Tagged(Struct, frozen=True):
    """An adjustment on the platform that bears a command's tag; `moves` as read."""

    command: str
    adjustment_id: str
    moves: tuple[Move, ...]


def restored_mark(store: str) -> str:
    """Name the mark of when a database was found, or made, older than its sends."""
    return f"restored:{store}"


def audited_mark(store: str) -> str:
    """Name the mark of up to when the platform's history was read."""
    return f"audited:{store}"


class Tags(Protocol):
    """What the platform's history tells of commands, by their tags."""

    async def sighted(
        self, store: str, found: Sequence[Tagged], *, adopt: bool
    ) -> list[TagMeaning]:
        """Take in, in one transaction, what adjustments with our tags mean.

        What landed is applied, what is too much is kept with its command; so is what
        landed behind a count, once that one's step is under way no more. `adopt`
        takes what is foreign for our own from before a restore: it is kept, and all
        that is open is put in doubt. Otherwise what is foreign changes nothing.
        """
        ...

    async def parcels_twice(self, store: str) -> list[tuple[str, str]]:
        """Keep which parcels left twice by commands that were sent again.

        Returns each command with the parcel too many, once. A parcel without a tracking
        number cannot be told from one that a person sent.
        """
        ...

    async def shift(self, store: str, seconds: float, longest_seconds: float) -> None:
        """Move the times of open commands back by as much as the clock went back.

        A look due within `longest_seconds`, the longest wait there is, stays.
        """
        ...

    async def catch_up(self, store: str, longest_seconds: float) -> None:
        """Let no open command wait for a clock that was set back while nobody looked.

        No wait is longer than `longest_seconds`. What is in doubt is looked for late
        rather than early.
        """
        ...
