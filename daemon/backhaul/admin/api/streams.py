"""The open streams of the HTTP API: counted, and ended when the listener stops."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from backhaul.admin.api.problems import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

MOST_STREAMS = 32


class Streams:
    """The open streams; they end when the listener stops."""

    def __init__(self) -> None:
        self.open = 0
        self.ended = asyncio.Event()
        self.has_ended = asyncio.Event()
        """Set whenever one of the streams has ended."""

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a stream. Raises ApiError if there are too many."""
        if self.open >= MOST_STREAMS:
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{MOST_STREAMS} streams are open already; close one, or try again",
                {"Retry-After": "10"},
            )
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1
            self.has_ended.set()

    async def end(self, _: web.Application) -> None:
        """End all streams."""
        self.ended.set()
