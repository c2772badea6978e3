"""What is asked of a store to fold again what it keeps."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from backhaul.store.contract import Folded, FoldOne


CONFIRMING = ("/reread", "/gone")
"""How the topics of reads end that were made to settle a doubt."""


class EventState(StrEnum):
    """What became of an event; `received` until it is folded."""

    RECEIVED = "received"
    FOLDED = "folded"
    DUPLICATE = "duplicate"
    STALE = "stale"
    UNHANDLED = "unhandled"
    QUARANTINED = "quarantined"


class Selection(Struct, frozen=True):
    """Which stored events to fold again: all, or those to which everything applies.

    `since` is when they arrived at the earliest.
    """

    ids: tuple[int, ...] = ()
    state: str | None = None
    since: str | None = None

    def in_words(self) -> str:
        """Say which, for the audit."""
        said = [", ".join(map(str, self.ids)), self.state]
        said.append(f"since {self.since}" if self.since else None)
        return "; ".join(filter(None, said)) or "all"


class RefoldReport(Struct, frozen=True):
    """One slice of folding again; `last` is the event to go on after, None at the end.

    `states` holds what became of each event now.
    """

    last: int | None
    states: tuple[str, ...]
    problems: tuple[tuple[int, Folded], ...]
    doubts: int


class Refolds(Protocol):
    """Events that were folded before, to be folded again."""

    async def refold(
        self,
        fold_one: FoldOne,
        selection: Selection,
        after: int,
        slice_seconds: float,
        *,
        confirming: bool,
    ) -> RefoldReport:
        """Fold stored events with higher ids again. What is not folded yet waits.

        With `confirming` these are the reads that were made to settle a doubt, else all
        others. Once those are folded, the others give the same mirror in any order.

        An event that changes nothing now keeps what was said of it; quarantine is left
        by one that can be folded. Bodies that were erased are passed over.
        """
        ...
