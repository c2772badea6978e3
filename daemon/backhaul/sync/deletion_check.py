"""Fetches objects that a full sync did not list, to see if they are deleted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from loguru import logger
from msgspec import Struct

from backhaul.core import strict_json
from backhaul.core.clock import to_text
from backhaul.core.fold import Drift
from backhaul.core.status_rank import GONE
from backhaul.errors import Unusable
from backhaul.platform import decoding, responses
from backhaul.platform.client import ReadRefused
from backhaul.sync.diff_repair import Difference
from backhaul.sync.resource_types import PRODUCTS, SHOWN_LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.core.rate_limit import Priority
    from backhaul.platform.client import ShopClient
    from backhaul.store.reconciling import Sweeps
    from backhaul.store.rereads import Rereads
    from backhaul.sync.diff_repair import MirrorRepair
    from backhaul.sync.resource_types import ListRow, ResourceType


CLOSED = frozenset({401, 429})
"""Answers that tell of the key or the load, and so of no single object."""


class ObjectLookup(Struct, frozen=True):
    """What the platform says of one object.

    `parent` is the list that was asked: levels are asked for by their product. `body`
    is what it holds, None where that is gone as well.
    """

    is_gone: bool
    parent: ResourceType
    body: bytes | None


async def look_up(
    client: ShopClient, kind: ResourceType, id_: str, asked: str, priority: Priority
) -> ObjectLookup:
    """Ask for the object of an id by the id `asked`. Raises Unusable."""
    parent = PRODUCTS if kind.singular == "level" else kind
    answer = await client.find(parent.path, asked, priority)
    if answer is None:
        return ObjectLookup(is_gone=True, parent=parent, body=None)
    body = responses.read_object(answer, asked)
    is_there = parent is kind or id_ in decoding.variant_ids(
        strict_json.decode_object(body)
    )
    return ObjectLookup(not is_there, parent, body)


def affects_every_object(error: Unusable) -> bool:
    """Tell whether a refusal would meet every other object as well."""
    return isinstance(error, ReadRefused) and error.status in CLOSED


Conflicts: TypeAlias = "list[tuple[str, str]]"
"""What is to be read again, each by kind and id."""
PATIENCE_SECONDS = 300.0
"""Longest wait for re-reads at the end of a walk; what is left counts as unrepaired."""
LOOK_SECONDS = 0.5
REASON = "what a walk read of it is not what the mirror took"


class DeletionCheck:
    """Asks for absent objects of one store; a re-read decides, never the list."""

    def __init__(
        self,
        client: ShopClient,
        repair: MirrorRepair,
        sweeps: Sweeps,
        rereads: Rereads,
        asked: Callable[[], None],
        clock: Clock,
        priority: Priority,
    ) -> None:
        self._client = client
        self._repair = repair
        self._sweeps = sweeps
        self._rereads = rereads
        self._asked = asked
        self._clock = clock
        self._priority = priority

    async def ask(self, kind: ResourceType, sweep: int) -> tuple[Counter[Drift], int]:
        """Have what is gone removed; return how many, and how many are not settled."""
        look, store = self._repair.look, self._repair.store
        drift: Counter[Drift] = Counter()
        gone: list[str] = []
        unjudged = 0
        for id_, asked in await look.unseen(kind.singular, store, sweep):
            try:
                is_gone = await self._is_gone(kind, id_, asked)
            except Unusable as error:
                if affects_every_object(error):
                    raise
                unjudged += 1
                self._tell_unjudged(error)
                continue
            if is_gone:
                drift[Drift.DELETED if kind.deletable else Drift.ALIEN] += 1
                gone.append(id_)
        await self._repair.caught_up()
        left = await look.versions(kind.singular, store, gone) if gone else {}
        kept = sum(not left[id_].standing & GONE for id_ in left)
        return drift, kept + unjudged

    async def _is_gone(self, kind: ResourceType, id_: str, asked: str) -> bool:
        """Ask for one object. What is gone is removed, what is there is read."""
        began = to_text(self._clock.now())
        said = await look_up(self._client, kind, id_, asked, self._priority)
        if said.body is None:
            body = strict_json.encode({"id": asked})
            await self._repair.append_body(f"{said.parent.name}/gone", began, body)
        elif said.is_gone:
            # The product as it is now says that the variant is gone.
            await self._repair.append_body("products/reread", began, said.body)
        elif said.parent is kind:
            await self._take(kind, said.body)
        else:
            await self._take_level(id_, began, said.body)
        return said.is_gone

    def _tell_unjudged(self, error: Unusable) -> None:
        store = self._repair.store
        logger.bind(action="reconcile.unjudged", store=store).warning(
            "store {}: what a walk did not show cannot be judged: {}", store, error
        )

    async def _take(self, kind: ResourceType, body: bytes) -> None:
        """Hold an object that the walk overlooked against the mirror after all."""
        read_at = to_text(self._clock.now())
        rows = list(kind.rows(body, read_at))
        found = await self._repair.differing(kind, rows, read_at)
        await self._repair.append(kind, await self._repair.still(kind, found))

    async def _take_level(self, id_: str, began: str, body: bytes) -> None:
        """Hold a level that the walk overlooked against what its product shows.

        It is handed in like one in doubt: when it last changed is not told.
        """
        rows = [row for row in SHOWN_LEVELS.rows(body, began) if row.id == id_]
        found = await self._repair.differing(SHOWN_LEVELS, rows, began)
        if await self._repair.still(SHOWN_LEVELS, found):
            await self._repair.append_body("inventory/shown/reread", began, body)

    async def settle(self, kind: ResourceType, rows: Sequence[ListRow]) -> int:
        """Have rows read again that the mirror did not take; return how many stay.

        What is in doubt for another reason has to be settled as well: nobody knows
        whether the mirror is right about it.
        """
        for row in rows:
            if row.id:
                target = _target(kind, row)
                await self._rereads.ask(
                    self._repair.store, kind.singular, target, REASON
                )
        doubted = await self._await_rereads(kind)
        read_at = to_text(self._clock.now())
        found = [Difference(row, Drift.STALE, read_at) for row in rows if row.id]
        left = await self._repair.still(kind, found)
        differing = {_target(kind, one.row) for one in left}
        return len(left) + len(rows) - len(found) + len(doubted - differing)

    async def _await_rereads(self, kind: ResourceType) -> set[str]:
        """Wait until each doubt that stands was settled; return what still is in doubt.

        Patience has an end, and what comes into doubt meanwhile is not waited for.
        """
        store = self._repair.store
        objects = pending = await self._sweeps.open_doubts(store, kind.singular)
        self._asked()
        until = self._clock.monotonic() + PATIENCE_SECONDS
        while pending and self._clock.monotonic() < until:
            await self._clock.sleep(LOOK_SECONDS)
            pending = await self._unsettled(objects)
        if pending:
            logger.bind(action="reconcile.rereads_late", store=store).warning(
                "store {}: {} objects are still to be read again", store, len(pending)
            )
        return {id_ for _, id_ in pending}

    async def _unsettled(self, objects: Conflicts) -> Conflicts:
        """Return which of these are in doubt: also after what was read is folded."""
        store = self._repair.store
        if await self._sweeps.pending_rereads(store, objects) == []:
            await self._repair.caught_up()
        return await self._sweeps.pending_rereads(store, objects)


def _target(kind: ResourceType, row: ListRow) -> str:
    """Return what a re-read is asked for: levels are read by their product."""
    if kind.singular != "level":
        return row.id
    try:
        return decoding.level(strict_json.decode_object(row.body))[0].product_id
    except Unusable:
        return row.id
