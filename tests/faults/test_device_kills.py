"""F32 for TCP devices: sender or receiver is killed amid lines; each counts once."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from backhaul.connect.record_matching import decode
from backhaul.core.clock import SystemClock
from backhaul_sdk import Fulfillment, Line, StockAdjustment
from faults.guns import PICKED, Gun, code_of, pick_of
from faults.trials import LONG, chances, tell
from scenes import payloads
from scenes.daemon import DaemonProcess
from scenes.databases import append_and_fold, started_store
from scenes.payloads import envelope, variant
from scenes.ports import free_port
from scenes.silent_platform import office_with_known_store
from scenes.stored import values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scenes.daemon import Office

pytestmark = [pytest.mark.faults, pytest.mark.timeout(2_400 if LONG else 600)]

DEVICE_KILLS = 50 if LONG else 10
DAEMON_KILLS = 50 if LONG else 2
ANSWERS_A_LIFE = 15
LONGEST_LIFE_SECONDS = 0.1
CLOCK = SystemClock()
SCANNER = """
[connectors.floor]
type = "scanner"
tcp_port = {port}
folder = "{office.folder}/floor"
first_mode = "receive"
# An answer may be lost on its way, and this machine be slow.
dedupe_seconds = 600
[connectors.floor.tcp_addresses]
gun = "127.0.0.1"
"""


@asynccontextmanager
async def floor() -> AsyncIterator[tuple[Office, Gun]]:
    """Return a configuration for scanned lines, and a device that sends them."""
    async with office_with_known_store() as office:
        port = free_port()
        office.more = SCANNER.format(office=office, port=port)
        office.write(**{'"10m"': '"10h"'})
        yield office, Gun(port, chances())


async def start(office: Office) -> DaemonProcess:
    daemon = DaemonProcess(office)
    await asyncio.to_thread(daemon.await_ready, 120)
    return daemon


async def test_a_device_that_dies_amid_a_line_has_sent_its_whole_lines_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with floor() as (office, gun):
        daemon = await start(office)
        try:
            for _ in range(DEVICE_KILLS):
                await gun.die(await gun.scan(ANSWERS_A_LIFE))
            await gun.finish()
        finally:
            daemon.kill()
        assert gun.halved == DEVICE_KILLS
        assert_each_counts_once(office, gun)
    tell(capsys, 0, gun.sent, f"{DEVICE_KILLS} kills of the device")


async def test_a_daemon_that_is_killed_amid_lines_counts_each_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with floor() as (office, gun):
        daemon = await start(office)
        try:
            for _ in range(DAEMON_KILLS):
                await kill_amid_lines(daemon, gun)
                daemon = await start(office)
            await gun.finish()
        finally:
            daemon.kill()
        assert_each_counts_once(office, gun)
    tell(capsys, 0, gun.sent, f"{DAEMON_KILLS} kills of the daemon")


async def kill_amid_lines(daemon: DaemonProcess, gun: Gun) -> None:
    """Let the device scan endlessly; kill the daemon, which the device notices."""
    enough = gun.answered + ANSWERS_A_LIFE
    scanning = asyncio.ensure_future(gun.scan(10**9))
    await until(
        lambda: gun.answered >= enough or scanning.done(), "it is answered", 120
    )
    await CLOCK.sleep(gun.moments.uniform(0, LONGEST_LIFE_SECONDS))
    daemon.kill()
    with pytest.raises(ConnectionError):
        await scanning


async def test_a_daemon_that_is_killed_amid_picks_ships_each_order_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with floor() as (office, gun):
        gun.line_of = pick_of
        articles = [
            variant(f"var_{code}", sku=code, barcode=None) for code in {*PICKED}
        ]
        async with started_store(office.database) as store:
            product = payloads.product(variants=articles)
            await append_and_fold(store, envelope("products/create", product))
        daemon = await start(office)
        try:
            for _ in range(DAEMON_KILLS):
                await kill_amid_lines(daemon, gun)
                daemon = await start(office)
            await gun.finish(-gun.sent % (len(PICKED) + 1))
        finally:
            daemon.kill()
        kept = values_of(office.database, "records", "payload", instance="floor")
        records = [decode(payload)[1] for payload in kept]
        orders = gun.sent // (len(PICKED) + 1)
        shipped = [
            (one.order, one.lines) if isinstance(one, Fulfillment) else ("odd", ())
            for one in records
        ]
        lines = tuple(Line(sku=sku, quantity=n) for sku, n in Counter(PICKED).items())
        assert sorted(shipped) == [(f"{1_001 + n}", lines) for n in range(orders)]
    tell(capsys, 0, gun.sent, f"{DAEMON_KILLS} kills of the daemon amid picks")


def assert_each_counts_once(office: Office, gun: Gun) -> None:
    """Compare the stored scans with the scans that the device sent."""
    assert gun.answered == gun.sent > 0
    kept = values_of(office.database, "records", "payload", instance="floor")
    records = [decode(payload)[1] for payload in kept]
    counted = sorted(
        (one.sku, one.delta) if isinstance(one, StockAdjustment) else ("odd", 0)
        for one in records
    )
    assert counted == [(code_of(number), 1) for number in range(gun.sent)]
