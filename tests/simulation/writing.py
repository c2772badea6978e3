"""The daemon's own writer, turn by turn in the loop instead of in a thread."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, Any

from backhaul.store.sql.round_writer import _Signal
from backhaul.store.sqlite import connections
from backhaul.store.sqlite.engine import Writer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

    from backhaul.store.sqlite.engine import AppendBatch, Connect

ROUND_SECONDS = 0.002


class _Bell(queue.SimpleQueue[Any]):
    """A queue that rings when something is put into it, and keeps no mere signals."""

    def __init__(self, ring: Callable[[], None]) -> None:
        super().__init__()
        self._ring = ring

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if item is not _Signal.WAKE:
            super().put(item, block, timeout)
        self._ring()


class Disk:
    """What one life writes to: it may be busy, and a commit may be the last.

    Whether there is anything to commit is known behind a round; `in_vain` is told that
    there was nothing.
    """

    def __init__(self) -> None:
        self.connection: sqlite3.Connection | None = None
        self.before_commit: Callable[[], bool] = lambda: False
        self.after_commit: Callable[[], bool] = lambda: False
        self.in_vain: Callable[[], None] = lambda: None

    def writer(
        self,
        path: Path,
        append_batch: AppendBatch,
        connect: Connect = connections.open_writer,
    ) -> Writer:
        """Make the writer of this disk."""
        return SteppedWriter(path, append_batch, connect, self)

    def unplug(self) -> None:
        """Close the file; what was not committed is gone."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


class SteppedWriter(Writer):
    """Does a round a moment after work has come in."""

    def __init__(
        self, path: Path, append_batch: AppendBatch, connect: Connect, disk: Disk
    ) -> None:
        super().__init__(path, append_batch, connect)
        self._disk = disk
        self._rung = False
        self._urgent = _Bell(self._ring)
        self._background = _Bell(self._ring)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._under_way = False
        self._thread = threading.current_thread()
        connection = self._connect()
        # Nobody else works here: to wait for a lock would be to wait for ever.
        connection.execute("PRAGMA busy_timeout=0")
        self._disk.connection = connection

    async def stop(self) -> None:
        if self._thread is None:
            return
        self._hand_over()
        while not (self._urgent.empty() and self._background.empty()):  # noqa: ASYNC110
            await asyncio.sleep(ROUND_SECONDS)
        self._thread = None
        self._disk.unplug()

    def _ring(self) -> None:
        if not self._rung and self._loop is not None:
            self._rung = True
            self._loop.call_later(ROUND_SECONDS, self._turn)

    def _turn(self) -> None:
        self._rung = False
        connection = self._disk.connection
        if self._urgent.empty() and self._background.empty():
            return  # a round before this one took what it was rung for
        if connection is None or self._disk.before_commit():
            return
        changes = connection.total_changes
        try:
            self._work_once(connection)
        except BaseException as error:  # noqa: BLE001 - as its thread does
            self._fail(error)
            return
        if connection.total_changes == changes:
            self._disk.in_vain()
        elif self._disk.after_commit():
            return
        if not (self._urgent.empty() and self._background.empty()):
            self._ring()
