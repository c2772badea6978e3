"""The OpenAPI document, written from the same rows that are served."""

from collections.abc import Sequence
from copy import deepcopy
from importlib import resources

from backhaul_reference.documents import Document, decode_stored
from backhaul_reference.openapi import (
    answers,
    catalogue_answers,
    events,
    headers,
    office_answers,
    order_answers,
)
from backhaul_reference.openapi.answers import Success
from backhaul_reference.openapi.parameters import QUERIES, parameters, places
from backhaul_reference.openapi.preflight import preflight
from backhaul_reference.openapi.refusals import PROBLEM, V1, refusals
from backhaul_reference.openapi.requests import request_schema
from backhaul_reference.openapi.service import SERVICE
from backhaul_reference.storefront.routes import OPEN_PREFIXES
from backhaul_reference.web.bodies import Body
from backhaul_reference.web.endpoint import Endpoint

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
SCHEMAS: Document = {
    "Problem": PROBLEM,
    **catalogue_answers.SCHEMAS,
    **order_answers.SCHEMAS,
    **office_answers.SCHEMAS,
}


def recorded() -> Document:
    """Real requests and answers, taken from a run."""
    file = resources.files("backhaul_reference.openapi").joinpath("examples.json")
    found: Document = decode_stored(file.read_bytes())
    return found


def document(endpoints: Sequence[Endpoint]) -> Document:
    schemas, examples = dict(SCHEMAS), recorded()
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
        "webhooks": events.webhooks(examples),
        "components": {"schemas": schemas, "securitySchemes": SECURITY},
    }


def operation_id(endpoint: Endpoint) -> str:
    surface = "v1" if endpoint.path.startswith(V1) else "storefront"
    return f"{surface}.{endpoint.handle.__name__}"


def tag_of(path: str) -> str:
    """Return the group of an operation: the resource, or the open surface."""
    return path.removeprefix(V1).split("/")[0] if path.startswith(V1) else "storefront"


def success_of(endpoint: Endpoint) -> Success:
    keyed = endpoint.path.startswith(V1)
    table = answers.V1 if keyed else answers.STOREFRONT
    return table[endpoint.handle.__name__]


def _operation(endpoint: Endpoint, schemas: Document, examples: Document) -> Document:
    name, success = operation_id(endpoint), success_of(endpoint)
    keyed = endpoint.path.startswith(V1)
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
    sent = {**headers.REQUEST_ID, **headers.RATE}
    if success.located:
        sent |= headers.LOCATION
    if "Meta" in str(success.schema):
        sent |= headers.LINK
    if endpoint.method == "POST":
        sent |= headers.REPLAYED
    return {
        "description": success.summary,
        "headers": sent,
        "content": {"application/json": content},
    }
