"""Writes each order into Tryton as one sale, found by the order's id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul_sdk import Absent, Found
from backhaul_sdk.erp import (
    RequestRefused,
    delivery_text,
    order_lines,
    order_name,
    require_known,
    shipping_price,
)

if TYPE_CHECKING:
    from decimal import Decimal

    from backhaul_connectors.tryton.rpc import TrytonClient
    from backhaul_connectors.tryton.settings import Settings
    from backhaul_sdk import Change, LookedUp

STEPS = {
    "none": (),
    "draft": (),
    "quotation": ("quote",),
    "confirmed": ("quote", "confirm"),
}
STATES = ("draft", "quotation", "confirmed", "processing", "done")
"""The states of a sale, in order; `cancelled` is not in the order."""


class TrytonSales:
    """The sales of one party. Raises RequestRefused for permanent errors."""

    def __init__(self, server: TrytonClient, settings: Settings) -> None:
        self._server = server
        self._settings = settings

    async def lookup(self, change: Change) -> LookedUp:
        """Return whether the order's sale has the state that the change wants."""
        sale = await self.find(change.object_id)
        if sale is None:
            return Absent()
        if change.topic == "order.cancelled":
            is_done = sale["state"] == "cancelled"
        else:
            is_done = self.is_complete(sale)
        return Found(str(sale["id"])) if is_done else Absent()

    async def find(self, order_id: str) -> dict[str, Any] | None:
        """Return the order's sale, or the first of several."""
        found = await self._server.call(
            "model.sale.sale.search_read",
            [
                ["reference", "=", order_id],
                ["party.code", "=", self._settings.customer],
            ],
            *(0, 1, [["id", "ASC"]], ["number", "state"]),
        )
        return found[0] if found else None

    def is_complete(self, sale: dict[str, Any]) -> bool:
        """Return True if a sale has its final state, or a person cancelled it.

        Any state is final for a connection that writes no orders any more.
        """
        wanted, state = self._settings.sale_state, sale["state"]
        if wanted == "none" or state == "cancelled":
            return True
        return STATES.index(state) >= STATES.index(wanted)

    async def place(self, change: Change) -> str:
        """Create or advance the order's sale as the settings say; return its id."""
        sale = await self.find(change.object_id)
        if sale is None:
            values = await self._values(change)
            created = await self._server.write("model.sale.sale.create", [values])
            sale = {"id": created[0], "state": "draft"}
        await self._bring_on(sale)
        return str(sale["id"])

    async def cancel(self, change: Change) -> str | None:
        """Cancel the order's sale; return None if there is none."""
        sale = await self.find(change.object_id)
        if sale is None:
            return None
        if sale["state"] in ("processing", "done"):
            raise RequestRefused(
                f"sale {sale['number']} is {sale['state']} and can no longer be "
                "cancelled; stop its shipment in Tryton"
            )
        if sale["state"] != "cancelled":
            await self._server.write("model.sale.sale.cancel", [sale["id"]])
        return str(sale["id"])

    async def _bring_on(self, sale: dict[str, Any]) -> None:
        if self.is_complete(sale):
            return
        for step in STEPS[self._settings.sale_state]:
            if step == "quote" and sale["state"] != "draft":
                continue
            await self._server.write(f"model.sale.sale.{step}", [sale["id"]])

    async def _values(self, change: Change) -> dict[str, Any]:
        document = change.document
        party, address = await self._party()
        currency = await self._currency(str(document.get("currency")))
        ordered = order_lines(document)
        products = await self._products({line.sku for line in ordered})
        lines = [
            _line(products[line.sku], line.quantity, line.unit_price)
            for line in ordered
        ]
        shipping = shipping_price(document)
        if shipping and self._settings.shipping_product:
            product = products[self._settings.shipping_product]
            lines.append(_line(product, 1, shipping))
        return {
            "party": party,
            "invoice_address": address,
            "shipment_address": address,
            "currency": currency,
            "reference": change.object_id,
            "description": f"Order {order_name(document)}",
            "comment": delivery_text(document),
            "lines": [["create", lines]],
        }

    async def _party(self) -> tuple[int, int]:
        code = self._settings.customer
        found = await self._server.call(
            "model.party.party.search_read",
            *([["code", "=", code]], 0, 1, None, ["addresses"]),
        )
        if not found or not found[0]["addresses"]:
            raise RequestRefused(
                f"Tryton has no party {code!r} with an address; create it, or"
                " correct the setting customer"
            )
        return found[0]["id"], found[0]["addresses"][0]

    async def _currency(self, code: str) -> int:
        found = await self._server.call(
            "model.currency.currency.search", *([["code", "=", code]], 0, 1, None)
        )
        if not found:
            raise RequestRefused(f"Tryton has no currency {code}; create it")
        currency: int = found[0]
        return currency

    async def _products(self, wanted: set[str]) -> dict[str, dict[str, Any]]:
        """Return every product of the sale, by its code."""
        if self._settings.shipping_product:
            wanted = wanted | {self._settings.shipping_product}
        rows = await self._server.call(
            "model.product.product.search_read",
            [["code", "in", sorted(wanted)]],
            *(0, None, None, ["code", "default_uom"]),
        )
        found = {row["code"]: row for row in rows}
        require_known("Tryton", wanted, found, "code")
        return found


def _line(product: dict[str, Any], quantity: int, price: Decimal) -> dict[str, Any]:
    return {
        "type": "line",
        "product": product["id"],
        "unit": product["default_uom"],
        "quantity": float(quantity),
        "unit_price": price,
    }
