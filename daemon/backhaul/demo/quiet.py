"""Waits until both sides have nothing left to do."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import httpx

from backhaul.demo.books import read_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.core.clock import Clock
    from backhaul.demo.books import Progress
    from backhaul.demo.mirrored import State
    from backhaul.demo.pair import Pair

LOOK_SECONDS = 0.15


async def until_quiet(
    pair: Pair, clock: Clock, seconds: float
) -> tuple[State, list[str]]:
    """Return the store's state and what is not quiet after `seconds`: nothing, if well.

    Quiet means two equal looks in a row that find nothing to do, so that nothing moved
    between the two sides.
    Raises httpx.HTTPError or sqlite3.Error when one side cannot be asked at the end.
    """
    until = clock.monotonic() + seconds
    before: object = None
    while True:
        last = clock.monotonic() > until
        try:
            # In the order in which work moves on, or it could slip past a look.
            files = len(list(pair.home.drop.glob("*.csv")))
            entered = pair.erp.untaken() if pair.erp else 0
            done = pair.tryton.untold(pair.home.database) if pair.tryton else 0
            progress = read_progress(pair.home.database)
            state = await pair.server_state()
        except (httpx.HTTPError, sqlite3.Error):
            if last:
                raise
        else:
            busy = list(_busy(files, entered, done, progress, state))
            now = (progress, state["sequence"])
            if last or (not busy and now == before):
                return state, busy
            before = None if busy else now
        await clock.sleep(LOOK_SECONDS)


def _busy(
    files: int, entered: int, done: int, progress: Progress, state: State
) -> Iterator[str]:
    """Yield what still moves, in words."""
    counts = {
        "files in the drop folder": files,
        "rows that the ERP entered": entered,
        "shipments and levels that Tryton has to tell": done,
        "events to fold": progress.to_fold,
        "records that wait for their order or article": progress.waiting_records,
        "commands neither settled nor parked": progress.open_commands,
        "news still to be told": progress.untold,
        "webhooks still to be delivered": state["deliveries"]["PENDING"],
    }
    yield from (f"{what}: {count}" for what, count in counts.items() if count)
