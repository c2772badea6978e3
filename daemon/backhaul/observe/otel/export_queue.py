"""A bounded queue and the thread that exports what is in it."""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

FULL = "queue full"
NOT_TAKEN = "not taken"
STOPPED = "stopped"
"""Why something was dropped, as the metric `telemetry_dropped_total` says it."""


class ExportQueue(Generic[T]):
    """Exports items in batches, in a thread of its own.

    `export` returns whether a batch was taken; it may take long. `dropped` is called,
    in any thread, with a reason and the number of items that will not be exported.
    """

    def __init__(
        self,
        name: str,
        export: Callable[[list[T]], bool],
        dropped: Callable[[str, int], None],
        *,
        most: int,
        batch: int,
        wait_seconds: float,
    ) -> None:
        self._export = export
        self._dropped = dropped
        self._most = most
        self._batch = batch
        self._wait_seconds = wait_seconds
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._is_stopped = self._is_given_up = False
        self._under_way = 0
        # A collector that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Add an item; drop it if the queue is full or stopped. Never waits."""
        with self._changed:
            reason = STOPPED if self._is_stopped else ""
            if not reason and len(self._items) >= self._most:
                reason = FULL
            if not reason:
                self._items.append(item)
                if len(self._items) == 1 or len(self._items) >= self._batch:
                    self._changed.notify()
        if reason:
            self._dropped(reason, 1)

    def stop(self, seconds: float) -> None:
        """Export what is left within `seconds`, and drop the rest.

        A batch whose export goes on counts as dropped.
        """
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            left = len(self._items) + self._under_way
            self._items.clear()
            self._is_given_up = True
        if left:
            self._dropped(STOPPED, left)

    def _run(self) -> None:
        while batch := self._next():
            try:
                is_taken = self._export(batch)
            except Exception:  # noqa: BLE001 - the thread goes on with the next batch
                is_taken = False
            with self._changed:
                self._under_way = 0
                is_counted = self._is_given_up
            if not (is_taken or is_counted):
                self._dropped(NOT_TAKEN, len(batch))

    def _next(self) -> list[T]:
        """Wait for the next batch; it is empty once the queue is stopped and empty."""
        with self._changed:
            due: float | None = None
            while not self._is_stopped and len(self._items) < self._batch:
                if self._items and due is None:
                    due = monotonic() + self._wait_seconds
                left = None if due is None else due - monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            number = self._under_way = min(len(self._items), self._batch)
            return [self._items.popleft() for _ in range(number)]
