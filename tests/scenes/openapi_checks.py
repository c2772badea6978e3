"""Checks exchanges against the OpenAPI document, RFC 9457 and structured fields."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import jsonschema_rs
from http_sfv.list import List
from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from werkzeug.datastructures import Headers, ImmutableMultiDict

from backhaul_reference.openapi.document import document
from backhaul_reference.server import OFFERED
from scenes.recorded_exchanges import ACCEPTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.recorded_exchanges import Exchange

HOST = "http://reference.example"
PROBLEM_TYPE = "application/problem+json"
# RFC 9457, appendix A, and the members that this platform adds.
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "requestId", "errors"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 100, "maximum": 599},
        "detail": {"type": "string"},
        "instance": {"type": "string", "format": "uri-reference"},
        "code": {"type": "string", "pattern": "^[A-Z][A-Z_]+$"},
    },
}
STRUCTURED = {"RateLimit": ("r", "t"), "RateLimit-Policy": ("q", "w")}
INJECTED = "INJECTED_FAULT"
NOT_OFFERED = 405


@dataclass(slots=True)
class Asked:
    """A request as openapi-core needs it."""

    host_url: str
    path: str
    method: str
    body: bytes | None
    content_type: str
    parameters: RequestParameters


@dataclass(slots=True)
class Answered:
    """A response as openapi-core needs it."""

    status_code: int
    content_type: str
    headers: Headers
    data: bytes


def flaws_of(exchange: Exchange) -> Iterator[str]:
    """Yield a line for each defect of an exchange."""
    # The path may contain a tracking token, which no report should show.
    place = exchange.path if exchange.template == "-" else exchange.template
    where = f"{exchange.method} {place} {exchange.status}"
    for found in _all_flaws(exchange):
        yield f"{where}: {found}"


def _all_flaws(exchange: Exchange) -> Iterator[str]:
    yield from _of_structured_headers(dict(exchange.reply_headers))
    problem = None
    if exchange.status >= 400:
        yield from _of_problem(exchange)
        problem = _json(exchange.reply_body)
    # A fault may answer with any status; the checks above still apply.
    if isinstance(problem, dict) and problem.get("code") == INJECTED:
        return
    operations = _operations(exchange.path)
    if operations:
        yield from _of_operation(exchange, operations)
    elif exchange.status != 404:
        yield "the document does not know this path"


def _of_structured_headers(headers: dict[str, str]) -> Iterator[str]:
    for name, members in STRUCTURED.items():
        if name not in headers:
            continue
        parsed = List()
        try:
            parsed.parse(headers[name].encode())
        except ValueError as error:
            yield f"{name}: {headers[name]}: {error}"
        else:
            yield from _missing(name, headers[name], parsed, members)


def _missing(name: str, text: str, parsed: Any, members: tuple[str, ...]) -> list[str]:
    lacks = [one for one in members for item in parsed if one not in item.params]
    return [f"{name}: {text}: lacks {one}" for one in lacks]


def _of_problem(exchange: Exchange) -> Iterator[str]:
    media = dict(exchange.reply_headers).get("Content-Type", "nothing")
    if media != PROBLEM_TYPE:
        yield f"a refusal of media type {media}"
        return
    problem = _json(exchange.reply_body)
    for error in _problem_schema().iter_errors(problem):
        yield f"problem {error.instance_path}: {error.message}"
    if isinstance(problem, dict) and problem.get("status") != exchange.status:
        yield f"the problem says {problem.get('status')}"


def _of_operation(exchange: Exchange, operations: Any) -> Iterator[str]:
    method = exchange.method.lower()
    if (exchange.status == NOT_OFFERED) is (method in operations):
        yield "offered, or described, but not both"
        return
    name = method if method in operations else next(iter(operations))
    asked = _asked(exchange, name)
    try:
        if exchange.status in ACCEPTED:
            _held().validate_request(asked)
        _held().validate_response(asked, _answered(exchange))
    except OpenAPIError as error:
        yield _words(error)
    yield from _of_code(exchange, operations[name])


def _of_code(exchange: Exchange, operation: Any) -> Iterator[str]:
    """Check an error's code against the codes that the operation lists."""
    if exchange.status < 400:
        return
    code = (_json(exchange.reply_body) or {}).get("code")
    listed = operation["responses"].get(str(exchange.status), {}).get("x-codes", [])
    if code not in listed:
        yield f"code {code} is not one of {', '.join(listed) or 'none'}"


def _words(error: OpenAPIError) -> str:
    cause = error.__cause__
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    details = getattr(cause, "schema_errors", None) or [cause]
    return f"{error}: " + "; ".join(str(one)[:500] for one in details)


def _json(text: str) -> Any:
    try:
        return json.loads(text.encode("latin-1"))
    except ValueError:
        return None


@cache
def _problem_schema() -> Any:
    return jsonschema_rs.Draft202012Validator(PROBLEM, validate_formats=True)


@cache
def _document() -> Any:
    return json.loads(json.dumps(document(OFFERED)))


@cache
def _held() -> OpenAPI:
    """Return the closed document; another test validates it."""
    held = closed(_document()) | {"servers": [{"url": HOST}]}
    config = Config(
        spec_validator_cls=None,
        extra_media_type_deserializers={PROBLEM_TYPE: json.loads},
    )
    return OpenAPI.from_dict(held, config)


def closed(whole: Any) -> Any:
    """Return the document with responses that allow no additional properties."""
    copy = json.loads(json.dumps(whole))
    for name, schema in copy["components"]["schemas"].items():
        if name != "Problem" and "." not in name:
            _close(schema)
    return copy


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if "required" in schema and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else ():
        _close(part)


def _operations(path: str) -> Any:
    """Return the operations for a path; the template with fewest parameters first."""
    paths = _document()["paths"]
    fitting = [one for one in paths if re.fullmatch(_pattern(one), path)]
    return paths[min(fitting, key=lambda one: one.count("{"))] if fitting else None


def _pattern(template: str) -> str:
    return re.sub(r"\{\w+\}", "[^/]+", template)


def _asked(exchange: Exchange, method: str) -> Asked:
    headers = Headers(exchange.headers)
    # openapi-core refuses an empty value, which OpenAPI 3.1 allows.
    query = [(name, value) for name, value in exchange.query if value]
    return Asked(
        host_url=HOST,
        path=exchange.path,
        method=method,
        body=exchange.body.encode("latin-1") or None,
        content_type=headers.get("Content-Type", "").partition(";")[0],
        parameters=RequestParameters(query=ImmutableMultiDict(query), header=headers),
    )


def _answered(exchange: Exchange) -> Answered:
    headers = Headers(exchange.reply_headers)
    content_type = headers.get("Content-Type", "").partition(";")[0]
    body = exchange.reply_body.encode("latin-1")
    return Answered(exchange.status, content_type, headers, body)
