"""A small shop on which store and daemon agree, for planting disagreements."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backhaul.demo.comparison import ComparisonReport, compare_sides
from backhaul.demo.daemon_rows import Cause, DaemonRows, Placement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.demo.back_office_checks import TrytonBooks
    from backhaul.demo.daemon_rows import Row
    from backhaul.demo.workers import ReceivedByErp

T0, T1, T2 = (f"2026-03-31T10:00:0{second}.000Z" for second in range(3))
SHIPPED, CANCELLED, OPEN = "ord_1", "ord_2", "ord_3"
FULFILL, CANCEL, ADJUST = "f" * 32, "c" * 32, "a" * 32


@dataclass(slots=True)
class World:
    """Both sides; a test changes one of them."""

    state: dict[str, Any]
    tables: dict[str, list[Row]]
    causes: list[Cause]
    placements: list[Placement]
    told: ReceivedByErp | None = None
    tryton: TrytonBooks | None = None

    def ledger(self) -> ComparisonReport:
        books = DaemonRows(**self.tables)
        return compare_sides(
            self.state,
            books,
            self.causes,
            self.placements,
            self.told,
            self.tryton,
        )

    def order(self, order_id: str) -> dict[str, Any]:
        """Return the store's order."""
        found: dict[str, Any] = next(
            order for order in self.state["orders"] if order["id"] == order_id
        )
        return found

    def command(self, command_id: str) -> Row:
        """Return our command."""
        return next(row for row in self.tables["commands"] if row["id"] == command_id)

    def history(self, reason: str) -> dict[str, Any]:
        """Return the store's first stock move with a reason."""
        found: dict[str, Any] = next(
            entry for entry in self.state["history"] if entry["reason"] == reason
        )
        return found


def agreeing_world() -> World:
    """One order shipped, one cancelled with restock, one open, one stock count."""
    orders = [
        order(SHIPPED, 1001, "FULFILLED", shipments=[parcel()]),
        order(CANCELLED, 1002, "RESTOCKED", cancellation=cancellation()),
        order(OPEN, 1003, "UNFULFILLED"),
    ]
    state = {
        "orders": orders,
        "products": [product()],
        "customers": [customer()],
        "levels": [level()],
        "history": history(),
    }
    return World(state, tables(state), causes(), placements())


def order(
    order_id: str,
    number: int,
    fulfillment: str,
    *,
    shipments: list[dict[str, Any]] | None = None,
    cancellation: dict[str, Any] | None = None,
) -> dict[str, Any]:
    item = {
        "id": f"li_{number}",
        "productId": "prod_1",
        "variantId": "var_1",
        "sku": "LS-S",
        "title": "Linen shirt",
        "quantity": 2,
        "fulfilledQuantity": 2 if shipments else 0,
        "restockedQuantity": 2 if cancellation else 0,
        "unitPrice": "1499.00",
    }
    return {
        "id": order_id,
        "number": number,
        "name": f"#{number}",
        "externalId": None,
        "status": "CANCELLED" if cancellation else "PENDING",
        "financialStatus": "PENDING",
        "fulfillmentStatus": fulfillment,
        "confirmation": {"required": False, "confirmedAt": None},
        "currency": "INR",
        "customer": {"id": "cus_1"},
        "items": [item],
        "totals": {"total": "2998.00"},
        "shipments": shipments or [],
        "cancellation": cancellation,
        "placedAt": T0,
        "createdAt": T0,
        "updatedAt": T1,
    }


def parcel() -> dict[str, Any]:
    return {
        "id": "shp_1",
        "trackingCompany": "Demo Express",
        "trackingNumber": "DX001001",
        "shippedAt": T1,
    }


def cancellation() -> dict[str, Any]:
    return {"restocked": True, "note": f"bh:{CANCEL}", "cancelledAt": T1}


def product() -> dict[str, Any]:
    variant = {
        "id": "var_1",
        "sku": "LS-S",
        "barcode": None,
        "title": "S",
        "price": "1499.00",
    }
    return {
        "id": "prod_1",
        "handle": "linen-shirt",
        "title": "Linen shirt",
        "status": "active",
        "externalId": None,
        "updatedAt": T0,
        "variants": [variant],
    }


def customer() -> dict[str, Any]:
    return {
        "id": "cus_1",
        "name": "Asha Rao",
        "email": "asha@example.com",
        "phone": None,
    }


def level() -> dict[str, Any]:
    return {
        "productId": "prod_1",
        "variantId": "var_1",
        "sku": "LS-S",
        "stock": 408,
    }


def history() -> list[dict[str, Any]]:
    """Return 400 to begin with, three times two sold, two returned, twelve found."""
    return [
        move("adj_0", 400, 400, "INITIAL_STOCK"),
        move("adj_1", -2, 398, "ORDER_PLACED", order_id=SHIPPED),
        move("adj_2", -2, 396, "ORDER_PLACED", order_id=CANCELLED),
        move("adj_3", -2, 394, "ORDER_PLACED", order_id=OPEN),
        move("adj_4", 2, 396, "ORDER_CANCELLED", order_id=CANCELLED),
        move("adj_5", 12, 408, "STOCK_COUNT", note=f"bh:{ADJUST}"),
    ]


