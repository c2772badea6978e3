"""A store's history arrives out of order, while the daemon is killed repeatedly."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from backhaul.demo.daemon_rows import read_daemon_rows
from backhaul.demo.mirror_checks import check_mirror
from faults.history import disordered, trade
from faults.sending import sender
from faults.trials import LONG, SEED, chances, tell
from scenes.daemon import DaemonProcess, Office, backhaul
from scenes.ports import free_port
from scenes.reference_shop import open_shop
from scenes.stored import events_to_fold
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from faults.sending import Sender

EVENTS, KILLS = (10_000, 20) if LONG else (1_500, 3)
READING_SECONDS = 600 if LONG else 60
"""The timeout of a full sync on a busy machine."""
SENDERS = 8


@dataclass(slots=True)
class Stream:
    """Sends the bodies in turn, each until it is stored, through every kill."""

    client: Sender
    bodies: list[bytes]
    taken: int = 0
    at: Iterator[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.at = iter(self.bodies)

    async def run(self) -> None:
        await asyncio.gather(*(self._send() for _ in range(SENDERS)))

    async def _send(self) -> None:
        for body in self.at:
            await self.client.insist(body, seconds=60)
            self.taken += 1


async def kill_along(
    daemon: DaemonProcess, stream: Stream, kills: list[int]
) -> DaemonProcess:
    """Kill the daemon after each number of accepted bodies; return the last daemon."""
    for taken in kills:
        await until(lambda: stream.taken >= taken, f"{taken} are taken", 120)  # noqa: B023 - awaited here
        daemon.kill()
        daemon = DaemonProcess(daemon.office)
        daemon.await_ready()
    return daemon


async def reconcile(office: Office) -> None:
    """Fold the received events, and run a full sync."""
    await until(
        lambda: events_to_fold(office.database) == 0,
        "all is folded",
        READING_SECONDS,
    )
    said = await asyncio.to_thread(
        backhaul, "reconcile", config=office.config, seconds=READING_SECONDS
    )
    assert said.code == 0, said.err


@pytest.mark.faults
@pytest.mark.timeout(3_600 if LONG else 900)
async def test_a_tortured_stream_gives_the_stores_own_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = chances()
    async with open_shop(tmp_path / "shop") as shop:
        history, state = await trade(shop, EVENTS, chance)
        bodies = disordered(history, chance)
        access = shop.running.access
        more = "[reconcile]\nbackfill_on_start = false\n"
        office = Office(access.public_url, access.api_key, more=more)
        try:
            fixed = f"port = {free_port()}\n[admin]"
            debug = {'level = "TRACE"': 'level = "DEBUG"'}
            office.write(**{"port = 0\n[admin]": fixed}, **debug)
            daemon = DaemonProcess(office)
            # the platform is in this process, and answers while the daemon starts
            await asyncio.to_thread(daemon.await_ready)
            async with sender(office, access.store_id) as client:
                stream = Stream(client, bodies)
                kills = sorted(chance.sample(range(len(bodies) - SENDERS), KILLS))
                killing = kill_along(daemon, stream, kills)
                daemon, _ = await asyncio.gather(killing, stream.run())
                lost = client.lost(office.database)
            await reconcile(office)
            books = read_daemon_rows(office.database, "main", "bench")
            found = check_mirror(state, books)
            wrong = [str(f) for f in found]
            daemon.terminate()
        finally:
            daemon.kill()
            office.remove()
    told = f"events of {len(history)}, {KILLS} kills, {len(wrong)} rows differ"
    tell(capsys, len(lost), len(bodies), told)
    assert lost == set(), f"seed {SEED}"
    assert wrong == [], f"seed {SEED}"
