"""Work on one store: order steps, webhooks, mails, state export."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aiohttp import web

from backhaul_reference.control.auth import check_token
from backhaul_reference.platform import order_models
from backhaul_reference.platform.clock import start_task
from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.http.endpoint import Answer, Call, Endpoint, Handler
from backhaul_reference.platform.http.middleware import EXTRA_HEADERS, template_of
from backhaul_reference.platform.http.responses import page_answer
from backhaul_reference.platform.json_codec import Document, encode
from backhaul_reference.platform.problems import not_found
from backhaul_reference.platform.state import (
    collections,
    customers,
    discounts,
    inventory,
    mail_outbox,
    menus,
    order_payments,
    order_views,
    products,
    shipping,
    stores,
    subscriptions,
    webhook_outbox,
)
from backhaul_reference.platform.state.database import Listing, Rows
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx
from backhaul_reference.platform.v1.webhooks import NewWebhook, check

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


async def list_mails(request: web.Request) -> web.Response:
    """List the mails of all stores, newest first, without their text."""
    platform = check_token(request)
    window = query_params.window(request.query)
    found = platform.reader.read(lambda rows: mail_outbox.page(rows, window))
    shown = Listing([mail_outbox.view(row) for row in found.rows], found.total)
    return page_answer(request, shown, window)


ONE = "/_control/stores/{subdomain}"
Step = Callable[[Tx, Store, str], order_models.Order]


def order_step(step: Step) -> Handler:
    async def handle(call: Call) -> web.Response:
        order_id = call.path("order_id")
        return await call.mutate(lambda tx: Answer(step(tx, call.store, order_id)))

    return handle


async def create_webhook(call: Call) -> web.Response:
    values = check(call.body, allow_private=call.platform.allow_private_targets)
    return await call.mutate(
        lambda tx: Answer(
            subscriptions.add(
                tx,
                call.store.id,
                values["address"],
                values["topics"],
                values.get("description"),
            ),
            201,
        )
    )


async def get_state(call: Call) -> web.StreamResponse:
    with call.platform.open_rows() as rows:
        rows.connection.execute("BEGIN")
        return await stream_json(call.request, snapshot(rows, call.store.subdomain))


ORDER = ONE + "/orders/{order_id}"
ENDPOINTS = (
    Endpoint("POST", ORDER + "/confirm", order_step(order_payments.confirm)),
    Endpoint("POST", ORDER + "/mark-paid", order_step(order_payments.mark_paid)),
    Endpoint("POST", ORDER + "/refund", order_step(order_payments.refund)),
    Endpoint("POST", ONE + "/webhooks", create_webhook, body=NewWebhook),
    Endpoint("GET", ONE + "/state", get_state),
)
