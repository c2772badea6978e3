"""Requests and answers, each held to the document by openapi-core as it passes."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from werkzeug.datastructures import Headers, ImmutableMultiDict

if TYPE_CHECKING:
    from support.reference_shop import Reply, Shop


PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer."""

    method: str
    path: str
    sent: Any
    reply: Reply


@dataclass(slots=True)
class Asked:
    """A request as openapi-core wants it."""

    host_url: str
    path: str
    method: str
    body: bytes | None
    content_type: str
    parameters: RequestParameters


@dataclass(slots=True)
class Answered:
    """An answer as openapi-core wants it."""

    status_code: int
    content_type: str
    headers: Headers
    data: bytes


@dataclass(slots=True)
class Conversation:
    """Talks to the shop; an answer that the document does not allow is an error."""

    shop: Shop
    document: Any
    held: OpenAPI
    exchanges: list[Exchange] = field(default_factory=list)

    async def v1(self, method: str, path: str, json: Any = None, **sent: Any) -> Reply:
        headers = {"Authorization": f"Bearer {self.shop.running.access.api_key}"}
        return await self.ask(method, f"/api/v1{path}", json, headers, **sent)

    async def shopper(
        self, method: str, path: str, json: Any = None, **sent: Any
    ) -> Reply:
        headers = {"x-subdomain": "demo"}
        return await self.ask(method, f"/storefront{path}", json, headers, **sent)

    async def ask(
        self,
        method: str,
        path: str,
        sent: Any,
        headers: dict[str, str],
        *,
        valid: bool = True,
        more: dict[str, str] | None = None,
    ) -> Reply:
        headers = headers | (more or {})
        url = self.shop.running.access.public_url
        reply = await self.shop.ask(method, url + path, headers, json=sent)
        asked = _asked(url, method, path, sent, headers)
        if valid:
            self.held.validate_request(asked)
        self.held.validate_response(asked, _answered(reply))
        self.exchanges.append(Exchange(method, path, sent, reply))
        return reply

    def operation(self, one: Exchange) -> str:
        """The operation's name in the document."""
        plain, paths = one.path.partition("?")[0], self.document["paths"]
        fitting = [path for path in paths if re.fullmatch(_pattern(path), plain)]
        path = min(fitting, key=lambda path: path.count("{"))
        return str(paths[path][one.method.lower()]["operationId"])


def _pattern(path: str) -> str:
    return re.sub(r"\{\w+\}", "[^/]+", path)


async def open_conversation(shop: Shop) -> Conversation:
    reply = await shop.ask("GET", shop.running.access.public_url + "/openapi.json", {})
    closed = close(reply.body)
    closed["servers"] = [{"url": shop.running.access.public_url}]
    config = Config(extra_media_type_deserializers={PROBLEM: json.loads})
    held = await asyncio.to_thread(OpenAPI.from_dict, closed, config)
    return Conversation(shop, reply.body, held)


def close(document: Any) -> Any:
    """The document with answers that may hold nothing it does not name."""
    copy = json.loads(json.dumps(document))
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


def _asked(
    url: str, method: str, path: str, sent: Any, headers: dict[str, str]
) -> Asked:
    parts = urlsplit(path)
    return Asked(
        host_url=url,
        path=parts.path,
        method=method.lower(),
        body=None if sent is None else json.dumps(sent).encode(),
        content_type="application/json",
        parameters=RequestParameters(
            query=ImmutableMultiDict(parse_qsl(parts.query)),
            header=Headers(list(headers.items())),
        ),
    )


def _answered(reply: Reply) -> Answered:
    body = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
    content_type = reply.headers["Content-Type"].partition(";")[0]
    headers = Headers(list(reply.headers.items()))
    return Answered(reply.status, content_type, headers, body.encode())
