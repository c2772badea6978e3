"""A full sync of a million orders finds every difference in constant memory."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from faults.trials import LONG
from scenes.large_store import PAGE_ROWS, Platform, differing, mirror, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7_200 if LONG else 600)]

ORDERS = 1_000_000 if LONG else 5_000
FIRST = 2_000_000
MOST_MEGABYTES = 150
NEW_EACH = 2_000 if LONG else 10
"""Pages after which an order is placed, which shifts all later pages."""
MEASURED = (
    "import resource, subprocess, sys;"
    "done = subprocess.run(sys.argv[1:]).returncode;"
    "used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss;"
    "print(used // 1000, file=sys.stderr); sys.exit(done)"
)


def edges(last: int) -> set[int]:
    """Return orders of the first and the last page, and at the edges of some pages."""
    pages = range(0, ORDERS, max(ORDERS // 10, PAGE_ROWS))
    ends = {n for page in pages for n in (last - page, last - page - PAGE_ROWS + 1)}
    return {n for n in ends if FIRST <= n <= last}


def reconcile(config: Path) -> tuple[dict[str, int], int]:
    """Run a full sync of orders; return the drift and the megabytes."""
    words = ("reconcile", "--kind", "orders", "--json", "--config", str(config))
    command = [sys.executable, "-c", MEASURED, sys.executable, "-m", "backhaul", *words]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr[-2_000:]
    (walk,) = json.loads(said.stdout)
    found = {name: walk[name] for name in ("missed", "stale", "foreign", "unrepaired")}
    return found, int(said.stderr.split()[-1])


@pytest.mark.parametrize("has_totals", [True, False], ids=["totals", "no totals"])
def test_a_full_sync_finds_each_difference_in_little_memory(
    has_totals: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = FIRST + ORDERS - 1
    platform = Platform(FIRST, last, NEW_EACH, has_totals)
    # the differences are at the edges of pages, where the list shifts during the pass
    odd = sorted(edges(last))
    missed, stale = set(odd[::2]), set(odd[1::2])
    gone = set(range(FIRST - len(odd), FIRST))
    path = tmp_path / "state" / "backhaul.db"
    held = (n for n in range(min(gone), last + 1) if n not in missed)
    mirror(path, held, stale)
    with serving(platform, tmp_path) as config:
        found, megabytes = reconcile(config)
        placed = platform.last - last
        assert placed > 2
        assert differing(path, platform) == []
        assert found == {
            "missed": len(missed) + placed,
            "stale": len(stale),
            "foreign": len(gone),
            "unrepaired": 0,
        }
        assert set(platform.asked) == {f"ord_{n}" for n in gone}
    with capsys.disabled():
        sys.stdout.write(f" {platform.count} orders: {megabytes} MB ")
    assert megabytes < MOST_MEGABYTES
