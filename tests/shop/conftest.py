"""Transports to loopback servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.shop.transport import Limits, Transport
from support.clock import RunningClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

API_KEY = "svc_live_transport0123456789"
LIMITS = Limits(connect_seconds=2.0, read_seconds=0.2, max_response_bytes=100_000)


@pytest.fixture
def clock() -> RunningClock:
    return RunningClock()


@pytest.fixture
async def connect(clock: RunningClock) -> AsyncIterator[Callable[[str], Transport]]:
    """Give transports that are closed at the end."""
    made: list[Transport] = []

    def connect(url: str) -> Transport:
        made.append(Transport(url, API_KEY, LIMITS, clock))
        return made[-1]

    yield connect
    for transport in made:
        await transport.close()