def move(
    adjustment_id: str,
    adjustment: int,
    after: int,
    reason: str,
    *,
    order_id: str | None = None,
    note: str | None = None,
) -> dict[str, Any]:
    return {
        "adjustmentId": adjustment_id,
        "productId": "prod_1",
        "variantId": "var_1",
        "sku": "LS-S",
        "adjustment": adjustment,
        "stockAfter": after,
        "reason": reason,
        "note": note,
        "orderId": order_id,
        "createdAt": T1,
    }


def tables(state: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return what a daemon holds that has heard of everything."""
    return {
        "orders": [order_row(each) for each in state["orders"]],
        "order_items": [item_row(each) for each in state["orders"]],
        "shipments": [
            {
                "id": "shp_1",
                "order_id": SHIPPED,
                "tracking_company": "Demo Express",
                "tracking_number": "DX001001",
                "shipped_at": T1,
            }
        ],
        "products": [
            {
                "id": "prod_1",
                "handle": "linen-shirt",
                "title": "Linen shirt",
                "status": "active",
                "external_id": None,
                "updated_at": T0,
                "deleted_at": None,
            }
        ],
        "variants": [
            {
                "id": "var_1",
                "product_id": "prod_1",
                "sku": "LS-S",
                "barcode": None,
                "title": "S",
                "price_minor": 149900,
            }
        ],
        "customers": [customer()],
        "inventory_levels": [
            {"variant_id": "var_1", "product_id": "prod_1", "stock": 408}
        ],
        "stock_ledger": [ledger_row(each) for each in state["history"][1:]],
        "commands": commands(),
        "set_aside": [],
        "sightings": [{"order_id": SHIPPED, "folded_at": T1}],
        "scans": [{"began": T0, "ended": T2}],
    }


def order_row(order: Mapping[str, Any]) -> Row:
    return {
        "id": order["id"],
        "number": order["number"],
        "name": order["name"],
        "external_id": None,
        "awaiting_confirmation": 0,
        "status": order["status"],
        "financial_status": "PENDING",
        "fulfillment_status": order["fulfillmentStatus"],
        "placed_at": T0,
        "cancelled_at": T1 if order["cancellation"] else None,
        "total_minor": 299800,
        "currency": "INR",
        "customer_id": "cus_1",
        "updated_at": T1,
        "document": json.dumps(order),
    }


def item_row(order: Mapping[str, Any]) -> Row:
    return {
        "id": f"li_{order['number']}",
        "order_id": order["id"],
        "product_id": "prod_1",
        "variant_id": "var_1",
        "sku": "LS-S",
        "title": "Linen shirt",
        "quantity": 2,
        "fulfilled_quantity": order["items"][0]["fulfilledQuantity"],
        "unit_price_minor": 149900,
    }


def ledger_row(entry: Mapping[str, Any]) -> Row:
    return {
        "adjustment_id": entry["adjustmentId"],
        "variant_id": "var_1",
        "product_id": "prod_1",
        "adjustment": entry["adjustment"],
        "stock_after": entry["stockAfter"],
        "reason": entry["reason"],
        "cause": entry["orderId"] or entry["adjustmentId"],
    }


def commands() -> list[Row]:
    tracking = {"tracking_company": "Demo Express", "tracking_number": "DX001001"}
    return [
        command(FULFILL, "fulfill", SHIPPED, {**tracking, "lines": []}),
        command(CANCEL, "cancel", CANCELLED, {"restock": True, "reason": "CUSTOMER"}),
        command(
            ADJUST,
            "adjust",
            "prod_1",
            {"variant_id": "var_1", "delta": 12, "reason": "STOCK_COUNT"},
            evidence={"adjustment_id": "adj_5"},
            cause="record courier stock-deltas-0001.csv:2",
        ),
    ]


def command(
    command_id: str,
    kind: str,
    target: str,
    payload: dict[str, Any],
    *,
    evidence: dict[str, Any] | None = None,
    cause: str = "record scanner scan by handheld-1",
) -> Row:
    return {
        "id": command_id,
        "kind": kind,
        "target": target,
        "state": "applied",
        "reason": "200",
        "payload": json.dumps(payload),
        "evidence": json.dumps(evidence) if evidence else None,
        "cause": cause,
        "created_at": T1,
        "caused_at": None,
    }


def causes() -> list[Cause]:
    return [
        Cause(
            kind="fulfill",
            instance="scanner",
            locator="scan 1 of handheld-1",
            order_id=SHIPPED,
            tracking_company="Demo Express",
            tracking_number="DX001001",
        ),
        Cause(
            kind="cancel",
            instance="courier",
            locator="cancellations-0001.csv:2",
            order_id=CANCELLED,
        ),
        Cause(
            kind="adjust",
            instance="courier",
            locator="stock-deltas-0001.csv:2",
            sku="LS-S",
            delta=12,
        ),
    ]


def placements() -> list[Placement]:
    lines = {"var_1": 2}
    numbers = {SHIPPED: 1001, CANCELLED: 1002, OPEN: 1003}
    return [Placement(order_id, n, lines) for order_id, n in numbers.items()]
