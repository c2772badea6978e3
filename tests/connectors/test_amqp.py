"""RabbitMQ: queues, message ids, routing and permissions."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from aio_pika import DeliveryMode, Message
from pydantic import ValidationError

from backhaul_connectors.amqp.connector import shared
from backhaul_connectors.amqp.settings import Settings
from backhaul_sdk import Applied, CheckFailed, NotSent, Rejected, StockLevel
from backhaul_sdk.cloud_events import STRUCTURED_TYPE
from backhaul_sdk.testing import MemoryHost, sample_change
from connectors.message_hubs import amqp, rabbit
from connectors.test_message_brokers import receiving
from scenes.rabbitmq import MOST_BYTES, READER
from scenes.waiting import until

if TYPE_CHECKING:
    from aio_pika.abc import AbstractIncomingMessage

    from connectors.amqp_hub import AmqpHub

__all__ = ["amqp", "rabbit"]
pytestmark = pytest.mark.programs
FEW = {"url": "amqp://127.0.0.1", "password": "a-word", "publish": {}}


async def published(hub: AmqpHub) -> AbstractIncomingMessage:
    async with hub.server.connected() as channel:
        kept = await channel.declare_queue(f"kept{hub.suffix}", passive=True)
        return await kept.get(no_ack=True)


async def test_a_change_is_published_persistent_with_its_id(amqp: AmqpHub) -> None:
    connector, change = amqp.connector(), sample_change(7, "order.updated")
    assert await connector.push(change) == Applied()
    message = await published(amqp)
    assert message.message_id == change.id
    assert message.delivery_mode == DeliveryMode.PERSISTENT
    assert message.type == message.routing_key == "order.updated"
    assert message.content_type == "application/json"
    assert message.body.startswith(b'{"type":"order.updated",')
    await connector.close()


async def test_a_change_is_published_as_a_cloud_event(amqp: AmqpHub) -> None:
    direct = {"routing_key": f"kept{amqp.suffix}", "format": "cloudevents"}
    connector, change = amqp.connector(publish=direct), sample_change(7)
    assert await connector.push(change) == Applied()
    message = await published(amqp)
    assert (message.content_type, message.message_id) == (STRUCTURED_TYPE, change.id)
    event = json.loads(message.body)
    assert (event["specversion"], event["id"]) == ("1.0", change.id)
    assert (event["type"], event["data"]) == ("backhaul.order.placed", change.document)
    await connector.close()


async def test_a_published_message_survives_a_kill_of_the_broker(
    amqp: AmqpHub,
) -> None:
    connector, change = amqp.connector(), sample_change(1)
    assert await connector.push(change) == Applied()
    await amqp.kill()
    await amqp.start()
    assert (await published(amqp)).message_id == change.id
    await connector.close()


async def test_the_default_exchange_leads_to_a_queue(amqp: AmqpHub) -> None:
    direct = amqp.connector(publish={"routing_key": f"kept{amqp.suffix}"})
    assert await direct.push(sample_change(1)) == Applied()
    assert (await published(amqp)).message_id == "sample:order.placed:1"
    await direct.close()
    lost = amqp.connector(publish={"routing_key": "no-such-queue"})
    said = await lost.push(sample_change(1))
    assert isinstance(said, NotSent)
    assert "there is no queue no-such-queue" in said.reason
    await lost.close()


async def test_a_full_queue_refuses_and_nothing_is_lost(amqp: AmqpHub) -> None:
    name = f"full{amqp.suffix}"
    async with amqp.server.connected() as channel:
        await channel.declare_queue(
            name,
            durable=True,
            arguments={"x-max-length": 1, "x-overflow": "reject-publish"},
        )
    connector = amqp.connector(publish={"routing_key": name})
    assert await connector.push(sample_change(1)) == Applied()
    said = await connector.push(sample_change(2))
    assert isinstance(said, NotSent)
    assert "because it is full" in said.reason
    async with amqp.server.connected() as channel:
        queue = await channel.declare_queue(name, passive=True)
        await queue.purge()
    assert await connector.push(sample_change(2)) == Applied()
    await connector.close()


async def test_too_large_a_change_is_rejected(amqp: AmqpHub) -> None:
    connector, change = amqp.connector(), sample_change(1)
    members = {name: getattr(change, name) for name in change.__slots__}
    large = {**change.document, "note": "x" * MOST_BYTES}
    said = await connector.push(type(change)(**members | {"document": large}))
    assert isinstance(said, Rejected)
    assert "is larger than configured max size" in said.reason
    # RabbitMQ closed the channel: what comes before it is open again was not sent.
    for _ in range(1_000):
        if not isinstance(said := await connector.push(sample_change(2)), NotSent):
            break
        await asyncio.sleep(0.01)
    assert said == Applied()
    await connector.close()


async def test_a_missing_right_is_named_with_its_remedy(amqp: AmqpHub) -> None:
    connector = amqp.connector(user=READER)
    said = await connector.push(sample_change(1))
    assert isinstance(said, NotSent)
    assert "ACCESS_REFUSED" in said.reason
    assert f"rabbitmqctl set_permissions -p shop {READER}" in said.reason
    await connector.close()


async def test_a_wrong_virtual_host_is_named(amqp: AmqpHub) -> None:
    for vhost in ("no-such-host", "other"):
        with pytest.raises(CheckFailed, match="refused the virtual host") as raised:
            await amqp.connector(vhost=vhost).check()
        assert vhost in str(raised.value)
        assert "check vhost, and the permissions of the user" in str(raised.value)


async def test_the_properties_of_a_message_are_its_key_and_its_time(
    amqp: AmqpHub,
) -> None:
    at = datetime(2026, 3, 1, 10, tzinfo=UTC)
    count = {"kind": "stock_level", "fields": {"sku": "sku", "quantity": "units"}}
    source = {"x": {"queue": f"in{amqp.suffix}", **count}}
    host, body = MemoryHost(), b'{"sku": "A", "units": 5}'
    async with amqp.server.connected() as channel:
        for message in (Message(body, message_id="m-1", timestamp=at), Message(body)):
            await channel.default_exchange.publish(message, f"in{amqp.suffix}")
    async with receiving(amqp, host.emit, receive=source):
        await until(lambda: host.records and host.bad, "both are with the host")
    (level,) = host.records.values()
    assert isinstance(level, StockLevel)
    assert level.as_of == "2026-03-01T10:00:00.000Z"
    assert level.key == "x:m-1:2026-03-01T10:00:00.000Z:5"
    (bad,) = host.bad.values()
    assert "the stock level has no time" in bad.reason


async def test_an_existing_queue_stays_as_it_is(amqp: AmqpHub) -> None:
    """Its type is another than the one of a queue that we would create."""
    source = amqp.connector().settings.receive["shipments"].model_dump()
    creating = {"shipments": source | {"create": True, "queue_type": "quorum"}}
    async with receiving(amqp, MemoryHost().emit, receive=creating):
        pass
    async with amqp.server.connected() as channel:
        classic = {"x-queue-type": "classic"}
        await channel.declare_queue(
            f"in{amqp.suffix}", durable=True, arguments=dict(classic)
        )


async def test_a_created_queue_is_bound_and_keeps_its_messages(
    amqp: AmqpHub,
) -> None:
    created = {"create": True, "exchange": f"out{amqp.suffix}", "binding_key": "a.#"}
    source = amqp.connector().settings.receive["shipments"].model_dump()
    name = f"made{amqp.suffix}"
    made = {"shipments": source | created | {"queue": name}}
    async with receiving(amqp, MemoryHost().emit, receive=made):
        pass
    async with amqp.server.connected() as channel:
        exchange = await channel.get_exchange(f"out{amqp.suffix}")
        for key in ("a.b", "b.a"):
            await exchange.publish(Message(b"{}"), key)
        quorum = {"x-queue-type": "quorum"}
        queue = await channel.declare_queue(name, durable=True, arguments=dict(quorum))
        found = await queue.get(timeout=30)
        assert found.routing_key == "a.b"
        assert await queue.get(fail=False) is None


async def test_many_connections_leave_nothing_behind(amqp: AmqpHub) -> None:
    before = asyncio.all_tasks()
    for _ in range(5):
        await amqp.connector().check()
    await until(lambda: len(asyncio.all_tasks()) <= len(before), "tasks have ended")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "amqp://rabbit.example"}, "is not encrypted"),
        ({"url": "amqp://a:b@127.0.0.1"}, "contains credentials"),
        ({"url": "amqp://127.0.0.1/shop"}, "set vhost"),
        ({"publish": None}, "neither receive nor publish"),
        ({"publish": {"routing_key": "{order}"}}, "the placeholders are"),
        ({"publish": {"create": True}}, "exchange must be set too"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValidationError, match=problem):
        Settings.model_validate(FEW | options)


def test_two_connections_with_one_queue_are_refused() -> None:
    source = {"kind": "cancellation", "fields": {"order": "order"}}

    def reading(queue: str, vhost: str = "/") -> Settings:
        receive = {"x": {**source, "queue": queue}}
        return Settings.model_validate(FEW | {"receive": receive, "vhost": vhost})

    assert shared(reading("a"), reading("a"), False) == "the queue a"
    assert shared(reading("a"), reading("b"), True) == ""
    assert shared(reading("a"), reading("a", "shop"), True) == ""
