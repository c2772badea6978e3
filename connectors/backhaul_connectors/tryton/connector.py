"""Reads stock and shipments from Tryton, and writes orders into it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul_connectors.tryton.orders import TrytonSales
from backhaul_connectors.tryton.reader import TrytonCursor, TrytonReader
from backhaul_connectors.tryton.rpc import TrytonClient
from backhaul_connectors.tryton.settings import Settings
from backhaul_sdk import Capability, Connector, Rejected, Spec
from backhaul_sdk.erp import (
    ORDER_TOPICS,
    OrderDelivery,
    read_batches,
    shared_by,
    shared_hint,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from backhaul_sdk import Batch, Change, LookedUp, Pushed


SPEC = Spec(
    name="tryton",
    version="1.0",
    summary="Reads stock and shipments from Tryton and writes orders to it.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"password"}),
    topics=ORDER_TOPICS,
    shared=shared_by("shipments", "customer"),
    shared_hint=shared_hint("shipments", "sale_state"),
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
        self._orders = OrderDelivery(
            TrytonSales(self._server, settings), settings.in_flight_seconds, clock
        )

    async def check(self) -> None:
        server = TrytonClient(self.settings)
        try:
            await server.call("model.res.user.get_preferences", True)
        finally:
            await server.close()

    async def open(self) -> None:
        self._orders.open()
        await self._server.open()

    async def close(self) -> None:
        await self._server.close()

    def pull(self, cursor: str | None) -> AsyncGenerator[Batch]:
        place = TrytonCursor.from_text(cursor)
        return read_batches(self._reader, place, self.settings)

    def restart_stock(self, cursor: str | None) -> str | None:
        return replace(TrytonCursor.from_text(cursor), product=0, counted=0.0).to_text()

    def topics(self) -> frozenset[str]:
        """Return the change topics that become sales, if the settings say so."""
        return self.spec.topics if self.settings.writes_orders else frozenset()

    async def push(self, change: Change) -> Pushed:
        if not self.settings.writes_orders:
            return Rejected(
                "set customer, the party of the sales, and a sale_state other than"
                ' "none"'
            )
        return await self._orders.push(change)

    async def lookup(self, change: Change) -> LookedUp:
        return await self._orders.lookup(change)
