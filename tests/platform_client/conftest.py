"""Transports to loopback servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.platform.transport import Limits, Transport
from scenes.clock import RunningClock
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

API_KEY = "svc_live_transport0123456789"
SHORT_SECONDS = 0.2
"""For a server that never answers; any other one may take its time to answer."""


@pytest.fixture
def clock() -> RunningClock:
    return RunningClock()


@pytest.fixture
async def connect(clock: RunningClock) -> AsyncIterator[Callable[..., Transport]]:
    """Give transports that are closed at the end."""
    made: list[Transport] = []

    def connect(url: str, read_seconds: float = HANG_SECONDS) -> Transport:
        limits = Limits(
            connect_seconds=HANG_SECONDS,
            read_seconds=read_seconds,
            max_response_bytes=100_000,
        )
        made.append(Transport(url, API_KEY, limits, clock))
        return made[-1]

    yield connect
    for transport in made:
        await transport.close()
