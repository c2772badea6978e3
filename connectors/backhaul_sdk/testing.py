"""Contract tests: every connector runs them against its real counterpart.

A connector's test file is short:

    class TestMine(PullContract):  # ConnectorContract for one that is only called
        @pytest.fixture
        def bench(self, tmp_path: Path) -> Bench:
            return MyBench(tmp_path)
"""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import asyncio
import gc
import os
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk.contract import Batch, Connector, Receipt
from backhaul_sdk.manifest import Capability
from backhaul_sdk.records import Bad, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence

HOST_KEYS = frozenset({"type", "store", "every", "enabled"})
MANY_ROWS = 100_000
MOST_GROWTH_BYTES = 40_000_000
MOST_WAITS = 500


@dataclass(slots=True)
class MemoryHost:
    """A host whose database is a dict: equal keys collapse, as in the real one."""

    records: dict[str, Record] = field(default_factory=dict)
    bad: dict[str, Bad] = field(default_factory=dict)
    cursor: str | None = None

    def commit(self, batch: Batch) -> None:
        """Store records and cursor together."""
        for record in batch.records:
            self._store(record)
        if batch.cursor is not None:
            self.cursor = batch.cursor

    async def emit(self, record: Record | Bad) -> Receipt:
        """Take one record of a connector that listens."""
        # A real host waits for its commit: a cancellation may come before or after.
        await asyncio.sleep(0)
        known = record.key in self.records or record.key in self.bad
        self._store(record)
        await asyncio.sleep(0)
        if isinstance(record, Bad):
            return Receipt("quarantined", record.reason)
        return Receipt("duplicate" if known else "accepted", "")

    async def pull(self, connector: Connector[Any]) -> None:
        """Take everything there is, acknowledging each batch after its commit."""
        async for batch in connector.pull(self.cursor):
            self.commit(batch)
            await batch.ack()

    def _store(self, record: Record | Bad) -> None:
        if isinstance(record, Bad):
            self.bad.setdefault(record.key, record)
        else:
            self.records.setdefault(record.key, record)


class Bench(ABC):
    """A connector's counterpart, and what a person or program does to it."""

    secrets: Sequence[str] = ()
    """Secrets of the connector's settings, which must never show."""

    @abstractmethod
    def connector(self) -> Connector[Any]:
        """Return a new instance, as after a restart."""

    @abstractmethod
    def offer(self, first: int, number: int) -> None:
        """Offer good records `first`, `first + 1`, …; a number is always one event."""

    @abstractmethod
    def offer_a_bad_one_among(self, good: int) -> None:
        """Offer that many good records with one that cannot be used in the middle."""

    @abstractmethod
    def offer_with_unknown_field(self, number: int) -> None:
        """Offer a good record that has a field the connector does not know."""

    @abstractmethod
    def state(self) -> object:
        """Return all that a connector could change at its counterpart."""

    @abstractmethod
    def example(self) -> Mapping[str, object]:
        """Return the table `[connectors.NAME]` of the documentation."""

    @abstractmethod
    def complaints(self, host: MemoryHost) -> Sequence[str]:
        """Return what people were told of records that cannot be used."""

    async def take_in(self, connector: Connector[Any], host: MemoryHost) -> None:
        """Let the connector take what is offered; pulls, unless overridden."""
        await host.pull(connector)

    async def provoke(self) -> Sequence[str]:
        """Make things fail; return what a person, a log or a peer would see."""
        return ()


class ConnectorContract:
    """The invariants of a connector that takes records in."""

    @pytest.fixture
    def bench(self) -> Bench:
        pytest.fail("override the fixture `bench`")

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
        pytest.fail("it waits too often to be tried")

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
        seen = [repr(connector), repr(connector.settings), repr(vars(connector))]
        seen += [repr(host), *await bench.provoke(), caplog.text, *capfd.readouterr()]
        for secret in bench.secrets:
            assert [text for text in seen if secret in text] == []

    def test_secret_settings_are_named(self, bench: Bench) -> None:
        spec = bench.connector().spec
        assert spec.secret_fields <= spec.settings.model_fields.keys()
        assert bool(bench.secrets) == bool(spec.secret_fields)

    def test_the_documented_example_is_valid(self, bench: Bench) -> None:
        example = bench.example()
        spec = bench.connector().spec
        own = {key: example[key] for key in example if key not in HOST_KEYS}
        assert example["type"] == spec.name
        spec.settings.model_validate(own)

    def test_every_setting_has_its_sentence(self, bench: Bench) -> None:
        fields = bench.connector().spec.settings.model_fields
        assert [name for name in fields if not fields[name].description] == []

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
    """The invariants of a connector that is asked for its records."""

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

    async def test_many_records_need_little_memory(self, bench: Bench) -> None:
        bench.offer(0, MANY_ROWS)
        connector = await opened(bench)
        gc.collect()
        resident, objects = resident_bytes(), sys.getallocatedblocks()
        received = most_bytes = most_objects = 0
        async for batch in connector.pull(None):
            received += len(batch.records)
            most_bytes = max(most_bytes, resident_bytes() - resident)
            most_objects = max(most_objects, sys.getallocatedblocks() - objects)
        assert received == MANY_ROWS
        assert most_bytes < MOST_GROWTH_BYTES
        # Memory freed by other tests can hide growth in bytes, never in objects.
        assert most_objects < MANY_ROWS


class Interrupted:
    """Awaits something, and cancels it at its wait number `waits` (from 0)."""

    def __init__(self, waits: int, work: Coroutine[Any, Any, None]) -> None:
        self._waits = waits
        self._work = work

    def __await__(self) -> Generator[Any, None, None]:
        task = asyncio.current_task()
        steps = self._work.__await__()
        go_on: Callable[[], Any] = partial(next, steps)
        for wait in count():
            try:
                waited_for = go_on()
            except StopIteration:
                return
            if wait == self._waits and task is not None:
                task.cancel()
            try:
                yield waited_for
                go_on = partial(next, steps)
            except BaseException as error:  # noqa: BLE001 - handed to the work itself
                go_on = partial(steps.throw, error)


async def cancelled_at(waits: int, work: Coroutine[Any, Any, None]) -> bool:
    """Cancel the work at one of its waits; tell whether it ended before."""
    try:
        await Interrupted(waits, work)
    except asyncio.CancelledError:
        if task := asyncio.current_task():
            task.uncancel()
        return False
    return True


async def opened(bench: Bench) -> Connector[Any]:
    """Return a new connector that is ready."""
    connector = bench.connector()
    await connector.open()
    return connector


async def pulled(connector: Connector[Any], cursor: str | None) -> list[Record | Bad]:
    """Return what comes after the cursor, acknowledging nothing."""
    return [
        record async for batch in connector.pull(cursor) for record in batch.records
    ]


async def pull_until_killed(
    connector: Connector[Any], host: MemoryHost, acknowledged: int, stored: bool
) -> None:
    """Take `acknowledged` batches; then die before the next is acknowledged."""
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
