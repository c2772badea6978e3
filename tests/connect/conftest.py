"""A store that knows two orders and two products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes import payloads
from scenes.clock import VirtualClock
from scenes.databases import append_and_fold, started_store
from scenes.drop_folder import Folder, with_orders
from scenes.payloads import envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.store import Place, Store


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(database: Place, clock: VirtualClock) -> AsyncIterator[Store]:
    async with started_store(database, clock) as started:
        await append_and_fold(
            started,
            envelope("products/create", payloads.product()),
            envelope("orders/create", payloads.order(externalId="POS-9")),
            envelope("orders/create", payloads.order("ord_2", number=1002)),
        )
        yield started


@pytest.fixture
async def folder(store: Store, tmp_path: Path) -> Folder:
    """Return a drop folder, with orders 2001 to 2004 of three units each."""
    await with_orders(store)
    return Folder(store, tmp_path / "courier")
