"""Delivery faults: duplicate, delay, reorder, drop, bad signature."""

import asyncio
from dataclasses import dataclass, field

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
