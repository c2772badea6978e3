"""Tunes Python's garbage collector for start-up and for load."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

YOUNG_OBJECTS = 10_000
"""Objects that are made before the young ones are looked through.

Python's own 700 is passed by a few dozen requests: with hundreds under way at once,
each look finds them all alive and moves them on, to be looked through again. What a
daemon drops is freed by counting; only cycles wait for a look.
"""


@contextmanager
def paused() -> Iterator[None]:
    """Look for none while modules are loaded: hardly anything that they make is."""
    gc.disable()
    try:
        yield
    finally:
        collect_less_often()
        gc.enable()


def collect_less_often() -> None:
    """Leave out what start-up made, and look at the rest less often.

    Hardly any of it is garbage: to look for that first takes longer than it is worth.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
