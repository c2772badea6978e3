"""A NATS server with a stream that is read, and a stream that is filled."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nats.js.api import ConsumerConfig, DiscardPolicy, StreamConfig

from backhaul_connectors.nats import Nats
from backhaul_connectors.nats.settings import Settings
from backhaul_sdk.testing import Failure
from connectors.message_benches import MAPPING, Hub
from scenes.nats_server import PASSWORD, USER, NatsServer, nats_server
from scenes.tcp_relay import Relay, tcp_relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

ACK_WAIT_SECONDS = 0.5
OUT = StreamConfig(name="OUT", subjects=["store.>"], discard=DiscardPolicy.NEW)


@dataclass(slots=True)
class NatsHub(Hub):
    """Streams IN and OUT; what is sent to IN has the subject `in.shipments`."""

    server: NatsServer
    relay: Relay
    options: dict[str, Any] = field(default_factory=dict)
    name: str = "nats"
    secrets: Sequence[str] = (PASSWORD,)
    failures: Sequence[Failure] = (
        Failure.REFUSES,
        Failure.BUSY,
        Failure.BREAKS,
        Failure.LOSES_ANSWER,
    )

    def connector(self, **options: Any) -> Nats:
        wanted = {
            "servers": [f"nats://127.0.0.1:{self.relay.port}"],
            "user": USER,
            "password": PASSWORD,
            "receive": {"shipments": {**self.source, **MAPPING}},
            "publish": {"stream": "OUT"},
        }
        return Nats("bus", Settings.model_validate(wanted | self.options | options))

    @property
    def source(self) -> dict[str, str]:
        return {"stream": "IN", "consumer": "backhaul"}

    async def left(self) -> int:
        return await self.unacknowledged()

    async def prepare(self) -> None:
        async with self.server.connected() as jetstream:
            await jetstream.add_stream(StreamConfig(name="IN", subjects=["in.>"]))
            await jetstream.add_stream(OUT)
            config = ConsumerConfig(
                durable_name="backhaul", ack_wait=ACK_WAIT_SECONDS, max_ack_pending=100
            )
            await jetstream.add_consumer("IN", config)

    def missing(self, *, create: bool = False) -> dict[str, Any]:
        source = {"stream": "NEW", "consumer": "new", "subject": "fresh.>", **MAPPING}
        out = {"stream": "NEWOUT", "subject": "new.{topic}.{object_id}"}
        return {
            "receive": {"shipments": {**source, "create": create}},
            "publish": {**out, "create": create},
        }

    async def bind_created(self) -> None:
        """A stream keeps what is published to it."""

    async def delete_source(self) -> None:
        async with self.server.connected() as jetstream:
            await jetstream.delete_stream("IN")

    async def send(self, bodies: Sequence[bytes]) -> None:
        async with self.server.connected() as jetstream:
            for body in bodies:
                await jetstream.publish("in.shipments", body)

    async def unacknowledged(self) -> int:
        async with self.server.connected() as jetstream:
            info = await jetstream.consumer_info("IN", "backhaul")
        return (info.num_pending or 0) + (info.num_ack_pending or 0)

    async def published(self) -> Sequence[str]:
        found = []
        async with self.server.connected() as jetstream:
            state = (await jetstream.stream_info("OUT")).state
            for sequence in range(max(state.first_seq, 1), state.last_seq + 1):
                message = await jetstream.get_msg("OUT", sequence)
                found.append((message.headers or {})["Nats-Msg-Id"])
        return found

    async def state(self) -> object:
        async with self.server.connected() as jetstream:
            streams = await jetstream.streams_info()
            consumers = await jetstream.consumers_info("IN")
        return (
            [(each.config, each.state.last_seq) for each in streams],
            [(each.config, each.num_pending, each.delivered) for each in consumers],
        )

    async def refuse(self, failure: Failure) -> None:
        async with self.server.connected() as jetstream:
            messages = (await jetstream.stream_info("OUT")).state.messages
            limit = (
                {"max_msg_size": 10}
                if failure is Failure.REFUSES
                else {"max_msgs": max(messages, 1)}
            )
            if not messages:
                await jetstream.publish("store.x", headers={"Nats-Msg-Id": "x:999"})
            await jetstream.update_stream(OUT, **limit)

    async def accept(self) -> None:
        async with self.server.connected() as jetstream:
            await jetstream.update_stream(OUT, max_msg_size=-1, max_msgs=-1)

    async def kill(self) -> None:
        self.server.kill()

    async def start(self) -> None:
        await self.server.start()


@asynccontextmanager
async def nats_hub(folder: Path) -> AsyncIterator[NatsHub]:
    async with nats_server(folder) as server, tcp_relay(server.port) as relay:
        hub = NatsHub(server, relay)
        await hub.prepare()
        yield hub
