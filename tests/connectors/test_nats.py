"""NATS: consumers, message ids, lookups and logins."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from nats.errors import Error
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StreamConfig
from pydantic import ValidationError

from backhaul_connectors.nats import Nats
from backhaul_connectors.nats.connector import shared
from backhaul_connectors.nats.link import Link
from backhaul_connectors.nats.settings import Settings
from backhaul_sdk import (
    Absent,
    Applied,
    CheckFailed,
    Found,
    NotSent,
    Rejected,
    Unknown,
)
from backhaul_sdk.clock import now
from backhaul_sdk.cloud_events import STRUCTURED_TYPE
from backhaul_sdk.fields import rfc3339
from backhaul_sdk.messages import tasks
from backhaul_sdk.testing import MemoryHost, sample_change
from connectors.message_hubs import nats
from connectors.test_message_brokers import drained, receiving
from scenes.nats_server import PASSWORD, NatsServer
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from connectors.nats_hub import NatsHub

__all__ = ["nats"]
pytestmark = pytest.mark.programs
SEED = "SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4"
GREETING = b'INFO {"server_id":"x","version":"2.10.0","max_payload":1048576}\r\n'
CHUNK = 65_536
FEW = {
    "servers": ["nats://127.0.0.1"],
    "publish": {"stream": "STORE"},
}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"deliver_subject": "pushed"}, "is a push consumer"),
        ({"ack_policy": AckPolicy.NONE}, "messages could be lost"),
        ({"max_deliver": 5}, "gives a message up after 5 deliveries"),
    ],
)
async def test_a_consumer_that_could_lose_messages_is_refused(
    nats: NatsHub, config: dict[str, Any], problem: str
) -> None:
    async with nats.server.connected() as jetstream:
        wanted = ConsumerConfig(durable_name="wrong", **config)
        await jetstream.add_consumer("IN", wanted)
    source = nats.connector().settings.receive["shipments"].model_dump()
    wrong = {"shipments": source | {"consumer": "wrong"}}
    with pytest.raises(CheckFailed, match=problem):
        await nats.connector(receive=wrong).check()


async def test_the_id_of_a_message_is_the_key_of_its_record(nats: NatsHub) -> None:
    host = MemoryHost()
    async with nats.server.connected() as jetstream:
        for own in ({"Nats-Msg-Id": "m-1"}, {}):
            await jetstream.publish("in.x", b'{"order": "1001"}', headers=own)
    source = {"stream": "IN", "consumer": "backhaul", "kind": "fulfillment"}
    plain = {"x": source | {"fields": {"order": "order"}}}
    async with receiving(nats, host.emit, receive=plain):
        await drained(nats)
    first, second = sorted(host.records)
    assert second == "x:m-1"
    assert first.startswith("x:IN:2:")


async def test_a_change_is_published_with_its_id_and_once(nats: NatsHub) -> None:
    connector, change = nats.connector(), sample_change(7, "order.updated")
    first = await connector.push(change)
    again = await connector.push(change)
    assert first == again == Applied("OUT:1")
    async with nats.server.connected() as jetstream:
        message = await jetstream.get_msg("OUT", 1)
        assert (await jetstream.stream_info("OUT")).state.messages == 1
    assert message.subject == "store.order.updated.ord_00000007"
    assert message.headers == {
        "Nats-Msg-Id": change.id,
        "Nats-Expected-Stream": "OUT",
        "Content-Type": "application/json",
    }
    assert (message.data or b"").startswith(b'{"type":"order.updated",')
    await connector.close()


async def test_a_change_is_published_as_a_cloud_event(nats: NatsHub) -> None:
    out = {"stream": "OUT", "format": "cloudevents"}
    connector, change = nats.connector(publish=out), sample_change(7)
    assert await connector.push(change) == Applied("OUT:1")
    async with nats.server.connected() as jetstream:
        message = await jetstream.get_msg("OUT", 1)
    assert (message.headers or {})["Content-Type"] == STRUCTURED_TYPE
    event = json.loads(message.data or b"")
    assert (event["specversion"], event["id"]) == ("1.0", change.id)
    assert (event["type"], event["data"]) == ("backhaul.order.placed", change.document)
    assert await connector.lookup(change) == Found("OUT:1")
    await connector.close()


async def test_a_lookup_finds_a_message_behind_many_others(nats: NatsHub) -> None:
    out = {"stream": "OUT", "subject": "store.{topic}"}
    connector = nats.connector(publish=out)
    for number in range(30):
        await connector.push(sample_change(number))
    assert await connector.lookup(sample_change(11)) == Found("OUT:12")
    assert await connector.lookup(sample_change(31)) == Absent()
    async with nats.server.connected() as jetstream:
        assert len(await jetstream.consumers_info("OUT")) <= 2
    await connector.close()


async def test_a_stream_that_deletes_messages_is_not_believed(nats: NatsHub) -> None:
    async with nats.server.connected() as jetstream:
        tasks = StreamConfig(
            name="TASKS", subjects=["tasks.>"], retention=RetentionPolicy.WORK_QUEUE
        )
        await jetstream.add_stream(tasks)
    other = nats.connector(publish={"stream": "TASKS", "subject": "tasks.{topic}"})
    said = await other.lookup(sample_change(1))
    assert isinstance(said, Unknown)
    assert "TASKS" in said.reason
    # A message of this moment would be ignored if it were published again.
    fresh = sample_change(1)
    recent = type(fresh)(
        id=fresh.id,
        store="main",
        topic=fresh.topic,
        object_id=fresh.object_id,
        occurred_at=rfc3339(now()),
        document={},
    )
    assert await other.lookup(recent) == Absent()
    await other.close()


async def test_too_large_a_change_is_rejected(nats: NatsHub) -> None:
    connector, change = nats.connector(), sample_change(1)
    large = {**change.document, "note": "x" * 1_100_000}
    said = await connector.push(type(change)(**{**_members(change), "document": large}))
    assert isinstance(said, Rejected)
    assert "more than max_payload" in said.reason
    await connector.close()


def _members(change: Any) -> dict[str, Any]:
    return {name: getattr(change, name) for name in change.__slots__}


async def test_a_missing_permission_is_named(nats: NatsHub) -> None:
    connector = nats.connector(user="guest", receive={})
    said = await connector.push(sample_change(1))
    assert isinstance(said, NotSent)
    assert "grant the user permission to publish to store.order.placed" in said.reason
    await connector.close()
    source = nats.connector().settings.receive["shipments"].model_dump()
    creating = {"shipments": source | {"consumer": "new", "create": True}}
    creating["shipments"]["subject"] = "in.>"
    limited = nats.connector(user="guest", receive=creating, answer_seconds=1)
    await limited.open()
    await limited.listen(MemoryHost().emit)
    with pytest.raises(CheckFailed, match=r"denied .*stream.info.in.* grant the user"):
        await MemoryHost().pull(limited)
    await limited.close()


async def test_no_password_goes_to_a_server_without_tls() -> None:
    """The server of this test keeps what it is sent, and speaks no TLS."""
    heard = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING)
        while data := await reader.read(1_000):
            heard.extend(data)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        login = {"user": "u", "password": PASSWORD}
        options = {"servers": [f"tls://127.0.0.1:{port}"], **login}
        settings = Settings.model_validate(FEW | options)
        with pytest.raises(CheckFailed, match="does not offer TLS"):
            await Nats("bus", settings).check()
    assert PASSWORD.encode() not in heard


async def test_a_connection_to_a_server_that_stops_reading_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "CLOSE_SECONDS", 0.1)
    reads = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING)
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")
        await reads.wait()
        writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        options = {"servers": [f"nats://127.0.0.1:{port}"]}
        link = Link(Settings.model_validate(FEW | options), "test")
        stream = await link.connect(None)
        used: Any = link._client._transport
        sock = used._io_writer.get_extra_info("socket")
        # The first ones fill all buffers, and the last one waits for them.
        sending = []
        for size in (*[1_000_000] * 6, 1):
            sending.append(asyncio.ensure_future(stream.publish("x", bytes(size))))
            await asyncio.wait(sending, timeout=0.1)
        await link.close()
        try:
            await until(lambda: sock.fileno() < 0, "the connection is closed")
        finally:
            for each in sending:
                each.cancel()
            reads.set()


async def test_a_connection_that_cannot_be_made_is_closed(tmp_path: Path) -> None:
    """The greeting of this test's server cannot be read."""
    is_closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO {\r\n")
        while await reader.read(CHUNK):
            pass
        is_closed.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        server = NatsServer(tmp_path, port)
        # The error keeps the connection in memory, or its end would close it.
        with pytest.raises(Error, match="json parse error") as _kept:
            await server.connected().__aenter__()
        await until(is_closed.is_set, "the connection is closed")


async def test_an_invalid_key_is_named_and_not_shown(nats: NatsHub) -> None:
    login = {"user": "", "password": "", "nkey_seed": "SUcanary"}
    with pytest.raises(CheckFailed, match="nkey_seed or credentials") as raised:
        await nats.connector(**login).check()
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"servers": ["nats://nats.example"]}, "is not encrypted"),
        ({"servers": ["nats://a:b@127.0.0.1"]}, "contains credentials"),
        ({"servers": ["nats://127.0.0.1", "tls://x.example"]}, "all servers must"),
        ({"user": "u"}, "only one of user and password"),
        ({"token": "t", "nkey_seed": SEED}, "set only one of"),
        ({"publish": None}, "neither receive nor publish"),
        ({"publish": {"stream": "A.B"}}, "is not the name of a stream"),
        ({"publish": {"stream": "A", "subject": "a.>"}}, "is not a subject"),
        ({"publish": {"stream": "A", "subject": "a b"}}, "is not a subject"),
        ({"key_file": "k.pem"}, "certificate_file must be set too"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValidationError, match=problem):
        Settings.model_validate(FEW | options)


def test_two_connections_with_one_consumer_are_refused() -> None:
    source = {"stream": "IN", "kind": "cancellation", "fields": {"order": "order"}}

    def reading(consumer: str) -> Settings:
        receive = {"x": {**source, "consumer": consumer}}
        return Settings.model_validate(FEW | {"receive": receive})

    assert shared(reading("a"), reading("a"), False) == (
        "the consumer a of the stream IN"
    )
    assert shared(reading("a"), reading("b"), True) == ""
