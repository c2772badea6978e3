"""Search, lists, timelines and numbers for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import Struct


class Words(Struct, frozen=True):
    """What an object can be found by: its title, and everything else."""

    title: str
    words: str


Describe: TypeAlias = Callable[[str, str], Words]
"""From kind (`order`, `product`, `customer`) and document to words."""


class Followed(Struct, frozen=True):
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
