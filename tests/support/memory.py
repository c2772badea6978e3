"""How much memory Python takes for a piece of work, in whichever thread."""

from __future__ import annotations

import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def peak_bytes() -> Iterator[Callable[[], int]]:
    """Yield what tells, inside the block, how many bytes it has held at once."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
