"""Fields in other forms than the contract's are read if their meaning is certain."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.core import strict_json
from backhaul.errors import Unreadable, Unusable
from backhaul.platform import decoding, fields
from scenes import payloads

if TYPE_CHECKING:
    from backhaul.core.resources import Customer, Order, Product

AT = payloads.instant(0)


def order(**members: Any) -> Order:
    """Read an order with these members as it comes over the wire."""
    text = json.dumps(payloads.order() | members).encode()
    return decoding.order(strict_json.decode_object(text), currency="INR")


def with_item(**members: Any) -> Order:
    return order(items=[payloads.item(**members)])


READ: list[tuple[dict[str, Any], str, Any]] = [
    ({"id": 7001}, "id", "7001"),
    ({"number": "9014"}, "number", 9014),
    ({"number": 9014.0}, "number", 9014),
    ({"name": 9014}, "name", "9014"),
    ({"externalId": 12}, "external_id", "12"),
    ({"status": "canceled"}, "status", "CANCELLED"),
    ({"status": " Cancelled "}, "status", "CANCELLED"),
    ({"updatedAt": 1767323045}, "updated_at", "2026-01-02T03:04:05.000Z"),
    ({"updatedAt": "1767323045"}, "updated_at", "2026-01-02T03:04:05.000Z"),
    ({"updatedAt": 1767323045678}, "updated_at", "2026-01-02T03:04:05.678Z"),
    ({"updatedAt": "2026-01-02T03:04:05z"}, "updated_at", "2026-01-02T03:04:05.000Z"),
    ({"placedAt": None}, "placed_at", None),
    ({"shipments": None}, "shipments", ()),
    ({"cancellation": None}, "cancelled_at", None),
    ({"customer": None}, "customer_id", None),
    ({"customer": "cus_9"}, "customer_id", "cus_9"),
    ({"customer": {"id": 9}}, "customer_id", "9"),
    ({"currency": None}, "currency", "INR"),
    ({"totals": None}, "total_minor", 0),
    ({"totals": {"total": None}}, "total_minor", None),
    ({"totals": {"total": "1,499.00"}}, "total_minor", 149_900),
    ({"totals": {"total": "1.499,00"}}, "total_minor", 149_900),
    ({"confirmation": {"required": "true"}}, "awaiting_confirmation", True),
    ({"confirmation": {"required": 0}}, "awaiting_confirmation", False),
    (
        {"confirmation": {"required": True, "confirmedAt": 1767323045}},
        "awaiting_confirmation",
        False,
    ),
]


@pytest.mark.parametrize(("members", "name", "value"), READ, ids=str)
def test_an_order_is_read_in_other_forms(
    members: dict[str, Any], name: str, value: Any
) -> None:
    found = order(**members)
    assert getattr(found, name) == value
    assert found.notes == ()


READ_OF_A_LINE: list[tuple[dict[str, Any], str, Any]] = [
    ({"id": 4}, "id", "4"),
    ({"title": None}, "title", ""),
    ({"title": 4711}, "title", "4711"),
    ({"sku": 4711}, "sku", "4711"),
    ({"sku": None}, "sku", None),
    ({"productId": 5}, "product_id", "5"),
    ({"quantity": 2.0}, "quantity", 2),
    ({"quantity": "2"}, "quantity", 2),
    ({"quantity": "2.0"}, "quantity", 2),
    ({"fulfilledQuantity": 1.0}, "fulfilled_quantity", 1),
    ({"fulfilledQuantity": None}, "fulfilled_quantity", 0),
    ({"unitPrice": None}, "unit_price_minor", None),
    ({"unitPrice": "1,234,499.00"}, "unit_price_minor", 123_449_900),
]


@pytest.mark.parametrize(("members", "name", "value"), READ_OF_A_LINE, ids=str)
def test_a_line_is_read_in_other_forms(
    members: dict[str, Any], name: str, value: Any
) -> None:
    found = with_item(**members)
    assert getattr(found.items[0], name) == value
    assert found.notes == ()


LEFT_OUT: list[tuple[dict[str, Any], str]] = [
    ({"number": "A-9014"}, "number"),
    ({"number": 2**70}, "number"),
    ({"number": True}, "number"),
    ({"name": ["#1"]}, "name"),
    ({"placedAt": "soon"}, "placedAt"),
    ({"customer": [1]}, "customer"),
    ({"totals": "2998.00"}, "totals"),
    ({"totals": {"total": "free"}}, "totals.total"),
    ({"totals": {"total": "1,499"}}, "totals.total"),
    ({"totals": {"total": "1e999"}}, "totals.total"),
    ({"items": [payloads.item(title={})]}, "items[0].title"),
    ({"items": [payloads.item(sku=True)]}, "items[0].sku"),
    ({"items": [payloads.item(unitPrice=[])]}, "items[0].unitPrice"),
]


@pytest.mark.parametrize(("members", "place"), LEFT_OUT, ids=str)
def test_a_member_that_decides_nothing_is_left_out_with_a_note(
    members: dict[str, Any], place: str
) -> None:
    found = order(**members)
    (note,) = found.notes
    assert note.startswith(f"left out {place}")
    assert (found.id, found.status) == ("ord_1", "PENDING")


def test_an_amount_with_too_many_digits_is_rounded_with_a_note() -> None:
    found = with_item(unitPrice="0.3333")
    assert found.items[0].unit_price_minor == 33
    assert found.notes == ("unitPrice 0.3333 is rounded to the currency's digits",)
    assert b'"unitPrice":"0.3333"' in found.document
    assert with_item(unitPrice=0.335).items[0].unit_price_minor == 34


STATUSES = [
    ("UNFULFILLED", 0),
    ("RESTOCKED", 0),
    ("FULFILLED", 2),
]


@pytest.mark.parametrize(("status", "units"), STATUSES)
def test_units_that_a_line_omits_follow_from_the_status(
    status: str, units: int
) -> None:
    line = payloads.item(fulfilledQuantity=None)
    found = order(fulfillmentStatus=status, items=[line])
    assert found.items[0].fulfilled_quantity == units


def test_units_of_a_partly_fulfilled_order_are_not_guessed() -> None:
    line = payloads.item(fulfilledQuantity=None)
    with pytest.raises(Unreadable, match="fulfilledQuantity"):
        order(fulfillmentStatus="PARTIALLY_FULFILLED", items=[line])


@pytest.mark.parametrize(
    ("sent", "status"),
    [((0, 0), "UNFULFILLED"), ((2, 2), "FULFILLED"), ((2, 0), "PARTIALLY_FULFILLED")],
)
def test_a_status_that_is_null_follows_from_the_lines(
    sent: tuple[int, ...], status: str
) -> None:
    lines = [
        payloads.item(f"li_{number}", fulfilledQuantity=units)
        for number, units in enumerate(sent)
    ]
    assert order(fulfillmentStatus=None, items=lines).fulfillment_status == status


@pytest.mark.parametrize("status", ["CANCELLED", " cancelled", "Canceled"])
@pytest.mark.parametrize(
    "cancellation",
    ["yes", None, {}, {"cancelledAt": None}, {"cancelledAt": "soon"}, {"reason": "x"}],
    ids=str,
)
def test_an_order_whose_status_is_cancelled_is_cancelled(
    status: str, cancellation: Any
) -> None:
    """Without a time of its own, at the time of its last change: it is not shipped."""
    found = order(
        status=status, cancellation=cancellation, updatedAt=payloads.instant(7)
    )
    assert (found.status, found.cancelled_at) == ("CANCELLED", payloads.instant(7))


def test_the_time_of_a_cancellation_is_its_own_where_it_is_given() -> None:
    given = {"cancelledAt": payloads.instant(3)}
    found = order(status="CANCELLED", cancellation=given, updatedAt=payloads.instant(7))
    assert found.cancelled_at == payloads.instant(3)


def test_a_cancellation_that_cannot_be_read_does_not_leave_an_order_open() -> None:
    with pytest.raises(Unreadable, match="cancellation"):
        order(status="PENDING", cancellation="yes")


def test_the_document_holds_the_contracts_form() -> None:
    found = order(
        number="9014", shipments=None, items=[payloads.item(title={}, quantity="2")]
    )
    kept = strict_json.decode_object(found.document)
    assert (kept["number"], kept["items"][0]["quantity"]) == (9014, 2)
    assert "title" not in kept["items"][0]
    assert "shipments" not in kept
    again = decoding.order(kept)
    assert (again.number, again.items) == (found.number, found.items)


def test_the_document_is_the_same_however_parcels_are_named() -> None:
    parcel = {"id": "shp_1", "carrier": "DHL", "awb": 77, "shippedAt": AT}
    data = payloads.order(shipments=[parcel])
    own = decoding.order(data, ("carrier", "awb"), "INR")
    assert own.shipments[0].tracking_number == "77"
    assert own.document == decoding.order(data).document


def test_an_error_names_the_order() -> None:
    with pytest.raises(
        Unreadable, match=r"order #1001 \(ord_1\): the member items\[0\]"
    ) as met:
        with_item(quantity=None)
    assert (met.value.kind, met.value.object_id) == ("order", "ord_1")


def product(**members: Any) -> Product:
    text = json.dumps(payloads.product() | members).encode()
    return decoding.product(strict_json.decode_object(text), "INR")


def test_a_product_is_read_in_other_forms() -> None:
    found = product(title=None, variants=[payloads.variant(sku=42) | {"stock": 12.0}])
    assert (found.title, found.variants[0].sku) == ("", "42")
    assert found.levels[0].stock == 12
    assert product(variants=None).variants == ()
    priced = product(variants=[payloads.variant(price={})])
    assert priced.variants[0].price_minor is None
    assert priced.notes[0].startswith("left out variants[0].price")


def test_small_payloads_are_read_in_other_forms() -> None:
    person: Customer = decoding.customer(
        payloads.customer() | {"id": 5, "email": ["a@b"]}
    )
    assert (person.id, person.email) == ("5", None)
    assert b"a@b" not in person.document
    gone = decoding.deletion({"id": 7, "deletedAt": 1767323045, "title": []})
    assert (gone.id, gone.title) == ("7", "")
    line = {"variantId": 8, "stock": "12", "adjustment": "-3"}
    change = decoding.stock_change(
        {"productId": 7, "levels": [line], "reason": None, "updatedAt": AT}
    )
    (move,) = change.moves
    assert (move.level.variant_id, move.level.stock, move.adjustment) == ("8", 12, -3)
    level, at = decoding.level(line | {"productId": 7, "updatedAt": 1767323045})
    assert (level.product_id, level.stock, at[:4]) == ("7", 12, "2026")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.from_regex(r"[+-]?[0-9]{1,4}([.,][0-9]{0,4})?", fullmatch=True),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner),
    max_leaves=3,
)


@given(value=JSON)
def test_a_quantity_is_the_number_that_was_sent_or_unreadable(value: Any) -> None:
    data = payloads.order(items=[payloads.item(quantity=value)])
    try:
        (item,) = decoding.order(data).items
    except Unusable:
        return
    assert not isinstance(value, bool)
    assert item.quantity == Decimal(str(value).strip())


@given(value=JSON)
def test_a_status_is_the_word_that_was_sent_or_unreadable(value: Any) -> None:
    try:
        found = decoding.order(payloads.order(status=value))
    except Unusable:
        return
    assert found.status == str(value).strip().upper()


@given(value=JSON, member=st.sampled_from(["sku", "title", "unitPrice", "productId"]))
def test_whatever_decides_nothing_never_stops_an_order(value: Any, member: str) -> None:
    found = decoding.order(payloads.order(items=[payloads.item(**{member: value})]))
    assert (found.status, found.items[0].quantity) == ("PENDING", 2)


@given(value=JSON)
def test_a_time_is_plain_or_unreadable(value: Any) -> None:
    try:
        assert len(fields.time(value)) == 24
    except Unusable:
        return
