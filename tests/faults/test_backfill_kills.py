"""kill -9 in the middle of the first reading: it goes on, and ends equal."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scenes.daemon import DaemonProcess, Office, office_of
from scenes.databases import rows
from scenes.reference_process import start_reference
from scenes.syncing import differences
from scenes.waiting import await_true

if TYPE_CHECKING:
    from scenes.reference_process import ReferenceProcess

LONG = os.environ.get("FAULTS") == "long"
POINTS = 20 if LONG else 3
PAGES = 1_000 if LONG else 8
SEED = random.SystemRandom().randrange(1 << 30)
ENDED = "SELECT kind FROM passes WHERE job = 'full' AND ended_at IS NOT NULL"
OVERLOOKED = """
    SELECT kind || ': overlooked ' || missed || ', ' || stale FROM passes
    WHERE job = 'full' AND missed + stale > 0
"""
PAGE = "SELECT sum(page) FROM passes WHERE job = 'backfill'"
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
        sys.stdout.write(f" seed {SEED}, killed at pages {kills} ")
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
    """Kill the daemon when it has come through so many pages of all lists."""
    points = sorted(chance.randrange(1, PAGES) for _ in range(POINTS))
    killed = []
    for point in points:
        daemon = DaemonProcess(office)
        try:
            await_true(partial(_reached, office, point), f"page {point}", 600)
        finally:
            daemon.kill()
        killed.append(progress(office))
    return killed


def _reached(office: Office, page: int) -> bool:
    return progress(office) >= page


def progress(office: Office) -> int:
    if not office.database.exists():
        return 0
    try:
        return int(rows(office.database, PAGE)[0][0] or 0)
    except Exception:  # noqa: BLE001 - not migrated yet
        return 0


def finish(office: Office) -> None:
    """Let the reading end, and a walk tell what the reading overlooked."""
    daemon = DaemonProcess(office)
    try:
        await_true(lambda: len(rows(office.database, ENDED)) == 4, "all is read", 1_800)
        unfolded = "SELECT count(*) FROM events WHERE state = 'received'"
        await_true(lambda: rows(office.database, unfolded) == [(0,)], "folded", 600)
        assert daemon.terminate(30) == 0
    finally:
        if daemon.process.poll() is None:
            daemon.kill()


def unlike(state: Any, office: Office) -> list[str]:
    """Compare all but the moves of stock: a first reading asks for no history."""
    found = differences(state, office.database)
    doubled = (
        "SELECT topic || ' twice' FROM inbox WHERE kind = 'read'"
        " GROUP BY topic, body HAVING count(*) > 1"
    )
    again = [text for (text,) in rows(office.database, doubled)]
    again += [text for (text,) in rows(office.database, OVERLOOKED)]
    return [text for text in found if "stock move" not in text] + again
