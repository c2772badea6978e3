"""Reads finished deliveries and stock from Odoo.

Models and fields: `stock.picking`, `stock.move.line`, `stock.quant` and
`product.product` of Odoo 14 to 19. `sale_id` of a picking comes with the module
`sale_stock`, `carrier_id` and `carrier_tracking_ref` with `delivery` (from 17 on
`stock_delivery`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul_connectors.odoo.rpc import id_of, text_of
from backhaul_sdk import CheckFailed
from backhaul_sdk.erp import (
    Goods,
    Parcel,
    RecordPage,
    all_rows,
    fulfillment,
    stock_count,
    total_units,
)
from backhaul_sdk.fields import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backhaul_connectors.odoo.rpc import OdooClient
    from backhaul_connectors.odoo.settings import Settings
    from backhaul_sdk import Bad, Record
    from backhaul_sdk.erp import ErpCursor

PICKING = "stock.picking"
MOVE_LINE = "stock.move.line"
ROWS_AT_ONCE = 1_000


class Shape(Struct, frozen=True):
    """What differs between versions and modules of Odoo."""

    has_carriers: bool
    has_sales: bool
    has_product_units: bool
    """Whether a move line has its quantity in the product's own unit (from 17 on)."""
    has_storable: bool
    """Whether a product says `is_storable` (from 18 on) instead of its type."""


async def shape_of(server: OdooClient) -> Shape:
    """Return what the server's version and modules have."""
    return Shape(
        has_carriers=await server.has_field(PICKING, "carrier_tracking_ref"),
        has_sales=await server.has_field(PICKING, "sale_id"),
        has_product_units=await server.has_field(MOVE_LINE, "quantity_product_uom"),
        has_storable=await server.has_field("product.product", "is_storable"),
    )


