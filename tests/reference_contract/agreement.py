"""What must hold between a shop's state and its books after every step."""

from collections import defaultdict
from decimal import Decimal
from typing import Any

from reference_contract.books import Paper
from reference_contract.walk import Walk, money


def check(walk: Walk, state: Any) -> None:
    _check_ledger(walk, state)
    _check_stock(walk, state)
    shown = {one["id"]: one for one in state["orders"]}
    assert shown.keys() == {one["id"] for one in walk.orders}
    for order, paper in zip(walk.orders, walk.books.orders, strict=True):
        _check_order(shown[order["id"]], paper)
        _check_totals(shown[order["id"]], paper)
    assert [one["usedCount"] for one in state["discounts"]] == [walk.books.used]


def _check_ledger(walk: Walk, state: Any) -> None:
    """Each row goes on where the last one of its variant ended."""
    stock: dict[str, int] = defaultdict(int)
    for row in state["history"]:
        assert row["stockBefore"] == stock[row["variantId"]]
        stock[row["variantId"]] += row["adjustment"]
        assert row["stockAfter"] == stock[row["variantId"]]
    levels = {one["variantId"]: one["stock"] for one in state["levels"]}
    assert {name: count for name, count in stock.items() if count} == {
        name: count for name, count in levels.items() if count
    }


def _check_stock(walk: Walk, state: Any) -> None:
    levels = {one["variantId"]: one["stock"] for one in state["levels"]}
    shelves = zip(walk.variants, walk.books.shelves, strict=True)
    assert levels == {name: one.stock for name, one in shelves if not one.gone}


def _check_order(shown: Any, paper: Paper) -> None:
    standing = (shown["status"], shown["financialStatus"], shown["fulfillmentStatus"])
    assert standing == (paper.status, paper.money, paper.goods)
    counted = [
        (one["quantity"], one["fulfilledQuantity"], one["restockedQuantity"])
        for one in shown["items"]
    ]
    assert counted == [
        (line.quantity, line.fulfilled, line.restocked) for line in paper.lines
    ]
    lines = {one["id"]: number for number, one in enumerate(shown["items"])}
    shipments = [
        (
            one["trackingNumber"],
            {lines[item["lineItemId"]]: item["quantity"] for item in one["items"]},
        )
        for one in shown["shipments"]
    ]
    assert shipments == paper.shipments
    assert shown["confirmation"]["required"] is paper.waits
    assert (shown["confirmation"]["confirmedAt"] is not None) is paper.confirmed


def _check_totals(shown: Any, paper: Paper) -> None:
    totals, items = shown["totals"], shown["items"]
    expected = (money(paper.subtotal), money(paper.discount))
    assert (totals["subtotal"], totals["discount"]) == expected
    parts = [Decimal(totals[name]) for name in ("shipping", "paymentFee", "tax")]
    goods = Decimal(totals["subtotal"]) - Decimal(totals["discount"])
    assert Decimal(totals["total"]) == goods + sum(parts)
    assert sum(Decimal(one["total"]) for one in items) == goods
    discounts = sum(Decimal(one["discount"]) for one in items)
    assert discounts == Decimal(totals["discount"])
