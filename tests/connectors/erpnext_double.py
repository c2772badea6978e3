"""A small site that answers as ERPNext's REST interface is documented to.

"REST API" of the documentation of the Frappe framework: `/api/resource` for documents,
`/api/method` for methods, errors with `exc_type` and `_server_messages`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import count
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from aiohttp import web

from backhaul_connectors.erpnext import ErpNext
from backhaul_connectors.erpnext.settings import Settings
from backhaul_sdk.testing import Failure
from connectors.odoo_records import COMPARISONS
from connectors.serving import BEFALLING, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from aiohttp.typedefs import Handler

    from backhaul_sdk import Connector

    Row = dict[str, Any]

KEY, SECRET = "0123456789abcde", "erpnext-secret-0123456789"
USER, ZONE = "backhaul@example.com", "Asia/Kolkata"
FIELDS: dict[str, Sequence[str]] = {
    "Delivery Note": (
        *("docstatus", "is_return", "customer", "po_no", "lr_no", "transporter_name"),
        *("posting_date", "posting_time", "amended_from", "items"),
    ),
    "Sales Order": (
        *("docstatus", "customer", "po_no", "title", "transaction_date", "company"),
        *("delivery_date", "currency", "items", "shipping_address_name"),
        "ignore_pricing_rule",
    ),
    "Item": ("is_stock_item", "has_variants"),
    "Bin": ("item_code", "warehouse", "actual_qty", "reserved_qty"),
    "Warehouse": (),
    "Customer": (),
    "Company": (),
    "Country": ("code",),
    "Address": (
        *("address_title", "address_type", "address_line1", "address_line2", "city"),
        *("state", "pincode", "country", "phone", "email_id", "links"),
    ),
}


class FrappeFault(Exception):
    """An exception on the site: `kind` is its class, `status` its HTTP status."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class ErpNextDouble(Site):
    """One site with a store's orders.

    `denied` holds what the user may not do, `answers` what is answered to a request
    instead, and `now` what the clock shows.
    """

    def __init__(self, zone: str = ZONE) -> None:
        super().__init__()
        self.zone = zone
        self.documents: dict[str, dict[str, Row]] = {each: {} for each in FIELDS}
        self.denied: set[tuple[str, str]] = set()
        self.answers: dict[tuple[str, str], Callable[[], web.Response]] = {}
        self.longest_url = 0
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self._numbers = count(1)
        add = self.app.router.add_route
        add("*", "/api/resource/{doctype}", self._resource)
        add("*", "/api/resource/{doctype}/{name:.+}", self._resource)
        add("GET", "/api/method/{method}", self._method)
        self.add("Customer", "Shop")
        self.add("Country", "Germany", code="de")
        self.add("Warehouse", "Stores - C")
        self.item("LS-S")

    def connector(self, **options: Any) -> Connector[Any]:
        """Return a new connector, as after a restart."""
        return self.made(ErpNext("erp", self.settings(**options)))

    def settings(self, **options: Any) -> Settings:
        base = {
            "url": self.url,
            "api_key": KEY,
            "api_secret": SECRET,
            "customer": "Shop",
            "warehouses": ["Stores - C"],
            "in_flight_seconds": 0,
            "lag_seconds": 0,
            "network": self.network,
        }
        return Settings.model_validate({**base, **options})

    def add(self, doctype: str, name: str, **values: Any) -> Row:
        """Add a document; empty fields are null."""
        empty = dict.fromkeys(FIELDS[doctype])
        row = {**empty, "modified": self.local(self.now), **values, "name": name}
        self.documents[doctype][name] = row
        return row

    def item(self, code: str, **more: Any) -> Row:
        return self.add("Item", code, **{"is_stock_item": 1, "has_variants": 0, **more})

    def stock(
        self, item: str, units: float, warehouse: str = "Stores - C", reserved: int = 0
    ) -> Row:
        return self.add(
            "Bin",
            f"bin{next(self._numbers):06}",
            item_code=item,
            warehouse=warehouse,
            actual_qty=units,
            reserved_qty=reserved,
        )

    def sell(self, reference: str, **more: Any) -> str:
        """Add a submitted sales order of an order of the store."""
        name = f"SAL-ORD-{next(self._numbers):05}"
        values = {"docstatus": 1, "customer": "Shop", **more}
        self.add("Sales Order", name, po_no=reference, **values)
        return name

    def deliver(
        self, sale: str | None, goods: Sequence[tuple[Any, Any]] = (), **more: Any
    ) -> str:
        """Add a submitted delivery note of a sales order."""
        name = more.pop("name", f"MAT-DN-{next(self._numbers):06}")
        at = more.pop("at", self.now)
        items = [
            {"item_code": code, "stock_qty": units, "against_sales_order": sale}
            for code, units in goods or [("LS-S", 2.0)]
        ]
        values: Row = {
            "docstatus": 1,
            "is_return": 0,
            "customer": "Shop",
            "posting_date": "2026-01-01",
            "posting_time": "05:30:00",
            "items": items,
            "modified": self.local(at),
            **more,
        }
        self.add("Delivery Note", name, **values)
        return str(name)

    def local(self, at: datetime) -> str:
        """Return a time as the site stores it: local, without a zone."""
        there = at.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)
        return there.strftime("%Y-%m-%d %H:%M:%S.%f")

    async def _method(self, request: web.Request) -> web.Response:
        name = request.match_info["method"]
        if name == "frappe.client.get_time_zone":
            return self._told({"message": {"time_zone": self.zone}})
        try:
            self._require_login(request)
            return self._told({"message": self._called(name, dict(request.query))})
        except FrappeFault as fault:
            return self._failed(fault)

    def _called(self, name: str, query: dict[str, str]) -> Any:
        if name == "frappe.auth.get_logged_user":
            return USER
        if name == "frappe.utils.change_log.get_versions":
            return {"frappe": {"version": "15.1.0"}, "erpnext": {"version": "15.2.0"}}
        if name == "frappe.client.has_permission":
            right = (query["doctype"], query["perm_type"])
            return {"has_permission": right not in self.denied}
        if name == "frappe.client.get_count":
            filters = json.loads(query["filters"])
            return sum(1 for _ in self._matching(query["doctype"], filters))
        raise FrappeFault(404, "DoesNotExistError", f"{name} is not there")

    async def _resource(self, request: web.Request) -> web.Response:
        doctype, name = request.match_info["doctype"], request.match_info.get("name")
        self.longest_url = max(self.longest_url, len(request.raw_path))
        if answer := self.answers.get((request.method, doctype)):
            return answer()
        try:
            self._require_login(request)
            return self._told(await self._done(request, doctype, name))
        except FrappeFault as fault:
            return self._failed(fault)

    async def _done(self, request: web.Request, doctype: str, name: str | None) -> Any:
        if (doctype, "read") in self.denied:
            raise FrappeFault(403, "PermissionError", f"No permission for {doctype}")
        if request.method == "POST":
            return {"data": self._created(doctype, await request.json())}
        if name is None:
            return {"data": self._listed(doctype, request.query)}
        row = self._found(doctype, name)
        if request.method == "DELETE":
            if row["docstatus"] == 1:
                raise FrappeFault(417, "ValidationError", "Submitted: cancel it first")
            del self.documents[doctype][name]
            return {"data": "ok"}
        if request.method == "PUT":
            self._change(row, await request.json())
        return {"data": row}

    def _change(self, row: Row, values: Row) -> None:
        """Submit and cancel as Frappe does: only from one status to the next."""
        wanted = values.get("docstatus", row["docstatus"])
        if wanted not in (row["docstatus"], row["docstatus"] + 1):
            raise FrappeFault(417, "DocstatusTransitionError", "Cannot change state")
        if wanted == 2 and self._delivered(row["name"]):
            raise FrappeFault(
                417,
                "LinkExistsError",
                f"Cannot cancel because Sales Order {row['name']} is linked with a"
                " Delivery Note",
            )
        row |= values

    def _delivered(self, sale: str) -> bool:
        return any(
            item["against_sales_order"] == sale
            for note in self.documents["Delivery Note"].values()
            for item in note["items"]
        )

    def _found(self, doctype: str, name: str) -> Row:
        if name not in self.documents[doctype]:
            raise FrappeFault(404, "DoesNotExistError", f"{doctype} {name} not found")
        return self.documents[doctype][name]

    def _created(self, doctype: str, values: Row) -> Row:
        unknown = values.keys() - {*FIELDS[doctype]}
        assert not unknown, unknown
        if doctype == "Address":
            name = f"{values['address_title']}-{values['address_type']}"
        else:
            name = f"SAL-ORD-{next(self._numbers):05}"
        return self.add(doctype, name, **{"docstatus": 0, **values})

    def _listed(self, doctype: str, query: Any) -> list[Row]:
        assert query["order_by"] == "name asc"
        fields = json.loads(query["fields"])
        unknown = {*fields} - {*FIELDS[doctype], "name", "modified"}
        if unknown:
            raise FrappeFault(
                417, "DataError", f"Field not permitted in query: {unknown}"
            )
        found = list(self._matching(doctype, json.loads(query["filters"])))
        found.sort(key=lambda row: row["name"])
        start, length = int(query["limit_start"]), int(query["limit_page_length"])
        return [
            {field: row[field] for field in fields}
            for row in found[start : start + length]
        ]

    def _matching(self, doctype: str, filters: list[Any]) -> Iterator[Row]:
        for each in filters:
            assert each[0] == doctype
        for row in self._candidates(doctype, filters):
            if all(
                COMPARISONS[sign](row[field], value)
                for _, field, sign, value in filters
            ):
                yield row

    def _candidates(self, doctype: str, filters: list[Any]) -> Iterable[Row]:
        """Return the documents that filters name; all if they name none."""
        rows = self.documents[doctype]
        for _, field, sign, value in filters:
            if field == "name" and sign in ("=", "in"):
                names = value if sign == "in" else [value]
                return [rows[name] for name in names if name in rows]
        return rows.values()

    def _require_login(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"token {KEY}:{SECRET}":
            raise FrappeFault(401, "AuthenticationError", "Invalid API key")

    def _told(self, document: Any, status: int = 200) -> web.Response:
        shown = {"Date": format_datetime(self.now, usegmt=True)}
        return web.json_response(document, headers=shown, status=status)

    def _failed(self, fault: FrappeFault) -> web.Response:
        return self._told(described(fault), status=fault.status)

    @web.middleware
    async def _befall(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        """Fail as a test says where a sales order is created, and only there."""
        is_sale = request.match_info.get("doctype") == "Sales Order"
        if request.method != "POST" or not is_sale:
            return await handler(request)
        self.tries += 1
        if self.failure is Failure.REFUSES:
            closed = FrappeFault(417, "ValidationError", "The fiscal year is closed.")
            return self._failed(closed)
        return await BEFALLING[self.failure](request, handler)


def described(fault: FrappeFault) -> Row:
    """Return an exception as Frappe writes it, with the traceback that it adds."""
    message = json.dumps({"message": str(fault), "title": "Message"})
    return {
        "exception": f"frappe.exceptions.{fault.kind}: {fault}",
        "exc_type": fault.kind,
        "exc": json.dumps([f"Traceback (most recent call last): … {SECRET} …"]),
        "_server_messages": json.dumps([message]),
    }
