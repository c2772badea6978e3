"""Builds the OpenAPI document from the endpoints that are served."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from importlib import resources

from backhaul_reference.openapi import responses
from backhaul_reference.openapi.responses import (
    NOT_OFFERED,
    REQUEST_ID,
    V1_PREFIX,
    Success,
    refusal,
    refusals,
)
from backhaul_reference.openapi.schemas import (
    INSTANT,
    NUMBER,
    QUERIES,
    TEXT,
    components,
    object_of,
    one_of,
    parameters,
    places,
    ref,
    request_schema,
)
from backhaul_reference.platform.http.endpoint import Endpoint
from backhaul_reference.platform.http.request_bodies import Body
from backhaul_reference.platform.json_codec import Document, decode_stored
from backhaul_reference.platform.state.webhook_outbox import API_VERSION, TOPICS
from backhaul_reference.storefront.routes import OPEN_PREFIXES, PREFLIGHT

DATA: Document = {
    "orders/create": ref("Order"),
    "orders/updated": ref("UpdatedOrder"),
    "orders/fulfilled": ref("FulfilledOrder"),
    "orders/cancelled": ref("CancelledOrder"),
    "products/create": ref("CatalogueProduct"),
    "products/update": ref("CatalogueProduct"),
    "products/delete": ref("DeletedProduct"),
    "inventory/level_update": ref("LevelUpdate"),
    "customers/create": ref("Customer"),
}
HEADERS = {
    "X-Service-Hmac-Sha256": "Base64 of the HMAC-SHA256 of the body, by the secret",
    "X-Service-Topic": "The topic",
    "X-Service-Event-Id": "The same for every subscription and every retry",
    "X-Service-Delivery-Id": "The same for every retry of this delivery",
    "X-Service-Attempt": "1 for the first attempt",
    "X-Service-Subscription-Id": "The subscription",
    "X-Service-Store": "The store's subdomain",
    "X-Service-Triggered-At": "When the event happened",
    "X-Service-Api-Version": "The version of the resource in the envelope",
    "webhook-id": "As X-Service-Event-Id",
    "webhook-timestamp": "Seconds since 1970, of this attempt",
    "webhook-signature": "Signatures after Standard Webhooks, divided by spaces",
}


def webhooks(examples: Document) -> Document:
    return {topic: {"post": _delivery(topic, examples)} for topic in TOPICS}


def _delivery(topic: str, examples: Document) -> Document:
    content: Document = {"schema": envelope(topic)}
    if topic in examples:
        content["example"] = examples[topic]
    return {
        "operationId": f"webhook.{topic}",
        "summary": f"Told to the subscribers of {topic}",
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": True,
                "schema": TEXT,
                "description": meaning,
            }
            for name, meaning in HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {"application/json": content}},
        "responses": {
            "2XX": {"description": "Received, if within 15 seconds"},
            "410": {"description": "Never call again: the subscription is disabled"},
            "default": {"description": "Not received; sent again later"},
        },
    }


def envelope(topic: str) -> Document:
    return object_of(
        id=TEXT,
        topic=one_of(topic),
        apiVersion=one_of(API_VERSION),
        storeId=TEXT,
        createdAt=INSTANT,
        sequence=NUMBER,
        data=DATA[topic],
    )


ASKED = ("Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers")


def preflight(path: str, methods: Iterable[str], places: list[Document]) -> Document:
    """The answer says what the path offers, whichever store is meant."""
    granted = {**PREFLIGHT, "Access-Control-Allow-Methods": ", ".join(sorted(methods))}
    headers = {
        name: {"required": True, "schema": {"type": "string", "const": value}}
        for name, value in granted.items()
    }
    done = {"description": "What a page may send", "headers": headers | REQUEST_ID}
    asked = [{"name": name, "in": "header", "schema": TEXT} for name in ASKED]
    return {
        "operationId": f"preflight.{path}",
        "tags": ["preflight"],
        "summary": "What a browser asks before it sends x-subdomain",
        "parameters": [*places, *asked],
        "responses": {"204": done, "405": refusal(405, *NOT_OFFERED)},
        "security": [],
    }


def _get(name: str, summary: str, media: str, schema: Document) -> Document:
    done = {
        "description": summary,
        "headers": REQUEST_ID,
        "content": {media: {"schema": schema}},
    }
    return {
        "get": {
            "operationId": f"service.{name}",
            "tags": ["service"],
            "summary": summary,
            "responses": {"200": done, "405": refusal(405, *NOT_OFFERED)},
            "security": [],
        }
    }


SERVICE: Document = {
    "/healthz": _get("health", "It is up", "application/json", ref("Health")),
    "/robots.txt": _get("robots", "No robots", "text/plain", {"type": "string"}),
    "/openapi.json": _get(
        "describe", "This document", "application/json", {"type": "object"}
    ),
}


SECURITY: Document = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A secret key; sent in both headers, the two must be equal.",
    },
    "header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Service-Access-Token",
        "description": "The same key; other than in Authorization it answers 400.",
    },
}
TAGS = {
    "storefront": "What shoppers use; x-subdomain selects the store",
    "products": "Products and variants",
    "orders": "Orders, their fulfillment and cancellation",
    "inventory": "Stock levels, their history and adjustments",
    "customers": "Customer records",
    "store": "Facts about the store",
    "webhooks": "Webhook subscriptions and deliveries",
    "preflight": "What browsers ask before a request across origins",
    "service": "Health, robots and this document",
}


def recorded() -> Document:
    """Real requests and answers, taken from a run."""
    file = resources.files("backhaul_reference.openapi").joinpath("examples.json")
    found: Document = decode_stored(file.read_bytes())
    return found


def document(endpoints: Sequence[Endpoint]) -> Document:
    schemas, examples = components(), recorded()
    paths: Document = {}
    for endpoint in endpoints:
        operations = paths.setdefault(endpoint.path, {})
        operations[endpoint.method.lower()] = _operation(endpoint, schemas, examples)
    for path in paths:
        if path.startswith(OPEN_PREFIXES):
            methods = [method.upper() for method in paths[path]]
            paths[path]["options"] = preflight(path, methods, places(path))
    paths |= deepcopy(SERVICE)
    for operations in paths.values():
        for operation in operations.values():
            _show_refusals(operation, examples)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Store platform", "version": "v1"},
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "webhooks": webhooks(examples),
        "components": {"schemas": schemas, "securitySchemes": SECURITY},
    }


def operation_id(endpoint: Endpoint) -> str:
    surface = "v1" if endpoint.path.startswith(V1_PREFIX) else "storefront"
    return f"{surface}.{endpoint.handle.__name__}"


def tag_of(path: str) -> str:
    """Return the group of an operation: the resource, or the open surface."""
    return (
        path.removeprefix(V1_PREFIX).split("/")[0]
        if path.startswith(V1_PREFIX)
        else "storefront"
    )


def success_of(endpoint: Endpoint) -> Success:
    keyed = endpoint.path.startswith(V1_PREFIX)
    table = responses.V1 if keyed else responses.STOREFRONT
    return table[endpoint.handle.__name__]


def _operation(endpoint: Endpoint, schemas: Document, examples: Document) -> Document:
    name, success = operation_id(endpoint), success_of(endpoint)
    keyed = endpoint.path.startswith(V1_PREFIX)
    example = examples.get(name, {})
    operation: Document = {
        "operationId": name,
        "tags": [tag_of(endpoint.path)],
        "summary": success.summary,
        "parameters": parameters(endpoint, name, keyed=keyed),
        "responses": {
            str(success.status): _done(endpoint, success, example),
            **refusals(endpoint, success, asks=name in QUERIES),
        },
        "security": [{"bearer": []}, {"header": []}] if keyed else [],
    }
    if endpoint.scope is not None:
        operation["x-required-scope"] = endpoint.scope
    if endpoint.body is not None:
        operation["requestBody"] = _body(endpoint, endpoint.body, schemas, example)
    return operation


def _show_refusals(operation: Document, examples: Document) -> None:
    """Real problems, as many as were recorded, by their codes."""
    example = examples.get(operation["operationId"], {})
    for status, problems in example.get("refusals", {}).items():
        content = operation["responses"][status]["content"]["application/problem+json"]
        content["examples"] = {code: {"value": one} for code, one in problems.items()}


def _body(
    endpoint: Endpoint, body: type[Body], schemas: Document, example: Document
) -> Document:
    keep = endpoint.method != "PUT"
    schema = request_schema(body, operation_id(endpoint), schemas, keep_defaults=keep)
    content: Document = {"schema": schema}
    if "request" in example:
        content["example"] = example["request"]
    required = not endpoint.body_optional
    return {"required": required, "content": {"application/json": content}}


def _done(endpoint: Endpoint, success: Success, example: Document) -> Document:
    content: Document = {"schema": success.schema}
    if "answer" in example:
        content["example"] = example["answer"]
    sent = {**responses.REQUEST_ID, **responses.RATE}
    if success.located:
        sent |= responses.LOCATION
    if "Meta" in str(success.schema):
        sent |= responses.LINK
    if endpoint.method == "POST":
        sent |= responses.REPLAYED
    return {
        "description": success.summary,
        "headers": sent,
        "content": {"application/json": content},
    }
