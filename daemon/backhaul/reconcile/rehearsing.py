"""What a walk would find: nothing is written, neither here nor there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.core.budget import Priority
from backhaul.core.drift import Drift
from backhaul.errors import Unusable
from backhaul.reconcile.asking import ask, is_about_all
from backhaul.reconcile.kinds import KINDS
from backhaul.reconcile.offering import NotOffered, first_offered
from backhaul.reconcile.walking import Known, Walk, fetching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.core.clock import Clock
    from backhaul.reconcile.kinds import Kind
    from backhaul.reconcile.repairing import Comparison
    from backhaul.shop.client import ShopClient

NO_SWEEP = 0
"""No walk has this number: everything that is held was not seen by it."""
UNREAD = "unread"
"""What is said of a list that is not offered: nobody knows whether it differs."""
UNJUDGED = "unjudged"
"""What is said of an object that is not shown and cannot be asked for."""


class Found(Struct, frozen=True):
    """A row of the mirror that is not as the platform has it."""

    store: str
    kind: str
    id: str
    drift: str
    mirror: str
    platform: str


class Rehearsal(Struct):
    """Compares whole lists with a mirror that it can only read."""

    client: ShopClient
    mirror: Comparison
    clock: Clock
    grace_seconds: float

    async def run(self, name: str) -> AsyncIterator[Found]:
        """Yield the differences of one kind, or that its list is not offered."""
        kind = KINDS[name]
        try:
            found = await first_offered(kind, self._walk)
        except NotOffered as error:
            found = [Found(self.mirror.store, name, "", UNREAD, "", str(error))]
        for one in found:
            yield one

    async def _walk(self, kind: Kind) -> list[Found]:
        fetch = fetching(kind, self.client, self.clock, Priority.SWEEP)
        walk = Walk(fetch, kind.deletable, lambda: None)
        seen = Known()
        waiting = []
        async for shown in walk.pages():
            new = seen.add(row.id for row in shown.rows)
            fresh = [row for row in shown.rows if row.id in new]
            waiting += await self.mirror.differing(kind, fresh, shown.began_at)
        if waiting:
            await self.clock.sleep(self.grace_seconds)
        differing = [
            await self._found(kind, one.row.id, one.drift, one.row.updated_at)
            for one in await self.mirror.still(kind, waiting)
        ]
        return differing + [found async for found in self._absent(kind, seen)]

    async def _found(self, kind: Kind, id_: str, drift: str, platform: str) -> Found:
        store, look = self.mirror.store, self.mirror.look
        held = await look.versions(kind.singular, store, [id_])
        ours = held[id_].updated_at if held else ""
        return Found(store, kind.name, id_, drift, ours, platform)

    async def _absent(self, kind: Kind, seen: Known) -> AsyncIterator[Found]:
        store, look = self.mirror.store, self.mirror.look
        drift = Drift.DELETED if kind.deletable else Drift.ALIEN
        for id_, asked in await look.unseen(kind.singular, store, NO_SWEEP):
            if id_ in seen:
                continue
            try:
                said = await ask(self.client, kind, id_, asked, Priority.SWEEP)
                if said.is_gone:
                    yield await self._found(kind, id_, drift, "")
            except Unusable as error:
                if is_about_all(error):
                    raise
                yield await self._found(kind, id_, UNJUDGED, str(error))
