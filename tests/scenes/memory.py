"""How much memory a piece of work takes, of Python's and of SQLite's."""

from __future__ import annotations

import _sqlite3
import ctypes
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


def sqlite_bytes() -> int:
    """Return what SQLite holds in this process, for all connections."""
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_memory_used.restype = ctypes.c_int64
    return int(library.sqlite3_memory_used())
