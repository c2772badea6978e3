"""The OpenAPI document, written from the same rows that are served."""

import re
from collections.abc import Sequence
from typing import Any

from backhaul_reference.documents import Document
from backhaul_reference.web.bodies import Body
from backhaul_reference.web.endpoint import Endpoint

PLACE = re.compile(r"\{(\w+)\}")
V1 = "/api/v1/"
PAGED = "list_"
SECURITY: Document = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Service-Access-Token"},
}
PROBLEM: Document = {
    "type": "object",
    "required": ["type", "title", "status", "code", "requestId"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string"},
        "requestId": {"type": "string"},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}
REFUSED: Document = {
    "description": "A problem (RFC 9457)",
    "content": {
        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
    },
}
DONE: Document = {
    "description": "The answer",
    "content": {"application/json": {"schema": {"type": "object"}}},
}


def document(endpoints: Sequence[Endpoint]) -> Document:
    schemas: Document = {"Problem": PROBLEM}
    paths: Document = {}
    for endpoint in endpoints:
        operations = paths.setdefault(endpoint.path, {})
        operations[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Store platform", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": SECURITY},
    }


def _operation(endpoint: Endpoint, schemas: Document) -> Document:
    name = endpoint.handle.__name__
    keyed = endpoint.path.startswith(V1)
    operation: Document = {
        "operationId": f"{'v1' if keyed else 'storefront'}.{name}",
        "parameters": _parameters(endpoint, name, keyed=keyed),
        "responses": {"2XX": DONE, "4XX": REFUSED, "5XX": REFUSED},
        "security": [{"bearer": []}, {"header": []}] if keyed else [],
    }
    if endpoint.scope is not None:
        operation["x-required-scope"] = endpoint.scope
    if endpoint.body is not None:
        schema = _schema(endpoint.body, operation["operationId"], schemas)
        operation["requestBody"] = {
            "required": not endpoint.body_optional,
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _parameters(endpoint: Endpoint, name: str, *, keyed: bool) -> list[Document]:
    text = {"type": "string"}
    found = [_parameter(one, "path", text) for one in PLACE.findall(endpoint.path)]
    if not keyed:
        found.append(_parameter("x-subdomain", "header", text))
    if endpoint.method == "POST":
        found.append(_parameter("Idempotency-Key", "header", text, required=False))
    if endpoint.method == "GET" and name.startswith(PAGED):
        for query, highest in (("page", 1_000_000), ("limit", 100)):
            number = {"type": "integer", "minimum": 1, "maximum": highest}
            found.append(_parameter(query, "query", number, required=False))
    return found


def _parameter(
    name: str, place: str, schema: Document, *, required: bool = True
) -> Document:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _schema(body: type[Body], operation_id: str, schemas: Document) -> Document:
    """The body's schema; what it refers to goes to the components, prefixed."""
    prefix = f"{operation_id}."
    template = f"#/components/schemas/{prefix}{{model}}"
    schema: dict[str, Any] = body.model_json_schema(ref_template=template)
    for name, part in schema.pop("$defs", {}).items():
        schemas[prefix + name] = part
    return schema
