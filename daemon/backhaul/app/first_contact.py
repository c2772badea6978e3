"""Checks each store's identity at start and keeps what it reports of itself."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.errors import OtherStore
from backhaul.push.response_classifier import interrupted
from backhaul.sync.store_identity import known_facts, learn_facts

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Mapping

    from backhaul.app.wiring import Shop
    from backhaul.platform.client import StoreFacts
    from backhaul.settings import Settings
    from backhaul.store import Store
    from backhaul.store.operations import KeyValues


class FirstContact:
    """Fetches the facts of every store into `facts`, by the store's name."""

    def __init__(
        self,
        settings: Settings,
        shops: Mapping[str, Shop],
        marks: KeyValues,
        facts: dict[str, StoreFacts],
    ) -> None:
        self._settings = settings
        self._shops = shops
        self._marks = marks
        self._facts = facts

    async def first(self, stopping: asyncio.Event) -> bool:
        """Fetch the facts of new stores; return False if the daemon has to stop.

        Only the very first contact is waited for: a platform that hangs must not keep
        the daemon from receiving webhooks.
        """
        for name in self._shops:
            known = await known_facts(name, self._marks)
            if known is None:
                await _unless(stopping, self._ask(name))
            else:
                self._facts[name] = known
        return not stopping.is_set()

    async def again(self, name: str) -> None:
        """Fetch the facts of a store again: they may have changed."""
        # StoreIdentity reports another store and blocks all requests to it.
        with contextlib.suppress(OtherStore):
            await self._ask(name)

    async def _ask(self, name: str) -> None:
        base_url = self._settings.stores[name].base_url
        mirror = self._settings.database_name
        client = self._shops[name].free
        facts = await learn_facts(name, base_url, client, self._marks, mirror)
        await self._shops[name].sender.idempotency.record(facts)
        self._facts[name] = facts


async def _unless(stopping: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(work)
        stopped = group.create_task(stopping.wait())
        await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        stopped.cancel()


async def mark_interrupted(store: Store, stores: Collection[str]) -> None:
    """Mark commands uncertain that were being sent when the daemon died.

    Logs what the database holds of a store that is not among the configured `stores`.
    """
    await store.commands.begin_epoch()
    for left in await store.orphaned_work(stores):
        logger.bind(action="store.stranded", store=left.store).error(
            "the configuration has no store {}, but the database has its {}: {}",
            *(left.store, left, left.remedy),
        )
    for command in await store.commands.mark_interrupted_uncertain(interrupted()):
        logger.bind(action="command.interrupted", command=command).warning(
            "command {} was being sent when the daemon died, so its outcome is"
            " unknown; Backhaul checks the platform for its effect",
            command,
        )
