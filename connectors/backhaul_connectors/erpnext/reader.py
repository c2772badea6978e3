"""Reads submitted delivery notes and stock from ERPNext.

Doctypes and fields: `Delivery Note`, `Delivery Note Item`, `Sales Order`, `Item` and
`Bin` of ERPNext 13 to 15, as its source declares them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from backhaul_sdk.erp import (
    Goods,
    Parcel,
    RecordPage,
    fulfillment,
    stock_count,
    total_units,
)
from backhaul_sdk.fields import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import tzinfo

    from backhaul_connectors.erpnext.settings import Settings
    from backhaul_connectors.erpnext.site import ErpNextSite, Filter
    from backhaul_sdk import Bad, Record
    from backhaul_sdk.erp import ErpCursor

NOTE = "Delivery Note"
SALES_ORDER = "Sales Order"
NAMES_AT_ONCE = 20
"""Names in one filter: a URL has to stay below the limits of proxies."""


class ErpNextReader:
    """Reads delivery notes and stock of one site."""

    def __init__(self, site: ErpNextSite, settings: Settings) -> None:
        self._site = site
        self._settings = settings

    def note_filters(self) -> list[Filter]:
        """Return which delivery notes are shipments to customers."""
        filters: list[Filter] = [("docstatus", "=", 1), ("is_return", "=", 0)]
        if day := self._settings.shipped_since:
            filters.append(("posting_date", ">=", str(day)))
        if self._settings.customer:
            filters.append(("customer", "=", self._settings.customer))
        return filters

    async def shipments(self, cursor: ErpCursor) -> RecordPage[ErpCursor]:
        """Return the next submitted delivery notes."""
        self._site.require_no_wait()
        if cursor.needs_present_time(self._site.now):
            await self._read_clock()
        zone, size = await self._site.zone(), self._settings.batch_rows
        place = cursor.in_window(self._site.now, self._settings.lag_seconds)
        if place is None:
            return RecordPage((), cursor, more=False)
        since, until = written_between(*place.window, zone)
        filters = [
            *self.note_filters(),
            ("modified", ">=", since),
            ("modified", "<", until),
        ]
        if place.shipment:
            filters.append(("name", ">", place.shipment))
        rows = await self._site.rows(NOTE, ["amended_from"], filters, size)
        more = len(rows) == size
        records = [record for row in rows for record in await self._records(row)]
        last = rows[-1]["name"] if rows else None
        return RecordPage(records, place.after(last, more=more), more)

    async def _records(self, row: Mapping[str, Any]) -> list[Record | Bad]:
        """Return the parcels of a delivery note: one for each order of the store."""
        note = await self._site.read(NOTE, row["name"])
        key, zone = await self._first_name(row), await self._site.zone()
        items = note.get("items") or []
        references = await self._references(items)
        by_order: dict[str, list[Mapping[str, Any]]] = {}
        for item in items:
            sales_order = item.get("against_sales_order")
            reference = (
                references.get(sales_order) if sales_order else note.get("po_no")
            )
            if reference:
                by_order.setdefault(str(reference), []).append(item)
        return [
            self._parcel(note, f"note:{key}:{reference}", reference, some, zone)
            for reference, some in by_order.items()
        ]

    async def _first_name(self, row: Mapping[str, Any]) -> str:
        """Return the name of the note that was amended, or its own.

        A note that was cancelled and amended has a new name. It is the same shipment:
        under a new key it would ship twice.
        """
        name, before = str(row["name"]), row.get("amended_from")
        seen = {name}
        while before and before not in seen:
            seen.add(before)
            name = str(before)
            found = await self._site.rows(
                NOTE, ["amended_from"], [("name", "=", name)], 1
            )
            before = found[0].get("amended_from") if found else None
        return name

    async def _references(self, items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the id of the store's order for each sales order of a note."""
        named = {item.get("against_sales_order") for item in items}
        names = sorted(str(each) for each in named if each)
        found: dict[str, Any] = {}
        for start in range(0, len(names), NAMES_AT_ONCE):
            some = names[start : start + NAMES_AT_ONCE]
            rows = await self._site.rows(
                SALES_ORDER, ["po_no"], [("name", "in", some)], len(some)
            )
            found |= {row["name"]: row["po_no"] for row in rows}
        return found

    def _parcel(
        self,
        note: Mapping[str, Any],
        key: str,
        reference: str,
        items: Sequence[Mapping[str, Any]],
        zone: tzinfo,
    ) -> Record | Bad:
        units: dict[Any, list[Any]] = {}
        for item in items:
            units.setdefault(item.get("item_code"), []).append(item.get("stock_qty"))
        return fulfillment(
            Parcel(
                key=key,
                order=reference,
                carrier=note.get(self._settings.carrier_field),
                tracking=note.get(self._settings.tracking_number_field),
                goods=[Goods(code, total_units(some)) for code, some in units.items()],
                shipped_at=_posted(note, zone),
                locator=f"delivery note {note['name']}",
                system="ERPNext",
                code_field="item_code",
            )
        )

    async def is_stock_due(self, cursor: ErpCursor) -> bool:
        """Return True if a stock reading is due, or has not ended."""
        if not self._settings.warehouses:
            return False
        self._site.require_no_wait()
        await self._read_clock()
        return cursor.is_stock_due(self._site.now, self._settings.stock_seconds)

    def item_filters(self) -> list[Filter]:
        """Return which items have a stock that the store may know."""
        return [("is_stock_item", "=", 1), ("has_variants", "=", 0)]

    async def stock(self, cursor: ErpCursor) -> RecordPage[ErpCursor]:
        """Return the stock of the next items, as of the first request for it."""
        size, filters = self._settings.batch_rows, self.item_filters()
        if cursor.product:
            filters.append(("name", ">", cursor.product))
        items = [
            row["name"] for row in await self._site.rows("Item", [], filters, size)
        ]
        as_of, more = self._site.now, len(items) == size
        totals = await self._totals(items)
        records = [
            stock_count(item, item, totals.get(item, 0.0), as_of) for item in items
        ]
        last = items[-1] if items else None
        return RecordPage(records, cursor.after_stock(last, as_of, more=more), more)

    async def _totals(self, items: Sequence[str]) -> dict[str, Any]:
        """Return the units of each item that has a bin.

        The filter names only the first and the last item: a list of all would make the
        URL too long.
        """
        if not items:
            return {}
        rows = await self._site.all_rows(
            "Bin",
            ["item_code", "actual_qty", "reserved_qty"],
            [
                ("warehouse", "in", list(self._settings.warehouses)),
                ("item_code", ">=", items[0]),
                ("item_code", "<=", items[-1]),
            ],
        )
        held: dict[str, list[Any]] = {}
        for row in rows:
            some = held.setdefault(row["item_code"], [])
            some.append(row["actual_qty"])
            if self._settings.subtract_reserved:
                some.append(-row["reserved_qty"])
        return {item: total_units(some) for item, some in held.items()}

    async def _read_clock(self) -> None:
        """Send a small request, so that the site's time is the present one."""
        await self._site.method("frappe.client.get_time_zone")


def written_between(since: datetime, until: datetime, zone: tzinfo) -> tuple[str, str]:
    """Return two local times between which lies all that was written between two times.

    When clocks go back, an hour of local times comes twice. Then the window is wider by
    that hour on both sides, and what was read before comes again with its key.
    """
    first, last = since.astimezone(zone), until.astimezone(zone)
    before, after = first.utcoffset(), last.utcoffset()
    if before is not None and after is not None and after < before:
        first, last = _plain(first) - (before - after), _plain(last) + (before - after)
    return f"{_plain(first)}", f"{_plain(last)}"


def _plain(at: datetime) -> datetime:
    return at.replace(tzinfo=None)


def _posted(note: Mapping[str, Any], zone: tzinfo) -> str | None:
    """Return when the goods left as RFC 3339; None if the note does not say it."""
    text = f"{note.get('posting_date')} {note.get('posting_time') or '00:00:00'}"
    for form in ("%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S"):
        try:
            at = datetime.strptime(text, form).replace(tzinfo=zone)
        except ValueError:
            continue
        return rfc3339(at.astimezone(UTC))
    return None
