"""`python -m faults.dying_restock`: sends what is planned, and kills itself then.

The moment lies in or behind the transaction that records a cancellation as applied.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from backhaul.app.wiring import build_client, build_sender
from backhaul.core.clock import SystemClock
from backhaul.runtime.signals import StoreContext
from backhaul.settings import Settings
from backhaul.store.sql.commands import planning
from scenes.databases import started_store
from scenes.killed_programs import KillableStore, KillPoint

if TYPE_CHECKING:
    from backhaul.store.sqlite.database import SqliteStore

BEFORE_PLAN = "between the state and the adjustment"
BEFORE_COMMIT = "between the adjustment and the commit"
AFTER_COMMIT = "between the commit and the adjustment's departure"
MOMENTS = (BEFORE_PLAN, BEFORE_COMMIT, AFTER_COMMIT)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly(KillPoint):
    """Kills the process instead of letting it stand still."""

    async def reach(self, point: str) -> None:
        if point == self.point:
            die()


def arm(moment: str) -> KillPoint:
    """Set the moment; return what kills at the calls of the store."""
    plan = planning.restock_unshipped

    def planned(*given: Any) -> None:
        if moment == BEFORE_PLAN:
            die()
        plan(*given)
        if moment == BEFORE_COMMIT:
            die()

    planning.restock_unshipped = planned  # type: ignore[assignment]
    return Deadly("commands.record_attempt:after" if moment == AFTER_COMMIT else "")


async def main(path: Path, told: dict[str, Any], store_name: str, moment: str) -> None:
    clock, settings = SystemClock(), Settings.model_validate(told)
    mortality = arm(moment)
    async with started_store(path, clock) as store:
        mortal = cast("SqliteStore", KillableStore(store, mortality))
        context = StoreContext(store_name, clock, lambda: 0.5)
        signals = context.signals
        _, client = build_client(settings, store_name, clock, None, signals)
        sender = build_sender(settings, context, mortal, client)
        # Nothing is sent before the auditor has read the history.
        await asyncio.gather(sender.dispatcher.run(), sender.auditor.run())


if __name__ == "__main__":
    database, settings_text, name, when = sys.argv[1:]
    asyncio.run(main(Path(database), json.loads(settings_text), name, when))
