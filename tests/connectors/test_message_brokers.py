"""When messages are acknowledged, with real message brokers."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import Applied, CheckFailed, NotSent, Receipt
from backhaul_sdk.testing import Failure, MemoryHost, sample_change
from connectors.message_benches import Hub, run_apart, shipment
from connectors.message_hubs import amqp, hub, nats, rabbit
from scenes.back_office import host_of
from scenes.clock import RunningClock
from scenes.databases import started_store
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul_sdk import Bad, Emit, Record
    from backhaul_sdk.messages import MessageConnector

__all__ = ["amqp", "hub", "nats", "rabbit"]
pytestmark = pytest.mark.programs
ACKNOWLEDGED = b"\0\x3c\0\x50"
"""What the relay counts for the hub that has no other way to see it."""


@pytest.fixture(autouse=True)
def counted(hub: Hub) -> None:
    hub.relay.counted = ACKNOWLEDGED


@asynccontextmanager
async def receiving(
    hub: Hub, emit: Emit, **options: Any
) -> AsyncIterator[MessageConnector[Any]]:
    connector = hub.connector(**options)
    await connector.open()
    await connector.listen(emit)
    try:
        await connector.subscribed()
        yield connector
    finally:
        await connector.close()


async def drained(hub: Hub) -> None:
    await until(lambda: not run_apart(hub.unacknowledged), "all is acknowledged")


class Held:
    """A host that commits nothing until it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.opened = asyncio.Event()
        self.host = MemoryHost()

    async def emit(self, record: Record | Bad) -> Receipt:
        self.asked.append(record.key)
        await self.opened.wait()
        return await self.host.emit(record)


async def test_an_uncommitted_message_comes_again(hub: Hub) -> None:
    held, host = Held(), MemoryHost()
    await hub.send([shipment(1), shipment(2)])
    async with receiving(hub, held.emit):
        await until(lambda: len(held.asked) == 2, "both are with the host")
        # The program ends amid the commit; nothing but the broker has them now.
    assert await hub.unacknowledged() == 2
    async with receiving(hub, host.emit):
        await drained(hub)
    assert sorted(host.records) == ["shipments:S-1", "shipments:S-2"]


async def test_a_committed_message_does_not_come_again(hub: Hub) -> None:
    first, second = MemoryHost(), MemoryHost()
    await hub.send([shipment(1)])
    async with receiving(hub, first.emit):
        await drained(hub)
    await hub.send([shipment(2)])
    async with receiving(hub, second.emit):
        await drained(hub)
    assert (list(first.records), list(second.records)) == (
        ["shipments:S-1"],
        ["shipments:S-2"],
    )


async def test_a_message_that_the_host_cannot_store_is_tried_again(hub: Hub) -> None:
    host, failures = MemoryHost(), [OSError("no space left on device")]

    async def full_once(record: Record | Bad) -> Receipt:
        if failures:
            raise failures.pop()
        return await host.emit(record)

    await hub.send([shipment(1)])
    async with receiving(hub, full_once) as connector:
        await drained(hub)
        await host.pull(connector)
    assert list(host.records) == ["shipments:S-1"]


async def test_a_host_that_cannot_store_is_reported_as_a_problem(hub: Hub) -> None:
    async def full(_: Record | Bad) -> Receipt:
        raise OSError("no space left on device")

    await hub.send([shipment(1)])
    async with receiving(hub, full) as connector:

        def problem() -> bool:
            return "no space left" in "".join(connector.problems())

        await until(problem, "the problem is known")
        with pytest.raises(CheckFailed, match="no space left on device"):
            await MemoryHost().pull(connector)
    assert await hub.unacknowledged() == 1


async def test_an_unreadable_message_blocks_no_other(hub: Hub) -> None:
    host = MemoryHost()
    await hub.send([b"\xff", shipment(1), b'{"id": "S-2"}', shipment(3)])
    async with receiving(hub, host.emit):
        await drained(hub)
    assert sorted(host.records) == ["shipments:S-1", "shipments:S-3"]
    assert sorted(bad.reason for bad in host.bad.values()) == [
        "the message cannot be read: it is not UTF-8 text",
        "the order is empty",
    ]


