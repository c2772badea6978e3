"""Reads stock and deliveries from Odoo, and writes orders into it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from backhaul_connectors.odoo.contacts import OdooContacts
from backhaul_connectors.odoo.inspection import inspect
from backhaul_connectors.odoo.orders import OdooSales
from backhaul_connectors.odoo.reader import OdooReader
from backhaul_connectors.odoo.rpc import OdooClient
from backhaul_connectors.odoo.settings import Settings
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
    name="odoo",
    version="1.0",
    summary="Reads stock and deliveries from Odoo and writes orders to it.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"api_key"}),
    topics=ORDER_TOPICS,
    shared=shared_by("deliveries", "customer", "sales_team"),
    shared_hint=shared_hint("deliveries", "orders"),
)


class Odoo(Connector["Settings"]):
    """A database of an Odoo server. `clock` returns seconds that never go back."""

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(instance, settings)
        self._server = OdooClient(settings, clock)
        self._reader = OdooReader(self._server, settings)
        contacts = OdooContacts(self._server, settings)
        self._orders = OrderDelivery(
            OdooSales(self._server, settings, contacts),
            settings.in_flight_seconds,
            clock,
        )
        self._findings: Sequence[str] = ()

    async def check(self) -> None:
        server = OdooClient(self.settings)
        try:
            self._findings = await inspect(server, self.settings)
        finally:
            await server.close()

    def findings(self) -> Sequence[str]:
        return self._findings

    async def open(self) -> None:
        self._orders.open()
        self._reader.reset_shape()
        await self._server.open()

    async def close(self) -> None:
        await self._server.close()

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
            return Rejected('set orders to "quotation" or "confirmed"')
        return await self._orders.push(change)

    async def lookup(self, change: Change) -> LookedUp:
        return await self._orders.lookup(change)
