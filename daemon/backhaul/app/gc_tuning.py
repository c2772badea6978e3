"""Tunes Python's garbage collector for start-up and for load."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

YOUNG_OBJECTS = 10_000
"""New objects that start a collection of the youngest generation.

A few dozen requests exceed Python's default of 700. With hundreds of concurrent
requests, each collection would find all objects alive, promote them and scan them
again later. Reference counting frees nearly everything; only cycles need a collection.
"""


@contextmanager
def paused() -> Iterator[None]:
    """Pause the garbage collector while modules load: they create no garbage."""
    gc.disable()
    try:
        yield
    finally:
        collect_less_often()
        gc.enable()


def collect_less_often() -> None:
    """Exclude the objects of the start-up, and collect the others less often.

    Hardly any object of the start-up is garbage, so scanning them is wasted time.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
