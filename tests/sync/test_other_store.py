"""Address and key of another store: the daemon reads, sends and removes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from backhaul.app.offline import open_dry_run, open_sync
from backhaul.errors import OtherStore
from backhaul.settings import load_settings
from scenes.daemon import Office, running
from scenes.reference_shop import Shop, open_shop
from scenes.stored import count
from scenes.syncing import ON_DEMAND, full_syncs
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from backhaul.app.daemon import Daemon


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "shop") as opened:
        yield opened


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "other") as opened:
        yield opened


@pytest.fixture
def office(shop: Shop) -> Iterator[Office]:
    access = shop.running.access
    made = Office(access.public_url, access.api_key, more=ON_DEMAND)
    yield made
    made.remove()


async def mirrored(shop: Shop, office: Office) -> None:
    """Mirror a store with an order, then configure another store."""
    await shop.order(await shop.product(stock=5))
    async with running(office):
        await until(lambda: full_syncs(office.database) == 4, "a full walk")
    assert count(office.database, "orders") == 1


def switch(office: Office, other: Shop) -> None:
    access = other.running.access
    office.write(**{office.base_url: access.public_url, office.api_key: access.api_key})


async def stopped(daemon: Daemon) -> str:
    async with httpx.AsyncClient() as client:
        status = (await client.get(f"{daemon.admin_url}/api/status")).json()
    return str(status["stores"]["main"]["stopped"].get("everything", ""))


async def test_nothing_is_removed_and_the_operator_is_notified(
    shop: Shop, other: Shop, office: Office
) -> None:
    await mirrored(shop, office)
    switch(office, other)
    before = count(office.database, "events")
    async with running(office) as daemon:
        said = ""
        for _ in range(500):
            if "--config" not in said:
                said = await stopped(daemon)
        daemon.poll_stores()
        assert other.running.access.public_url in said
        assert str(office.database) in said
        assert "--config" in said
    assert count(office.database, "events") == before
    assert count(office.database, "orders") == 1


@pytest.mark.parametrize("dry", [True, False])
async def test_a_command_is_refused(
    dry: bool, shop: Shop, other: Shop, office: Office
) -> None:
    await mirrored(shop, office)
    switch(office, other)
    settings = load_settings(office.config)
    with pytest.raises(OtherStore, match="reads, sends and removes nothing"):
        async with (
            open_dry_run(settings, "main") if dry else open_sync(settings, ["main"])
        ):
            pass
