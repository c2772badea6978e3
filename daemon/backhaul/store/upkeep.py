"""What upkeep asks of a store: to keep the search index, to prune, to forget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Words:
    """What an object can be found by: its title, and everything else."""

    title: str
    words: str


Describe: TypeAlias = Callable[[str, str], Words]
"""From kind (`order`, `product`, `customer`) and document to words."""


@dataclass(frozen=True, slots=True)
class Followed:
    """One slice of indexing.

    `more` where changes wait to be indexed, `folding` where events wait to be folded.
    """

    indexed: int
    more: bool
    folding: bool


class SearchIndex(Protocol):
    """The search index: follows the change feed by a cursor of its own."""

    async def follow(self, describe: Describe, slice_seconds: float) -> Followed:
        """Index what changed, for about `slice_seconds`. May raise Busy."""
        ...

    async def rebuild(self) -> None:
        """Empty the index and begin at the first change again. May raise Busy."""
        ...


@dataclass(frozen=True, slots=True)
class Pruned:
    """One slice of pruning: how many bodies were erased, and whether more are due."""

    erased: int
    more: bool


class Retention(Protocol):
    """What arrived, as far as it is kept."""

    async def prune(self, before: str, slice_seconds: float) -> Pruned:
        """Erase bodies and headers received before that time, for about that long.

        What is not folded, waits or is in quarantine keeps them. May raise Busy.
        """
        ...