class OdooReader:
    """Reads deliveries and stock of one database."""

    def __init__(self, server: OdooClient, settings: Settings) -> None:
        self._server = server
        self._settings = settings
        self._shape: Shape | None = None

    def reset_shape(self) -> None:
        """Look again which fields the server has: a module may have been installed."""
        self._shape = None

    async def shape(self) -> Shape:
        if self._shape is None:
            self._shape = await shape_of(self._server)
        return self._shape

    async def shipment_domain(self) -> list[Any]:
        """Return which pickings are finished deliveries of the store's orders."""
        shape, settings = await self.shape(), self._settings
        domain: list[Any] = [
            ["state", "=", "done"],
            ["picking_type_id.code", "=", "outgoing"],
        ]
        if settings.order_field == "origin":
            domain.append(["origin", "!=", False])
        elif shape.has_sales:
            domain.append(["sale_id.client_order_ref", "!=", False])
        else:
            raise CheckFailed(
                "Odoo links no deliveries to sales orders; install its module"
                ' sale_stock, or set order_field = "origin"'
            )
        if settings.shipped_since:
            day = f"{settings.shipped_since} 00:00:00"
            domain.append(["date_done", ">=", day])
        if settings.customer:
            domain.append(["sale_id.partner_id.ref", "=", settings.customer])
        if settings.sales_team:
            domain.append(["sale_id.team_id.name", "=", settings.sales_team])
        if settings.require_tracking:
            if not shape.has_carriers:
                raise CheckFailed(
                    "Odoo has no tracking references; install its module"
                    " stock_delivery (before Odoo 17: delivery), or remove"
                    " require_tracking"
                )
            domain.append(["carrier_tracking_ref", "!=", False])
        return domain

    async def shipments(self, cursor: ErpCursor) -> RecordPage[ErpCursor]:
        """Return the next finished deliveries."""
        settings = self._settings
        self._server.require_no_wait()
        domain, shape = await self.shipment_domain(), await self.shape()
        if cursor.needs_present_time(self._server.now):
            await self._server.read_clock()
        place = cursor.in_window(self._server.now, settings.lag_seconds)
        if place is None:
            return RecordPage((), cursor, more=False)
        since, until = map(_odoo_time, place.window)
        domain += [["write_date", ">=", since], ["write_date", "<", until]]
        if place.shipment:
            domain.append(["id", ">", place.shipment])
        fields = ["name", "origin", "date_done", "write_date"]
        fields += ["sale_id"] if shape.has_sales else []
        fields += ["carrier_id", "carrier_tracking_ref"] if shape.has_carriers else []
        size = settings.batch_rows
        rows = await self._server.rows(PICKING, domain, fields, limit=size)
        more = len(rows) == size
        records = await self._records(rows)
        last = rows[-1]["id"] if rows else None
        return RecordPage(records, place.after(last, more=more), more)

    async def _records(self, rows: Sequence[Mapping[str, Any]]) -> list[Record | Bad]:
        if not rows:
            return []
        goods = await self._goods([row["id"] for row in rows])
        references = await self._references(rows)
        return [
            self._parcel(row, references[row["id"]], goods[row["id"]])
            for row in rows
            if references.get(row["id"]) and goods.get(row["id"])
        ]

    async def _references(self, rows: Iterable[Mapping[str, Any]]) -> dict[int, Any]:
        """Return the name of the store's order for each picking that has one."""
        if self._settings.order_field == "origin":
            return {row["id"]: text_of(row["origin"]) for row in rows}
        sales = {row["id"]: id_of(row.get("sale_id")) for row in rows}
        found = await self._server.rows(
            "sale.order", [["id", "in", _ids(sales.values())]], ["client_order_ref"]
        )
        named = {each["id"]: text_of(each["client_order_ref"]) for each in found}
        return {picking: named.get(sale) for picking, sale in sales.items()}

    async def _goods(self, pickings: list[int]) -> dict[int, list[Goods]]:
        """Return what each picking moved, once for each product."""
        shape = await self.shape()
        quantity = "quantity_product_uom" if shape.has_product_units else "qty_done"
        fields = ["picking_id", "product_id", "product_uom_id", quantity]
        domain = [["picking_id", "in", pickings], ["state", "=", "done"]]
        lines = await self._all_rows(MOVE_LINE, domain, fields)
        products = await self._products(_ids(id_of(r["product_id"]) for r in lines))
        moved: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
        for line in lines:
            key = (id_of(line["picking_id"]), id_of(line["product_id"]))
            moved.setdefault(key, []).append(line)
        goods: dict[int, list[Goods]] = {}
        for (picking, product), some in moved.items():
            told = products.get(product, {})
            code = text_of(told.get(self._settings.sku_field))
            problem = "" if shape.has_product_units else _unit_problem(some, told)
            total = total_units(line[quantity] for line in some)
            if total == 0:
                continue
            if problem:
                # A number alone could be taken for one of the product's own unit.
                total = " + ".join(_with_unit(line, quantity) for line in some)
            goods.setdefault(picking, []).append(Goods(code, total, problem))
        return goods

    async def _products(self, ids: list[int]) -> dict[int, Mapping[str, Any]]:
        fields = [self._settings.sku_field, "display_name", "uom_id"]
        found = await self._server.call("product.product", "read", ids, fields=fields)
        return {row["id"]: row for row in found}

    async def _all_rows(
        self, model: str, domain: Sequence[Any], fields: Sequence[str]
    ) -> list[dict[str, Any]]:
        async def page_after(last: int) -> list[dict[str, Any]]:
            later = [*domain, ["id", ">", last]]
            return await self._server.rows(model, later, fields, limit=ROWS_AT_ONCE)

        return await all_rows(page_after, "id", ROWS_AT_ONCE, first=0)

    def _parcel(
        self, row: Mapping[str, Any], reference: Any, goods: Sequence[Goods]
    ) -> Record | Bad:
        return fulfillment(
            Parcel(
                key=f"picking:{row['id']}:{reference}",
                order=reference,
                carrier=_name(row.get("carrier_id")),
                tracking=text_of(row.get("carrier_tracking_ref")),
                goods=goods,
                shipped_at=_moment(row["date_done"]),
                locator=f"delivery {row['name']}",
                system="Odoo",
                code_field=self._settings.sku_field,
            )
        )

    async def is_stock_due(self, cursor: ErpCursor) -> bool:
        """Return True if a stock reading is due, or has not ended."""
        if not self._settings.shipments:
            self._server.require_no_wait()
            await self._server.read_clock()
        return cursor.is_stock_due(self._server.now, self._settings.stock_seconds)

    async def product_domain(self) -> list[Any]:
        """Return which products have a stock that the store may know."""
        shape = await self.shape()
        stored = ["is_storable", "=", True]
        return [
            stored if shape.has_storable else ["type", "=", "product"],
            [self._settings.sku_field, "!=", False],
        ]

    async def quant_domain(self) -> list[Any]:
        """Return which quants count: those in internal locations."""
        domain: list[Any] = [["location_id.usage", "=", "internal"]]
        if self._settings.warehouse:
            place = await self._warehouse(self._settings.warehouse)
            domain.append(["location_id", "child_of", place])
        return domain

    async def stock(self, cursor: ErpCursor) -> RecordPage[ErpCursor]:
        """Return the stock of the next products, as of the first request for it."""
        size, sku = self._settings.batch_rows, self._settings.sku_field
        quants, domain = await self.quant_domain(), await self.product_domain()
        if cursor.product:
            domain.append(["id", ">", cursor.product])
        products = await self._server.rows("product.product", domain, [sku], limit=size)
        as_of, more = self._server.now, len(products) == size
        totals = await self._totals(quants, [row["id"] for row in products])
        records = [
            stock_count(
                str(row["id"]), text_of(row[sku]), totals.get(row["id"], 0.0), as_of
            )
            for row in products
        ]
        last = products[-1]["id"] if products else None
        return RecordPage(records, cursor.after_stock(last, as_of, more=more), more)

    async def _totals(self, domain: list[Any], products: list[int]) -> dict[int, Any]:
        """Return the units of each product that has any."""
        if not products:
            return {}
        fields = ["product_id", "quantity", "reserved_quantity"]
        rows = await self._all_rows(
            "stock.quant", [*domain, ["product_id", "in", products]], fields
        )
        held: dict[int, list[Any]] = {}
        for row in rows:
            some = held.setdefault(id_of(row["product_id"]), [])
            some.append(row["quantity"])
            if self._settings.subtract_reserved:
                some.append(-row["reserved_quantity"])
        return {product: total_units(some) for product, some in held.items()}

    async def _warehouse(self, name: str) -> int:
        """Return the location that holds everything of the warehouse."""
        found = await self._server.rows(
            "stock.warehouse",
            ["|", ["code", "=", name], ["name", "=", name]],
            ["view_location_id"],
            limit=2,
        )
        if len(found) != 1:
            number = "several warehouses have" if found else "no warehouse has"
            raise CheckFailed(
                f"{number} the code or the name {name!r} in Odoo; correct warehouse"
            )
        return id_of(found[0]["view_location_id"])


