"""Files with an invalid modification time are read, or held with a reason."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from backhaul_sdk import Fulfillment, StockLevel
from connectors.dropping import FULFILLMENTS, Drop

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED_MEMORY = Path("/dev/shm")
"""Not every disk holds such times."""
BEYOND_9999 = 300_000_000_000 * 10**9
BEFORE_1 = -70_000_000_000 * 10**9
BEFORE_1970 = -86_400 * 10**9
LEVELS = "sku,quantity\nLS-S,4\n"


@pytest.fixture
def drop() -> Iterator[Drop]:
    with TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        yield Drop(Path(folder))


def put(drop: Drop, name: str, content: str, modified_ns: int) -> None:
    path = drop.put(name, content)
    os.utime(path, ns=(0, modified_ns))
    assert path.stat().st_mtime_ns == modified_ns


@pytest.mark.parametrize("modified_ns", [BEYOND_9999, BEFORE_1, BEFORE_1970])
async def test_a_file_of_any_modification_time_is_read(
    drop: Drop, modified_ns: int
) -> None:
    put(drop, "fulfillments-1.csv", f"{FULFILLMENTS}1001,DHL,1\n", modified_ns)
    drop.put("fulfillments-2.csv", f"{FULFILLMENTS}1002,DHL,2\n")
    await drop.pull()
    shipped = {each.order for each in drop.records() if isinstance(each, Fulfillment)}
    assert shipped == {"1001", "1002"}
    assert drop.reasons() == []
    assert drop.files() == {"archive/fulfillments-1.csv", "archive/fulfillments-2.csv"}


@pytest.mark.parametrize("modified_ns", [BEYOND_9999, BEFORE_1])
async def test_counts_without_a_valid_date_are_held(
    drop: Drop, modified_ns: int
) -> None:
    put(drop, "stock-levels-1.csv", LEVELS, modified_ns)
    drop.put("stock-levels-2.csv", LEVELS)
    await drop.pull()
    (counted,) = drop.records()
    assert isinstance(counted, StockLevel)
    (reason,) = drop.reasons()
    assert reason.startswith("stock-levels-1.csv was moved to held/")
    assert "modification time is not a valid date" in reason
    assert reason.endswith("save the file again")
    assert "held/stock-levels-1.csv" in drop.files()
