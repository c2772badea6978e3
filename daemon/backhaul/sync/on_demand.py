"""Backfill and reconciliation on request, and their dry run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from aiohttp import web
from msgspec import Struct

from backhaul.core.fold import Drift
from backhaul.core.rate_limit import Priority
from backhaul.errors import Unusable
from backhaul.sync.deletion_check import affects_every_object, fetch_object
from backhaul.sync.full_sync import GivenUp
from backhaul.sync.incremental_sync import POLL
from backhaul.sync.list_pass import (
    ListPass,
    NotOffered,
    SeenIds,
    first_offered,
    page_fetcher,
)
from backhaul.sync.resource_types import BACKFILL, FULL, KINDS, PATH, SyncRequest

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Collection,
        Mapping,
        Sequence,
    )

    from backhaul.core.clock import Clock
    from backhaul.platform.client import PlatformClient
    from backhaul.sync.diff_repair import Comparison
    from backhaul.sync.full_sync import PassProgress
    from backhaul.sync.resource_types import ResourceType
    from backhaul.sync.sync_scheduler import Reconciler


PATIENCE_SECONDS = 120.0
"""A request on demand gives up on a list that shows no new page for this long."""
Line: TypeAlias = dict[str, Any]


class SyncEndpoint:
    """Takes sync requests and streams their progress, one JSON object per line."""

    def __init__(self, reconcilers: Mapping[str, Reconciler]) -> None:
        self._reconcilers = reconcilers
        self.stores: Collection[str] = reconcilers.keys()

    def routes(self) -> list[web.RouteDef]:
        """Return the route. Serve it on the control socket only: it has no login."""
        return [web.post(PATH, self.handle)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Run the passes; stream their progress and then their results."""
        try:
            wanted = msgspec.json.decode(await request.read(), type=SyncRequest)
            self.check(wanted)
        except (msgspec.MsgspecError, ValueError) as error:
            return web.json_response({"error": str(error)}, status=422)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        lines: asyncio.Queue[Line | None] = asyncio.Queue()

        async def work() -> None:
            await self.work(wanted, lines.put_nowait)
            lines.put_nowait(None)

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(work())
                while (line := await lines.get()) is not None:
                    await response.write(msgspec.json.encode(line) + b"\n")
        except* ConnectionError:
            pass  # the client has disconnected; the progress is kept
        return response

    def check(self, wanted: SyncRequest) -> None:
        """Raise ValueError if the job, a store or a kind is unknown."""
        known = {BACKFILL, FULL, POLL}
        for names, choice in (
            ([wanted.job], known),
            (wanted.stores, self.stores),
            (wanted.kinds, KINDS.keys()),
        ):
            for name in names:
                if name not in choice:
                    known_names = ", ".join(sorted(choice))
                    raise ValueError(f"{name!r} must be one of {known_names}")

    async def work(self, wanted: SyncRequest, send: Callable[[Line], None]) -> None:
        """Send the progress after every page, and the result of each pass.

        For a list that could not be read for too long, send the error instead.
        """
        kinds = wanted.kinds or tuple(KINDS)
        names = wanted.stores or tuple(self._reconcilers)

        def watch(step: PassProgress) -> None:
            send(msgspec.to_builtins(step))

        async def read(name: str, kinds: Sequence[str]) -> None:
            reconciler = self._reconcilers[name]
            try:
                if wanted.job == POLL:
                    ended = await reconciler.poll(kinds)
                else:
                    ended = await reconciler.read_lists(
                        wanted.job, kinds, watch, PATIENCE_SECONDS
                    )
            except GivenUp as error:
                send({"store": name, "kind": kinds[0], "trouble": str(error)})
                return
            for each in ended:
                send(msgspec.to_builtins(each))

        # A list that cannot be read must not stop the others.
        parts = [kinds] if wanted.job == POLL else [(kind,) for kind in sorted(kinds)]
        await asyncio.gather(*(read(name, part) for name in names for part in parts))


NO_PASS = 0
"""The number of no pass: every object of the mirror counts as not seen by it."""
UNREAD = "unread"
"""The result for a list that is not offered: it could not be compared."""
UNJUDGED = "unjudged"
"""The result for an object that is not listed and could not be fetched."""


class MirrorDifference(Struct, frozen=True):
    """An object of the mirror that differs from the platform."""

    store: str
    kind: str
    id: str
    drift: str
    mirror: str
    platform: str


class SyncDryRun(Struct):
    """Compares whole lists with the mirror, and changes nothing."""

    client: PlatformClient
    mirror: Comparison
    clock: Clock
    grace_seconds: float

    async def run(self, name: str) -> AsyncIterator[MirrorDifference]:
        """Yield the differences of one kind, or one row if its list is not offered."""
        kind = KINDS[name]
        try:
            found = await first_offered(kind, self._compare_list)
        except NotOffered as error:
            found = [
                MirrorDifference(self.mirror.store, name, "", UNREAD, "", str(error))
            ]
        for one in found:
            yield one

    async def _compare_list(self, kind: ResourceType) -> list[MirrorDifference]:
        fetch = page_fetcher(kind, self.client, self.clock, Priority.SWEEP)
        list_pass = ListPass(fetch, kind.deletable, lambda: None)
        seen = SeenIds()
        waiting = []
        async for shown in list_pass.pages():
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

    async def _found(
        self, kind: ResourceType, id_: str, drift: str, platform: str
    ) -> MirrorDifference:
        store, lookup = self.mirror.store, self.mirror.lookup
        held = await lookup.versions(kind.singular, store, [id_])
        ours = held[id_].updated_at if held else ""
        return MirrorDifference(store, kind.name, id_, drift, ours, platform)

    async def _absent(
        self, kind: ResourceType, seen: SeenIds
    ) -> AsyncIterator[MirrorDifference]:
        store, lookup = self.mirror.store, self.mirror.lookup
        drift = Drift.DELETED if kind.deletable else Drift.ALIEN
        for id_, asked in await lookup.unseen(kind.singular, store, NO_PASS):
            if id_ in seen:
                continue
            try:
                said = await fetch_object(self.client, kind, id_, asked, Priority.SWEEP)
                if said.is_gone:
                    yield await self._found(kind, id_, drift, "")
            except Unusable as error:
                if affects_every_object(error):
                    raise
                yield await self._found(kind, id_, UNJUDGED, str(error))
