"""Parameters of operations: places in the path, queries, and headers."""

import re

from backhaul_reference.admin_v1.products import STATUSES as PRODUCT_STATUSES
from backhaul_reference.documents import Document
from backhaul_reference.lifecycle import (
    FINANCIAL_STATUSES,
    FULFILLMENT_STATUSES,
    STATUSES,
)
from backhaul_reference.openapi.headers import IDEMPOTENCY_KEY
from backhaul_reference.openapi.shapes import one_of
from backhaul_reference.state.inventory import REASONS
from backhaul_reference.web.bodies import INSTANT_SENT, any_case
from backhaul_reference.web.endpoint import Endpoint
from backhaul_reference.web.queries import MAX_LIMIT, MAX_PAGE, MAX_SEARCH, MAX_TEXT

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
