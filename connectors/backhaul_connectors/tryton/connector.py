"""Reads stock and shipments from Tryton, and writes orders into it."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul_connectors.tryton.orders import TrytonSales
from backhaul_connectors.tryton.reader import TrytonCursor, TrytonReader
from backhaul_connectors.tryton.rpc import (
    NotNow,
    RequestRefused,
    TrytonClient,
    may_have_arrived,
)
from backhaul_connectors.tryton.settings import Settings
from backhaul_sdk import (
    Absent,
    Applied,
    Batch,
    Capability,
    CheckFailed,
    Connector,
    Found,
    NotSent,
    Rejected,
    Spec,
    Uncertain,
)
from backhaul_sdk.calls import LateArrivals

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from backhaul_sdk import Change, LookedUp, Pushed


SPEC = Spec(
    name="tryton",
    version="1.0",
    summary="Reads stock and shipments from Tryton and writes orders to it.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"password"}),
    topics=frozenset({"order.placed", "order.cancelled"}),
)


class Tryton(Connector["Settings"]):
    """A database of a Tryton server. `clock` returns seconds that never go back."""

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(instance, settings)
        self._server = TrytonClient(settings, clock)
        self._reader = TrytonReader(self._server, settings)
        self._orders = TrytonSales(self._server, settings)
        self._late_arrivals = LateArrivals(settings.in_flight_seconds, clock)

    async def check(self) -> None:
        server = TrytonClient(self.settings)
        try:
            await server.call("model.res.user.get_preferences", True)
        finally:
            await server.close()

    async def open(self) -> None:
        self._late_arrivals.request_may_run()
        await self._server.open()

    async def close(self) -> None:
        await self._server.close()

    async def pull(self, cursor: str | None) -> AsyncGenerator[Batch]:
        read, more = TrytonCursor.from_text(cursor), self.settings.shipments
        while more:
            page = await self._reader.shipments(read)
            moved, read, more = page.cursor != read, page.cursor, page.more
            if moved:
                yield Batch(records=page.records, cursor=read.to_text())
        if not self.settings.stock_seconds:
            return
        await self._server.call("model.res.user.get_preferences", True)
        more = self._reader.is_stock_due(read)
        while more:
            page = await self._reader.stock(read)
            read, more = page.cursor, page.more
            yield Batch(records=page.records, cursor=read.to_text())

    def restart_stock(self, cursor: str | None) -> str | None:
        return replace(TrytonCursor.from_text(cursor), product=0, counted=0.0).to_text()

    def topics(self) -> frozenset[str]:
        """Return the change topics that become sales: none without a customer party."""
        return self.spec.topics if self.settings.customer else frozenset()

    async def push(self, change: Change) -> Pushed:
        if not self.settings.customer:
            return Rejected("set customer: the party of the sales")
        try:
            if change.topic == "order.cancelled":
                sale = await self._orders.cancel(change)
                return Applied(None if sale is None else str(sale))
            return Applied(str(await self._orders.place(change)))
        except RequestRefused as error:
            return Rejected(str(error))
        except NotNow as error:
            return NotSent(str(error), error.retry_after_seconds)
        except CheckFailed as error:
            if not may_have_arrived(error):
                return NotSent(str(error))
            self._late_arrivals.request_may_run()
            return Uncertain(str(error))
        except asyncio.CancelledError:
            self._late_arrivals.request_may_run()
            raise

    async def lookup(self, change: Change) -> LookedUp:
        return await self._late_arrivals.lookup(partial(self._find_sale, change))

    async def _find_sale(self, change: Change) -> LookedUp:
        sale = await self._orders.find(change.object_id)
        if sale is None:
            return Absent()
        if change.topic == "order.cancelled":
            is_done = sale["state"] == "cancelled"
        else:
            is_done = self._orders.is_complete(sale)
        return Found(str(sale["id"])) if is_done else Absent()
