"""Send switch of a store: blocks sending after errors, probes and reopens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from loguru import logger

from backhaul.core.backoff import PROBE_SECONDS as FAILING_PROBE_SECONDS
from backhaul.core.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.core.clock import Clock
    from backhaul.core.outcome import Verdict
    from backhaul.platform.client import ShopClient

PROBE_SECONDS = 30.0
KEY_SECONDS = 2.0
"""How often the key's file is looked at while the door is closed."""
ALL = "everything"
FAILING = "the platform keeps failing"


class Door:
    """Closed for one kind (a scope is missing) or for all (key, address, proxy).

    A probe is a read, never a command. The person hears of it once when it closes and
    once when a command has been taken again: a read may work while the write does not.
    A fence is closed by us, until we lift it. `renew` looks for another key, and tells
    whether there is one to be tried.
    """

    def __init__(
        self, store: str, client: ShopClient, clock: Clock, opened: Callable[[], None]
    ) -> None:
        self._store = store
        self._client = client
        self._clock = clock
        self._opened = opened
        self._closed: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._fence = ""
        self._probe_seconds = PROBE_SECONDS
        self._changed = asyncio.Event()
        self.renew: Callable[[], bool] | None = None

    def lets_out(self, kind: str) -> bool:
        """Tell whether commands of this kind may be sent now."""
        return not self._fence and not self._closed.keys() & {kind, ALL}

    def reasons(self) -> dict[str, str]:
        """Return what is stopped, and why."""
        if not self._fence:
            return dict(self._closed)
        both = [self._closed[ALL]] if ALL in self._closed else []
        return self._closed | {ALL: "; ".join([*both, self._fence])}

    def fence(self, reason: str) -> None:
        """Send nothing until `lift`: what was sent before is not known yet."""
        self._fence = reason

    @property
    def fenced(self) -> bool:
        """Whether what was sent before is not known yet."""
        return bool(self._fence)

    def lift(self) -> None:
        """Let the fence down."""
        self._fence = ""
        self._opened()

    def refuse(self, reason: str) -> None:
        """Stop sending: the key is refused, be it at a read."""
        if ALL not in self._closed or self.failing:
            self.close(ALL, reason)

    @property
    def failing(self) -> bool:
        """Whether the platform is left alone because it keeps failing."""
        return self._closed.get(ALL) == FAILING

    def fail(self) -> None:
        """Stop sending while the platform fails, and probe it more often.

        Any other reason tells a person more, and stays.
        """
        if ALL not in self._closed or self.failing:
            self.close(ALL, FAILING, FAILING_PROBE_SECONDS)

    def close(
        self, what: str, reason: str, probe_seconds: float = PROBE_SECONDS
    ) -> None:
        """Stop sending a kind, or ALL."""
        self._closed[what] = reason
        self._probe_seconds = probe_seconds
        self._changed.set()
        if self._told.get(what) != reason:
            self._told[what] = reason
            logger.bind(action="push.stopped", store=self._store).error(
                "store {}: {} waits: {}", self._store, what, reason
            )

    def heed(self, kind: str, verdict: Verdict) -> None:
        """Let what one command of a kind met hold for all that it concerns."""
        if verdict.outcome is Outcome.CONFIRMED:
            self.proved(kind)
        elif verdict.outcome is Outcome.STOPPED:
            self.close(kind if verdict.only_kind else ALL, verdict.reason)

    def proved(self, kind: str) -> None:
        """A command of this kind was taken: say so if the person heard otherwise."""
        if self._told.pop(kind, None) or self._told.pop(ALL, None):
            logger.bind(action="push.resumed", store=self._store).info(
                "store {}: {} is taken again", self._store, kind
            )

    async def watch(self) -> None:
        """Open the door again when a read works. Runs until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._closed:
                await self._pause()
                if await self._client.probe():
                    self._closed.clear()
                    self._opened()

    async def _pause(self) -> None:
        """Rest until the next probe is due, or there is another key to be tried."""
        if self.renew is None:
            await self._clock.sleep(self._probe_seconds)
            return
        ends = self._clock.monotonic() + self._probe_seconds
        while not self.renew() and self._clock.monotonic() < ends:
            await self._clock.sleep(KEY_SECONDS)
