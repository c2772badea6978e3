"""Fetches objects that a full sync did not list, to see if they are deleted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from loguru import logger
from msgspec import Struct

from backhaul.core import strict_json
from backhaul.core.clock import to_text
from backhaul.core.fold import GONE, Drift
from backhaul.errors import Unusable
from backhaul.platform import decoding, responses
from backhaul.platform.client import ReadRefused
from backhaul.sync.diff_repair import Difference
from backhaul.sync.resource_types import PRODUCTS, SHOWN_LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul.core.clock import Clock
    from backhaul.core.rate_limit import Priority
    from backhaul.platform.client import PlatformClient
    from backhaul.store.inbox import RefetchQueue
    from backhaul.store.mirror import Passes
    from backhaul.sync.diff_repair import MirrorRepair
    from backhaul.sync.resource_types import ListRow, ResourceType


CLOSED = frozenset({401, 429})
"""Statuses that are about the key or the load, not about a single object."""


class ObjectLookup(Struct, frozen=True):
    """What the platform answered about one object.

    `parent` is the list that was read: a level is read through its product. `body` is
    the parent object, None if the parent is deleted too.
    """

    is_gone: bool
    parent: ResourceType
    body: bytes | None


async def fetch_object(
    client: PlatformClient, kind: ResourceType, id_: str, asked: str, priority: Priority
) -> ObjectLookup:
    """Fetch the object `id_` through the id `asked`. Raises Unusable."""
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
    """Return whether every other object would be refused too."""
    return isinstance(error, ReadRefused) and error.status in CLOSED


Conflicts: TypeAlias = "list[tuple[str, str]]"
"""The objects to refetch, each by kind and id."""
PATIENCE_SECONDS = 300.0
"""Longest wait for refetches at the end of a pass; the rest counts as unrepaired."""
CHECK_SECONDS = 0.5
REASON = "a full sync read other content than the mirror has"


class DeletionCheck:
    """Fetches the objects of one store that a full sync did not list.

    An object counts as deleted only if its own fetch says so, not because a list lacks
    it.
    """

    def __init__(
        self,
        client: PlatformClient,
        repair: MirrorRepair,
        passes: Passes,
        refetch_queue: RefetchQueue,
        wake_refetcher: Callable[[], None],
        clock: Clock,
        priority: Priority,
    ) -> None:
        self._client = client
        self._repair = repair
        self._passes = passes
        self._refetch_queue = refetch_queue
        self._wake_refetcher = wake_refetcher
        self._clock = clock
        self._priority = priority

    async def check(
        self, kind: ResourceType, pass_id: int
    ) -> tuple[Counter[Drift], int]:
        """Remove deleted objects; return how many, and how many stay unresolved."""
        lookup, store = self._repair.lookup, self._repair.store
        drift: Counter[Drift] = Counter()
        gone: list[str] = []
        unjudged = 0
        for id_, asked in await lookup.unseen(kind.singular, store, pass_id):
            try:
                is_gone = await self._is_gone(kind, id_, asked)
            except Unusable as error:
                if affects_every_object(error):
                    raise
                unjudged += 1
                self._log_unjudged(error)
                continue
            if is_gone:
                drift[Drift.DELETED if kind.deletable else Drift.ALIEN] += 1
                gone.append(id_)
        await self._repair.caught_up()
        left = await lookup.versions(kind.singular, store, gone) if gone else {}
        kept = sum(not left[id_].standing & GONE for id_ in left)
        return drift, kept + unjudged

    async def _is_gone(self, kind: ResourceType, id_: str, asked: str) -> bool:
        """Fetch one object: remove it if it is deleted, otherwise compare it."""
        began = to_text(self._clock.now())
        said = await fetch_object(self._client, kind, id_, asked, self._priority)
        if said.body is None:
            body = strict_json.encode({"id": asked})
            await self._repair.append_body(f"{said.parent.name}/gone", began, body)
        elif said.is_gone:
            # The product without the variant removes the variant from the mirror.
            await self._repair.append_body("products/reread", began, said.body)
        elif said.parent is kind:
            await self._take(kind, said.body)
        else:
            await self._take_level(id_, began, said.body)
        return said.is_gone

    def _log_unjudged(self, error: Unusable) -> None:
        store = self._repair.store
        logger.bind(action="reconcile.unjudged", store=store).warning(
            "store {}: an object that the full sync did not list could not be fetched,"
            " so it counts as not repaired: {}",
            store,
            error,
        )

    async def _take(self, kind: ResourceType, body: bytes) -> None:
        """Compare an object that the list did not show with the mirror."""
        read_at = to_text(self._clock.now())
        rows = list(kind.rows(body, read_at))
        found = await self._repair.differing(kind, rows, read_at)
        await self._repair.append(kind, await self._repair.still(kind, found))

    async def _take_level(self, id_: str, began: str, body: bytes) -> None:
        """Compare a level that the list did not show with what its product shows.

        It is appended like a refetch: the product does not say when it changed.
        """
        rows = [row for row in SHOWN_LEVELS.rows(body, began) if row.id == id_]
        found = await self._repair.differing(SHOWN_LEVELS, rows, began)
        if await self._repair.still(SHOWN_LEVELS, found):
            await self._repair.append_body("inventory/shown/reread", began, body)

    async def resolve(self, kind: ResourceType, rows: Sequence[ListRow]) -> int:
        """Refetch rows that the mirror did not apply; return how many still differ.

        Objects that conflict for another reason are resolved too: until then nobody
        knows whether the mirror is right about them.
        """
        for row in rows:
            if row.id:
                target = _target(kind, row)
                await self._refetch_queue.enqueue(
                    self._repair.store, kind.singular, target, REASON
                )
        conflicting = await self._await_refetches(kind)
        read_at = to_text(self._clock.now())
        found = [Difference(row, Drift.STALE, read_at) for row in rows if row.id]
        left = await self._repair.still(kind, found)
        differing = {_target(kind, one.row) for one in left}
        return len(left) + len(rows) - len(found) + len(conflicting - differing)

    async def _await_refetches(self, kind: ResourceType) -> set[str]:
        """Wait for the refetch of every conflicting object; return those still open.

        The wait is limited. New conflicts are not waited for.
        """
        store = self._repair.store
        objects = pending = await self._passes.open_conflicts(store, kind.singular)
        self._wake_refetcher()
        until = self._clock.monotonic() + PATIENCE_SECONDS
        while pending and self._clock.monotonic() < until:
            await self._clock.sleep(CHECK_SECONDS)
            pending = await self._unresolved(objects)
        if pending:
            logger.bind(action="reconcile.refetches_late", store=store).warning(
                "store {}: {} conflicting objects were not refetched within five"
                " minutes; they count as not repaired",
                store,
                len(pending),
            )
        return {id_ for _, id_ in pending}

    async def _unresolved(self, objects: Conflicts) -> Conflicts:
        """Return which of these still conflict after everything read is folded."""
        store = self._repair.store
        if await self._passes.pending_refetches(store, objects) == []:
            await self._repair.caught_up()
        return await self._passes.pending_refetches(store, objects)


def _target(kind: ResourceType, row: ListRow) -> str:
    """Return the id to refetch: a level is refetched through its product."""
    if kind.singular != "level":
        return row.id
    try:
        return decoding.level(strict_json.decode_object(row.body))[0].product_id
    except Unusable:
        return row.id
