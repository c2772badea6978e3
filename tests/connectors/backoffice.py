"""A back office with a JSON interface: its shipments, and the orders it is told of."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from aiohttp import web

from backhaul_connectors.http_json import HttpJson
from backhaul_connectors.http_json.settings import Settings
from connectors.serving import Site

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul_sdk import Connector

TOKEN = "office-token-0123456789abcdef"
START = datetime(2026, 1, 1, tzinfo=UTC)
SHIPMENTS: dict[str, Any] = {
    "kind": "fulfillment",
    "path": "/shipments",
    "items": "data",
    "key": "id",
    "fields": {"order": "order", "tracking_number": "parcel.number"},
    "lines": "lines",
    "since_parameter": "since",
    "since": "changed",
    "paging": "cursor",
    "page_parameter": "after",
    "next": "next",
}
ORDERS: dict[str, Any] = {
    "path": "/orders",
    "body": "{number: document.number, object: object_id}",
    "reference": "number",
    "lookup_path": "/orders/{id}",
    "lookup_reference": "number",
}


def hurried() -> Callable[[], float]:
    """Return a clock that is hours ahead at each look: nothing waits for it.

    For an office that is at work on nothing whose line broke.
    """
    return count(step=10_000).__next__


@dataclass(slots=True)
class Books:
    """What the office has written down."""

    shipments: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    orders: list[str] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


class Office(Site):
    """Serves its books page by page, to whom shows the token."""

    def __init__(self) -> None:
        super().__init__()
        self.books = Books()
        self.page_items = 10
        self.app.router.add_get("/shipments", self._shipments)
        self.app.router.add_post("/orders", self._take_order)
        self.app.router.add_get("/orders/{id}", self._order)

    def ship(self, number: int, **more: object) -> None:
        """Write down shipment `number`, which changes nothing that is there."""
        self.books.shipments.append((number, more))

    def connector(self, **options: Any) -> Connector[Any]:
        """Return a new connector, as after a restart."""
        told = {
            "base_url": self.url,
            "auth": "bearer",
            "token": TOKEN,
            "lists": {"shipments": SHIPMENTS},
            "pushes": {"order.placed": ORDERS},
            "network": self.network,
            **options,
        }
        settings = Settings.model_validate(told)
        return self.made(HttpJson("office", settings, clock=hurried()))

    async def _shipments(self, request: web.Request) -> web.Response:
        self._let_in(request)
        self.books.asked.append(dict(request.query))
        since = request.query.get("since", "")
        start = int(request.query.get("after", "0"))
        rows = self.books.shipments
        if since:
            earliest = (datetime.fromisoformat(since) - START).total_seconds()
            rows = [row for row in rows if row[0] >= earliest]
        # Large lists come in large pages.
        size = self.page_items if len(rows) < 1_000 else 1_000
        page, rest = rows[start : start + size], rows[start + size :]
        following = start + size if rest else None
        found = [shown(number, more) for number, more in page]
        return web.json_response({"data": found, "next": following})

    async def _take_order(self, request: web.Request) -> web.Response:
        self._let_in(request)
        key = request.headers["Idempotency-Key"]
        if key not in self.books.orders:
            self.books.orders.append(key)
        return web.json_response(
            {"number": 1 + self.books.orders.index(key)}, status=201
        )

    async def _order(self, request: web.Request) -> web.Response:
        self._let_in(request)
        key = request.match_info["id"]
        if key not in self.books.orders:
            return web.json_response({"error": "no such order"}, status=404)
        return web.json_response({"number": 1 + self.books.orders.index(key)})

    def _let_in(self, request: web.Request) -> None:
        self.books.headers.append(dict(request.headers))
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise web.HTTPUnauthorized


def shown(number: int, more: dict[str, Any]) -> dict[str, Any]:
    """Return a shipment as the office tells of it."""
    return {
        "id": number,
        "order": 1001 + number,
        "parcel": {"number": f"BD{number}"},
        "lines": [{"sku": "LS-S", "quantity": 1}],
        "changed": (START + timedelta(seconds=number)).isoformat(),
        **more,
    }
