"""Fixtures: a real broker of each kind, with its source and its destination."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from connectors.amqp_hub import amqp_hub
from connectors.nats_hub import nats_hub
from scenes.rabbitmq import RabbitMq, rabbitmq

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from connectors.amqp_hub import AmqpHub
    from connectors.message_benches import Hub
    from connectors.nats_hub import NatsHub

NUMBERS = count()
KINDS = ("nats", "amqp")


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    """Return a RabbitMQ for all tests of a module: its start takes seconds."""
    with rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as running:
        yield running


@pytest.fixture
async def amqp(rabbit: RabbitMq) -> AsyncIterator[AmqpHub]:
    async with amqp_hub(rabbit, f"-{next(NUMBERS)}") as hub:
        yield hub


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsHub]:
    async with nats_hub(tmp_path) as hub:
        yield hub


@pytest.fixture(params=KINDS)
async def hub(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Hub]:
    if request.param == "nats":
        async with nats_hub(tmp_path) as hub:
            yield hub
    else:
        running: RabbitMq = request.getfixturevalue("rabbit")
        async with amqp_hub(running, f"-{next(NUMBERS)}") as other:
            yield other
