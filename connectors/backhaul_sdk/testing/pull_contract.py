"""Tests that a connector that reads records must pass."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk.contract import Capability
from backhaul_sdk.records import FullList, StockLevel
from backhaul_sdk.testing.base_contract import (
    MOST_WAITS,
    AnyConnector,
    assert_hidden,
    assert_quiet,
    cancelled_at,
    opened,
    traces,
)
from backhaul_sdk.testing.memory_host import MemoryHost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul_sdk.contract import Connector
    from backhaul_sdk.records import Bad, Record
    from backhaul_sdk.testing.bench import Bench

MOST_GROWTH_BYTES = 40_000_000
STOCK = (FullList, StockLevel)


class ConnectorContract(AnyConnector):
    """Tests for a connector that submits records."""

    async def test_check_changes_nothing(self, bench: Bench) -> None:
        bench.offer(0, 3)
        before = bench.state()
        await bench.connector().check()
        await bench.connector().check()
        assert bench.state() == before

    async def test_keys_are_stable_and_duplicates_collapse(self, bench: Bench) -> None:
        host, other = MemoryHost(), MemoryHost()
        for each in (host, other):
            bench.offer(0, 20)
            await bench.take_in(await opened(bench), each)
        assert len(host.records) == 20
        assert all(host.records)
        assert other.records.keys() == host.records.keys()

    async def test_a_bad_record_never_stops_the_good_ones(self, bench: Bench) -> None:
        bench.offer_a_bad_one_among(good=10)
        host = MemoryHost()
        await bench.take_in(await opened(bench), host)
        assert len(host.records) == 10
        (complaint,) = bench.complaints(host)
        assert " " in complaint, "a person must be able to read it"

    async def test_unknown_fields_are_tolerated(self, bench: Bench) -> None:
        bench.offer_with_unknown_field(1)
        host = MemoryHost()
        await bench.take_in(await opened(bench), host)
        assert len(host.records) == 1

    async def test_cancellation_anywhere_loses_nothing(self, bench: Bench) -> None:
        host = MemoryHost()
        for waits in range(MOST_WAITS):
            bench.offer(30 * waits, 30)
            connector = await opened(bench)
            done = await cancelled_at(waits, bench.take_in(connector, host))
            await connector.close()
            await bench.take_in(await opened(bench), host)
            assert len(host.records) == 30 * (waits + 1)
            if done:
                return
        pytest.fail("it has too many awaits to test")

    async def test_no_secret_shows(
        self,
        bench: Bench,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        caplog.set_level("DEBUG")
        connector = await opened(bench)
        bench.offer_a_bad_one_among(good=2)
        host = MemoryHost()
        await bench.take_in(connector, host)
        seen = [*traces(connector), repr(host), *await bench.provoke()]
        assert_hidden(bench, [*seen, caplog.text, *capfd.readouterr()])

    async def test_open_and_close_may_be_repeated(self, bench: Bench) -> None:
        bench.offer(0, 3)
        connector = await opened(bench)
        await connector.close()
        await connector.close()
        await connector.open()
        host = MemoryHost()
        await bench.take_in(connector, host)
        assert len(host.records) == 3


class PullContract(ConnectorContract):
    """Tests for a connector that is polled for its records."""

    def test_it_says_that_it_pulls(self, bench: Bench) -> None:
        assert Capability.PULL in bench.connector().spec.capabilities

    async def test_pulling_twice_from_a_cursor_yields_the_same_or_more(
        self, bench: Bench
    ) -> None:
        bench.offer(0, 30)
        first = await pulled(await opened(bench), None)
        bench.offer(30, 5)
        second = await pulled(await opened(bench), None)
        assert len(keys(first)) == 30
        assert keys(first) < keys(second)

    @pytest.mark.parametrize("acknowledged", range(4))
    @pytest.mark.parametrize("stored", [True, False])
    async def test_a_kill_around_the_commit_redelivers_and_loses_nothing(
        self, bench: Bench, stored: bool, acknowledged: int
    ) -> None:
        bench.offer(0, 30)
        host = MemoryHost()
        await pull_until_killed(await opened(bench), host, acknowledged, stored)
        await host.pull(await opened(bench))
        assert len(host.records) == 30

    async def test_what_was_acknowledged_does_not_come_again(
        self, bench: Bench
    ) -> None:
        bench.offer(0, 30)
        host = MemoryHost()
        await host.pull(await opened(bench))
        assert await pulled(await opened(bench), host.cursor) == []

    async def test_stock_counts_alone_are_read_again(self, bench: Bench) -> None:
        bench.offer(0, 30)
        host = MemoryHost()
        await host.pull(await opened(bench))
        connector = await opened(bench)
        cursor = connector.restart_stock(host.cursor)
        again = await pulled(connector, cursor)
        assert [each for each in again if not isinstance(each, STOCK)] == []

    async def test_unplugged_often_it_says_nothing_and_works_again(
        self,
        bench: Bench,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        caplog.set_level("INFO")
        host, connector = MemoryHost(), await opened(bench)
        for number in range(bench.unpluggings):
            await bench.unplug()
            assert not await works(connector, host), "an error must reach the host"
            await bench.plug_in()
            bench.offer(number, 1)
            assert await works(connector, host), "it must recover automatically"
        assert len(host.records) == bench.unpluggings
        assert_quiet(caplog, capfd)

    async def test_many_records_need_little_memory(self, bench: Bench) -> None:
        await asyncio.to_thread(bench.offer, 0, bench.many_records)
        connector = await opened(bench)
        gc.collect()
        resident, objects = resident_bytes(), sys.getallocatedblocks()
        received = most_bytes = most_objects = 0
        async for batch in connector.pull(None):
            received += len(batch.records)
            most_bytes = max(most_bytes, resident_bytes() - resident)
            most_objects = max(most_objects, sys.getallocatedblocks() - objects)
        assert received == bench.many_records
        assert most_bytes < MOST_GROWTH_BYTES
        # Memory freed by other tests can hide growth in bytes, never in objects.
        assert most_objects < bench.many_records


async def works(connector: Connector[Any], host: MemoryHost) -> bool:
    """Pull once; return True if that worked."""
    try:
        await host.pull(connector)
    except Exception:  # noqa: BLE001 - whatever a connector raises
        return False
    return True


async def pulled(connector: Connector[Any], cursor: str | None) -> list[Record | Bad]:
    """Return everything after the cursor, without acknowledging it."""
    return [
        record async for batch in connector.pull(cursor) for record in batch.records
    ]


async def pull_until_killed(
    connector: Connector[Any], host: MemoryHost, acknowledged: int, stored: bool
) -> None:
    """Take `acknowledged` batches; then stop before the next acknowledgement."""
    number = 0
    async for batch in connector.pull(host.cursor):
        if number == acknowledged:
            if stored:
                host.commit(batch)
            return
        host.commit(batch)
        await batch.ack()
        number += 1


def keys(records: Sequence[Record | Bad]) -> set[str]:
    return {record.key for record in records}


def resident_bytes() -> int:
    """Return how much memory this process holds."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
