"""Send switch of a store: blocks sending after errors, probes and reopens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger

from backhaul.core.backoff_and_circuit import PROBE_SECONDS as FAILING_PROBE_SECONDS
from backhaul.core.outcome import Outcome
from backhaul.runtime.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.core.outcome import Verdict
    from backhaul.platform.client import PlatformClient
    from backhaul.runtime.signals import StoreContext

PROBE_SECONDS = 30.0
KEY_SECONDS = 2.0
"""How often the key file is read while sending is blocked."""
ALL = "everything"
FAILING = "the platform keeps failing"


class SendSwitch:
    """Blocks one kind of command (a scope is missing) or all (key, address, proxy).

    A probe is a read, never a command. The log reports once that sending is blocked and
    once that a command was accepted again: a read may work while writes still fail.
    The history audit can hold all commands too, until it releases them. `reload_key`
    reads the key file and returns True if it holds another key.
    """

    def __init__(
        self,
        context: StoreContext,
        client: PlatformClient,
        reload_key: Callable[[], bool] | None = None,
    ) -> None:
        self._store = context.name
        self._client = client
        self._clock = context.clock
        self._reload_key = reload_key
        signals = context.signals
        self._resumed = signals.sending_resumed
        signals.key_refused.connect(self.block_refused_key)
        signals.platform_failing.connect(self.block_failing)
        signals.other_store_found.connect(self.block_all)
        self._blocked: dict[str, str] = {}
        self._reported: dict[str, str] = {}
        self._hold = ""
        self._probe_seconds = PROBE_SECONDS
        self._loop = Loop(context.clock, at_start=False)

    def allows(self, kind: str) -> bool:
        """Return True if commands of this kind may be sent now."""
        return not self._hold and not self._blocked.keys() & {kind, ALL}

    def reasons(self) -> dict[str, str]:
        """Return each blocked kind of command, or ALL, with the reason."""
        if not self._hold:
            return dict(self._blocked)
        both = [self._blocked[ALL]] if ALL in self._blocked else []
        return self._blocked | {ALL: "; ".join([*both, self._hold])}

    def hold_for_audit(self, reason: str) -> None:
        """Send nothing until `release`; the audit must find earlier sends first."""
        self._hold = reason

    @property
    def on_hold(self) -> bool:
        """Whether commands wait for the history audit."""
        return bool(self._hold)

    def release(self) -> None:
        """End the hold for audit."""
        self._hold = ""
        self._resumed.emit()

    def block_refused_key(self, reason: str) -> None:
        """Stop sending because the platform refused the API key, even if for a read."""
        if ALL not in self._blocked or self.is_failing:
            self.block(ALL, reason)

    @property
    def is_failing(self) -> bool:
        """Whether sending is blocked because the platform keeps failing."""
        return self._blocked.get(ALL) == FAILING

    def block_failing(self) -> None:
        """Stop sending while the platform fails, and probe it more often.

        Any other reason is more useful to an operator, so it is not replaced.
        """
        if ALL not in self._blocked or self.is_failing:
            self.block(ALL, FAILING, FAILING_PROBE_SECONDS)

    def block_all(self, reason: str) -> None:
        """Stop sending until a read works."""
        self.block(ALL, reason)

    def block(
        self, what: str, reason: str, probe_seconds: float = PROBE_SECONDS
    ) -> None:
        """Stop sending one kind of command, or ALL."""
        self._blocked[what] = reason
        self._probe_seconds = probe_seconds
        self._loop.wake()
        if self._reported.get(what) != reason:
            self._reported[what] = reason
            logger.bind(action="push.stopped", store=self._store).error(
                "store {}: {} waits: {}", self._store, what, reason
            )

    def apply_verdict(self, kind: str, verdict: Verdict) -> None:
        """Apply the outcome of one command to every command that it concerns."""
        if verdict.outcome is Outcome.CONFIRMED:
            self.command_accepted(kind)
        elif verdict.outcome is Outcome.STOPPED:
            self.block(kind if verdict.only_kind else ALL, verdict.reason)

    def command_accepted(self, kind: str) -> None:
        """Log that the platform accepts this kind again, if the log said otherwise."""
        if self._reported.pop(kind, None) or self._reported.pop(ALL, None):
            logger.bind(action="push.resumed", store=self._store).info(
                "store {}: {} is accepted again", self._store, kind
            )

    async def probe_until_open(self) -> None:
        """Allow sending again once a read works. Runs until cancelled."""
        await self._loop.run(self._probe)

    async def _probe(self) -> None:
        while self._blocked:
            await self._pause()
            if await self._client.probe():
                self._blocked.clear()
                self._resumed.emit()

    async def _pause(self) -> None:
        """Wait until the next probe is due, or until there is another key to try."""
        if self._reload_key is None:
            await self._clock.sleep(self._probe_seconds)
            return
        ends = self._clock.monotonic() + self._probe_seconds
        while not self._reload_key() and self._clock.monotonic() < ends:
            await self._clock.sleep(KEY_SECONDS)
