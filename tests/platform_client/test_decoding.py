"""The platform's payloads are decoded: complete, in other forms, and retyped."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core import strict_json
from backhaul.core.resources import (
    Customer,
    Item,
    Level,
    Order,
    Product,
    Shipment,
    StockChange,
    StockMove,
    Variant,
)
from backhaul.errors import Unusable
from backhaul.platform import decoding
from scenes import payloads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LEVEL = {
    "productId": "prod_1",
    "variantId": "var_1",
    "stock": 12,
    "updatedAt": payloads.instant(0),
}


def product(data: Mapping[str, Any]) -> Product:
    return decoding.product(data, "INR")


def test_order_as_the_contract_shows_it() -> None:
    cancelled = {"reason": "STAFF", "cancelledAt": payloads.instant(7)}
    data = payloads.order(
        at=8,
        externalId="POS-9",
        items=[payloads.item(fulfilledQuantity=1)],
        shipments=[payloads.shipment(trackingNumber=None)],
        cancellation=cancelled,
    )
    assert decoding.order(data) == Order(
        id="ord_1",
        number=1001,
        name="#1001",
        external_id="POS-9",
        awaiting_confirmation=False,
        status="PENDING",
        financial_status="PENDING",
        fulfillment_status="UNFULFILLED",
        placed_at=payloads.instant(0),
        cancelled_at=payloads.instant(7),
        total_minor=299_800,
        currency="INR",
        customer_id="cus_1",
        updated_at=payloads.instant(8),
        items=(Item("li_1", "prod_1", "var_1", "LS-S", "Linen shirt", 2, 1, 149_900),),
        shipments=(Shipment("shp_1", "BlueDart", None, payloads.instant(5)),),
        document=strict_json.encode(data),
    )


def test_product_as_the_contract_shows_it() -> None:
    data = payloads.product(at=3, variants=[payloads.variant(barcode="890")])
    found = product(data)
    del data["variants"][0]["stock"]
    assert found == Product(
        id="prod_1",
        handle="linen-shirt",
        title="Linen shirt",
        status="active",
        external_id=None,
        updated_at=payloads.instant(3),
        variants=(Variant("var_1", "LS-S", "890", "S", 149_900),),
        levels=(Level("prod_1", "var_1", 12),),
        document=strict_json.encode(data),
    )


def test_small_payloads_as_the_contract_shows_them() -> None:
    person = payloads.customer(at=2)
    counted = {"ordersCount": 1, "totalSpent": "9.00"}
    assert decoding.customer(person | counted) == Customer(
        "cus_1",
        "Asha Rao",
        "asha@example.com",
        None,
        payloads.instant(2),
        strict_json.encode({k: v for k, v in person.items() if k != "ordersCount"}),
    )
    gone = decoding.deletion(payloads.deletion())
    assert (gone.id, gone.deleted_at) == ("prod_1", payloads.instant(9))
    assert decoding.level(LEVEL) == (Level("prod_1", "var_1", 12), payloads.instant(0))
    move = StockMove(Level("prod_1", "var_1", 10), -2, "MANUAL_ADJUSTMENT")
    assert decoding.stock_change(payloads.stock_change()) == StockChange(
        "adj_1", "prod_1", None, payloads.instant(1), (move,)
    )


def test_statuses_may_come_in_lower_case() -> None:
    found = decoding.order(
        payloads.order(
            status="pending", financialStatus="paid", fulfillmentStatus="Fulfilled"
        )
    )
    said = (found.status, found.financial_status, found.fulfillment_status)
    assert said == ("PENDING", "PAID", "FULFILLED")
    assert product(payloads.product(status="ACTIVE")).status == "active"
    change = payloads.stock_change(reason="order_placed")
    assert decoding.stock_change(change).moves[0].reason == "ORDER_PLACED"


def test_parcels_are_read_by_the_stores_own_names() -> None:
    own = payloads.shipment(carrier="DHL", awb="7")
    del own["trackingCompany"], own["trackingNumber"]
    theirs = payloads.order(shipments=[own, payloads.shipment("shp_2")])
    found = decoding.order(theirs, ("carrier", "awb"))
    told = [(one.tracking_company, one.tracking_number) for one in found.shipments]
    assert told == [("DHL", "7"), ("BlueDart", "BD1")]
    assert b'"awb":"7"' in found.document
    assert decoding.order(theirs).shipments[0].tracking_number is None


def test_money_may_come_as_numbers() -> None:
    text = json.dumps(payloads.order()).replace('"1499.00"', "1499.00")
    data = strict_json.decode(text.replace('"2998.00"', "2998").encode())
    assert isinstance(data["items"][0]["unitPrice"], Decimal)
    found = decoding.order(data)
    assert (found.total_minor, found.items[0].unit_price_minor) == (299_800, 149_900)
    assert b'"unitPrice":1499.00' in found.document


@pytest.mark.parametrize(
    ("currency", "amount", "minor"),
    [("JPY", "1500", 1_500), ("jpy", "1500", 1_500), ("KWD", "1.250", 1_250)],
)
def test_money_follows_the_currency(currency: str, amount: str, minor: int) -> None:
    data = payloads.order(
        currency=currency,
        totals={"total": amount},
        items=[payloads.item(unitPrice=amount)],
    )
    found = decoding.order(data)
    assert (found.total_minor, found.items[0].unit_price_minor) == (minor, minor)


CONFIRMATIONS = [
    (None, False),
    ({"required": False, "confirmedAt": None}, False),
    ({"required": True, "confirmedAt": None}, True),
    ({"required": True}, True),
    ({"required": True, "confirmedAt": payloads.instant(0)}, False),
    ({}, False),
]


@pytest.mark.parametrize(("confirmation", "awaits"), CONFIRMATIONS, ids=str)
def test_whether_an_order_waits_for_the_merchant(
    confirmation: dict[str, Any] | None, awaits: bool
) -> None:
    order = decoding.order(payloads.order(confirmation=confirmation))
    assert order.awaiting_confirmation is awaits


def test_only_the_necessary_is_needed() -> None:
    statuses = ("status", "financialStatus", "fulfillmentStatus")
    order: dict[str, Any] = dict.fromkeys(statuses, "X")
    order |= {"id": "ord_1", "updatedAt": payloads.instant(0), "items": []}
    assert decoding.order(order).total_minor == 0
    bare = {"id": "prod_1", "title": "x", "updatedAt": payloads.instant(0)}
    assert (product(bare).variants, product(bare).status) == ((), "active")


READERS: dict[str, tuple[Callable[[Mapping[str, Any]], Any], dict[str, Any]]] = {
    "order": (decoding.order, payloads.order(shipments=[payloads.shipment()])),
    "product": (product, payloads.product()),
    "customer": (decoding.customer, payloads.customer()),
}


@pytest.mark.parametrize("name", READERS)
def test_unknown_members_are_kept(name: str) -> None:
    read, data = READERS[name]
    strange = {"new": {"deep": [1.5, None]}, "z\u00fc": "\U0001f600"}
    kept = strict_json.decode(read(data | strange).document)
    assert {member: kept[member] for member in strange} == strange


@pytest.mark.parametrize("name", READERS)
def test_fields_that_describe_the_event_are_not_kept(name: str) -> None:
    read, data = READERS[name]
    about = {"changes": {"status": {}}, "shipment": {"id": "x"}, "trigger": "CANCEL"}
    assert read(data | about).document == read(data).document


def test_stock_has_one_home() -> None:
    more = product(payloads.product(variants=[payloads.variant(stock=99)]))
    assert more.document == product(payloads.product()).document
    assert more.levels == (Level("prod_1", "var_1", 99),)


def test_variant_without_stock_shows_no_level() -> None:
    variants = [payloads.variant("var_1"), payloads.variant("var_2", stock=3)]
    del variants[0]["stock"]
    found = product(payloads.product(variants=variants))
    assert found.levels == (Level("prod_1", "var_2", 3),)


RETYPED = [
    ("order", {"id": None}, "without an id"),
    ("order", {"id": ["ord_1"]}, "without an id"),
    ("order", {"updatedAt": "yesterday"}, "updatedAt"),
    ("order", {"updatedAt": "0001-01-01T00:00:00+05:00"}, "updatedAt"),
    ("order", {"updatedAt": 7}, "updatedAt"),
    ("order", {"status": None}, "status"),
    ("order", {"status": ["PENDING"]}, "status"),
    ("order", {"status": 1}, "status"),
    ("order", {"financialStatus": " "}, "financialStatus"),
    ("order", {"fulfillmentStatus": {}}, "fulfillmentStatus"),
    ("order", {"items": None}, "items"),
    ("order", {"items": {}}, "items"),
    ("order", {"items": ["li_1"]}, r"items\[0\]"),
    ("order", {"items": [payloads.item(id=None)]}, r"items\[0\]\.id"),
    ("order", {"items": [payloads.item(quantity=None)]}, r"items\[0\]\.quantity"),
    ("order", {"items": [payloads.item(quantity=2.5)]}, r"items\[0\]\.quantity"),
    ("order", {"items": [payloads.item(quantity=2**63)]}, r"items\[0\]\.quantity"),
    ("order", {"items": [payloads.item(quantity="two")]}, r"items\[0\]\.quantity"),
    ("order", {"items": [payloads.item(fulfilledQuantity="?")]}, "fulfilledQuantity"),
    ("order", {"shipments": {}}, "shipments"),
    ("order", {"shipments": [{"id": None}]}, r"shipments\[0\]\.id"),
    ("order", {"shipments": [{"id": "s", "trackingNumber": []}]}, "trackingNumber"),
    ("order", {"cancellation": {"cancelledAt": "x"}}, "cancellation"),
    ("order", {"cancellation": "yes"}, "cancellation"),
    ("order", {"confirmation": "yes"}, "confirmation"),
    ("order", {"confirmation": {"required": "perhaps"}}, r"confirmation\.required"),
    ("product", {"variants": {}}, "variants"),
    ("product", {"variants": [payloads.variant() | {"stock": "many"}]}, "stock"),
    ("product", {"variants": ["var_1"]}, r"variants\[0\]"),
    ("customer", {"updatedAt": None}, "updatedAt"),
]
"""What decides over goods is never guessed, and no object goes without id and time."""


@pytest.mark.parametrize(
    ("name", "members", "place"), RETYPED, ids=[f"{n}-{m}"[:60] for n, m, _ in RETYPED]
)
def test_retyped_member_that_is_used_is_named(
    name: str, members: dict[str, Any], place: str
) -> None:
    read, data = READERS[name]
    with pytest.raises(Unusable, match=place):
        read(data | members)


@pytest.mark.parametrize("stock", [2**63, -(2**63) - 1, 10**30, "x", 1.5, None, True])
def test_stock_that_cannot_be_kept_is_unusable(stock: Any) -> None:
    with pytest.raises(Unusable, match="stock"):
        decoding.level(LEVEL | {"stock": stock})
    with pytest.raises(Unusable, match="stock"):
        decoding.stock_change(payloads.stock_change(levels=[LEVEL | {"stock": stock}]))


def test_answers_may_be_wrapped_or_bare() -> None:
    order = payloads.order()
    assert decoding.resource({"data": order}) == decoding.resource(order) == order
    assert (
        decoding.rows({"data": [order], "meta": {}})
        == decoding.rows([order])
        == [order]
    )


@pytest.mark.parametrize("document", [None, [], "x", 1, {"data": []}, {"data": None}])
def test_no_object_in_the_answer(document: Any) -> None:
    with pytest.raises(Unusable, match="contains no object"):
        decoding.resource(document)


@pytest.mark.parametrize("document", [None, {}, "x", 1, {"data": {}}, {"rows": []}])
def test_no_list_in_the_answer(document: Any) -> None:
    with pytest.raises(Unusable, match="contains no list"):
        decoding.rows(document)
