"""A walk through every refusal that a request alone can bring about."""

from __future__ import annotations

import json
import re
from functools import reduce
from typing import TYPE_CHECKING, Any

from reference_openapi.recording import UNSHOWN
from reference_openapi.walk import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reference_openapi.conversation import Conversation, Exchange

PLACE = re.compile(r"\{\w+\}")
LARGE = b" " * (1024 * 1024 + 1)
JSON = {"Content-Type": "application/json"}
SUBDOMAIN = {"x-subdomain": "demo"}
CLOSED = "closed"
ONE_WEBHOOK = "/api/v1/webhooks/{id}"


async def refuse(talk: Conversation, address: str) -> None:
    """Ask each operation wrongly, in every way that its kind knows."""
    bodies = {
        talk.operation(one): one.sent
        for one in talk.exchanges
        if one.sent and one.reply.status < 300
    }
    keys, real = await _keys(talk), await _places(talk, address)
    for path, operations in talk.document["paths"].items():
        nowhere, place = PLACE.sub("nothing", path), real.get(path, path)
        place = PLACE.sub("nothing", place)
        known = keys["right"] if path.startswith("/api/v1/") else SUBDOMAIN
        await talk.ask("PATCH", nowhere, None, known)
        for method, operation in operations.items():
            if operation["operationId"].startswith(UNSHOWN):
                continue
            body = bodies.get(operation["operationId"])
            for wrong in _wrong_callers(path, method, keys):
                await talk.ask(method.upper(), place, body, wrong)
            await talk.ask(method.upper(), nowhere, body, known)
            for query, raw, headers in _wrong_requests(method, operation, body):
                await talk.ask(method.upper(), place + query, raw, known | headers)


async def exhaust(talk: Conversation) -> None:
    """Ask each operation until it has been asked too often."""
    key = {"Authorization": f"Bearer {talk.shop.running.access.api_key}"}
    for path, operations in talk.document["paths"].items():
        for method, operation in operations.items():
            if operation["operationId"].startswith(UNSHOWN):
                continue
            body = {"storeId": talk.shop.running.access.store_id}
            sent = body if method == "post" else None
            asked = (method.upper(), PLACE.sub("nothing", path), sent, key | SUBDOMAIN)
            while (await talk.ask(*asked)).status != 429:
                pass


async def _places(talk: Conversation, address: str) -> dict[str, str]:
    """Where there is something, by path: an order to track, a subscription."""
    placed = next(one.reply for one in talk.exchanges if _is_placed(one))
    body = {"address": address, "topics": ["orders/create"]}
    hook = (await talk.v1("POST", "/webhooks", body)).data["id"]
    sent = (await talk.v1("POST", f"/webhooks/{hook}/test")).data["id"]
    places = {"token": placed.data["trackingToken"], "delivery_id": sent}
    return {
        path: reduce(
            lambda text, name: text.replace(f"{{{name}}}", places[name]),
            places,
            path.replace("/webhooks/{id}", f"/webhooks/{hook}"),
        )
        for path in talk.document["paths"]
    }


def _is_placed(one: Exchange) -> bool:
    return (one.path, one.reply.status) == ("/storefront/orders", 201)


async def _keys(talk: Conversation) -> dict[str, dict[str, str]]:
    """A key that may do everything, one that may not, and one of a closed store."""
    bare = await talk.shop.control("POST", "/stores/demo/keys", {"scopes": []})
    made = await talk.shop.control("POST", "/stores", {"subdomain": CLOSED})
    await talk.shop.control("PUT", f"/stores/{CLOSED}/settings", {"active": False})
    secrets = {
        "right": talk.shop.running.access.api_key,
        "bare": bare.data["key"],
        CLOSED: made.data["apiKey"],
    }
    return {name: {"Authorization": f"Bearer {key}"} for name, key in secrets.items()}


def _wrong_callers(
    path: str, method: str, keys: dict[str, dict[str, str]]
) -> Iterator[dict[str, str]]:
    if not path.startswith("/api/v1/"):
        yield from ({}, {"x-subdomain": "nowhere"})
        return
    yield from ({}, NOBODY, keys["right"] | {"X-Service-Access-Token": "another"})
    yield keys[CLOSED]
    # Whoever may read none of its topics may end a subscription all the same.
    if (path, method) != (ONE_WEBHOOK, "delete"):
        yield keys["bare"]


def _wrong_requests(
    method: str, operation: Any, body: Any
) -> Iterator[tuple[str, bytes | None, dict[str, str]]]:
    """Yield queries, bodies and headers."""
    if method == "get":
        yield "?limit=0", None, {}
        return
    yield "", LARGE, JSON
    yield "", b"", JSON | {"Content-Encoding": "gzip"}
    if method == "post":
        sent = b"" if body is None else json.dumps(body).encode()
        yield "", sent, JSON | {"Idempotency-Key": '""'}
    if "requestBody" in operation:
        yield "", b"{", JSON
        yield "", b"x", {"Content-Type": "text/plain"}
        yield "", json.dumps(_spoilt(operation)).encode(), JSON


def _spoilt(operation: Any) -> Any:
    """A body whose members are all of a type that none of them has."""
    content = operation["requestBody"]["content"]["application/json"]
    return {name: [[[]]] for name in content["schema"]["properties"]}
