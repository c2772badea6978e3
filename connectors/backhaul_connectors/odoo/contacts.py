"""Finds or creates the contacts of an order: the customer, and where goods go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul_sdk.erp import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_connectors.odoo.rpc import OdooClient
    from backhaul_connectors.odoo.settings import Settings
    from backhaul_sdk import Change

CONTACT = "res.partner"


class OdooContacts:
    """The contacts of the store's customers.

    `ref` identifies a contact, so that none is created twice: the customer's id or
    e-mail address, and for a delivery address the order's id.
    """

    def __init__(self, server: OdooClient, settings: Settings) -> None:
        self._server = server
        self._settings = settings

    async def of_order(self, change: Change) -> dict[str, int]:
        """Return the fields of a sales order that name its contacts."""
        customer = await self._customer(change)
        address = change.document.get("shippingAddress")
        if not address:
            return {"partner_id": customer}
        kind = ["type", "=", "delivery"]
        delivery = await self._find(change.object_id, kind)
        if delivery is None:
            delivery = await self._server.create(
                CONTACT,
                {
                    **await self._place(address),
                    "name": address.get("name") or _name_of(change.document),
                    "phone": address.get("phone") or False,
                    "parent_id": customer,
                    "type": "delivery",
                    "ref": change.object_id,
                },
            )
        return {"partner_id": customer, "partner_shipping_id": delivery}

    async def _customer(self, change: Change) -> int:
        if reference := self._settings.customer:
            found = await self._find(reference)
            if found is None:
                raise RequestRefused(
                    f"Odoo has no contact with the reference {reference!r}; create it,"
                    " or correct the setting customer"
                )
            return found
        key = _key_of(change)
        kind = ["type", "!=", "delivery"]
        found = await self._find(key, kind)
        if found is not None:
            return found
        document = change.document
        customer = document.get("customer") or {}
        address = document.get("shippingAddress") or {}
        return await self._server.create(
            CONTACT,
            {
                **await self._place(address),
                "name": _name_of(document),
                "email": _email_of(document) or False,
                "phone": customer.get("phone") or address.get("phone") or False,
                "ref": key,
            },
        )

    async def _find(self, reference: str, *terms: list[Any]) -> int | None:
        found = await self._server.rows(
            CONTACT, [["ref", "=", reference], *terms], ["id"], limit=1
        )
        return found[0]["id"] if found else None

    async def _place(self, address: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of an address; a country is found by its code."""
        values = {
            "street": address.get("address1") or False,
            "street2": address.get("address2") or False,
            "city": address.get("city") or False,
            "zip": address.get("zip") or False,
        }
        code = str(address.get("country") or "")
        if not code:
            return values
        country = await self._first("res.country", [["code", "=", code.upper()]])
        if country is None:
            raise RequestRefused(
                f"Odoo has no country with the code {code!r}; correct the order's"
                " address"
            )
        values["country_id"] = country
        if province := address.get("province"):
            state = await self._first(
                "res.country.state",
                [
                    ["country_id", "=", country],
                    "|",
                    ["code", "=", province],
                    ["name", "=", province],
                ],
            )
            # Odoo does not know every province; an address is of use without it.
            values["state_id"] = False if state is None else state
        return values

    async def _first(self, model: str, domain: list[Any]) -> int | None:
        found = await self._server.rows(model, domain, ["id"], limit=1)
        return found[0]["id"] if found else None


def _key_of(change: Change) -> str:
    """Return the reference of the customer's contact."""
    customer = change.document.get("customer") or {}
    if customer.get("id"):
        return str(customer["id"])
    # A guest: orders with one address are one customer's; others stand alone.
    return _email_of(change.document).lower() or f"{change.object_id}:customer"


def _email_of(document: Mapping[str, Any]) -> str:
    customer = document.get("customer") or {}
    return str(customer.get("email") or document.get("email") or "")


def _name_of(document: Mapping[str, Any]) -> str:
    for place in ("customer", "shippingAddress"):
        if name := (document.get(place) or {}).get("name"):
            return str(name)
    return _email_of(document) or str(document.get("name") or "Customer")
