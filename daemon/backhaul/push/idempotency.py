"""Finds out whether a platform honours Idempotency-Key, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.core.rate_limit import Priority

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.platform.client import ShopClient, StoreFacts
    from backhaul.store.contract import Marks

KEYED_ONCE = "idempotencyKey"
"""The feature of a platform that takes each Idempotency-Key once."""


class Keying:
    """Keeps since when the platform has said so; `told` is a person's word for it."""

    def __init__(
        self,
        store: str,
        client: ShopClient,
        marks: Marks,
        clock: Clock,
        told: bool | None = None,
    ) -> None:
        self._client = client
        self._marks = marks
        self._clock = clock
        self._told = told
        self._mark = f"keyed_since:{store}"

    async def takes_once(self, first_sent_at: str) -> bool:
        """Tell whether what left at that moment may be sent again under its key.

        The platform is asked anew: it may have changed since the last start. Raises
        NotSent, InDoubt, ReadRefused or Unusable where it does not tell.
        """
        if self._told is not None:
            return self._told
        since = await self._marks.get(self._mark)
        if not since or since > first_sent_at:
            return False  # it did not say so then: that is not asked for each doubt
        facts = await self._client.facts(Priority.PROOF)
        if not (facts.store_id or facts.features):
            return False  # a refusal, which says nothing of the platform
        return await self.heed(facts) == since

    async def heed(self, facts: StoreFacts) -> str:
        """Keep what the platform says now; return since when, empty where it does not.

        Where it said so before and does not now, what leaves meanwhile is not protected
        by its key, whatever it says later.
        """
        before = await self._marks.get(self._mark) or ""
        now = to_text(self._clock.now())
        since = (before or now) if KEYED_ONCE in facts.features else ""
        if since != before:
            await self._marks.put(self._mark, since)
        return since
