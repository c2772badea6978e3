"""The stream of changes, as Server-Sent Events.

Each stream reads the database once a second, so it shows the changes of all daemons on
it. It holds at most one page of changes for a slow reader, and ends if that reader
takes too long: the client then connects again, with the id of its last event.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from backhaul.admin.api.endpoint import Call, Endpoint
from backhaul.admin.api.problems import ApiError
from backhaul.admin.api.streams import Streams
from backhaul.admin.following import ROWS, Change, Follower
from backhaul.errors import Busy
from backhaul.store.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.admin.api.endpoint import Api

POLL_SECONDS = 1.0
WRITE_SECONDS = 10.0
"""How long a reader may take for one page of changes."""
SILENCE_SECONDS = 15.0
"""After this time without a change a comment is sent, which finds a dead reader."""
CHECK_SECONDS = 30.0
"""How often the token is checked again."""
KEPT_ALIVE = b": no change\n\n"
LAST_ID = "Last-Event-ID"
STREAMS = web.AppKey("streams", Streams)
"""Where the listener has its streams."""


async def stream_changes(api: Api, call: Call) -> object:
    """Stream changes of commands, quarantine, events and deliveries."""
    ends = await api.read(lambda reader: reader.change_places())
    places = _places(call.request.headers.get(LAST_ID), ends)
    with api.streams.one():
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",  # or nginx would keep changes back
            }
        )
        await response.prepare(call.request)
        try:
            await _run(api, call, response, Follower(places))
        except (TimeoutError, ConnectionError):
            if call.request.transport is not None:
                call.request.transport.abort()
    return response


def _places(text: str | None, ends: Mapping[str, int]) -> dict[str, int]:
    """Return where a stream begins: at the end, or behind an id. Raises ApiError."""
    if not text:
        return dict(ends)
    parts = text.split(".")
    if len(parts) != len(ends) or not all(
        part.isascii() and part.isdigit() and len(part) <= 18 for part in parts
    ):
        raise ApiError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"the {LAST_ID} {text[:80]!r} is not one of this stream; leave the header"
            " out to begin with the changes from now on",
        )
    return dict(zip(ends, map(int, parts), strict=True))


async def _run(
    api: Api, call: Call, response: web.StreamResponse, follower: Follower
) -> None:
    """Send changes until the listener stops, or the token is refused."""
    loop = asyncio.get_running_loop()
    sent_at = checked_at = loop.time()
    await _write(response, f"retry: 2000\nid: {follower.id}\n\n".encode())
    while not api.streams.ended.is_set():
        if loop.time() - checked_at >= CHECK_SECONDS:
            checked_at = loop.time()
            if not await _is_allowed(api, call):
                return
        lines = await _lines(api, follower)
        if not lines and loop.time() - sent_at >= SILENCE_SECONDS:
            lines = [KEPT_ALIVE]
        if lines:
            sent_at = loop.time()
            await _write(response, b"".join(lines))
        await _pause(api.streams.ended)


async def _lines(api: Api, follower: Follower) -> list[bytes]:
    try:
        found = await api.read(
            lambda reader: reader.recent_changes(follower.places, ROWS)
        )
    except Busy:  # as during a failover
        return []
    place = follower.id
    changes = follower.take(found, asyncio.get_running_loop().time())
    return [
        b"id: %s\nevent: %s\ndata: %s\n\n"
        % (place.encode(), each.type.encode(), msgspec.json.encode(each))
        for each in changes
    ]


async def _is_allowed(api: Api, call: Call) -> bool:
    try:
        await api.tokens.caller(call.request)
    except ApiError:
        return False
    except Busy:
        pass
    return True


async def _write(response: web.StreamResponse, text: bytes) -> None:
    async with asyncio.timeout(WRITE_SECONDS):
        await response.write(text)


async def _pause(ended: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(POLL_SECONDS):
            await ended.wait()
    except TimeoutError:
        return


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/stream",
        needs=Scope.READ,
        handler=stream_changes,
        answer=Change,
        media="text/event-stream",
    ),
)
