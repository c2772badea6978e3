"""JSON schemas of parameters, request bodies and response models."""

import re
from typing import Any, is_typeddict

import msgspec

from backhaul_reference.platform import models, order_models
from backhaul_reference.platform.http.endpoint import Endpoint
from backhaul_reference.platform.http.query_params import (
    MAX_LIMIT,
    MAX_PAGE,
    MAX_SEARCH,
    MAX_TEXT,
)
from backhaul_reference.platform.http.request_bodies import (
    INSTANT_SENT,
    Body,
    any_case,
)
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.state.inventory import REASONS
from backhaul_reference.platform.state.order_lifecycle import (
    FINANCIAL_STATUSES,
    FULFILLMENT_STATUSES,
    STATUSES,
)
from backhaul_reference.platform.v1.products import STATUSES as PRODUCT_STATUSES

TEXT: Document = {"type": "string"}
NUMBER: Document = {"type": "integer"}
INSTANT: Document = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
}


def object_of(**members: Document) -> Document:
    """An object that carries every member; others may join them at any time."""
    return {"type": "object", "required": [*members], "properties": members}


def list_of(items: Document) -> Document:
    return {"type": "array", "items": items}


def one_of(*words: str) -> Document:
    return {"type": "string", "enum": [*words]}


def ref(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}


def enveloped(schema: Document) -> Document:
    return object_of(data=schema)


def paged(schema: Document) -> Document:
    return object_of(data=list_of(schema), meta=ref("PageMeta"))


def _types() -> list[Any]:
    found = [*vars(models).values(), *vars(order_models).values()]
    return [one for one in dict.fromkeys(map(_hashable, found)) if is_typeddict(one)]


def _hashable(value: Any) -> Any:
    return value if isinstance(value, type) else None


def components() -> Document:
    """Every response model's schema, by the name of its type."""
    template = ref("{name}")["$ref"]
    _, made = msgspec.json.schema_components(_types(), ref_template=template)
    for schema in made.values():
        del schema["title"]
    # msgspec reads no union of two objects, and gives a name to classes only.
    quote = {"oneOf": [ref("Quote"), ref("NoQuote")]}
    menus = {"type": "object", "additionalProperties": ref("Menu")}
    return {**made, "ShippingQuote": quote, "Menus": menus}


def request_schema(
    body: type[Body], prefix: str, schemas: Document, *, keep_defaults: bool
) -> Document:
    """The body's schema; what it refers to goes to the components, prefixed."""
    template = f"#/components/schemas/{prefix}.{{model}}"
    schema: Document = body.model_json_schema(ref_template=template)
    _drop_defaults(schema, keep=keep_defaults)
    _drop_titles(schema)
    for name, part in schema.pop("$defs", {}).items():
        schemas[f"{prefix}.{name}"] = part
    return schema


def _drop_defaults(node: Any, *, keep: bool) -> None:
    """What stands for "not sent" inside is no default to publish."""
    if isinstance(node, dict):
        if "default" in node and not (keep and node["default"] is not None):
            del node["default"]
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        _drop_defaults(child, keep=keep)


def _drop_titles(node: Any) -> None:
    """Generators name classes by titles, and models of several bodies share one."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        _drop_titles(child)


IDEMPOTENCY_KEY: Document = {
    "type": "string",
    # Visible characters, quoted or not; only an empty quotation is no key.
    "pattern": "^([!-~]|[!#-~][!-~]|[!-~][!#-~]|[!-~]{3,255})$",
    "description": "Sent again with the same request, it is answered the same.",
}
PLACE = re.compile(r"\{(\w+)\}")
SEGMENT: Document = {"type": "string", "minLength": 1}
SUBDOMAIN: Document = {
    "type": "string",
    "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
}
FILTER: Document = {"type": "string", "maxLength": MAX_TEXT}
SEARCH: Document = {"type": "string", "maxLength": MAX_SEARCH}
WINDOW: Document = {
    "page": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 1},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 20},
}
SINCE: Document = {
    "updatedSince": INSTANT_SENT,
    "sort": one_of("createdAt", "updatedAt"),
}
QUERIES: dict[str, Document] = {
    "storefront.list_products": {**WINDOW, "search": SEARCH, "collectionId": FILTER},
    "storefront.list_collections": WINDOW,
    "v1.list_products": {
        **WINDOW,
        **SINCE,
        "search": SEARCH,
        "status": any_case(one_of(*PRODUCT_STATUSES)),
        "externalId": FILTER,
    },
    "v1.list_orders": {
        **WINDOW,
        **SINCE,
        "status": any_case(one_of(*STATUSES)),
        "fulfillmentStatus": any_case(one_of(*FULFILLMENT_STATUSES)),
        "financialStatus": any_case(one_of(*FINANCIAL_STATUSES)),
        "externalId": FILTER,
    },
    "v1.list_customers": {**WINDOW, **SINCE, "externalId": FILTER},
    "v1.list_levels": WINDOW,
    "v1.list_history": {
        **WINDOW,
        "productId": FILTER,
        "variantId": FILTER,
        "orderId": FILTER,
        "reason": any_case(one_of(*REASONS)),
    },
    "v1.list_webhooks": WINDOW,
    "v1.list_deliveries": WINDOW,
}


def parameters(endpoint: Endpoint, operation_id: str, *, keyed: bool) -> list[Document]:
    found = places(endpoint.path)
    if not keyed:
        header = _required("x-subdomain", "header", SUBDOMAIN)
        found.append(header | {"required": not endpoint.store_in_body})
    if endpoint.method == "POST":
        found.append(_optional("Idempotency-Key", "header", IDEMPOTENCY_KEY))
    queries = QUERIES.get(operation_id, {})
    return found + [_optional(name, "query", one) for name, one in queries.items()]


def places(path: str) -> list[Document]:
    return [_required(name, "path", SEGMENT) for name in PLACE.findall(path)]


def _required(name: str, place: str, schema: Document) -> Document:
    return {"name": name, "in": place, "required": True, "schema": schema}


def _optional(name: str, place: str, schema: Document) -> Document:
    return {"name": name, "in": place, "required": False, "schema": schema}
