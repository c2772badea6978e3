"""Writes each order into Odoo as one sales order, found by the store's order id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul_connectors.odoo.rpc import text_of
from backhaul_sdk import Absent, Found
from backhaul_sdk.erp import (
    RequestRefused,
    order_lines,
    order_name,
    require_known,
    shipping_price,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from backhaul_connectors.odoo.contacts import OdooContacts
    from backhaul_connectors.odoo.rpc import OdooClient
    from backhaul_connectors.odoo.settings import Settings
    from backhaul_sdk import Change, LookedUp

SALE = "sale.order"
CONFIRMED = ("sale", "done")
CANCELLED = "cancel"
NO_QUESTION = {"disable_cancel_warning": True}
"""Context in which `action_cancel` cancels at once, and opens no dialog."""


class OdooSales:
    """The sales orders of the store. `client_order_ref` holds the store's order id."""

    def __init__(
        self, server: OdooClient, settings: Settings, contacts: OdooContacts
    ) -> None:
        self._server = server
        self._settings = settings
        self._contacts = contacts

    async def lookup(self, change: Change) -> LookedUp:
        """Return whether the sales order has the state that the change wants."""
        sale = await self._find(change.object_id)
        if sale is None:
            return Absent()
        if change.topic == "order.cancelled":
            is_done = sale["state"] == CANCELLED
        else:
            is_done = self._is_complete(sale)
        return Found(str(sale["id"])) if is_done else Absent()

    async def place(self, change: Change) -> str:
        """Create or confirm the order's sales order, as the settings say."""
        sale = await self._find(change.object_id)
        if sale is None:
            values = await self._values(change)
            sale = {"id": await self._server.create(SALE, values), "state": "draft"}
        if not self._is_complete(sale):
            await self._server.call(SALE, "action_confirm", [sale["id"]])
        return str(sale["id"])

    async def cancel(self, change: Change) -> str | None:
        """Cancel the order's sales order; return None if there is none."""
        sale = await self._find(change.object_id)
        if sale is None:
            return None
        if sale["state"] == CANCELLED:
            return str(sale["id"])
        await self._require_undelivered(sale)
        await self._server.call(SALE, "action_cancel", [sale["id"]], NO_QUESTION)
        now = await self._find(change.object_id)
        if now is not None and now["state"] != CANCELLED:
            raise RequestRefused(
                f"Odoo did not cancel {sale['name']}, which is in the state"
                f" {now['state']!r}; cancel it in Odoo"
            )
        return str(sale["id"])

    async def _find(self, order_id: str) -> dict[str, Any] | None:
        """Return the order's sales order, or the first of several."""
        found = await self._server.rows(
            SALE,
            [["client_order_ref", "=", order_id]],
            ["name", "state"],
            limit=1,
        )
        return found[0] if found else None

    def _is_complete(self, sale: Mapping[str, Any]) -> bool:
        """Return True if it has its final state, or a person cancelled it.

        Any state is final for a connection that writes no orders any more.
        """
        if sale["state"] == CANCELLED or self._settings.orders != "confirmed":
            return True
        return sale["state"] in CONFIRMED

    async def _require_undelivered(self, sale: Mapping[str, Any]) -> None:
        if not await self._server.has_field("stock.picking", "sale_id"):
            return
        done = await self._server.rows(
            "stock.picking",
            [
                ["sale_id", "=", sale["id"]],
                ["state", "=", "done"],
                ["picking_type_id.code", "=", "outgoing"],
            ],
            ["name"],
            limit=1,
        )
        if done:
            raise RequestRefused(
                f"{sale['name']} was delivered with {done[0]['name']} and can no longer"
                " be cancelled; have the goods returned in Odoo"
            )

    async def _values(self, change: Change) -> dict[str, Any]:
        document, settings = change.document, self._settings
        ordered = order_lines(document)
        products = await self._products({line.sku for line in ordered})
        lines = [
            _line(products[line.sku], line.quantity, line.unit_price)
            for line in ordered
        ]
        shipping = shipping_price(document)
        if shipping and settings.shipping_product:
            lines.append(_line(products[settings.shipping_product], 1, shipping))
        values = {
            "client_order_ref": change.object_id,
            "origin": order_name(document),
            "order_line": [[0, 0, line] for line in lines],
            **await self._currency(str(document.get("currency"))),
            **await self._team(),
        }
        # The contacts come last: an order that is refused leaves none behind.
        return values | await self._contacts.of_order(change)

    async def _products(self, wanted: set[str]) -> dict[str, int]:
        """Return the id of every product of the order, by its SKU."""
        if self._settings.shipping_product:
            wanted = wanted | {self._settings.shipping_product}
        field = self._settings.sku_field
        rows = await self._server.rows(
            "product.product", [[field, "in", sorted(wanted)]], [field]
        )
        found: dict[str, int] = {}
        for row in rows:
            found.setdefault(str(text_of(row[field])), row["id"])
        require_known("Odoo", wanted, found, field)
        return found

    async def _currency(self, code: str) -> dict[str, int]:
        """Return the pricelist that gives the sales order its currency.

        Without a pricelist a sales order has the currency of its company.
        """
        named: Sequence[Any] = [["currency_id.name", "=", code]]
        pricelists = await self._server.rows(
            "product.pricelist", named, ["id"], limit=1
        )
        if pricelists:
            return {"pricelist_id": pricelists[0]["id"]}
        if await self._server.rows("res.company", named, ["id"], limit=1):
            return {}
        raise RequestRefused(
            f"Odoo has no pricelist in {code}; create one, so that orders can have"
            " this currency"
        )

    async def _team(self) -> dict[str, int]:
        name = self._settings.sales_team
        if not name:
            return {}
        found = await self._server.rows(
            "crm.team", [["name", "=", name]], ["id"], limit=1
        )
        if not found:
            raise RequestRefused(
                f"Odoo has no sales team {name!r}; create it, or correct sales_team"
            )
        return {"team_id": found[0]["id"]}


def _line(product: int, quantity: int, price: Decimal) -> dict[str, Any]:
    """Return a line at a fixed price: no pricelist may add a discount to it."""
    return {
        "product_id": product,
        "product_uom_qty": quantity,
        "price_unit": float(price),
        "discount": 0,
    }
