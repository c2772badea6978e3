"""What a parser of outside input is to a fuzzer: bytes go in, no surprise comes out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from time import thread_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_SECONDS = 1.0
"""Of this thread's own time for one input: no input may keep the program busy."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parser; `feed` raises only what no caller of it expects.

    `seeds` are inputs that it understands, from which others are made.
    """

    name: str
    feed: Callable[[bytes], None]
    seeds: tuple[bytes, ...]

    def take(self, data: bytes) -> None:
        """Feed it. AssertionError where that takes too long."""
        began = thread_time()
        self.feed(data)
        spent = thread_time() - began
        assert spent < LONGEST_SECONDS, f"{spent:.1f} s for {data[:200]!r}"


def as_json(*documents: object) -> tuple[bytes, ...]:
    """Return each as bytes, to be seeds."""
    return tuple(json.dumps(each).encode() for each in documents)


def as_text(data: bytes) -> str:
    """Return what a header, a cell or a line is read as, whatever its bytes are."""
    return data.decode("utf-8", "surrogateescape")


def lines_of(data: bytes, count: int) -> list[str]:
    """Return so many texts of an input: its first lines, empty where it has fewer."""
    found = as_text(data).split("\n")[:count]
    return found + [""] * (count - len(found))
