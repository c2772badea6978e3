"""A spool whose disk is full refuses a webhook, and loses none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock
from backhaul.errors import Busy
from backhaul.ingest.spool import SpoolingInbox
from backhaul.store import open_spool
from scenes.databases import count, make_database
from scenes.payloads import envelope, order
from scenes.receiver import served

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from backhaul.store.inbox import Arrival


class UnavailableDatabase:
    """A database that refuses every write."""

    async def append(self, arrival: Arrival) -> int:
        raise Busy("the database is away")


async def test_a_webhook_is_refused_if_the_disk_of_the_spool_is_full(
    tmp_path: Path,
) -> None:
    file = tmp_path / "spool.db"
    make_database(file)
    spool = open_spool(file, SystemClock())
    inbox = SpoolingInbox(UnavailableDatabase(), spool, SystemClock(), accepts=True)
    await inbox.start()

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count=1")

    await spool._engine.writer.urgent(fill)  # type: ignore[attr-defined]
    body = envelope("orders/create", order(note="x" * 50_000))
    async with served(inbox) as receiver:
        replies = [await receiver.post(body) for _ in range(20)]
    refused = [reply for reply in replies if reply.status == 503]
    assert refused
    assert {reply.headers["Retry-After"] for reply in refused} == {"1"}
    assert count(file, "inbox") == len(replies) - len(refused) == inbox.waiting
    await inbox.stop()
