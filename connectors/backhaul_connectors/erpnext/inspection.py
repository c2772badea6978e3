"""Finds out what a connection to ERPNext would read and write; changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_connectors.erpnext.orders import SALES_ORDER
from backhaul_connectors.erpnext.reader import NOTE, ErpNextReader
from backhaul_sdk import CheckFailed
from backhaul_sdk.erp import AccessRefused, NotNow
from backhaul_sdk.fields import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul_connectors.erpnext.settings import Settings
    from backhaul_connectors.erpnext.site import ErpNextSite

RIGHTS = ((SALES_ORDER, "create"), ("Address", "create"))
SUBMIT_RIGHTS = ((SALES_ORDER, "submit"), (SALES_ORDER, "cancel"))


async def inspect(site: ErpNextSite, settings: Settings) -> Sequence[str]:
    """Return what was found, each as one sentence.

    Raises CheckFailed with everything that is missing.
    """
    user = await site.method("frappe.auth.get_logged_user")
    versions = await site.method("frappe.utils.change_log.get_versions")
    version = (versions or {}).get("erpnext", {}).get("version", "of unknown version")
    zone = await site.zone()
    found = [
        f"{settings.url} is ERPNext {version}, its time zone is {zone}, and the"
        f" key is that of {user}"
    ]
    await _require_readable(site, settings)
    reader = ErpNextReader(site, settings)
    if settings.shipments:
        number = await site.count(NOTE, reader.note_filters())
        notes = counted(number, "submitted delivery note")
        found.append(f"{notes} would be read")
    if settings.warehouses and settings.stock_seconds:
        found.append(await _stock(site, reader, settings))
    if settings.writes_orders:
        found.append(await _orders(site, settings))
    return found


async def _require_readable(site: ErpNextSite, settings: Settings) -> None:
    """Raise CheckFailed for all doctypes that the user cannot read."""
    doctypes: list[str] = []
    if settings.shipments:
        doctypes += [NOTE, SALES_ORDER]
    if settings.warehouses and settings.stock_seconds:
        doctypes += ["Item", "Bin", "Warehouse"]
    if settings.writes_orders:
        doctypes += ["Customer", SALES_ORDER, "Item", "Address", "Country"]
        doctypes += ["Company"] if settings.company else []
    refused: dict[str, str] = {}
    for doctype in dict.fromkeys(doctypes):
        try:
            await site.rows(doctype, [], [], 1)
        except AccessRefused as error:
            refused[doctype] = str(error)
        except NotNow as error:
            if error.retry_after_seconds is not None:
                raise
            refused[doctype] = str(error)
    if refused:
        names = ", ".join(refused)
        raise CheckFailed(
            f"the ERPNext user of the API key cannot read {names}; give this user the"
            f" roles Stock User and Sales User. {next(iter(refused.values()))}"
        )


async def _stock(site: ErpNextSite, reader: ErpNextReader, settings: Settings) -> str:
    named = list(settings.warehouses)
    known = await site.all_rows("Warehouse", [], [("name", "in", named)])
    if missing := sorted({*named} - {row["name"] for row in known}):
        raise CheckFailed(
            f"ERPNext has no warehouse {missing[0]!r}; correct the setting warehouses."
            " The name of a warehouse ends with the company's abbreviation, such as"
            ' "Stores - C"'
        )
    items = await site.count("Item", reader.item_filters())
    bins = await site.count("Bin", [("warehouse", "in", named)])
    return (
        f"the stock of {counted(items, 'item')} would be read from"
        f" {counted(bins, 'bin')}"
    )


async def _require_named(site: ErpNextSite, settings: Settings) -> None:
    """Raise CheckFailed for all settings of orders that name nothing in ERPNext."""
    named = {"customer": "Customer", "company": "Company", "shipping_item": "Item"}
    missing: list[str] = []
    for setting, doctype in named.items():
        name = getattr(settings, setting)
        if name and not await site.rows(doctype, [], [("name", "=", name)], 1):
            missing.append(f"no {doctype.lower()} {name!r} ({setting})")
    if missing:
        raise CheckFailed(
            f"ERPNext has {', '.join(missing)}; correct these settings, or create what"
            " is missing"
        )


async def _orders(site: ErpNextSite, settings: Settings) -> str:
    """Return that orders can be written. Raises CheckFailed if something is missing."""
    await _require_named(site, settings)
    wanted = [*RIGHTS, *(SUBMIT_RIGHTS if settings.orders == "submitted" else ())]
    missing = [each for each in wanted if not await _may(site, *each)]
    if missing:
        named = ", ".join(f"{right} {doctype}" for doctype, right in missing)
        raise CheckFailed(
            f"the user of the API key lacks the permission to {named}; give the user"
            " the role Sales User or Sales Manager"
        )
    return "orders can be written: the user may create sales orders and addresses"


async def _may(site: ErpNextSite, doctype: str, right: str) -> bool:
    found = await site.method(
        "frappe.client.has_permission", doctype=doctype, docname="", perm_type=right
    )
    return bool(found.get("has_permission"))