def _ids(links: Iterable[int]) -> list[int]:
    return sorted({each for each in links if each})


def _unit_problem(
    lines: Sequence[Mapping[str, Any]], product: Mapping[str, Any]
) -> str:
    """Return why quantities are not in the product's unit; empty if they are."""
    own = product.get("uom_id")
    for line in lines:
        if id_of(line["product_uom_id"]) != id_of(own):
            return (
                f"{product.get('display_name')} was delivered in"
                f" {_name(line['product_uom_id'])}, and its own unit is {_name(own)};"
                " enter the units that left in the quarantine, or deliver it in its"
                " own unit"
            )
    return ""


def _with_unit(line: Mapping[str, Any], quantity: str) -> str:
    """Return the quantity of a move line with its unit, such as "2 Dozens"."""
    number = line[quantity]
    shown = f"{number:g}" if isinstance(number, float) else number
    return f"{shown} {_name(line['product_uom_id'])}"


def _name(link: Any) -> Any:
    """Return the name in a link to another record; None if there is none."""
    return link[1] if isinstance(link, list) and len(link) > 1 else None


def _odoo_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _moment(value: Any) -> str | None:
    """Return one of Odoo's times, which are in UTC, as RFC 3339; None if it is none."""
    try:
        return rfc3339(datetime.fromisoformat(value).replace(tzinfo=UTC))
    except (TypeError, ValueError):
        return None
