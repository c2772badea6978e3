"""What a walk would find: nothing is written, neither here nor there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from backhaul.core.budget import Priority
from backhaul.core.drift import Drift
from backhaul.reconcile.kinds import KINDS, LEVELS, SHOWN_LEVELS
from backhaul.reconcile.reconciler import ABSENT
from backhaul.reconcile.walking import Walk, fetching
from backhaul.shop.client import ReadRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.core.clock import Clock
    from backhaul.reconcile.kinds import Kind
    from backhaul.reconcile.repairing import Comparison
    from backhaul.shop.client import ShopClient

NO_SWEEP = 0
"""No walk has this number: everything that is held was not seen by it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A row of the mirror that is not as the platform has it."""

    store: str
    kind: str
    id: str
    drift: str
    mirror: str
    platform: str


@dataclass(slots=True)
class Rehearsal:
    """Compares whole lists with a mirror that it can only read."""

    client: ShopClient
    mirror: Comparison
    clock: Clock
    grace_seconds: float

    async def run(self, name: str) -> AsyncIterator[Found]:
        """Yield the differences of one kind."""
        kind = KINDS[name]
        ways = (kind, SHOWN_LEVELS) if kind is LEVELS else (kind,)
        for number, way in enumerate(ways, 1):
            try:
                async for found in self._walk(way):
                    yield found
                return
            except ReadRefused as error:
                if error.status not in ABSENT or number < len(ways):
                    continue
                raise

    async def _walk(self, kind: Kind) -> AsyncIterator[Found]:
        fetch = fetching(kind, self.client, self.clock, Priority.SWEEP)
        walk = Walk(fetch, kind.deletable, lambda: None)
        seen: set[str] = set()
        waiting = []
        async for shown in walk.pages():
            fresh = [row for row in shown.rows if row.id not in seen]
            seen |= {row.id for row in fresh}
            waiting += await self.mirror.differing(kind, fresh, shown.began_at)
        if waiting:
            await self.clock.sleep(self.grace_seconds)
        store, look = self.mirror.store, self.mirror.look
        for one in await self.mirror.still(kind, waiting):
            held = await look.versions(kind.singular, store, [one.row.id])
            ours = held[one.row.id].updated_at if held else ""
            yield Found(
                store, kind.name, one.row.id, one.drift, ours, one.row.updated_at
            )
        async for found in self._absent(kind, seen):
            yield found

    async def _absent(self, kind: Kind, seen: set[str]) -> AsyncIterator[Found]:
        store, look = self.mirror.store, self.mirror.look
        for id_, asked in await look.unseen(kind.singular, store, NO_SWEEP):
            if id_ in seen or not await self._is_gone(kind, id_, asked):
                continue
            drift = Drift.DELETED if kind.deletable else Drift.ALIEN
            held = await look.versions(kind.singular, store, [id_])
            ours = held[id_].updated_at if held else ""
            yield Found(store, kind.name, id_, drift, ours, "")

    async def _is_gone(self, kind: Kind, id_: str, asked: str) -> bool:
        path = "/products" if kind.singular == "level" else kind.path
        answer = await self.client.answer_of(f"{path}/{asked}", Priority.SWEEP)
        if kind.singular != "level":
            return answer.status == 404
        return answer.status == 404 or id_.encode() not in answer.body
