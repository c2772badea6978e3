"""Writes each order into ERPNext as one sales order, found by the store's order id."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

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

    from backhaul_connectors.erpnext.settings import Settings
    from backhaul_connectors.erpnext.site import ErpNextSite
    from backhaul_sdk import Change, LookedUp
    from backhaul_sdk.erp import OrderLine

SALES_ORDER = "Sales Order"
DRAFT, SUBMITTED, CANCELLED = 0, 1, 2
ITEMS_AT_ONCE = 20


class ErpNextSales:
    """The sales orders of one customer. `po_no` holds the store's order id."""

    def __init__(self, site: ErpNextSite, settings: Settings) -> None:
        self._site = site
        self._settings = settings

    async def lookup(self, change: Change) -> LookedUp:
        """Return whether the sales order has the state that the change wants."""
        sale = await self._find(change.object_id)
        if sale is None:
            return Absent()
        if change.topic == "order.cancelled":
            is_done = sale["docstatus"] == CANCELLED
        else:
            is_done = sale["docstatus"] >= self._wanted
        return Found(sale["name"]) if is_done else Absent()

    async def place(self, change: Change) -> str:
        """Create or submit the order's sales order, as the settings say."""
        sale = await self._find(change.object_id)
        if sale is None:
            values = await self._values(change)
            sale = await self._site.create(SALES_ORDER, values)
        if sale["docstatus"] < self._wanted:
            await self._site.change(SALES_ORDER, sale["name"], {"docstatus": SUBMITTED})
        return str(sale["name"])

    async def cancel(self, change: Change) -> str | None:
        """Cancel the order's sales order, or delete its draft.

        Returns None if there is none. ERPNext cannot cancel a draft.
        """
        sale = await self._find(change.object_id)
        if sale is None:
            return None
        name = str(sale["name"])
        if sale["docstatus"] == DRAFT:
            await self._site.delete(SALES_ORDER, name)
        elif sale["docstatus"] == SUBMITTED:
            await self._site.change(SALES_ORDER, name, {"docstatus": CANCELLED})
        return name

    @property
    def _wanted(self) -> int:
        return SUBMITTED if self._settings.orders == "submitted" else DRAFT

    async def _find(self, order_id: str) -> dict[str, Any] | None:
        """Return the order's sales order: one that is not cancelled, if there is one.

        A cancelled sales order may have been amended by a person, under a new name.
        """
        found = await self._site.rows(
            SALES_ORDER,
            ["docstatus"],
            [("po_no", "=", order_id), ("customer", "=", self._settings.customer)],
            ITEMS_AT_ONCE,
        )
        return min(found, key=lambda sale: sale["docstatus"] == CANCELLED, default=None)

    async def _values(self, change: Change) -> dict[str, Any]:
        document, settings = change.document, self._settings
        lines = order_lines(document)
        wanted = {line.sku for line in lines}
        if settings.shipping_item:
            wanted |= {settings.shipping_item}
        require_known("ERPNext", wanted, await self._items(wanted), "item code")
        today = self._site.now.astimezone(await self._site.zone()).date()
        due = today + timedelta(days=settings.delivery_days)
        values: dict[str, Any] = {
            "customer": settings.customer,
            "po_no": change.object_id,
            "title": order_name(document),
            "transaction_date": str(today),
            "delivery_date": str(due),
            "currency": document.get("currency"),
            "ignore_pricing_rule": 1,
            "items": self._rows(lines, document, str(due)),
        }
        if settings.company:
            values["company"] = settings.company
        # The address comes last: an order that is refused leaves none behind.
        return values | await self._address(change)

    def _rows(
        self, lines: Sequence[OrderLine], document: Mapping[str, Any], due: str
    ) -> list[dict[str, Any]]:
        rows = [(each.sku, each.quantity, each.unit_price) for each in lines]
        shipping = shipping_price(document)
        if shipping and self._settings.shipping_item:
            rows.append((self._settings.shipping_item, 1, shipping))
        return [
            {"item_code": sku, "qty": units, "rate": float(price), "delivery_date": due}
            for sku, units, price in rows
        ]

    async def _items(self, wanted: set[str]) -> dict[str, str]:
        names = sorted(wanted)
        found: dict[str, str] = {}
        for start in range(0, len(names), ITEMS_AT_ONCE):
            some = names[start : start + ITEMS_AT_ONCE]
            rows = await self._site.rows("Item", [], [("name", "in", some)], len(some))
            found |= {row["name"]: row["name"] for row in rows}
        return found

    async def _address(self, change: Change) -> dict[str, str]:
        """Return the delivery address, which has the order's id as its title."""
        address = change.document.get("shippingAddress")
        if not address:
            return {}
        title = change.object_id
        found = await self._site.rows(
            "Address",
            [],
            [("address_title", "=", title), ("address_type", "=", "Shipping")],
            1,
        )
        if found:
            return {"shipping_address_name": found[0]["name"]}
        link = {"link_doctype": "Customer", "link_name": self._settings.customer}
        second = [address.get("name"), address.get("address2")]
        created = await self._site.create(
            "Address",
            {
                "address_title": title,
                "address_type": "Shipping",
                "address_line1": address.get("address1") or "-",
                "address_line2": ", ".join(filter(None, second)) or None,
                "city": address.get("city") or "-",
                "state": address.get("province"),
                "pincode": address.get("zip"),
                "country": await self._country(str(address.get("country") or "")),
                "phone": address.get("phone"),
                "email_id": change.document.get("email"),
                "links": [link],
            },
        )
        return {"shipping_address_name": created["name"]}

    async def _country(self, code: str) -> str | None:
        if not code:
            return None
        found = await self._site.rows("Country", [], [("code", "=", code.lower())], 1)
        if not found:
            raise RequestRefused(
                f"ERPNext has no country with the code {code!r}; correct the order's"
                " address"
            )
        return str(found[0]["name"])
