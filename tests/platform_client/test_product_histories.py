"""Readings of product histories that serve several checks of uncertain commands."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from backhaul.core.clock import to_text
from backhaul.platform import history
from backhaul.platform.client import PlatformClient
from backhaul.platform.history import ProductHistories
from scenes.clock import VirtualClock
from scenes.scripted_platform import Connection, Request, document, serving
from scenes.stock_history import move

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from backhaul.platform.transport import Transport
    from scenes.scripted_platform import Server


class Reader(NamedTuple):
    histories: ProductHistories
    server: Server
    clock: VirtualClock

    async def read(self, due_seconds: float, product: str = "prod_1") -> int:
        """Read for a check that was due then; return how many moves it got."""
        due = to_text(self.clock.now() + timedelta(seconds=due_seconds))
        found = await self.histories.read(product, None, due)
        return len(found.moves)


@pytest.fixture
async def reader(connect: Callable[[str], Transport]) -> AsyncIterator[Reader]:
    """Give a reader of a history that grows by a move with each request."""
    moves: list[dict[str, Any]] = []

    async def answer(request: Request, connection: Connection) -> None:
        moves.insert(0, move(len(moves) + 1, "0"))
        await connection.send(document({"data": moves, "meta": {"hasMore": False}}))

    async with serving(answer) as server:
        clock = VirtualClock()
        client = PlatformClient(connect(server.url))
        yield Reader(ProductHistories(client, clock), server, clock)


async def test_a_reading_serves_all_checks_that_were_due_before(
    reader: Reader,
) -> None:
    assert [await reader.read(-1) for _ in range(5)] == [1] * 5
    await reader.clock.advance(10)
    assert await reader.read(-10.5) == 1
    assert len(reader.server.requests) == 1


@pytest.mark.parametrize("due_seconds", [0, -9, -10])
async def test_a_check_that_was_due_later_reads_again(
    due_seconds: float, reader: Reader
) -> None:
    assert await reader.read(-1) == 1
    await reader.clock.advance(10)
    assert await reader.read(due_seconds) == 2


async def test_an_old_reading_is_not_used(reader: Reader) -> None:
    assert await reader.read(-1) == 1
    await reader.clock.advance(history.MOST_REUSED_SECONDS + 1)
    assert await reader.read(-3_600) == 2


@pytest.mark.parametrize("back_seconds", [5, -5, 3_600, -3_600])
async def test_a_check_of_a_later_command_reads_again_after_the_clock_was_set(
    back_seconds: float, reader: Reader
) -> None:
    await reader.clock.advance(1)
    assert await reader.read(-1) == 1
    await reader.clock.advance(2)
    reader.clock.set_back(back_seconds)
    await reader.clock.advance(4)
    assert await reader.read(-3) == 2


async def test_each_product_has_its_own_readings(reader: Reader) -> None:
    assert await reader.read(-1) == 1
    assert await reader.read(-1, "prod_2") == 0
    assert len(reader.server.requests) == 2
    for number in range(history.MOST_READINGS):
        await reader.read(-1, f"other_{number}")
    assert await reader.read(-1) > 1  # the oldest readings are not kept
