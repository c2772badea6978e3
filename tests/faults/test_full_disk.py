"""The disk fills under a running daemon: it confirms and sends nothing; it recovers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store import database_at
from faults.sending import sender
from faults.trials import LONG, chances, tell
from scenes.daemon import daemon_process
from scenes.payloads import envelope
from scenes.processes import family_of, limited
from scenes.stored import count, values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from faults.sending import Sender
    from scenes.daemon import DaemonProcess, Office
    from scenes.reference_process import ReferenceProcess

POINTS = 20 if LONG else 5
SENDERS = 4
PUBLIC = '[public]\nhost = "127.0.0.1"'
MOST_SENT = 2_000
NEVER_SENT_SECONDS = 3.0


def written(office: Office) -> int:
    """Return the size of the daemon's write-ahead log."""
    return office.database.with_name("backhaul.db-wal").stat().st_size


async def refused_by_all(client: Sender) -> None:
    """Send until the disk is full, and then some more."""
    begun = len(client.told)

    def go_on() -> bool:
        told = client.told[begun:]
        return sum(one.status == 503 for one in told) < 20 and len(told) < MOST_SENT

    await asyncio.gather(*(client.send_while(go_on) for _ in range(SENDERS)))
    others = [await client.health(path) for path in ("/healthz", "/readyz")]
    others.append(await client.health("/api/status"))
    assert [told.status for told in others] == [200] * 3


def faults_of(client: Sender) -> list[str]:
    """Return the defects of refusals."""
    return [
        str(told)
        for told in client.told
        if told.status not in {200, 503}
        or (told.status == 503 and told.retry_after != "1")
    ]


@pytest.mark.faults
async def test_a_disk_that_fills_at_any_point(
    daemon: DaemonProcess,
    platform: ReferenceProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chance, recoveries = chances(), []
    async with sender(daemon.office, platform.store().id) as client:
        for _ in range(POINTS):
            room = written(daemon.office) + chance.randrange(-60_000, 200_000)
            with limited(daemon.process.pid, resource.RLIMIT_FSIZE, max(0, room)):
                await refused_by_all(client)
            recoveries.append(await client.insist())
        assert daemon.process.poll() is None
        lost = client.lost(daemon.office.database)
        refused = sum(told.status == 503 for told in client.told)
        more = f"points; {len(client.kept)} kept, {refused} refused, back in"
        tell(capsys, len(lost), POINTS, f"{more} {max(recoveries):.1f} s at most")
        assert faults_of(client) == []
    assert lost == set()
    assert database_at(daemon.office.database).faults(deep=True) == []


def arm(platform: ReferenceProcess, *rules: dict[str, Any]) -> None:
    """Set the platform's faults from now on."""
    body = {"seed": 1, "http": list(rules), "webhooks": []}
    assert platform.control("PUT", "/stores/demo/faults", body).status == 200


def fired(platform: ReferenceProcess) -> int:
    return sum(
        rule["fired"] for rule in platform.control("GET", "/stores/demo/faults").data()
    )


def adjustments(platform: ReferenceProcess, sku: str) -> list[int]:
    """Return the platform's history of an article's stock."""
    state = platform.state()
    (variant,) = (
        variant["id"]
        for product in state["products"]
        for variant in product["variants"]
        if variant["sku"] == sku
    )
    return [
        entry["adjustment"]
        for entry in state["history"]
        if entry["variantId"] == variant and entry["reason"] != "INITIAL_STOCK"
    ]


@pytest.mark.faults
async def test_no_command_is_sent_while_its_attempt_cannot_be_recorded(
    daemon: DaemonProcess, platform: ReferenceProcess
) -> None:
    office = daemon.office
    product = {"title": "Ark", "price": "10.00", "stock": 50, "sku": "ARK"}
    assert platform.v1("POST", "/products", product).status == 201
    throttled = {"fault": "rate429", "method": "POST", "seconds": 1}
    arm(platform, throttled)
    async with sender(office, platform.store().id) as client:
        # the article came too late for the backfill; its webhook has it
        await tell_of_articles(client, platform)
        office.put("stock-deltas-1.csv", "sku,adjustment,reason", "ARK,-7,DAMAGED")
        await until(lambda: fired(platform) > 0, "it is tried, and told to come later")
        with limited(daemon.process.pid, resource.RLIMIT_FSIZE, 0):
            await refused_by_all(client)
            before = fired(platform)
            end = time.monotonic() + NEVER_SENT_SECONDS
            await client.send_while(lambda: time.monotonic() < end)
            assert fired(platform) == before
        await until(lambda: fired(platform) > before, "it is tried again")
        arm(platform)
        await until(lambda: adjustments(platform, "ARK"), "it took effect")
        await until(lambda: states(office) == ["applied"], "it is settled")
        assert client.lost(office.database) == set()
    assert adjustments(platform, "ARK") == [-7]


def states(office: Office) -> list[str]:
    """Return the states of the adjustments."""
    return values_of(office.database, "commands", "state", kind="adjust")


async def tell_of_articles(client: Sender, platform: ReferenceProcess) -> None:
    database = client.office.database
    for product in platform.state()["products"]:
        body = envelope("products/create", product, storeId=client.store_id)
        await client.insist(body)
    await until(lambda: count(database, "variants", sku="ARK"), "it is known")


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a disk of 16 MB, which the daemon's writes fill."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def may_mount(folder: Path) -> bool:
    try:
        with small_disk(folder):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextlib.contextmanager
def filled(disk: Path, daemon: DaemonProcess, mounted: bool) -> Iterator[None]:
    """Fill the disk; delete the filler at the end."""
    if not mounted:
        with contextlib.ExitStack() as limits:
            for pid in family_of(daemon.process.pid):
                limits.enter_context(limited(pid, resource.RLIMIT_FSIZE, 0))
            yield
        return
    ballast = disk / "ballast"
    # unbuffered, or the part that does not fit would be written again at the end
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(65_536))
    yield
    ballast.unlink()


@pytest.mark.faults
@pytest.mark.parametrize("receivers", [0, 2])
async def test_a_small_disk_is_filled_and_cleared(
    office: Office, platform: ReferenceProcess, tmp_path: Path, receivers: int
) -> None:
    """Where nothing may be mounted, a limit on the size of files takes its place."""
    mounts = os.geteuid() == 0 and may_mount(tmp_path / "probe")
    office.write(**{PUBLIC: f"{PUBLIC}\nreceivers = {receivers}"})
    state = office.folder / "state"
    disk = small_disk(state) if mounts else contextlib.nullcontext()
    with disk, daemon_process(office) as daemon:
        async with sender(office, platform.store().id) as client:
            with filled(state, daemon, mounts):
                await refused_by_all(client)
            await client.insist()
            assert faults_of(client) == []
            await until(lambda: not client.lost(office.database), "all are stored")
        assert daemon.terminate() == 0
