"""Webhooks that the daemon moves from the file of a receiver process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from backhaul.app.receiver_files import ReceiverFile
from backhaul.core.clock import SystemClock
from backhaul.ingest.topics import DAMAGED
from backhaul.store import open_inbox_file
from scenes.databases import fold_all, started_store
from scenes.payloads import arrival, envelope, order

if TYPE_CHECKING:
    from pathlib import Path

CLOCK = SystemClock()


async def receive(file: Path, *bodies: bytes) -> None:
    """Write webhooks to a file as a receiver process does, and close it."""
    spool = open_inbox_file(file, CLOCK)
    spool.start()
    await asyncio.gather(*(spool.append(arrival(body)) for body in bodies))
    await spool.stop()


async def test_damage_in_the_file_is_found_after_the_move(tmp_path: Path) -> None:
    file = tmp_path / "receiver-0a.db"
    bodies = [envelope("orders/create", order(f"ord_{n}", number=n)) for n in (1, 2)]
    await receive(file, *bodies)
    kept = file.read_bytes()
    place = kept.index(b"ord_2")
    file.write_bytes(kept[:place] + b"ord_3" + kept[place + 5 :])
    async with started_store(tmp_path / "backhaul.db") as store:
        assert await ReceiverFile(file, store.inbox, CLOCK).end() == 2
        ((event, folded),) = await fold_all(store)
    assert (event, folded.state, folded.detail) == (2, "quarantined", DAMAGED)
