"""The OpenAPI document is complete, correct, and has no dead references."""

import json
import re
from collections.abc import Iterator
from typing import Any

from backhaul_reference.openapi.document import document as build
from backhaul_reference.platform.json_codec import encode_text
from backhaul_reference.server import OFFERED
from scenes.reference_shop import Shop

REFERENCE = re.compile(r'"\$ref": "#/components/schemas/([^"]+)"')
METHODS = {"GET", "POST", "PUT", "DELETE", "OPTIONS"}


async def described(shop: Shop) -> Any:
    url = shop.running.access.public_url + "/openapi.json"
    reply = await shop.ask("GET", url, {})
    assert reply.status == 200
    return reply.body


async def test_every_operation_of_v1_answers(shop: Shop) -> None:
    paths = (await described(shop))["paths"]
    base = shop.running.access.public_url
    for path, operations in paths.items():
        url = base + re.sub(r"\{\w+\}", "x", path)
        offered = (await shop.ask("PATCH", url, {})).headers["Allow"].split(",")
        assert METHODS & set(offered) >= {one.upper() for one in operations}
    for path in ("/products", "/orders", "/customers", "/webhooks/{id}/replay"):
        assert "/api/v1" + path in paths


async def test_references_and_names_are_whole(shop: Shop) -> None:
    document = await described(shop)
    references = re.findall(
        r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(document)
    )
    assert set(references) <= document["components"]["schemas"].keys()
    operations = [one for path in document["paths"].values() for one in path.values()]
    names = [one["operationId"] for one in operations]
    assert len(names) == len(set(names))
    assert "_control" not in json.dumps(document)


async def test_bodies_scopes_and_money_are_described(shop: Shop) -> None:
    document = await described(shop)
    create = document["paths"]["/api/v1/products"]["post"]
    assert create["x-required-scope"] == "products:write"
    schema = create["requestBody"]["content"]["application/json"]["schema"]
    money = schema["properties"]["price"]["anyOf"][0]
    assert [one["type"] for one in money["anyOf"]] == ["string", "number"]
    fulfill = document["paths"]["/api/v1/orders/{id}/fulfill"]["post"]
    assert fulfill["requestBody"]["required"] is False


FREE_FORM = {
    "/Vertical/settings": "each trade has settings of its own",
}


async def test_no_response_schema_leaves_an_object_open(shop: Shop) -> None:
    schemas = (await described(shop))["components"]["schemas"]
    ours = {name: one for name, one in schemas.items() if "." not in name}
    assert set(_free_form(ours, "")) == FREE_FORM.keys()


def _free_form(node: Any, place: str) -> Iterator[str]:
    if isinstance(node, list):
        for one in node:
            yield from _free_form(one, place)
    elif isinstance(node, dict):
        if node.get("type") == "object" and not (
            {"properties", "additionalProperties"} & node.keys()
        ):
            yield place
        for name, one in node.items():
            step = "" if name in {"properties", "anyOf", "items"} else f"/{name}"
            yield from _free_form(one, place + step)


async def test_the_served_text_is_the_document(shop: Shop) -> None:
    served = await described(shop)
    assert json.dumps(served) == json.dumps(json.loads(encode_text(build(OFFERED))))
