"""Path, query and header parameters, and response headers."""

import re

from backhaul_reference.openapi.schema_helpers import TEXT, one_of
from backhaul_reference.platform.http.endpoint import Endpoint
from backhaul_reference.platform.http.query_params import (
    MAX_LIMIT,
    MAX_PAGE,
    MAX_SEARCH,
    MAX_TEXT,
)
from backhaul_reference.platform.http.request_bodies import INSTANT_SENT, any_case
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.state.inventory import REASONS
from backhaul_reference.platform.state.order_lifecycle import (
    FINANCIAL_STATUSES,
    FULFILLMENT_STATUSES,
    STATUSES,
)
from backhaul_reference.platform.v1.products import STATUSES as PRODUCT_STATUSES

IDEMPOTENCY_KEY: Document = {
    "type": "string",
    # Visible characters, quoted or not; only an empty quotation is no key.
    "pattern": "^([!-~]|[!#-~][!-~]|[!-~][!#-~]|[!-~]{3,255})$",
    "description": "Sent again with the same request, it is answered the same.",
}
RATE: Document = {
    "RateLimit-Policy": {
        "description": "The limit: so many requests in a window of seconds",
        "schema": {"type": "string", "pattern": r'^"[a-z-]+";q=[0-9]+;w=[0-9]+$'},
    },
    "RateLimit": {
        "description": "What is left, and the seconds until all of it is back",
        "schema": {"type": "string", "pattern": r'^"[a-z-]+";r=[0-9]+;t=[0-9]+$'},
    },
}
REQUEST_ID: Document = {
    "X-Request-Id": {"required": True, "schema": {"type": "string"}},
}
RETRY: Document = {
    "Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}},
}
CHALLENGE: Document = {"WWW-Authenticate": {"required": True, "schema": TEXT}}
LOCATION: Document = {
    "Location": {
        "description": "The address of what was made",
        "required": True,
        "schema": TEXT,
    },
}
LINK: Document = {
    "Link": {
        "description": "RFC 8288: first, prev, next and last page",
        "required": True,
        "schema": TEXT,
    },
}
REPLAYED: Document = {
    "Idempotency-Replayed": {
        "description": "The answer was given before",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
ALLOW: Document = {
    "Allow": {
        "description": "The methods that are offered, divided by commas",
        "required": True,
        "schema": TEXT,
    },
}
BY_STATUS = {401: CHALLENGE, 405: ALLOW, 429: RETRY}


def headers(status: int) -> Document:
    """The headers of a refusal."""
    return {**REQUEST_ID, **RATE, **BY_STATUS.get(status, {})}


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
