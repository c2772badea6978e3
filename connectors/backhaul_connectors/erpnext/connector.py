"""Reads stock and delivery notes from ERPNext, and writes orders into it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from backhaul_connectors.erpnext.inspection import inspect
from backhaul_connectors.erpnext.orders import ErpNextSales
from backhaul_connectors.erpnext.reader import ErpNextReader
from backhaul_connectors.erpnext.settings import Settings
from backhaul_connectors.erpnext.site import ErpNextSite
from backhaul_sdk import Capability, Connector, Rejected, Spec
from backhaul_sdk.erp import (
    ORDER_TOPICS,
    ErpCursor,
    OrderDelivery,
    read_batches,
    shared_by,
    shared_hint,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from backhaul_sdk import Batch, Change, LookedUp, Pushed


SPEC = Spec(
    name="erpnext",
    version="1.0",
    summary="Reads stock and delivery notes from ERPNext and writes orders to it.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"api_secret"}),
    topics=ORDER_TOPICS,
    shared=shared_by("delivery notes", "customer"),
    shared_hint=shared_hint("delivery notes", "orders"),
)


class ErpNext(Connector["Settings"]):
    """A site of ERPNext. `clock` returns seconds that never go back."""

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(instance, settings)
        self._site = ErpNextSite(settings, clock)
        self._reader = ErpNextReader(self._site, settings)
        self._orders = OrderDelivery(
            ErpNextSales(self._site, settings), settings.in_flight_seconds, clock
        )
        self._findings: Sequence[str] = ()

    async def check(self) -> None:
        site = ErpNextSite(self.settings)
        try:
            self._findings = await inspect(site, self.settings)
        finally:
            await site.close()

    def findings(self) -> Sequence[str]:
        return self._findings

    async def open(self) -> None:
        self._orders.open()
        await self._site.open()

    async def close(self) -> None:
        await self._site.close()

    def pull(self, cursor: str | None) -> AsyncGenerator[Batch]:
        place = ErpCursor.from_text(cursor)
        return read_batches(self._reader, place, self.settings)

    def restart_stock(self, cursor: str | None) -> str | None:
        return ErpCursor.from_text(cursor).without_stock().to_text()

    def topics(self) -> frozenset[str]:
        """Return the change topics that become sales orders, if the settings say so."""
        return self.spec.topics if self.settings.writes_orders else frozenset()

    async def push(self, change: Change) -> Pushed:
        if not self.settings.writes_orders:
            return Rejected(
                "set customer, the customer of the sales orders, and orders to"
                ' "draft" or "submitted"'
            )
        return await self._orders.push(change)

    async def lookup(self, change: Change) -> LookedUp:
        return await self._orders.lookup(change)
