"""nats fulfills the connector contracts in both directions, with a real server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul_sdk.testing import ConnectorContract, PushContract
from connectors.message_benches import MessageBench
from connectors.nats_hub import nats_hub

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.programs
PUBLISHED = b"HPUB store."


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[MessageBench]:
    async with nats_hub(tmp_path) as hub:
        yield MessageBench(hub, PUBLISHED)


class TestReceive(ConnectorContract):
    """Run with shipments in a stream."""

    @pytest.fixture
    def bench(self, bench: MessageBench) -> MessageBench:
        return bench

    async def test_nothing_is_left_running(self, bench: MessageBench) -> None:
        connector = bench.connector()
        before = asyncio.all_tasks()
        await connector.open()
        await connector.close()
        assert asyncio.all_tasks() == before


class TestPublish(PushContract):
    """Run with change notifications that a stream stores."""

    @pytest.fixture
    def bench(self, bench: MessageBench) -> MessageBench:
        return bench