async def test_at_most_the_prefetched_messages_are_held(hub: Hub) -> None:
    held = Held()
    await hub.send([shipment(number) for number in range(12)])
    source = hub.connector().settings.receive["shipments"]
    narrow = {"shipments": source.model_dump() | {"prefetch": 3}}
    async with receiving(hub, held.emit, receive=narrow):
        await until(lambda: len(held.asked) == 3, "as many as are allowed")
        assert await hub.unacknowledged() == 12
        held.opened.set()
        await drained(hub)
    assert len(held.host.records) == 12


async def test_an_array_is_acknowledged_once_all_its_items_are_stored(
    hub: Hub,
) -> None:
    items = [json.loads(shipment(number)) for number in range(2_500)]
    host, seen = MemoryHost(), list[int]()

    async def emit(record: Record | Bad) -> Receipt:
        seen.append(hub.relay.seen)
        return await host.emit(record)

    await hub.send([json.dumps(items).encode()])
    async with receiving(hub, emit):
        await drained(hub)
    assert len(host.records) == 2_500
    assert set(seen) == {0}


async def test_a_broker_that_is_down_is_logged_once_and_once_when_it_is_up(
    hub: Hub, tmp_path: Path, lines: list[str]
) -> None:
    def about() -> list[str]:
        return [line.split()[0] for line in lines if line.startswith("connector.")]

    async with started_store(tmp_path / "backhaul.db") as store:
        host = host_of(hub.connector(), store, clock=RunningClock())
        await host.listen(60)
        running = asyncio.ensure_future(host.run())
        await until(lambda: host.state()["up"], "it is up")
        await hub.kill()
        await until(lambda: len(about()) == 1, "it is down")
        await hub.start()
        await until(lambda: len(about()) == 2, "it is up again")
        running.cancel()
        await asyncio.wait([running])
        await host.close()
    assert about() == ["connector.down", "connector.up"]
    assert all("correct-horse" not in line for line in lines)


async def test_a_wrong_password_is_named_and_not_shown(hub: Hub) -> None:
    connector = hub.connector(password="another-word")
    with pytest.raises(CheckFailed, match="refused the login") as raised:
        await connector.check()
    assert "check user and password" in str(raised.value)
    assert "another-word" not in str(raised.value)
    said = await connector.push(sample_change(1))
    assert isinstance(said, NotSent)
    assert "refused the login" in said.reason
    await connector.close()


async def test_no_broker_is_named_with_its_address(hub: Hub) -> None:
    await hub.relay.down()
    with pytest.raises(CheckFailed, match=f"127.0.0.1:{hub.relay.port} can be used"):
        await hub.connector().check()


async def test_a_missing_queue_is_named_and_only_created_if_configured(
    hub: Hub,
) -> None:
    missing = hub.missing()
    connector, before = hub.connector(**missing), await hub.state()
    with pytest.raises(CheckFailed, match="create = true"):
        await connector.check()
    said = await connector.push(sample_change(1))
    assert isinstance(said, NotSent)
    assert await hub.state() == before
    await connector.close()
    host, creating = MemoryHost(), hub.missing(create=True)
    await hub.connector(**creating).check()
    assert await hub.state() == before
    async with receiving(hub, host.emit, **creating) as connector:
        await connector.push(sample_change(0))
        await hub.bind_created()
        assert isinstance(await connector.push(sample_change(1)), Applied)
        assert isinstance(await connector.push(sample_change(2)), Applied)
    assert await hub.state() != before


async def test_a_source_that_is_deleted_is_a_problem_until_it_exists_again(
    hub: Hub,
) -> None:
    host = MemoryHost()
    async with receiving(hub, host.emit) as connector:
        await hub.delete_source()
        await until(connector.problems, "the problem is known")
        await hub.prepare()
        await connector.subscribed()
        await hub.send([shipment(1)])
        await until(lambda: host.records, "the record")


async def test_a_refused_message_is_sent_once_the_broker_accepts_it(hub: Hub) -> None:
    connector = hub.connector()
    await hub.refuse(Failure.BUSY)
    said = await connector.push(sample_change(1))
    assert isinstance(said, NotSent)
    await hub.accept()
    assert isinstance(await connector.push(sample_change(1)), Applied)
    assert [each for each in await hub.published() if "x:" not in each] == [
        "sample:order.placed:1"
    ]
    await connector.close()
