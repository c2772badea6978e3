"""`events refold`: stored events are folded again, by the daemon or without one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from backhaul.errors import Busy
from backhaul.ingest.drain import SLICE_SECONDS, folding_for, tell
from backhaul.store.refolds import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul.shop.client import StoreFacts
    from backhaul.store.refolds import Refolds

PATH = "/api/events/refold"


class Refolder:
    """Folds stored events again, in short slices between what else is written."""

    def __init__(
        self,
        refolds: Refolds,
        facts: Mapping[str, StoreFacts],
        folded: Callable[[], None],
        doubted: Callable[[], None],
    ) -> None:
        self._refolds = refolds
        self._fold = folding_for(facts)
        self._folded = folded
        self._doubted = doubted

    def routes(self) -> list[web.RouteDef]:
        """Return the route for the socket, which only the owner can open."""
        return [web.post(PATH, self._answer)]

    async def refold(self, selection: Selection) -> dict[str, int]:
        """Fold what is selected; return how many events ended in each state."""
        states: Counter[str] = Counter()
        after: int | None = 0
        while after is not None:
            report = await self._refolds.refold(
                self._fold, selection, after, SLICE_SECONDS
            )
            after = report.last
            states.update(report.states)
            tell(report.problems)
            self._folded()
            if report.doubts:
                self._doubted()
        return dict(states)

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            selection = msgspec.json.decode(await request.read(), type=Selection)
            return web.json_response(await self.refold(selection))
        except Busy as error:
            return web.json_response({"error": str(error)}, status=503)
        except msgspec.MsgspecError as error:
            return web.json_response({"error": str(error)}, status=422)
