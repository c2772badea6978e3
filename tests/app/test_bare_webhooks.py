"""The topic of a webhook comes from its envelope, or else from the path."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from backhaul.core.webhook import TOPICS
from scenes import leftovers
from scenes.daemon import UNUSED_ADDRESS, Office, running
from scenes.reference_shop import open_shop
from scenes.stored import rows_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scenes.reference_shop import Shop

pytestmark = pytest.mark.usefixtures("engine")

SECOND = """
[stores.second]
base_url = "{url}"
api_key = "{key}"
webhook_secrets = [{secrets}]
[reconcile]
backfill_on_start = false
[jobs.reconcile_incremental]
enabled = false
[jobs.reconcile_full]
enabled = false
"""
"""No scheduled syncs: all rows of the mirror come from webhooks."""
TOLD = [
    *("customers/create", "inventory/level_update"),
    *("orders/cancelled", "orders/create", "orders/updated", "products/create"),
]
UNDERSTOOD = ("folded", "duplicate", "stale")


@pytest.fixture
async def shops(tmp_path: Path) -> AsyncIterator[list[Shop]]:
    async with AsyncExitStack() as at_end:
        opened = [open_shop(tmp_path / name) for name in ("main", "second")]
        yield [await at_end.enter_async_context(shop) for shop in opened]


async def subscribe(shop: Shop, *topics: str) -> dict[str, str]:
    body = {"address": UNUSED_ADDRESS, "topics": topics}
    hook: dict[str, str] = (await shop.v1("POST", "/webhooks", body)).data
    leftovers.issued(hook["secret"])
    return hook


async def become(shop: Shop, *quirks: str) -> None:
    reply = await shop.control("PUT", "/stores/demo/quirks", {"quirks": quirks})
    assert reply.status == 200, reply.body


async def trade(shop: Shop) -> None:
    order = await shop.order(await shop.product())
    await shop.v1("POST", f"/orders/{order['id']}/cancel", {"restock": False})


async def test_topics_come_from_the_envelope_else_from_the_path(
    shops: list[Shop],
) -> None:
    main, second = shops
    hook = await subscribe(main, *TOPICS)
    hooks = {topic: await subscribe(second, topic) for topic in TOPICS}
    secrets = ", ".join(f'"{one["secret"]}"' for one in hooks.values())
    access = second.running.access
    more = SECOND.format(url=access.public_url, key=access.api_key, secrets=secrets)
    office = Office(
        main.running.access.public_url,
        main.running.access.api_key,
        webhook_secret=hook["secret"],
        more=more,
    )
    kinds = [f'type = "{kind}"' for kind in ("file_drop", "scanner")]
    office.write(**{kind: f'{kind}\nstore = "main"' for kind in kinds})
    try:
        async with running(office) as daemon:
            address = f"{daemon.public_url}/webhooks/main"
            await main.v1("PUT", f"/webhooks/{hook['id']}", {"address": address})
            for topic, one in hooks.items():
                address = f"{daemon.public_url}/webhooks/second/{topic}"
                await second.v1("PUT", f"/webhooks/{one['id']}", {"address": address})
            await become(main, "bare-headers")
            await become(second, "bare-headers", "bare-webhooks")
            await asyncio.gather(trade(main), trade(second))
            for store in ("main", "second"):
                await until(lambda: delivered_topics(office, store) == TOLD, store)  # noqa: B023 - awaited here
        expected = [("main", "CANCELLED"), ("second", "CANCELLED")]
        assert rows_of(office.place, "orders", "store", "status") == expected
    finally:
        office.remove()


def delivered_topics(office: Office, store: str) -> list[str]:
    """Return the topics of a store's folded webhooks."""
    found = rows_of(
        office.place, "events", "topic", "state", store=store, source="delivery"
    )
    return sorted(topic for topic, state in found if state in UNDERSTOOD)
