"""The stream that keeps an open page up to date, as Server-Sent Events."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web

from backhaul.admin import rendering
from backhaul.admin.auth import Route, current_login
from backhaul.errors import Busy
from backhaul.store.operators import Role

if TYPE_CHECKING:
    from backhaul.admin.context import PageContext, PageRequest
    from backhaul.admin.live import Listener

CHECK_SECONDS = 3.0
"""How often the session is checked again; a comment then also finds a dead browser."""
WRITE_SECONDS = 10.0
"""How long a browser may take for one message."""
GAP_SECONDS = 1.0
"""The least time between two messages."""
CHECKED = b": no change\n\n"
ENDED = b"event: ended\ndata: session\n\n"


async def show_live(
    context: PageContext, page_request: PageRequest
) -> web.StreamResponse:
    """Stream the kinds of things that change, until the session ends."""
    session = page_request.session.key
    if not context.live.has_room(session):
        return rendering.plain_text(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too many pages of this login are live already; close one",
        )
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    with context.live.listening(session) as listener:
        await response.prepare(page_request.request)
        try:
            await _write(response, b"retry: 2000\n\n")
            await _run(context, page_request, response, listener)
        except (TimeoutError, ConnectionError):
            if page_request.request.transport is not None:
                page_request.request.transport.abort()
    return response


async def _run(
    context: PageContext,
    page_request: PageRequest,
    response: web.StreamResponse,
    listener: Listener,
) -> None:
    loop = asyncio.get_running_loop()
    checked_at = loop.time()
    while not context.live.has_ended:
        await _wait(listener, checked_at + CHECK_SECONDS - loop.time())
        text = b""
        if loop.time() - checked_at >= CHECK_SECONDS:
            checked_at = loop.time()
            if not await _is_logged_in(context, page_request):
                await _write(response, ENDED)
                return
            text = CHECKED
        if kinds := listener.take():
            text += f"event: change\ndata: {' '.join(kinds)}\n\n".encode()
        if text:
            await _write(response, text)
            await _wait_at_least(context, GAP_SECONDS)


async def _wait(listener: Listener, seconds: float) -> None:
    """Wait for a change, or for so many seconds."""
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await listener.changed.wait()
    except TimeoutError:
        return


async def _wait_at_least(context: PageContext, seconds: float) -> None:
    if not context.live.has_ended:
        await asyncio.sleep(seconds)


async def _is_logged_in(context: PageContext, page_request: PageRequest) -> bool:
    try:
        login = await current_login(context, page_request.request, touch=False)
    except Busy:
        return True
    return login is not None


async def _write(response: web.StreamResponse, text: bytes) -> None:
    async with asyncio.timeout(WRITE_SECONDS):
        await response.write(text)


ROUTES = (Route("GET", "/live", Role.VIEWER, show_live, polled=True),)
