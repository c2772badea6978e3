"""The OpenAPI 3.1 document of the HTTP API, made of its table of endpoints."""

from __future__ import annotations

import re
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backhaul.admin.api.endpoint import (
    KEY_HEADER,
    LONGEST_KEY,
    PREFIX,
    REPLAYED_HEADER,
    SHORTEST_KEY,
    Endpoint,
)
from backhaul.admin.api.problems import PROBLEM, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_IN_PATH = re.compile(r"\{(\w+)\}")
REFERENCES = "#/components/schemas/{name}"
ABOUT = (
    "Reads what Backhaul knows, submits records of the back office, and does what an"
    " operator can do. Times are RFC 3339 in UTC. An error is a Problem: it says what"
    " was wrong, where, and what to do."
)
_ALWAYS = (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE)
_WITH_TOKEN = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
)
_WITH_BODY = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)


_TEXT = {"schema": {"type": "string"}}
SUBMITTED_HEADERS = {
    "headers": {
        "Location": {"description": "Where the record is read later.", **_TEXT},
        REPLAYED_HEADER: {
            "description": "`true` if the key was known, and nothing was stored.",
            **_TEXT,
        },
    }
}


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the document, as JSON has it."""
    types = [Problem, *_types_of(endpoints)]
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCES)
    known = dict(zip(map(_key_of, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        at = paths.setdefault(f"{PREFIX}{endpoint.path}", {})
        at[endpoint.method.lower()] = _operation(endpoint, known, components)
    asked = {each.asked.__name__ for each in endpoints}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Backhaul",
            "version": version("backhaul"),
            "description": ABOUT,
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            # A parameter is described where it is used.
            "schemas": {n: s for n, s in components.items() if n not in asked},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types_of(endpoints: Iterable[Endpoint]) -> list[Any]:
    found: dict[str, Any] = {}
    for each in endpoints:
        for type_ in (each.asked, each.body, each.answer):
            if type_ is not None:
                found.setdefault(_key_of(type_), type_)
    return list(found.values())


def _key_of(type_: Any) -> str:
    return str(type_)


def _operation(
    endpoint: Endpoint, known: dict[str, Any], components: dict[str, Any]
) -> dict[str, Any]:
    summary, _, more = (endpoint.handler.__doc__ or "").partition("\n")
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": summary,
        "tags": [_IN_PATH.sub("", endpoint.path).split("/")[1].partition(".")[0]],
        "parameters": _parameters(endpoint, components),
        "responses": _responses(endpoint, known),
        "security": [{"token": []}] if endpoint.needs else [],
    }
    if endpoint.needs:
        operation["description"] = f"{more.strip()} Scope: {endpoint.needs}.".strip()
    if endpoint.body is not None:
        schema = known[_key_of(endpoint.body)]
        is_required = bool(components[endpoint.body.__name__].get("required"))
        operation["requestBody"] = {
            "required": is_required,
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _parameters(endpoint: Endpoint, components: dict[str, Any]) -> list[dict[str, Any]]:
    places = set(_IN_PATH.findall(endpoint.path))
    schema = components[endpoint.asked.__name__]
    required = set(schema.get("required", ()))
    found = [
        {
            "name": name,
            "in": "path" if name in places else "query",
            "required": name in required,
            "schema": each,
        }
        for name, each in schema["properties"].items()
    ]
    if endpoint.keyed:
        text = {"minLength": SHORTEST_KEY, "maxLength": LONGEST_KEY}
        found.append(
            {
                "name": KEY_HEADER,
                "in": "header",
                "required": True,
                "description": "The program's own key of the record. A repeated request"
                " with the same key is not stored twice.",
                "schema": {"type": "string", **text},
            }
        )
    return found


def _responses(endpoint: Endpoint, known: dict[str, Any]) -> dict[str, Any]:
    content = {endpoint.media: {"schema": known[_key_of(endpoint.answer)]}}
    good = endpoint.also or (HTTPStatus.OK,)
    bad = [*_ALWAYS, HTTPStatus.INTERNAL_SERVER_ERROR]
    bad += _WITH_TOKEN if endpoint.needs else ()
    bad += _WITH_BODY if endpoint.body else ()
    bad += [HTTPStatus.NOT_FOUND] if _IN_PATH.search(endpoint.path) else []
    problem = {PROBLEM: {"schema": known[_key_of(Problem)]}}
    sent = SUBMITTED_HEADERS if endpoint.keyed else {}
    return {
        **{str(each.value): _response(each, content) | sent for each in good},
        **{str(each.value): _response(each, problem) for each in sorted(set(bad))},
    }


def _response(status: HTTPStatus, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": status.phrase, "content": content}


class Document(Struct, frozen=True):
    """This document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
