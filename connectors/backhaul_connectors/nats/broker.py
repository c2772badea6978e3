"""Receives from durable consumers of NATS JetStream, and publishes to a stream."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from nats.errors import ConnectionClosedError, MaxPayloadError
from nats.js.errors import APIError, NoStreamResponseError

from backhaul_connectors.nats.link import Link
from backhaul_connectors.nats.lookup import find_message
from backhaul_connectors.nats.streams import (
    require_consumer,
    require_stream,
    subjects_of,
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
    from collections.abc import Sequence

    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

    from backhaul_connectors.nats.settings import Consumer, Publish, Settings
    from backhaul_sdk.contract import Change, LookedUp, Pushed

MESSAGE_ID = "Nats-Msg-Id"
IDLE_SECONDS = 5.0
"""How long one request for messages waits at the server."""
TOO_LARGE = 10054
"""JetStream's code: the message exceeds the largest size of the stream."""


class NatsBroker(Broker):
    """The servers of one NATS cluster."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def check(self) -> None:
        link, jetstream = await self._connect("check")
        try:
            for consumer in self._settings.receive.values():
                await require_consumer(link, jetstream, consumer, may_create=False)
            publish = self._settings.publish
            if publish is not None and not publish.create:
                await require_stream(link, jetstream, publish.stream, [])
        finally:
            await link.close()

    async def subscribe(self, source: str) -> Subscription:
        link, jetstream = await self._connect(f"receive {source}")
        consumer = self._settings.receive[source]
        try:
            await require_consumer(link, jetstream, consumer, may_create=True)
            subscription = _NatsSubscription(link, jetstream, consumer)
            await subscription.open()
        except BaseException:
            await link.close()
            raise
        return subscription

    async def publisher(self) -> Publisher:
        link, jetstream = await self._connect("publish")
        settings = self._settings.publish
        if settings is None:
            raise BrokerFailed("the configuration has no table publish")
        try:
            if settings.create:
                subjects = subjects_of(settings)
                await require_stream(link, jetstream, settings.stream, subjects)
        except BaseException:
            await link.close()
            raise
        return _NatsPublisher(link, jetstream, settings, self._settings.answer_seconds)

    async def _connect(self, purpose: str) -> tuple[Link, JetStreamContext]:
        tls = None
        if self._settings.is_encrypted:
            tls = await asyncio.to_thread(self._settings.tls)
        link = Link(self._settings, purpose)
        return link, await link.connect(tls)


class _NatsSubscription(Subscription):
    """Requests messages of one durable consumer; has at most `prefetch` of them."""

    def __init__(
        self, link: Link, jetstream: JetStreamContext, consumer: Consumer
    ) -> None:
        self._link = link
        self._jetstream = jetstream
        self._consumer = consumer
        self._unacknowledged: dict[str, Msg] = {}

    async def open(self) -> None:
        """Subscribe to the answers of the consumer."""
        self._pull = await self._link.ask(
            self._jetstream.pull_subscribe_bind(
                self._consumer.consumer, self._consumer.stream
            ),
            f"a subscription to the consumer {self._consumer.consumer}",
        )

    async def next(self) -> Sequence[Message]:
        named = f"the consumer {self._consumer.consumer}"
        while True:
            try:
                # Two, because a request for one message takes another way.
                batch = max(self._consumer.prefetch, 2)
                found = await self._link.within(
                    self._pull.fetch(batch, timeout=IDLE_SECONDS)
                )
            except TimeoutError:
                # Nothing came: is the consumer still there?
                await require_consumer(
                    self._link, self._jetstream, self._consumer, may_create=True
                )
            except APIError as error:
                raise BrokerFailed(
                    f"{named} delivers nothing more: {error.description or error.code}"
                ) from None
            else:
                self._unacknowledged = {each.reply: each for each in found}
                return [self._message(each) for each in found]

    async def close(self) -> None:
        """Give back what is not stored, so that it comes again at once."""
        try:
            if not self._link.lost.done():
                for message in self._unacknowledged.values():
                    await self._link.send(message.nak())
        finally:
            self._unacknowledged = {}
            await self._link.close()

    def _message(self, message: Msg) -> Message:
        metadata = message.metadata
        sequence = metadata.sequence.stream
        own = (message.headers or {}).get(MESSAGE_ID, "")
        # A stream that was deleted and created again counts from 1 again.
        written = int(metadata.timestamp.timestamp() * 1_000_000)
        return Message(
            body=message.data,
            id=own or f"{metadata.stream}:{sequence}:{written}",
            sent_at=rfc3339(metadata.timestamp, "milliseconds"),
            locator=f"stream {metadata.stream}, message {sequence}",
            acknowledge=partial(self._acknowledge, message),
        )

    async def _acknowledge(self, message: Msg) -> None:
        await self._link.send(message.ack())
        self._unacknowledged.pop(message.reply, None)


class _NatsPublisher(Publisher):
    """Publishes to one stream, which ignores a repeated id for a while."""

    def __init__(
        self,
        link: Link,
        jetstream: JetStreamContext,
        settings: Publish,
        answer_seconds: float,
    ) -> None:
        self._link = link
        self._jetstream = jetstream
        self._settings = settings
        self._answer_seconds = answer_seconds

    @property
    def is_lost(self) -> bool:
        return self._link.lost.done()

    async def close(self) -> None:
        await self._link.close()

    async def publish(self, change: Change, body: bytes) -> Pushed:
        subject, stream = filled(self._settings.subject, change), self._settings.stream
        self._link.denied = ""
        content_type, body = self._settings.content(change, body)
        sending = self._jetstream.publish(
            subject,
            body,
            timeout=self._answer_seconds,
            stream=stream,
            headers={MESSAGE_ID: change.id, "Content-Type": content_type},
        )
        try:
            acknowledged = await self._link.within(sending)
        except NoStreamResponseError:
            return NotSent(
                f"no stream takes the subject {subject}; add it to the stream {stream}:"
                f" nats stream edit {stream} --subjects=…"
            )
        except MaxPayloadError:
            return Rejected(
                f"the message has {len(body):,} bytes, more than max_payload of the"
                " NATS server"
            )
        except APIError as error:
            return _refused(error, stream)
        except ConnectionClosedError:
            return NotSent("the connection to NATS had ended before")
        except BrokerFailed as error:
            return Uncertain(str(error))
        except TimeoutError:
            return self._unanswered(subject)
        return Applied(f"{acknowledged.stream}:{acknowledged.seq}")

    async def lookup(self, change: Change) -> LookedUp:
        subject, stream = filled(self._settings.subject, change), self._settings.stream
        return await find_message(self._link, self._jetstream, stream, subject, change)

    def _unanswered(self, subject: str) -> Pushed:
        if self._link.denied:
            return NotSent(
                f"NATS denied publishing: {self._link.denied}; grant the user"
                f" permission to publish to {subject}"
            )
        return Uncertain(f"NATS did not confirm within {self._answer_seconds:g} s")


def _refused(error: APIError, stream: str) -> Pushed:
    said = f"the stream {stream} refused the message: {error.description or error.code}"
    return Rejected(said) if error.err_code == TOO_LARGE else NotSent(said)
