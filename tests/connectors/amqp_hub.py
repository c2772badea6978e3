"""A RabbitMQ with a queue that is read, and an exchange that is filled."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.exceptions import ChannelNotFoundEntity

from backhaul_connectors.amqp import Amqp
from backhaul_connectors.amqp.settings import Settings
from backhaul_sdk.testing import Failure
from connectors.message_benches import MAPPING, Hub
from scenes.rabbitmq import PASSWORD, USER, VHOST, RabbitMq
from scenes.tcp_relay import Relay, tcp_relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

EVERYTHING = "#"


@dataclass(slots=True)
class AmqpHub(Hub):
    """The queue `in`, and the exchange `out` whose messages go to the queue `kept`.

    Each name has the suffix of the test, so that one broker serves many tests.
    """

    server: RabbitMq
    relay: Relay
    suffix: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    name: str = "amqp"
    secrets: Sequence[str] = (PASSWORD,)
    failures: Sequence[Failure] = (
        Failure.BUSY,
        Failure.BREAKS,
        Failure.LOSES_ANSWER,
    )
    sent: int = 0

    def connector(self, **options: Any) -> Amqp:
        wanted = {
            "url": f"amqp://127.0.0.1:{self.relay.port}",
            "vhost": VHOST,
            "user": USER,
            "password": PASSWORD,
            "receive": {"shipments": {**self.source, **MAPPING}},
            "publish": {"exchange": f"out{self.suffix}"},
        }
        return Amqp("bus", Settings.model_validate(wanted | self.options | options))

    @property
    def source(self) -> dict[str, str]:
        return {"queue": f"in{self.suffix}"}

    async def left(self) -> int:
        async with self.server.connected() as channel:
            queue = await channel.declare_queue(f"in{self.suffix}", passive=True)
        return queue.declaration_result.message_count or 0

    def missing(self, *, create: bool = False) -> dict[str, Any]:
        source = {"queue": f"new{self.suffix}", **MAPPING}
        return {
            "receive": {"shipments": {**source, "create": create}},
            "publish": {"exchange": f"new{self.suffix}", "create": create},
        }

    async def bind_created(self) -> None:
        async with self.server.connected() as channel:
            kept = await channel.declare_queue(f"kept{self.suffix}", passive=True)
            await kept.bind(f"new{self.suffix}", EVERYTHING)

    async def delete_source(self) -> None:
        async with self.server.connected() as channel:
            await channel.queue_delete(f"in{self.suffix}")

    async def prepare(self) -> None:
        async with self.server.connected() as channel:
            await channel.declare_queue(f"in{self.suffix}", durable=True)
            kept = await channel.declare_queue(f"kept{self.suffix}", durable=True)
            await channel.declare_exchange(
                f"out{self.suffix}", ExchangeType.TOPIC, durable=True
            )
            await kept.bind(f"out{self.suffix}", EVERYTHING)

    async def send(self, bodies: Sequence[bytes]) -> None:
        async with self.server.connected() as channel:
            for body in bodies:
                await channel.default_exchange.publish(
                    Message(body, delivery_mode=DeliveryMode.PERSISTENT),
                    f"in{self.suffix}",
                )
                self.sent += 1

    async def unacknowledged(self) -> int:
        return self.sent - self.relay.seen

    async def published(self) -> Sequence[str]:
        found: dict[str, None] = {}
        async with self.server.connected() as channel:
            kept = await channel.declare_queue(f"kept{self.suffix}", passive=True)
            # What is not acknowledged returns to the queue.
            while message := await kept.get(fail=False):
                found[message.message_id or ""] = None
        return list(found)

    async def state(self) -> object:
        async with self.server.connected() as channel:
            queues = [
                await channel.declare_queue(f"{name}{self.suffix}", passive=True)
                for name in ("in", "kept")
            ]
        counts = [each.declaration_result.message_count for each in queues]
        return counts, await self._has_new()

    async def _has_new(self) -> tuple[bool, bool]:
        """Return whether the queue and the exchange of `missing` exist."""
        found = []
        for ask in ("declare_queue", "declare_exchange"):
            async with self.server.connected() as channel:
                try:
                    await getattr(channel, ask)(f"new{self.suffix}", passive=True)
                    found.append(True)
                except ChannelNotFoundEntity:
                    found.append(False)
        return found[0], found[1]

    async def refuse(self, failure: Failure) -> None:
        async with self.server.connected() as channel:
            kept = await channel.declare_queue(f"kept{self.suffix}", passive=True)
            await kept.unbind(f"out{self.suffix}", EVERYTHING)

    async def accept(self) -> None:
        async with self.server.connected() as channel:
            kept = await channel.declare_queue(f"kept{self.suffix}", passive=True)
            await kept.bind(f"out{self.suffix}", EVERYTHING)

    async def kill(self) -> None:
        await asyncio.to_thread(self.server.kill)

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)


@asynccontextmanager
async def amqp_hub(server: RabbitMq, suffix: str = "") -> AsyncIterator[AmqpHub]:
    async with tcp_relay(server.port) as relay:
        hub = AmqpHub(server, relay, suffix)
        await hub.prepare()
        yield hub
