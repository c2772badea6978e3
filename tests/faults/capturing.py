"""A run of a real shop as the daemon's own receiver kept it, under any quirks."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from backhaul.core.webhook import TOPICS
from backhaul.errors import Busy
from scenes.busy_shop import BusyShop
from scenes.daemon import UNUSED_ADDRESS
from scenes.databases import started_store
from scenes.receiver import served
from scenes.stored import arrivals
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Sequence
    from pathlib import Path
    from random import Random

    from backhaul.store.inbox import Arrival, FoldOne, FoldReport, Inbox
    from backhaul_reference.platform.quirks import Quirks
    from scenes.receiver import Served
    from scenes.reference_shop import Shop

REFUSED = 0.1
"""The share of webhooks that get one 503; they are repeated, or lost."""
SENDING_SECONDS = 600


class MoodyInbox:
    """An inbox that raises Busy now and then."""

    def __init__(self, inbox: Inbox, chance: Random) -> None:
        self._inbox = inbox
        self._chance = chance
        self._refused: set[bytes] = set()

    def append(self, arrival: Arrival) -> Awaitable[int]:
        if arrival.body not in self._refused and self._chance.random() < REFUSED:
            self._refused.add(arrival.body)
            raise Busy("the disk is busy", retry_after_seconds=0)
        return self._inbox.append(arrival)

    async def newest(self) -> int:
        return await self._inbox.newest()

    async def fold(self, fold_one: FoldOne, slice_seconds: float) -> FoldReport:
        return await self._inbox.fold(fold_one, slice_seconds)


async def capture(
    shop: Shop, quirks: Quirks, chance: Random, path: Path, events: int, objects: int
) -> list[Arrival]:
    """Run a store with these quirks; return the received webhooks."""
    async with started_store(path) as store:
        inbox = MoodyInbox(store.inbox, chance)
        async with _subscribed(shop, quirks, inbox):
            await BusyShop(shop, chance, quirks).trade(events, objects)
            await until(
                lambda: not shop.is_delivering(), "all is sent", SENDING_SECONDS
            )
    return arrivals(path)


@asynccontextmanager
async def _subscribed(
    shop: Shop, quirks: Quirks, inbox: Inbox
) -> AsyncIterator[Served]:
    """Subscribe a receiver to all topics, then set the quirks."""
    hooks = []
    for path, topics in _addresses(quirks).items():
        hook = await shop.v1(
            "POST", "/webhooks", {"address": UNUSED_ADDRESS, "topics": topics}
        )
        hooks.append((hook.data, path))
    secrets = {"main": [hook["secret"].encode() for hook, _ in hooks]}
    async with served(inbox, secrets=secrets) as receiver:
        for hook, path in hooks:
            address = {"address": receiver.url + path}
            assert (await shop.v1("PUT", f"/webhooks/{hook['id']}", address)).data
        await set_quirks(shop, quirks)
        yield receiver


def _addresses(quirks: Quirks) -> dict[str, Sequence[str]]:
    """Return the address for each topic; the path may have to name the topic."""
    if {"bare-webhooks", "bare-headers"} <= quirks.names:
        return {f"/webhooks/main/{topic}": [topic] for topic in TOPICS}
    return {"/webhooks/main": TOPICS}


async def set_quirks(shop: Shop, quirks: Quirks) -> None:
    """Set the platform's quirks from now on."""
    body = {"quirks": list(quirks.texts)}
    assert (await shop.control("PUT", "/stores/demo/quirks", body)).status == 200
