"""Receives from queues of RabbitMQ, and publishes to an exchange with confirms."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from aio_pika import DeliveryMode
from aio_pika import Message as AmqpMessage
from aio_pika.exceptions import (
    ChannelClosed,
    ChannelInvalidStateError,
    ChannelPreconditionFailed,
    DeliveryError,
    PublishError,
)

from backhaul_connectors.amqp.link import UNUSABLE, Link, words_of
from backhaul_connectors.amqp.topology import (
    MissingError,
    create_exchange,
    create_queue,
    require_exchange,
    require_queue,
)
from backhaul_sdk.change_documents import filled
from backhaul_sdk.contract import Applied, NotSent, Rejected, Uncertain
from backhaul_sdk.fields import rfc3339
from backhaul_sdk.messages import (
    Broker,
    BrokerFailed,
    Message,
    Publisher,
    Subscription,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from typing import TypeAlias

    from aio_pika.abc import AbstractChannel, AbstractExchange, AbstractIncomingMessage

    from backhaul_connectors.amqp.settings import Publish, Queue, Settings
    from backhaul_sdk.contract import Change, Pushed

    Step: TypeAlias = Callable[[Link, AbstractChannel], Awaitable[object]]


class AmqpBroker(Broker):
    """One RabbitMQ server or cluster."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def check(self) -> None:
        steps: list[tuple[Step, bool]] = [
            (partial(require_queue, settings=queue), queue.create)
            for queue in self._settings.receive.values()
        ]
        if publish := self._settings.publish:
            steps.append((partial(require_exchange, settings=publish), publish.create))
        for step, is_created in steps:
            # One connection each: a channel ends with the first missing name.
            async with self._connected("check") as (link, channel):
                try:
                    await step(link, channel)
                except MissingError:
                    if not is_created:
                        raise

    async def subscribe(self, source: str) -> Subscription:
        settings = self._settings.receive[source]
        if settings.create:
            await self._ensure(
                partial(require_queue, settings=settings),
                partial(create_queue, settings=settings),
            )
        link, channel = await self._connect(f"receive {source}")
        try:
            subscription = _AmqpSubscription(link, settings)
            await subscription.open(channel)
        except BaseException:
            await link.close()
            raise
        return subscription

    async def publisher(self) -> Publisher:
        settings = self._settings.publish
        if settings is None:
            raise BrokerFailed("the configuration has no table publish")
        if settings.create:
            await self._ensure(
                partial(require_exchange, settings=settings),
                partial(create_exchange, settings=settings),
            )
        link, channel = await self._connect("publish")
        try:
            exchange = await require_exchange(link, channel, settings)
        except BaseException:
            await link.close()
            raise
        return _AmqpPublisher(link, exchange, settings, self._settings.answer_seconds)

    async def _ensure(self, require: Step, create: Step) -> None:
        """Create what does not exist; what exists stays as it is."""
        async with self._connected("check") as (link, channel):
            with suppress(MissingError):
                await require(link, channel)
                return
        async with self._connected("create") as (link, channel):
            await create(link, channel)

    @asynccontextmanager
    async def _connected(
        self, purpose: str
    ) -> AsyncIterator[tuple[Link, AbstractChannel]]:
        link, channel = await self._connect(purpose)
        try:
            yield link, channel
        finally:
            await link.close()

    async def _connect(self, purpose: str) -> tuple[Link, AbstractChannel]:
        tls = None
        if self._settings.is_encrypted:
            tls = await asyncio.to_thread(self._settings.tls)
        link = Link(self._settings, purpose)
        return link, await link.connect(tls)


class _AmqpSubscription(Subscription):
    """Consumes one queue; the broker sends at most `prefetch` messages ahead."""

    def __init__(self, link: Link, settings: Queue) -> None:
        self._link = link
        self._settings = settings
        self._arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()

    async def open(self, channel: AbstractChannel) -> None:
        """Begin to consume."""
        queue = await require_queue(self._link, channel, self._settings)
        what = f"to deliver from the queue {self._settings.queue}"
        await self._link.ask(
            channel.set_qos(prefetch_count=self._settings.prefetch), what
        )
        underlay = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(self._on_cancel)
        await self._link.ask(queue.consume(self._arrived.put), what)

    async def next(self) -> Sequence[Message]:
        found = [await self._link.within(self._arrived.get())]
        while not self._arrived.empty():
            found.append(self._arrived.get_nowait())
        return [self._message(each) for each in found]

    async def close(self) -> None:
        await self._link.close()

    def _on_cancel(self, _: object) -> None:
        self._link.lose(f"the queue {self._settings.queue} was deleted")

    def _message(self, message: AbstractIncomingMessage) -> Message:
        own, sent_at = message.message_id or "", message.timestamp
        named = f", message {own}" if own else ""
        return Message(
            body=message.body,
            id=own,
            sent_at=rfc3339(sent_at, "milliseconds") if sent_at else "",
            locator=f"queue {self._settings.queue}{named}",
            acknowledge=partial(self._acknowledge, message),
        )

    async def _acknowledge(self, message: AbstractIncomingMessage) -> None:
        try:
            await self._link.within(message.ack())
        except UNUSABLE:
            raise BrokerFailed(self._link.ended()) from None


class _AmqpPublisher(Publisher):
    """Publishes to one exchange, persistent, and waits for each confirm."""

    def __init__(
        self,
        link: Link,
        exchange: AbstractExchange,
        settings: Publish,
        answer_seconds: float,
    ) -> None:
        self._link = link
        self._exchange = exchange
        self._settings = settings
        self._answer_seconds = answer_seconds

    @property
    def is_lost(self) -> bool:
        return self._link.lost.done()

    async def close(self) -> None:
        await self._link.close()

    async def publish(self, change: Change, body: bytes) -> Pushed:
        key = filled(self._settings.routing_key, change)
        content_type, body = self._settings.content(change, body)
        message = AmqpMessage(
            body,
            message_id=change.id,
            type=change.topic,
            content_type=content_type,
            content_encoding="utf-8",
            delivery_mode=DeliveryMode.PERSISTENT,
            app_id="backhaul",
        )
        sending = self._exchange.publish(
            message, key, mandatory=self._settings.mandatory
        )
        try:
            async with asyncio.timeout(self._answer_seconds):
                await self._link.within(sending)
        except PublishError:
            return NotSent(self._unroutable(key))
        except DeliveryError:
            return NotSent(
                f"a queue of the exchange {self._named} refused the message, perhaps"
                " because it is full; empty it, or raise its limit"
            )
        except ChannelPreconditionFailed as error:
            return Rejected(self._link.refused("the message", error))
        except ChannelClosed as error:
            return NotSent(self._link.refused("the message", error))
        except ChannelInvalidStateError:
            return NotSent(self._link.ended())
        except BrokerFailed as error:
            return Uncertain(str(error))
        except TimeoutError:
            return Uncertain(
                f"RabbitMQ did not confirm within {self._answer_seconds:g} s"
            )
        except UNUSABLE as error:
            return Uncertain(words_of(error))
        return Applied()

    @property
    def _named(self) -> str:
        return self._settings.exchange or "(default)"

    def _unroutable(self, key: str) -> str:
        if not self._settings.exchange:
            return f"there is no queue {key}; create it, or correct routing_key"
        return (
            f"the exchange {self._named} has no queue for the routing key {key}; bind a"
            " queue, correct routing_key, or set mandatory = false to drop such"
            " messages"
        )
