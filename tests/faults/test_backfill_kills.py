"""A backfill that is killed continues, and its mirror ends equal to the platform."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store import database_at
from backhaul.store.export_and_query import EventFilter
from scenes.daemon import DaemonProcess, Office, office_of
from scenes.reference_process import start_reference
from scenes.stored import ALL, events_to_fold, lists
from scenes.syncing import differences
from scenes.waiting import await_true

if TYPE_CHECKING:
    from backhaul.store.mirror import Pass
    from scenes.reference_process import ReferenceProcess

LONG = os.environ.get("FAULTS") == "long"
POINTS = 20 if LONG else 3
OBJECTS = 100_000 if LONG else 600
"""Fewer than the lists have together."""
SEED = random.SystemRandom().randrange(1 << 30)
NO_WALKS = '[jobs.reconcile_full]\nevery = "1d"\n[reconcile]\ngrace = "50ms"\n'


@pytest.mark.faults
@pytest.mark.timeout(3_600 if LONG else 600)
def test_the_first_reading_outlives_kills(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="backhaul-backfill-"))
    fixture = "large" if LONG else "empty"
    reference = start_reference(folder, fixture=fixture)
    try:
        if not LONG:
            fill(reference)
        with office_of(reference, NO_WALKS) as office:
            kills = kill_often(office, random.Random(SEED))  # noqa: S311 - chooses moments
            finish(office)
            found = unlike(reference.state(), office)
    finally:
        reference.kill()
    with capsys.disabled():
        sys.stdout.write(f" seed {SEED}, killed after {kills} objects ")
    assert found == [], f"seed {SEED}, everything is in {folder}"
    shutil.rmtree(folder)


def fill(reference: ReferenceProcess) -> None:
    """Make some pages of everything, and let each page take its time."""
    for number in range(130):
        body = {"title": f"P{number}", "price": "5.00", "stock": 9, "sku": f"S{number}"}
        assert reference.v1("POST", "/products", body).status == 201
    for number in range(330):
        line = {"title": "Lamp", "quantity": 1, "price": "7.00"}
        customer = {"name": f"C{number}", "email": f"c{number % 150}@example.com"}
        order = {"items": [line], "customer": customer}
        assert reference.v1("POST", "/orders", order).status == 201
    slow = {"fault": "latency", "seconds": 0.1, "method": "GET", "route": "/api/*"}
    plan = {"seed": SEED, "http": [slow]}
    assert reference.control("PUT", "/stores/demo/faults", plan).status == 200


def kill_often(office: Office, chance: random.Random) -> list[int]:
    """Kill the daemon when it has read so many objects of all lists."""
    points = sorted(chance.randrange(1, OBJECTS) for _ in range(POINTS))
    killed = []
    for point in points:
        daemon = DaemonProcess(office)
        try:
            await_true(partial(_reached, office, point), f"object {point}", 600)
        finally:
            daemon.kill()
        killed.append(progress(office))
    return killed


def _reached(office: Office, number: int) -> bool:
    return progress(office) >= number


def progress(office: Office) -> int:
    if not office.database.exists():
        return 0
    try:
        return sum(one.read for one in passes(office, "backfill"))
    except Exception:  # noqa: BLE001 - not migrated yet
        return 0


def finish(office: Office) -> None:
    """Let the reading end, and a walk tell what the reading overlooked."""
    daemon = DaemonProcess(office)
    try:
        await_true(lambda: ended(office) == 4, "all is read", 1_800)
        await_true(lambda: events_to_fold(office.database) == 0, "folded", 600)
        assert daemon.terminate(30) == 0
    finally:
        if daemon.process.poll() is None:
            daemon.kill()


def passes(office: Office, job: str) -> list[Pass]:
    with lists(office.database) as reader:
        return [one for one in reader.passes(ALL) if one.job == job]


def ended(office: Office) -> int:
    """Return how many lists were read again after the backfill."""
    return sum(one.ended_at is not None for one in passes(office, "full"))


def unlike(state: Any, office: Office) -> list[str]:
    """Compare all but the moves of stock: a first reading asks for no history."""
    found = differences(state, office.database)
    with database_at(office.database).inbox_export() as inbox:
        read = Counter(
            (one.topic, sha256(one.body).digest())
            for one in inbox.arrivals(EventFilter(kind="read"))
        )
    again = [f"{topic} twice" for (topic, _), times in read.items() if times > 1]
    overlooked = [
        f"{one.kind}: overlooked {one.missed}, {one.stale}"
        for one in passes(office, "full")
        if one.missed + one.stale > 0
    ]
    return [text for text in found if "stock move" not in text] + again + overlooked
