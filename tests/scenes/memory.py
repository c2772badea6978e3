"""Measures the memory that Python and SQLite use."""

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
    """Yield a function that returns the peak memory within the block so far."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def sqlite_bytes() -> int:
    """Return the memory that SQLite uses in this process, for all connections."""
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_memory_used.restype = ctypes.c_int64
    return int(library.sqlite3_memory_used())
