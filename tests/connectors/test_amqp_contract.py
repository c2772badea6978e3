"""amqp fulfills the connector contracts in both directions, with a real RabbitMQ."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

import pytest

from backhaul_sdk.testing import ConnectorContract, PushContract
from connectors.amqp_hub import amqp_hub
from connectors.message_benches import MessageBench
from faults.trials import LONG
from scenes.rabbitmq import rabbitmq

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scenes.rabbitmq import RabbitMq

pytestmark = pytest.mark.programs
PUBLISHED = b"\0\x3c\0\x28"
"""The class and the method of Basic.Publish."""
ACKNOWLEDGED = b"\0\x3c\0\x50"
NUMBERS = count()
KILLS = 50 if LONG else 5
"""RabbitMQ takes ten seconds to start; `make faults` has the time."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    with rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as running:
        yield running


class TestReceive(ConnectorContract):
    """Run with shipments in a queue."""

    @pytest.fixture
    async def bench(self, server: RabbitMq) -> AsyncIterator[MessageBench]:
        async with amqp_hub(server, f"-{next(NUMBERS)}") as hub:
            yield MessageBench(hub, ACKNOWLEDGED)

    async def test_nothing_is_left_running(self, bench: MessageBench) -> None:
        connector = bench.connector()
        before = asyncio.all_tasks()
        await connector.open()
        await connector.close()
        assert asyncio.all_tasks() == before


@pytest.mark.timeout(2_400)
class TestPublish(PushContract):
    """Run with change notifications that an exchange passes on to a queue."""

    @pytest.fixture
    async def bench(self, server: RabbitMq) -> AsyncIterator[MessageBench]:
        async with amqp_hub(server, f"-{next(NUMBERS)}") as hub:
            yield MessageBench(hub, PUBLISHED, KILLS)
