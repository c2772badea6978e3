"""Consumers and streams: which exist, which are usable, and which are created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig
from nats.js.errors import NotFoundError

from backhaul_sdk.messages import BrokerFailed

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.api import ConsumerInfo, StreamInfo

    from backhaul_connectors.nats.link import Link
    from backhaul_connectors.nats.settings import Consumer, Publish


async def require_consumer(
    link: Link, jetstream: JetStreamContext, wanted: Consumer, *, may_create: bool
) -> None:
    """Check a consumer, and create it if the settings allow it. Raises BrokerFailed."""
    stream, consumer = wanted.stream, wanted.consumer
    try:
        info = await link.ask(
            jetstream.consumer_info(stream, consumer),
            f"the state of the consumer {consumer} of the stream {stream}",
        )
    except NotFoundError:
        if not wanted.create:
            raise BrokerFailed(
                f"the stream {stream} does not exist, or has no consumer {consumer};"
                f" create it: nats consumer add {stream} {consumer} --pull"
                " --ack=explicit, or set create = true"
            ) from None
        if may_create:
            await _create_consumer(link, jetstream, wanted)
        return
    _require_usable(info, wanted)


def _require_usable(info: ConsumerInfo, wanted: Consumer) -> None:
    config = info.config
    named = f"the consumer {wanted.consumer} of the stream {wanted.stream}"
    if config.deliver_subject:
        raise BrokerFailed(f"{named} is a push consumer; create a pull consumer")
    if config.ack_policy != AckPolicy.EXPLICIT:
        raise BrokerFailed(
            f"{named} does not wait for an acknowledgement of each message, so messages"
            " could be lost; create a consumer with --ack=explicit"
        )
    if config.max_deliver is not None and config.max_deliver > 0:
        raise BrokerFailed(
            f"{named} gives a message up after {config.max_deliver} deliveries, so"
            " messages could be lost; run: nats consumer edit"
            f" {wanted.stream} {wanted.consumer} --max-deliver=-1"
        )


async def _create_consumer(
    link: Link, jetstream: JetStreamContext, wanted: Consumer
) -> None:
    await require_stream(
        link, jetstream, wanted.stream, [wanted.subject] if wanted.create else []
    )
    config = ConsumerConfig(
        durable_name=wanted.consumer,
        ack_policy=AckPolicy.EXPLICIT,
        filter_subject=wanted.subject,
        max_ack_pending=max(wanted.prefetch, 1_000),
    )
    await link.ask(
        jetstream.add_consumer(wanted.stream, config),
        f"the creation of the consumer {wanted.consumer}",
    )


async def require_stream(
    link: Link, jetstream: JetStreamContext, stream: str, subjects: list[str]
) -> StreamInfo:
    """Return a stream's state; create it with `subjects`, if given, where it is absent.

    Raises BrokerFailed.
    """
    what = f"the state of the stream {stream}"
    try:
        return await link.ask(jetstream.stream_info(stream), what)
    except NotFoundError:
        if not subjects:
            raise BrokerFailed(
                f"the stream {stream} does not exist; create it: nats stream add"
                f" {stream}, or set create = true"
            ) from None
    config = StreamConfig(name=stream, subjects=subjects, storage=StorageType.FILE)
    return await link.ask(
        jetstream.add_stream(config), f"the creation of the stream {stream}"
    )


def subjects_of(settings: Publish) -> list[str]:
    """Return the subjects of a stream that takes every message of the template."""
    subject = settings.subject.replace("{topic}", "*.*")
    parts = ("*" if "{" in part or part == "*" else part for part in subject.split("."))
    return [".".join(parts)]
