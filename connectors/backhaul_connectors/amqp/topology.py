"""Queues and exchanges: which exist, and how they are created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aio_pika import ExchangeType
from aio_pika.exceptions import ChannelNotFoundEntity

from backhaul_sdk.messages import BrokerFailed

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractExchange, AbstractQueue

    from backhaul_connectors.amqp.link import Link
    from backhaul_connectors.amqp.settings import Publish, Queue


class MissingError(BrokerFailed):
    """A queue or an exchange does not exist; the channel has ended with the answer."""


async def require_queue(
    link: Link, channel: AbstractChannel, settings: Queue
) -> AbstractQueue:
    """Return a queue that exists; changes nothing. Raises BrokerFailed."""
    name = settings.queue
    try:
        return await link.ask(
            channel.declare_queue(name, passive=True), f"access to the queue {name}"
        )
    except ChannelNotFoundEntity:
        raise MissingError(
            f"RabbitMQ at {link.where} has no queue {name}; create it, correct queue or"
            " vhost, or set create = true"
        ) from None


async def create_queue(link: Link, channel: AbstractChannel, settings: Queue) -> None:
    """Create a durable queue, and bind it. Raises BrokerFailed."""
    what = f"the creation of the queue {settings.queue}"
    try:
        queue = await link.ask(
            channel.declare_queue(
                settings.queue,
                durable=True,
                arguments={"x-queue-type": settings.queue_type},
            ),
            what,
        )
        if settings.exchange:
            await link.ask(queue.bind(settings.exchange, settings.binding_key), what)
    except ChannelNotFoundEntity as error:
        raise BrokerFailed(link.refused(what, error)) from None


async def require_exchange(
    link: Link, channel: AbstractChannel, settings: Publish
) -> AbstractExchange:
    """Return an exchange that exists; changes nothing. Raises BrokerFailed."""
    name = settings.exchange
    if not name:
        return channel.default_exchange
    try:
        return await link.ask(
            channel.get_exchange(name, ensure=True), f"access to the exchange {name}"
        )
    except ChannelNotFoundEntity:
        raise MissingError(
            f"RabbitMQ at {link.where} has no exchange {name}; create it, correct"
            " exchange or vhost, or set create = true"
        ) from None


async def create_exchange(
    link: Link, channel: AbstractChannel, settings: Publish
) -> None:
    """Create a durable topic exchange. Raises BrokerFailed."""
    await link.ask(
        channel.declare_exchange(settings.exchange, ExchangeType.TOPIC, durable=True),
        f"the creation of the exchange {settings.exchange}",
    )
