"""The document states the same bounds as the validator."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_reference.openapi.document import document
from backhaul_reference.platform.http import request_bodies
from backhaul_reference.platform.json_codec import decode_object, encode
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.v1.inventory import Adjust
from backhaul_reference.platform.v1.orders import NewOrder
from backhaul_reference.platform.v1.products import NewProduct
from backhaul_reference.server import OFFERED

if TYPE_CHECKING:
    from decimal import Decimal

DOCUMENT: Any = json.loads(encode(document(OFFERED)))
EXPONENT = 3
"""The most fraction digits that a currency has: the document speaks for all."""
BODIES: dict[str, tuple[str, type[request_bodies.Body], dict[str, Any]]] = {
    "product": ("/api/v1/products", NewProduct, {"title": "Lamp", "price": "1"}),
    "order": (
        "/api/v1/orders",
        NewOrder,
        {"items": [{"title": "Lamp", "quantity": 1, "price": "1"}]},
    ),
    "adjust": ("/api/v1/inventory/adjust", Adjust, {"productId": "p"}),
}


def documented(name: str, text: str) -> bool:
    path, _, _ = BODIES[name]
    content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]
    schema = content["application/json"]["schema"]
    held = schema | {"components": DOCUMENT["components"]}
    return jsonschema_rs.Draft202012Validator(held).is_valid(json.loads(text))


def accepted(name: str, text: str) -> bool:
    _, model, _ = BODIES[name]
    try:
        request_bodies.parse(model, decode_object(text.encode()), EXPONENT)
    except Problem:
        return False
    return True


def body(name: str, member: str, value: str) -> str:
    """Return the JSON of a body whose member is written as `value`."""
    _, _, whole = BODIES[name]
    if name == "order" and member != "items":
        line = {**whole["items"][0], member: "HERE"}
        return json.dumps({"items": [line]}).replace('"HERE"', value)
    return json.dumps({**whole, member: "HERE"}).replace('"HERE"', value)


@pytest.mark.parametrize(
    ("name", "member", "value", "is_valid"),
    [
        ("product", "price", "999999999999.999", True),
        ("product", "price", '"999999999999.999"', True),
        ("product", "price", "1000000000000", False),
        ("product", "price", '"1000000000000"', False),
        ("product", "price", "1000000000001", False),
        ("product", "price", '"1000000000001.00"', False),
        ("product", "price", "10000000000000", False),
        ("product", "price", '"0000000000001"', False),
        ("product", "price", "-0.001", False),
        ("product", "price", "1.500", True),
        ("product", "price", '"1.5000"', False),
        ("product", "price", "true", False),
        ("product", "stock", "1000000000", True),
        ("product", "stock", "1000000001", False),
        ("product", "stock", "-1", False),
        ("order", "price", "1000000000000", False),
        ("order", "quantity", "1000000", True),
        ("order", "quantity", "1000001", False),
        ("order", "quantity", "0", False),
        ("adjust", "adjustment", "1000000", True),
        ("adjust", "adjustment", "-1000000", True),
        ("adjust", "adjustment", "1000001", False),
        ("adjust", "adjustment", "0", False),
        ("adjust", "adjustment", "2.0", True),
        ("adjust", "adjustment", "2.5", False),
    ],
)
def test_document_and_validator_agree(
    name: str, member: str, value: str, is_valid: bool
) -> None:
    text = body(name, member, value)
    assert (documented(name, text), accepted(name, text)) == (is_valid, is_valid)


@given(st.decimals(0, 10**13, places=3))
def test_document_and_validator_agree_on_every_price(price: Decimal) -> None:
    for value in (f"{price:f}", f'"{price:f}"'):
        text = body("product", "price", value)
        assert documented("product", text) is accepted("product", text)


@pytest.mark.parametrize(
    ("sent", "is_valid"),
    [
        ({"title": "Lamp"}, False),
        ({"title": "Lamp", "price": None, "variants": None}, False),
        ({"title": "Lamp", "variants": [{"price": "1"}]}, True),
        ({"title": "Lamp", "variants": [{"price": "1"}], "price": None}, True),
        ({"title": "Lamp", "price": 1}, True),
    ],
)
def test_either_a_price_or_variants(sent: dict[str, Any], is_valid: bool) -> None:
    text = json.dumps(sent)
    found = documented("product", text), accepted("product", text)
    assert found == (is_valid, is_valid)
