"""Finds out what a connection to Odoo would read and write; changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_connectors.odoo.contacts import CONTACT
from backhaul_connectors.odoo.reader import MOVE_LINE, PICKING, OdooReader
from backhaul_sdk import CheckFailed
from backhaul_sdk.erp import AccessRefused, RequestRefused
from backhaul_sdk.fields import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul_connectors.odoo.rpc import OdooClient
    from backhaul_connectors.odoo.settings import Settings

SHIPMENT_MODELS = (PICKING, MOVE_LINE, "product.product")
STOCK_MODELS = ("product.product", "stock.quant", "stock.location")
ORDER_READS = ("product.pricelist", "res.company", "res.country", "product.product")
ORDER_WRITES = ("sale.order", "sale.order.line", CONTACT)
HAS_ACCESS_FROM = 18
"""The version of Odoo that replaced `check_access_rights` by `has_access`."""


async def inspect(server: OdooClient, settings: Settings) -> Sequence[str]:
    """Return what was found, each as one sentence.

    Raises CheckFailed with everything that is missing.
    """
    version = await server.version()
    found = [f"{settings.url} is Odoo {version}, and its {settings.api} works"]
    await _require_readable(server, settings)
    reader = OdooReader(server, settings)
    if settings.shipments:
        found += await _shipments(server, reader)
    if settings.stock_seconds:
        found += await _stock(server, reader, settings)
    if settings.writes_orders:
        await _require_named(server, settings)
        found.append(await _orders(server, version))
    return found


async def _require_readable(server: OdooClient, settings: Settings) -> None:
    """Raise CheckFailed for all models that the user cannot read."""
    models: list[str] = []
    if settings.shipments:
        models += SHIPMENT_MODELS
        if settings.order_field == "client_order_ref":
            models.append("sale.order")
    if settings.stock_seconds:
        models += STOCK_MODELS
    if settings.writes_orders:
        models += [*ORDER_READS, *ORDER_WRITES]
        models += ["crm.team"] if settings.sales_team else []
    refused: dict[str, str] = {}
    for model in dict.fromkeys(models):
        try:
            await server.count(model, [])
        except (AccessRefused, RequestRefused) as error:
            refused[model] = str(error)
    if refused:
        names = ", ".join(refused)
        raise CheckFailed(
            f"the Odoo user of the API key cannot read {names}; give this user the"
            " rights Inventory / User and Sales / User."
            f" {next(iter(refused.values()))}"
        )


async def _shipments(server: OdooClient, reader: OdooReader) -> list[str]:
    number = await server.count(PICKING, await reader.shipment_domain())
    deliveries = counted(number, "finished delivery", "finished deliveries")
    found = [f"{deliveries} would be read"]
    shape = await reader.shape()
    if not shape.has_carriers:
        found.append(
            "deliveries have no carrier and no tracking reference: Odoo's module"
            " stock_delivery (before Odoo 17: delivery) is not installed"
        )
    return found


async def _stock(
    server: OdooClient, reader: OdooReader, settings: Settings
) -> list[str]:
    products = await server.count("product.product", await reader.product_domain())
    quants = await server.count("stock.quant", await reader.quant_domain())
    field = settings.sku_field
    return [
        f"the stock of {counted(products, 'product')} with a {field} would be read from"
        f" {counted(quants, 'quant')}"
    ]


async def _require_named(server: OdooClient, settings: Settings) -> None:
    """Raise CheckFailed for all settings of orders that name nothing in Odoo."""
    sku = settings.sku_field
    named = {
        "customer": (CONTACT, "ref", "contact with the reference"),
        "sales_team": ("crm.team", "name", "sales team"),
        "shipping_product": ("product.product", sku, f"product with the {sku}"),
    }
    missing: list[str] = []
    for setting, (model, field, what) in named.items():
        name = getattr(settings, setting)
        if name and not await server.count(model, [[field, "=", name]]):
            missing.append(f"no {what} {name!r} ({setting})")
    if missing:
        raise CheckFailed(
            f"Odoo has {', '.join(missing)}; correct these settings, or create what is"
            " missing"
        )


async def _orders(server: OdooClient, version: str) -> str:
    """Return that orders can be written. Raises CheckFailed if a right is missing."""
    missing = [
        model for model in ORDER_WRITES if not await _may_create(server, version, model)
    ]
    if missing:
        raise CheckFailed(
            f"the Odoo user of the API key cannot create {', '.join(missing)}; give"
            " this user the rights Sales / User and Contact creation"
        )
    return "orders can be written: the user may create sales orders and contacts"


async def _may_create(server: OdooClient, version: str, model: str) -> bool:
    if _major(version) >= HAS_ACCESS_FROM:
        return bool(await server.call(model, "has_access", [], operation="create"))
    return bool(
        await server.call(
            model, "check_access_rights", operation="create", raise_exception=False
        )
    )


def _major(version: str) -> int:
    """Return the first number of a version such as "17.0+e" or "saas~18.1"."""
    digits = version.rpartition("~")[2].partition(".")[0]
    return int(digits) if digits.isdecimal() else 0
