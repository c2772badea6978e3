"""Records whether a platform honours Idempotency-Key, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.core.rate_limit import Priority

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.platform.client import PlatformClient, StoreFacts
    from backhaul.store.operations import KeyValues

KEYED_ONCE = "idempotencyKey"
"""The feature of a platform that carries out each Idempotency-Key at most once."""


class IdempotencySupport:
    """Stores since when a platform claims it; `configured` overrides the claim."""

    def __init__(
        self,
        store: str,
        client: PlatformClient,
        marks: KeyValues,
        clock: Clock,
        configured: bool | None = None,
    ) -> None:
        self._client = client
        self._marks = marks
        self._clock = clock
        self._configured = configured
        self._mark = f"keyed_since:{store}"

    async def is_honoured(self, first_sent_at: str) -> bool:
        """Return True if a request of that time may be sent again with the same key.

        Asks the platform again, because it may have changed since the last start.
        Raises NotSent, OutcomeUnknown, ReadRefused or Unusable if it does not answer.
        """
        if self._configured is not None:
            return self._configured
        since = await self._marks.get(self._mark)
        if not since or since > first_sent_at:
            return False  # the platform did not claim it then; do not ask each time
        facts = await self._client.facts(Priority.PROOF)
        if not (facts.store_id or facts.features):
            return False  # a refusal says nothing about the platform
        return await self.record(facts) == since

    async def record(self, facts: StoreFacts) -> str:
        """Store what the platform claims now; return since when, "" if it does not.

        If it claimed it before and does not now, a request of this time is not
        protected by its key, whatever the platform claims later.
        """
        before = await self._marks.get(self._mark) or ""
        now = to_text(self._clock.now())
        since = (before or now) if KEYED_ONCE in facts.features else ""
        if since != before:
            await self._marks.put(self._mark, since)
        return since
