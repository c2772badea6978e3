"""Requests and answers of one walk, in turn, by the names of their operations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scenes.reference_shop import Reply, Shop


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer."""

    method: str
    path: str
    sent: Any
    reply: Reply


@dataclass(slots=True)
class Conversation:
    """Talks to the shop and remembers what was said."""

    shop: Shop
    document: Any
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
        more: dict[str, str] | None = None,
    ) -> Reply:
        headers = headers | (more or {})
        url = self.shop.running.access.public_url
        body = {"data": BytesIO(sent)} if isinstance(sent, bytes) else {"json": sent}
        reply = await self.shop.ask(method, url + path, headers, **body)
        self.exchanges.append(Exchange(method, path, sent, reply))
        return reply

    def operation(self, one: Exchange) -> str:
        """The operation's name in the document."""
        return str(self.offered(one.path)[one.method.lower()]["operationId"])

    def offered(self, path: str) -> Any:
        """What the document offers on a path."""
        plain, paths = path.partition("?")[0], self.document["paths"]
        fitting = [path for path in paths if re.fullmatch(_pattern(path), plain)]
        return paths[min(fitting, key=lambda path: path.count("{"))]


def _pattern(path: str) -> str:
    return re.sub(r"\{\w+\}", "[^/]+", path)


async def open_conversation(shop: Shop) -> Conversation:
    reply = await shop.ask("GET", shop.running.access.public_url + "/openapi.json", {})
    return Conversation(shop, reply.body)
