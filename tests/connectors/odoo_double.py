"""A small server that answers as Odoo's external interfaces are documented to.

JSON-RPC: "External API" of the documentation of Odoo 14 to 18; errors as
`serialize_exception` and `JsonRPCDispatcher` of its source write them. JSON-2:
"External JSON-2 API" of Odoo 19, errors as `Json2Dispatcher` writes them. As
`web_json_2_rpc` of its source does, the double refuses arguments whose names are not
those of the method. So the methods below have the parameters of Odoo's own.
"""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

from aiohttp import web

from backhaul_connectors.odoo import Odoo
from backhaul_connectors.odoo.settings import Settings
from backhaul_sdk.testing import Failure
from connectors.odoo_records import OdooFault, Records
from connectors.serving import BEFALLING, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiohttp.typedefs import Handler

    from backhaul_sdk import Connector

DATABASE, USER, USER_ID = "company", "backhaul@example.com", 7
KEY = "odoo-api-key-0123456789abcdef"
STATUSES = {
    "AccessDenied": 403,
    "AccessError": 403,
    "MissingError": 404,
    "LockError": 409,
    "UnprocessableEntity": 422,
    "UserError": 422,
    "ValidationError": 422,
}
SHIPPED = datetime(2026, 1, 1, tzinfo=UTC)
MODULES = ("sale_stock", "delivery")


