"""The queue between the daemon's work and a collector that may hang."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from backhaul.observe.otel.export_queue import FULL, NOT_TAKEN, STOPPED, ExportQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

HANG_SECONDS = 60.0


class Watched:
    """A queue, and what it exported and dropped; `release` ends hanging exports."""

    def __init__(
        self,
        *,
        takes: Callable[[list[int]], bool] = lambda _: True,
        batch: int = 2,
        wait_seconds: float = 60,
    ) -> None:
        self.exported: list[list[int]] = []
        self.dropped: Counter[str] = Counter()
        self.began, self.release = threading.Event(), threading.Event()
        self._takes = takes
        self.queue = ExportQueue(
            "test",
            self._export,
            self._drop,
            most=4,
            batch=batch,
            wait_seconds=wait_seconds,
        )

    def _export(self, batch: list[int]) -> bool:
        self.began.set()
        assert self.release.wait(HANG_SECONDS)
        self.exported.append(batch)
        return self._takes(batch)

    def _drop(self, reason: str, number: int) -> None:
        self.dropped[reason] += number

    def put(self, *items: int) -> None:
        for item in items:
            self.queue.put(item)


def test_items_leave_in_batches_and_in_order() -> None:
    watched = Watched()
    watched.release.set()
    watched.put(1, 2, 3)
    watched.queue.stop(HANG_SECONDS)
    assert [item for batch in watched.exported for item in batch] == [1, 2, 3]
    assert max(map(len, watched.exported)) == 2
    assert not watched.dropped


def test_a_single_item_leaves_without_others_of_its_batch() -> None:
    watched = Watched(wait_seconds=0.01)
    watched.put(1)
    assert watched.began.wait(HANG_SECONDS)
    watched.release.set()
    watched.queue.stop(HANG_SECONDS)
    assert watched.exported == [[1]]


def test_an_empty_queue_sleeps_until_there_is_an_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float | None] = []
    waiting = threading.Event()
    wait = threading.Condition.wait

    def watch(condition: threading.Condition, timeout: float | None = None) -> bool:
        if threading.current_thread().name == "sleeper":
            waits.append(timeout)
            waiting.set()
        return wait(condition, timeout)

    monkeypatch.setattr(threading.Condition, "wait", watch)
    queue = ExportQueue[int](
        "sleeper", lambda _: True, lambda *_: None, most=4, batch=2, wait_seconds=0.01
    )
    assert waiting.wait(HANG_SECONDS)
    queue.stop(HANG_SECONDS)
    assert waits == [None]


def test_a_hanging_export_delays_no_caller_and_dropped_items_are_counted() -> None:
    watched = Watched()
    watched.put(1, 2)
    assert watched.began.wait(HANG_SECONDS)
    watched.put(3, 4, 5, 6, 7, 8, 9)
    assert watched.dropped == {FULL: 3}
    watched.release.set()
    watched.queue.stop(HANG_SECONDS)
    assert watched.exported == [[1, 2], [3, 4], [5, 6]]


def test_a_stop_ends_although_the_export_hangs() -> None:
    watched = Watched()
    watched.put(1, 2)
    assert watched.began.wait(HANG_SECONDS)
    watched.put(3)
    watched.queue.stop(0.01)
    assert watched.dropped == {STOPPED: 3}
    watched.put(4)
    assert watched.dropped == {STOPPED: 4}
    watched.release.set()


def test_items_that_the_collector_refuses_are_counted() -> None:
    watched = Watched(takes=lambda _: False)
    watched.release.set()
    watched.put(1, 2)
    watched.queue.stop(HANG_SECONDS)
    assert watched.dropped == {NOT_TAKEN: 2}


def test_an_error_in_an_export_ends_no_later_one() -> None:
    def fail_first(batch: list[int]) -> bool:
        if batch[0] == 1:
            raise ValueError("this batch cannot be encoded")
        return True

    watched = Watched(takes=fail_first)
    watched.release.set()
    watched.put(1, 2, 3)
    watched.queue.stop(HANG_SECONDS)
    assert watched.exported == [[1, 2], [3]]
    assert watched.dropped == {NOT_TAKEN: 2}
