"""`python -m faults.dying_unit DATABASE VERB NUMBER`: kills itself in a transaction.

It calls one method of the store, and dies before the method's statement of this number.
If there are fewer statements, it ends well.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import SystemClock
from backhaul.store.operations import AuditEntry
from backhaul.store.sqlite.connections import open_writer
from backhaul.store.sqlite.engine import Writer
from backhaul.store.sqlite.opening import open_store
from backhaul.store.stock_targets import HeldFilter

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Mapping

    from backhaul.store.sqlite.database import SqliteStore

RELEASE, BEGIN_LIST = "targets.release", "records.begin_stock_list"
RELEASED = AuditEntry("kim", "stock release", "no newer count")
CALLS: Mapping[str, Callable[[SqliteStore], Awaitable[Any]]] = {
    RELEASE: lambda store: store.targets.release(HeldFilter(), RELEASED),
    BEGIN_LIST: lambda store: store.records.begin_stock_list("erp", "all"),
}


@dataclass
class Fuse:
    """Counts the statements of a connection once it is lit, and kills at the last."""

    left: int
    is_lit: bool = False

    def connect(self, path: Path) -> sqlite3.Connection:
        connection = open_writer(path)
        connection.set_trace_callback(self._meet)
        return connection

    def _meet(self, _: str) -> None:
        self.left -= self.is_lit
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(path: Path, verb: str, number: int) -> None:
    fuse = Fuse(number)
    store = open_store(
        path,
        SystemClock(),
        lambda file, append, _: Writer(file, append, fuse.connect),
    )
    store.start()
    await store.kv.get("whatever")  # the connection is open from now on
    fuse.is_lit = True
    await CALLS[verb](store)
    fuse.is_lit = False
    await store.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
