"""Delivery faults: duplicate, delay, reorder, drop, bad signature."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from backhaul_reference.platform import faults, tasks
from backhaul_reference.platform.clock import Clock
from backhaul_reference.platform.faults import Faults
from backhaul_reference.platform.state.database import Row


@dataclass(frozen=True, slots=True)
class DeliveryFaults:
    """Decides which faults apply to an attempt, and holds delayed deliveries."""

    faults: Faults
    clock: Clock
    overtaken: dict[str, asyncio.Event] = field(default_factory=dict)

    async def before(self, row: Row) -> set[str]:
        """Wait as long as the faults require; return the faults that fire."""
        rules = self.faults.firing(
            row["store_id"], faults.WEBHOOKS, "POST", [row["topic"]]
        )
        for rule in rules:
            if rule.fault == "delay":
                await self.clock.sleep(rule.seconds)
            elif rule.fault == "reorder":
                await self._let_pass(row["subscription_id"], rule.seconds)
        return {rule.fault for rule in rules}

    async def _let_pass(self, subscription_id: str, seconds: float) -> None:
        """Wait for a later delivery to be sent, but not for ever."""
        passed = self.overtaken.setdefault(subscription_id, asyncio.Event())
        await tasks.either(passed.wait(), self.clock.sleep(seconds))

    def sent(self, subscription_id: str) -> None:
        passed = self.overtaken.pop(subscription_id, None)
        if passed is not None:
            passed.set()


def forge_signatures(signed: dict[str, str]) -> dict[str, str]:
    """Replace the signatures by well-formed ones that match no secret."""
    wrong = "A" * 43 + "="
    forged = {"X-Service-Hmac-Sha256": wrong, "webhook-signature": "v1," + wrong}
    return {name: forged.get(name, value) for name, value in signed.items()}


DEFAULT_DELAYS = (0.0, 5.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 36000.0)
JITTER = 0.1
MAX_RETRY_AFTER_SECONDS = 24 * 3600
RETRY_AFTER_STATUSES = {429, 503}


@dataclass(frozen=True, slots=True)
class Schedule:
    """Seconds to wait before each attempt of a series; the first is usually 0."""

    delays: tuple[float, ...] = DEFAULT_DELAYS

    def next_ms(
        self,
        attempt: int,
        now_ms: int,
        chance: Callable[[], float],
        asked_seconds: float | None = None,
    ) -> int | None:
        """Return when the attempt after `attempt` is due; None if it was the last."""
        if attempt >= len(self.delays):
            return None
        jitter = 1 + JITTER * (2 * chance() - 1)
        seconds = max(self.delays[attempt] * jitter, asked_seconds or 0)
        return now_ms + round(seconds * 1000)


def parse_schedule(text: str) -> Schedule:
    """Read `0,5,300`; ValueError for anything but non-negative numbers."""
    delays = tuple(float(part) for part in text.split(","))
    if not all(0 <= delay <= 30 * 24 * 3600 for delay in delays):
        raise ValueError("each delay must be 0 to 30 days, in seconds")
    return Schedule(delays)


def retry_after_seconds(
    status: int, headers: Mapping[str, str], now_ms: int
) -> float | None:
    """Return the Retry-After of a 429 or 503, at most a day."""
    text = headers.get("Retry-After", "").strip()
    if status not in RETRY_AFTER_STATUSES or not text:
        return None
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), MAX_RETRY_AFTER_SECONDS))
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, moment - now_ms / 1000), MAX_RETRY_AFTER_SECONDS)
