"""Compares the store's own state with the mirror, row by row."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from backhaul.core.resources import to_minor
from backhaul.demo.daemon_rows import Finding, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.demo.daemon_rows import DaemonRows, Row

State: TypeAlias = Mapping[str, Any]
"""The store as its control API shows it."""
Keyed: TypeAlias = "dict[Hashable, dict[str, Any]]"


class Comparison(Struct, frozen=True):
    """One kind of row: what the store has, and what the mirror has."""

    subject: str
    theirs: Callable[[State], Keyed]
    ours: Callable[[DaemonRows], Keyed]


def check_mirror(state: State, books: DaemonRows) -> Iterator[Finding]:
    """Yield every row that is missing, left over or not the same."""
    for comparison in _COMPARISONS:
        yield from compare(
            comparison.subject, comparison.theirs(state), comparison.ours(books)
        )


def compare(subject: str, theirs: Keyed, ours: Keyed) -> Iterator[Finding]:
    """Compare what the store has with what we have, by key; only its members count."""
    for key, row in theirs.items():
        name = f"{subject} {_named(key)}"
        if key not in ours:
            yield Finding(Kind.LOST, name, "is at the store, not in the mirror")
        elif told := _differences(row, ours[key]):
            yield Finding(Kind.DIFFERING, name, told)
    for key in ours.keys() - theirs.keys():
        name = f"{subject} {_named(key)}"
        yield Finding(Kind.UNEXPECTED, name, "is in the mirror, not at the store")


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{name} is {_short(value)} at the store, {_short(ours.get(name))} in ours"
        for name, value in theirs.items()
        if ours.get(name) != value
    )


def _named(key: Hashable) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _by(rows: Iterable[Row], *names: str) -> Keyed:
    """Index rows by one column, or by several."""
    if len(names) == 1:
        return {row[names[0]]: row for row in rows}
    return {tuple(row[name] for name in names): row for row in rows}


def _orders(state: State) -> Keyed:
    return {order["id"]: _order(order) for order in state["orders"]}


def _order(order: Mapping[str, Any]) -> dict[str, Any]:
    confirmation = order["confirmation"]
    cancellation = order["cancellation"] or {}
    awaiting = confirmation["required"] and not confirmation["confirmedAt"]
    return {
        "number": order["number"],
        "name": order["name"],
        "external_id": order["externalId"],
        "awaiting_confirmation": awaiting,
        "status": order["status"],
        "financial_status": order["financialStatus"],
        "fulfillment_status": order["fulfillmentStatus"],
        "placed_at": order["placedAt"],
        "cancelled_at": cancellation.get("cancelledAt"),
        "total_minor": to_minor(order["totals"]["total"], order["currency"]),
        "currency": order["currency"],
        "customer_id": order["customer"]["id"],
        "updated_at": order["updatedAt"],
    }


def _documents(books: DaemonRows) -> Keyed:
    return {order["id"]: json.loads(order["document"]) for order in books.orders}


def _order_items(state: State) -> Keyed:
    return {
        item["id"]: {
            "order_id": order["id"],
            "product_id": item["productId"],
            "variant_id": item["variantId"],
            "sku": item["sku"],
            "title": item["title"],
            "quantity": item["quantity"],
            "fulfilled_quantity": item["fulfilledQuantity"],
            "unit_price_minor": to_minor(item["unitPrice"], order["currency"]),
        }
        for order in state["orders"]
        for item in order["items"]
    }


def _shipments(state: State) -> Keyed:
    return {
        parcel["id"]: {
            "order_id": order["id"],
            "tracking_company": parcel["trackingCompany"],
            "tracking_number": parcel["trackingNumber"],
            "shipped_at": parcel["shippedAt"],
        }
        for order in state["orders"]
        for parcel in order["shipments"]
    }


def _products(state: State) -> Keyed:
    return {
        product["id"]: {
            "handle": product["handle"],
            "title": product["title"],
            "status": product["status"],
            "external_id": product["externalId"],
            "updated_at": product["updatedAt"],
        }
        for product in state["products"]
    }


def _live_products(books: DaemonRows) -> Keyed:
    return _by((row for row in books.products if row["deleted_at"] is None), "id")


def _variants(state: State) -> Keyed:
    # Prices have the store's currency, which the state names only with orders.
    currency = next((order["currency"] for order in state["orders"]), "")
    return {
        variant["id"]: {
            "product_id": product["id"],
            "sku": variant["sku"],
            "barcode": variant["barcode"],
            "title": variant["title"],
            "price_minor": to_minor(variant["price"], currency),
        }
        for product in state["products"]
        for variant in product["variants"]
    }


def _levels(state: State) -> Keyed:
    return {
        level["variantId"]: {"product_id": level["productId"], "stock": level["stock"]}
        for level in state["levels"]
    }


def _customers(state: State) -> Keyed:
    return {
        customer["id"]: {name: customer[name] for name in ("name", "email", "phone")}
        for customer in state["customers"]
    }


def _moves(state: State) -> Keyed:
    """Return the store's history but for the stock that it was born with."""
    return {
        (entry["adjustmentId"], entry["variantId"]): {
            "product_id": entry["productId"],
            "adjustment": entry["adjustment"],
            "stock_after": entry["stockAfter"],
            "reason": entry["reason"],
            "cause": entry["orderId"] or entry["adjustmentId"],
        }
        for entry in state["history"]
        if entry["reason"] != "INITIAL_STOCK"
    }


_COMPARISONS = (
    Comparison("order", _orders, lambda books: _by(books.orders, "id")),
    Comparison(
        "order document",
        lambda state: {order["id"]: order for order in state["orders"]},
        _documents,
    ),
    Comparison("order line", _order_items, lambda books: _by(books.order_items, "id")),
    Comparison("parcel", _shipments, lambda books: _by(books.shipments, "id")),
    Comparison("product", _products, _live_products),
    Comparison("variant", _variants, lambda books: _by(books.variants, "id")),
    Comparison("customer", _customers, lambda books: _by(books.customers, "id")),
    Comparison(
        "stock of variant",
        _levels,
        lambda books: _by(books.inventory_levels, "variant_id"),
    ),
    Comparison(
        "stock move",
        _moves,
        lambda books: _by(books.stock_ledger, "adjustment_id", "variant_id"),
    ),
)
