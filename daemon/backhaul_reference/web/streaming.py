"""Streams: a long document that is written while it is made, in bounded memory."""

import asyncio
import logging
from collections.abc import Iterator

from aiohttp import web

from backhaul_reference import tasks
from backhaul_reference.web.access_log import template_of
from backhaul_reference.web.middleware import EXTRA_HEADERS

CHUNK_BYTES = 128 * 1024
STALLED_SECONDS = 60.0
"""Who takes nothing for so long is given up: what they read would be kept for them."""
log = logging.getLogger(__name__)


async def stream_json(
    request: web.Request, parts: Iterator[bytes]
) -> web.StreamResponse:
    """Answer with the parts, made in another thread; a Problem of the first one counts.

    After a later failure the connection ends early, which a client cannot miss.
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
    step = tasks.start(asyncio.to_thread(_gather, parts))
    try:
        return await asyncio.shield(step)
    except asyncio.CancelledError:
        # The thread still uses what the caller is about to close.
        await asyncio.wait([step])
        raise


def _gather(parts: Iterator[bytes]) -> bytes:
    """As many parts as fill a chunk; empty at the end."""
    chunk = bytearray()
    for part in parts:
        chunk += part
        if len(chunk) >= CHUNK_BYTES:
            break
    return bytes(chunk)
