"""Reconciliation on demand: what the command line asks of the running daemon."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from aiohttp import web

from backhaul.reconcile.kinds import KINDS
from backhaul.reconcile.polling import POLL
from backhaul.reconcile.troubles import GivenUp
from backhaul.reconcile.wanted import BACKFILL, FULL, PATH, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul.reconcile.reconciler import Reconciler
    from backhaul.reconcile.sweeping import Step
    from backhaul.store.reconciling import Sweep

PATIENCE_SECONDS = 120.0
"""A person waits no longer for a list of which no new page comes."""
Line: TypeAlias = dict[str, Any]


class Desk:
    """Takes requests and tells of the work as it goes on, a JSON object a line."""

    def __init__(self, reconcilers: Mapping[str, Reconciler]) -> None:
        self._reconcilers = reconcilers

    def routes(self) -> list[web.RouteDef]:
        """Return the route; for the control socket only, it has no other guard."""
        return [web.post(PATH, self.handle)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Walk and stream: steps, and at the end every walk with what it found."""
        try:
            wanted = msgspec.json.decode(await request.read(), type=Wanted)
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
            pass  # whoever asked has gone; progress is kept
        return response

    def check(self, wanted: Wanted) -> None:
        """Raise ValueError where a job, store or kind is not known."""
        known = {BACKFILL, FULL, POLL}
        for names, choice in (
            ([wanted.job], known),
            (wanted.stores, self._reconcilers.keys()),
            (wanted.kinds, KINDS.keys()),
        ):
            for name in names:
                if name not in choice:
                    raise ValueError(f"{name!r} is none of {', '.join(sorted(choice))}")

    async def work(self, wanted: Wanted, tell: Callable[[Line], None]) -> None:
        """Tell a step whenever a page is done, and each walk that has ended.

        Of a list that could not be read for too long the trouble is told instead.
        """
        kinds = wanted.kinds or tuple(KINDS)
        names = wanted.stores or tuple(self._reconcilers)

        def watch(step: Step) -> None:
            tell(msgspec.to_builtins(step))

        async def read(name: str, kinds: Sequence[str]) -> None:
            reconciler = self._reconcilers[name]
            try:
                if wanted.job == POLL:
                    ended = await reconciler.look(kinds)
                else:
                    ended = await reconciler.walk(
                        wanted.job, kinds, watch, PATIENCE_SECONDS
                    )
            except GivenUp as error:
                tell({"store": name, "kind": kinds[0], "trouble": str(error)})
                return
            for sweep in ended:
                tell(_shown(sweep))

        # One list that cannot be read ends none of the others.
        parts = [kinds] if wanted.job == POLL else [(kind,) for kind in sorted(kinds)]
        await asyncio.gather(*(read(name, part) for name in names for part in parts))


def _shown(ended: Sweep) -> Line:
    found: Line = msgspec.to_builtins(ended)
    found["foreign"] = found.pop("alien")
    return found
