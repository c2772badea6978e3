"""A replay of recorded reads needs no platform, in any order."""

from __future__ import annotations

import asyncio
import gc
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from backhaul.traffic.capture_files import replay_into
from scenes import payloads
from scenes.databases import fold_as_demo
from scenes.payloads import read
from scenes.stored import documents

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store.inbox import Arrival


RUN = [
    read("orders/read", payloads.order(at=6, note="held"), at=29),
    read("orders/reread", payloads.order(at=5, note="lowering"), at=27),
    read("orders/read", payloads.order(at=8, note="forged"), at=20),
]


@pytest.mark.parametrize("run", list(permutations(RUN)))
async def test_a_lowering_read_reveals_refused_versions(
    run: tuple[Arrival, ...], tmp_path: Path
) -> None:
    """The forged time was seen before the read, wherever it stands in the capture."""
    path = tmp_path / "replayed.db"
    await replay_into(path, run, {}, fold_as_demo, SystemClock())
    assert [order["note"] for order in documents(path, "orders")] == ["held"]


async def test_a_replay_that_cannot_be_stored_ends_with_one_error(
    tmp_path: Path,
) -> None:
    """The first tells why; what else could not be kept is no noise behind it."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, c: told.append(c))
    unusable: Any = object()
    one = read("orders/read", payloads.order(), at=1)._replace(body=unusable)
    path = tmp_path / "replayed.db"
    with pytest.raises(TypeError):
        await replay_into(path, [one, one, one], {}, fold_as_demo, SystemClock())
    gc.collect()
    assert told == []