class OdooDouble(Site):
    """One database with a store's orders.

    `calls` holds each model and method that was called, `denied` what the user may not
    do, `answers` what is answered to a call instead, `now` what the server's clock
    shows, and `databases` the names of the server's databases.
    """

    def __init__(self, version: str = "17.0", modules: Sequence[str] = MODULES) -> None:
        super().__init__()
        self.version = version
        self.major = int(version.partition(".")[0])
        self.records = Records(self.major, modules)
        self.calls: list[tuple[str, str]] = []
        self.denied: set[tuple[str, str]] = set()
        self.answers: dict[tuple[str, str], Callable[[], web.Response]] = {}
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.databases = [DATABASE, "other"]
        self.version_requests = 0
        self.app.router.add_post("/jsonrpc", self._json_rpc)
        self.app.router.add_post("/json/2/{model}/{method}", self._json_2)
        self.app.router.add_get("/web/version", self._web_version)
        self._furnish()

    def connector(self, **options: Any) -> Connector[Any]:
        """Return a new connector, as after a restart."""
        return self.made(Odoo("erp", self.settings(**options)))

    def settings(self, **options: Any) -> Settings:
        base = {
            "url": self.url,
            "api": "json-rpc" if self.major < 19 else "json-2",
            "database": DATABASE,
            "user": USER,
            "api_key": KEY,
            "orders": "quotation",
            "in_flight_seconds": 0,
            "lag_seconds": 0,
            "network": self.network,
        }
        return Settings.model_validate({**base, **options})

    def product(self, sku: str | bool, **more: Any) -> int:
        """Add a product whose stock is kept."""
        kind = {"is_storable": True} if self.major >= 18 else {}
        values = {"default_code": sku, "display_name": str(sku), "uom_id": self.unit}
        return self.records.add(
            "product.product", **{**values, "type": "product", **kind, **more}
        )

    def stock(
        self, product: int, quantity: float, location: int = 0, reserved: float = 0.0
    ) -> int:
        """Add units of a product to a location."""
        return self.records.add(
            "stock.quant",
            product_id=product,
            location_id=location or self.shelf,
            quantity=quantity,
            reserved_quantity=reserved,
        )

    def sell(self, reference: str, **more: Any) -> int:
        """Add a confirmed sales order of an order of the store."""
        values = {"name": f"S{reference}", "state": "sale", **more}
        return self.records.add("sale.order", client_order_ref=reference, **values)

    def deliver(
        self, sale: int, goods: Sequence[tuple[int, float]] = (), **more: Any
    ) -> int:
        """Add a finished delivery of a sales order."""
        at = more.pop("write_date", self.now)
        values = {
            "name": f"WH/OUT/{sale:05}",
            "state": "done",
            "picking_type_id": self.outgoing,
            "date_done": SHIPPED,
            "write_date": at,
            **more,
        }
        if sale and "sale_id" in self.records.fields["stock.picking"]:
            values["sale_id"] = sale
        picking = self.records.add("stock.picking", **values)
        for product, quantity in goods or [(self.shirt, 2.0)]:
            self.move(picking, product, quantity)
        return picking

    def move(self, picking: int, product: int, quantity: Any, unit: int = 0) -> int:
        """Add a row of goods to a delivery."""
        name = "quantity_product_uom" if self.major >= 17 else "qty_done"
        return self.records.add(
            "stock.move.line",
            picking_id=picking,
            product_id=product,
            product_uom_id=unit or self.unit,
            state="done",
            **{name: quantity},
        )

    def _furnish(self) -> None:
        add = self.records.add
        self.unit, self.dozen = (
            add("uom.uom", name="Units"),
            add("uom.uom", name="Dozens"),
        )
        self.outgoing = add("stock.picking.type", code="outgoing")
        self.incoming = add("stock.picking.type", code="incoming")
        self.house = add("stock.location", name="WH", usage="view")
        self.shelf = add(
            "stock.location", name="Stock", usage="internal", location_id=self.house
        )
        self.customers = add("stock.location", name="Customers", usage="customer")
        add("stock.warehouse", name="Main", code="WH", view_location_id=self.house)
        self.euro = add("res.currency", name="EUR")
        add("res.currency", name="USD")
        add("res.company", name="Company", currency_id=self.euro)
        self.germany = add("res.country", name="Germany", code="DE")
        self.shirt = self.product("LS-S", barcode="4006381333931")

    async def _web_version(self, _: web.Request) -> web.Response:
        self.version_requests += 1
        return self._told({"version": self.version, "version_info": [self.major, 0]})

    async def _json_rpc(self, request: web.Request) -> web.Response:
        asked = await request.json()
        service, method, arguments = (
            asked["params"][name] for name in ("service", "method", "args")
        )
        told: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        try:
            result = self._served(service, method, arguments)
        except OdooFault as fault:
            data = described(fault)
            error = {"code": 200, "message": "Odoo Server Error", "data": data}
            return self._told(told | {"error": error})
        except Answered as instead:
            return instead.response
        return self._told(told if result is None else told | {"result": result})

    def _served(self, service: str, method: str, arguments: list[Any]) -> Any:
        if (service, method) == ("common", "version"):
            self.version_requests += 1
            return {"server_version": self.version, "protocol_version": 1}
        if (service, method) == ("common", "authenticate"):
            return USER_ID if arguments[:3] == [DATABASE, USER, KEY] else False
        database, user_id, key, model, called, positions, named = arguments
        if (database, user_id, key) != (DATABASE, USER_ID, KEY):
            raise OdooFault("odoo.exceptions.AccessDenied", "Access Denied")
        return self._call(model, called, positions, named.get("context", {}))

    async def _json_2(self, request: web.Request) -> web.Response:
        model, method = request.match_info["model"], request.match_info["method"]
        only = self.databases[0] if len(self.databases) == 1 else None
        if request.headers.get("X-Odoo-Database", only) != DATABASE:
            # No such path exists on a server that has not chosen a database.
            return self._told({"name": "werkzeug.exceptions.NotFound"}, status=404)
        if request.content_type != "application/json":
            return self._told({"message": "wrong content type"}, status=415)
        if request.headers.get("Authorization") != f"bearer {KEY}":
            fault = OdooFault("werkzeug.exceptions.Unauthorized", "Invalid apikey")
            return self._told(described(fault), status=401)
        named = await request.json()
        context = named.pop("context", {})
        try:
            positions = self._positions(model, method, named)
            return self._told(self._call(model, method, positions, context))
        except OdooFault as fault:
            status = STATUSES.get(fault.name.rpartition(".")[2], 500)
            return self._told(described(fault), status=status)
        except Answered as instead:
            return instead.response

    def _told(self, document: Any, status: int = 200) -> web.Response:
        shown = {"Date": format_datetime(self.now, usegmt=True)}
        return web.json_response(document, headers=shown, status=status)

    def _positions(self, model: str, method: str, named: dict[str, Any]) -> list[Any]:
        """Return named arguments in the order of the method's parameters."""
        signature = inspect.signature(getattr(self, f"_{method}"))
        try:
            bound = signature.bind(model, {}, **named)
        except TypeError as error:
            name = "werkzeug.exceptions.UnprocessableEntity"
            raise OdooFault(name, str(error)) from None
        return list(bound.args[2:])

    def _call(
        self, model: str, method: str, positions: list[Any], context: dict[str, Any]
    ) -> Any:
        self.calls.append((model, method))
        if (model, method) in self.answers:
            raise Answered(self.answers[model, method]())
        operation = "create" if method == "create" else "read"
        if (model, operation) in self.denied and method not in RIGHTS:
            raise OdooFault(
                "odoo.exceptions.AccessError",
                f"You are not allowed to access '{model}' records.",
            )
        return getattr(self, f"_{method}")(model, context, *positions)

    def _search_read(
        self,
        model: str,
        _: object,
        domain: list[Any],
        fields: list[str],
        offset: int,
        limit: int | None,
        order: str,
    ) -> list[dict[str, Any]]:
        assert order == "id"
        found = list(self.records.search(model, domain))
        end = None if limit is None else offset + limit
        return [self.records.shown(model, row, fields) for row in found[offset:end]]

    def _search_count(self, model: str, _: object, domain: list[Any]) -> int:
        return sum(1 for _row in self.records.search(model, domain))

    def _read(
        self, model: str, _: object, ids: list[int], fields: list[str]
    ) -> list[dict[str, Any]]:
        rows = self.records.rows[model]
        return [self.records.shown(model, rows[id_], fields) for id_ in ids]

    def _fields_get(
        self, model: str, _: object, allfields: list[str], attributes: list[str]
    ) -> dict[str, Any]:
        known = self.records.fields[model]
        return {
            name: dict.fromkeys(attributes, "char") for name in {*allfields} & known
        }

    def _check_access_rights(
        self, model: str, _: object, operation: str, raise_exception: bool
    ) -> bool:
        assert self.major < 19, "it is gone"
        assert not raise_exception
        return (model, operation) not in self.denied

    def _has_access(
        self, model: str, _: object, ids: list[int], operation: str
    ) -> bool:
        assert self.major >= 18, "it is not there yet"
        assert ids == []
        return (model, operation) not in self.denied

    def _create(
        self, model: str, _: object, vals_list: list[dict[str, Any]]
    ) -> list[int]:
        return [self._created(model, each) for each in vals_list]

    def _created(self, model: str, values: dict[str, Any]) -> int:
        unknown = values.keys() - self.records.fields[model]
        if unknown:
            raise OdooFault("builtins.ValueError", f"Invalid field {unknown!r}")
        lines = values.pop("order_line", [])
        if model == "sale.order":
            number = len(self.records.rows[model]) + 1
            values = {"name": f"S{number:05}", "state": "draft", **values}
        created = self.records.add(model, **values)
        for command, _, line in lines:
            assert command == 0
            self.records.add("sale.order.line", order_id=created, **line)
        return created

    def _action_confirm(self, model: str, _: object, ids: list[int]) -> bool:
        for id_ in ids:
            self.records.rows[model][id_]["state"] = "sale"
        return True

    def _action_cancel(
        self, model: str, context: dict[str, Any], ids: list[int]
    ) -> Any:
        """Cancel at once, or open a dialog, as Odoo 14 to 16 do for a confirmed one."""
        for id_ in ids:
            sale = self.records.rows[model][id_]
            if sale["state"] != "draft" and not context.get("disable_cancel_warning"):
                return {"type": "ir.actions.act_window"}
            if sale["state"] == "done":
                raise OdooFault(
                    "odoo.exceptions.UserError",
                    "You cannot cancel a locked order. Please unlock it first.",
                )
            sale["state"] = "cancel"
        # Some versions return nothing.
        return None

    @web.middleware
    async def _befall(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        """Fail as a test says where a sales order is created, and only there."""
        if not await creates_sale(request):
            return await handler(request)
        self.tries += 1
        if self.failure is Failure.REFUSES:
            self.answers["sale.order", "create"] = self._refusal
            try:
                return await handler(request)
            finally:
                del self.answers["sale.order", "create"]
        return await BEFALLING[self.failure](request, handler)

    def _refusal(self) -> web.Response:
        raise OdooFault("odoo.exceptions.UserError", "The fiscal year is closed.")


RIGHTS = ("check_access_rights", "has_access", "fields_get")


class Answered(Exception):
    """A call gets this response instead of a result."""

    def __init__(self, response: web.Response) -> None:
        super().__init__()
        self.response = response


def described(fault: OdooFault) -> dict[str, Any]:
    """Return an exception as Odoo writes it, with the traceback that it adds."""
    return {
        "name": fault.name,
        "message": str(fault),
        "arguments": [str(fault)],
        "context": {},
        "debug": f"Traceback (most recent call last): … {KEY} …",
    }


async def creates_sale(request: web.Request) -> bool:
    if request.match_info.get("model"):
        return request.path.endswith("/sale.order/create")
    if request.path != "/jsonrpc":
        return False
    arguments: list[Any] = (await request.json())["params"]["args"]
    return arguments[3:5] == ["sale.order", "create"]
