"""A configuration and a mirror for commands that run without a daemon."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from scenes import payloads
from scenes.daemon import Office
from scenes.databases import append_and_fold, started_store

if TYPE_CHECKING:
    from collections.abc import Iterator

PLATFORM = "http://127.0.0.1:9"
"""A URL on which no server listens."""


@contextmanager
def lone_office(more: str = "") -> Iterator[Office]:
    """Yield an office whose platform cannot be reached."""
    office = Office(PLATFORM, "svc_live_nobody-home", more=more)
    try:
        yield office
    finally:
        office.remove()


async def fill(office: Office, *bodies: bytes) -> None:
    """Fold deliveries into the office's mirror, as its daemon does."""
    async with started_store(office.database) as store:
        assert await append_and_fold(store, *bodies) == []


def orders(count: int, first: int = 1001) -> list[bytes]:
    """Return deliveries of this many orders, with ascending numbers."""
    numbers = range(first, first + count)
    return [
        payloads.envelope("orders/create", payloads.order(f"ord_{n}", number=n))
        for n in numbers
    ]
