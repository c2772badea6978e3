"""Exports the whole state of one store as a streamed JSON document."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import web

from backhaul_reference.platform.clock import start_task
from backhaul_reference.platform.http.endpoint import Call, Endpoint
from backhaul_reference.platform.http.middleware import EXTRA_HEADERS, template_of
from backhaul_reference.platform.json_codec import Document, encode
from backhaul_reference.platform.problems import not_found
from backhaul_reference.platform.state import (
    collections,
    customers,
    discounts,
    inventory,
    menus,
    order_views,
    products,
    shipping,
    stores,
    subscriptions,
    webhook_outbox,
)
from backhaul_reference.platform.state.database import Rows
from backhaul_reference.platform.state.stores import Store

CHUNK_BYTES = 128 * 1024
STALLED_SECONDS = 60.0
"""The stream ends if the client reads nothing for so long (its snapshot stays open)."""
log = logging.getLogger(__name__)


async def stream_json(
    request: web.Request, parts: Iterator[bytes]
) -> web.StreamResponse:
    """Stream the parts, made in another thread; a Problem of the first is returned.

    A later failure ends the connection early, so that the client notices.
    """
    chunk = await _next_chunk(parts)
    response = web.StreamResponse(headers=request[EXTRA_HEADERS])
    response.content_type = "application/json"
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    try:
        while chunk:
            async with asyncio.timeout(STALLED_SECONDS):
                await response.write(chunk)
            chunk = await _next_chunk(parts)
        await response.write_eof()
    except Exception as error:  # noqa: BLE001  - no answer can follow half of one
        _end_early(request, error)
    return response


def _end_early(request: web.Request, error: Exception) -> None:
    theirs = isinstance(error, (ConnectionError, TimeoutError))
    level = logging.INFO if theirs else logging.ERROR
    told = None if theirs else error
    log.log(level, "ended early route=%s", template_of(request), exc_info=told)
    if request.transport is not None:
        request.transport.abort()


async def _next_chunk(parts: Iterator[bytes]) -> bytes:
    step = start_task(asyncio.to_thread(_gather, parts))
    try:
        return await asyncio.shield(step)
    except asyncio.CancelledError:
        # The thread still uses what the caller is about to close.
        await asyncio.wait([step])
        raise


def _gather(parts: Iterator[bytes]) -> bytes:
    """Return the parts of one chunk, joined; empty at the end."""
    chunk = bytearray()
    for part in parts:
        chunk += part
        if len(chunk) >= CHUNK_BYTES:
            break
    return bytes(chunk)


def snapshot(rows: Rows, subdomain: str) -> Iterator[bytes]:
    """Return everything that a ledger check compares, as parts of one JSON document.

    All parts must be read in one read transaction; no part is large.
    """
    store = stores.by_subdomain(rows, subdomain)
    if store is None:
        raise not_found("STORE")
    mark = b"{"
    for name, value in _members(rows, store).items():
        yield mark + encode(name) + b":"
        yield from _list(value) if isinstance(value, Iterator) else (encode(value),)
        mark = b","
    yield b"}"


def _list(documents: Iterator[Mapping[str, Any]]) -> Iterator[bytes]:
    first = next(documents, None)
    yield b"[" if first is None else b"[" + encode(first)
    for document in documents:
        yield b"," + encode(document)
    yield b"]"


def _members(rows: Rows, store: Store) -> Document:
    """Return the members of the document by name; long lists are iterators."""
    return {
        "sequence": rows.value(
            "SELECT sequence FROM counter WHERE store_id = ?", (store.id,)
        ),
        "products": products.every(rows, store),
        "orders": order_views.every(rows, store),
        "customers": customers.every(rows, store),
        "levels": inventory.every_level(rows, store.id),
        "history": inventory.every_history(rows, store.id),
        "webhooks": subscriptions.every(rows, store.id),
        "deliveries": webhook_outbox.counts(rows, store.id),
        "collections": collections.every(rows, store),
        "menus": menus.control_views(rows, store.id),
        "discounts": discounts.every(rows, store),
        "zones": shipping.every(rows, store),
    }


async def get_state(call: Call) -> web.StreamResponse:
    with call.platform.open_rows() as rows:
        rows.connection.execute("BEGIN")
        return await stream_json(call.request, snapshot(rows, call.store.subdomain))


ENDPOINTS = (Endpoint("GET", "/_control/stores/{subdomain}/state", get_state),)
