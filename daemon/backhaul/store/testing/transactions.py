"""Runs a function of a test in a fold, a reprocessing or a matching.

Tests read the mirror with these functions, or as operators do.
"""

# ruff: noqa: S101 - these are helpers of tests, which assert

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store import database_at
from backhaul.store.inbox import Arrival, Folded, Selection
from backhaul.store.records import Known, NewRecord
from backhaul.store.testing.mirror_scenes import NOON
from backhaul.store.testing.scenes import without_decoding

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import (
        FoldReport,
        MirrorWriter,
        ReprocessReport,
        StoredEvent,
    )
    from backhaul.store.matching import MatchReader, WaitingRecord

T = TypeVar("T")
Fold: TypeAlias = Callable[["StoredEvent", "MirrorWriter"], Folded]
"""Folds one event."""
SLICE_SECONDS = 1.0
MOST_SLICES = 100
_NUMBERS = count(1)


async def fold_with(
    store: Store, fold: Fold, slice_seconds: float = SLICE_SECONDS
) -> FoldReport:
    """Fold one slice of the events that wait."""
    return await store.inbox.fold(without_decoding(fold), slice_seconds)


async def fold_all_with(store: Store, fold: Fold) -> None:
    """Fold all events that wait."""
    for _ in range(MOST_SLICES):
        if not (await fold_with(store, fold)).more:
            return
    pytest.fail(f"{MOST_SLICES} slices did not fold everything")


async def reprocess_with(
    store: Store,
    fold: Fold,
    selection: Selection | None = None,
    *,
    after: int = 0,
    slice_seconds: float = SLICE_SECONDS,
    confirming: bool = False,
) -> ReprocessReport:
    """Fold one slice of selected events again."""
    return await store.reprocessing.reprocess(
        without_decoding(fold),
        selection or Selection(),
        after,
        slice_seconds,
        confirming=confirming,
    )


async def in_fold(
    store: Store, use: Callable[[MirrorWriter, int], T], name: str = "main"
) -> T:
    """Call a function in the fold of a new event of a store; return its result."""
    found: list[T] = []
    event = await store.inbox.append(
        Arrival(name, "delivery", "used/in_fold", NOON, b"{}", b"{}")
    )

    def fold(stored: StoredEvent, mirror: MirrorWriter) -> Folded:
        if stored.id == event:
            found.append(use(mirror, event))
        return Folded("folded", stored.topic)

    report = await fold_with(store, fold)
    assert report.problems == ()
    return found[-1]


async def match_with(
    store: Store,
    use: Callable[[MatchReader], T],
    name: str = "main",
    key: str = "",
) -> T:
    """Call a function in the matching of a record of connection `reader`."""
    found: list[T] = []

    def match(_: WaitingRecord, mirror: MatchReader) -> Known:
        found.append(use(mirror))
        return Known(None, "a test")

    key = key or f"match with {next(_NUMBERS)}"
    record = NewRecord(key, b"null", "", "", "")
    (outcome,) = await store.records.accept("reader", name, [record], None, match)
    assert found, outcome.reason
    return found[-1]


def rows_of(
    store: Store, table: str, /, *columns: str, **wanted: object
) -> list[tuple[Any, ...]]:
    """Return columns of a table of docs/mirror.md, in the order of its key.

    `wanted` are the values that columns must have.
    """
    with database_at(store.place).console(SystemClock()) as console:
        names = console.columns(table)
        rows = [row for page in console.pages(table) for row in page]
    places = [names.index(column) for column in columns]
    filters = [(names.index(name), value) for name, value in wanted.items()]
    return [
        tuple(row[place] for place in places)
        for row in rows
        if all(row[place] == value for place, value in filters)
    ]
