"""One connection to RabbitMQ with one channel. It is never repaired, but replaced."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any, TypeVar

from aio_pika import Connection
from aio_pika.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    InvalidFrameError,
    ProbableAuthenticationError,
)
from pamqp.exceptions import PAMQPException

from backhaul_sdk.messages import BrokerFailed
from backhaul_sdk.messages.tasks import ConnectionLostError, close_soon, unless_lost

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine

    from aio_pika.abc import AbstractChannel

    from backhaul_connectors.amqp.settings import Settings

T = TypeVar("T")
CONNECT_SECONDS = 10.0
UNUSABLE = (
    AMQPError,
    PAMQPException,
    ChannelInvalidStateError,
    OSError,
    TimeoutError,
    RuntimeError,
)
"""What the library raises when it cannot use a broker."""
_REPLY = re.compile(r"reply_text='([^']*)'|[\"']?([A-Z_]+ - [^\"]*?)[\"']?\)?$")

# The host logs once that a connection is down; the library logs each attempt.
for _name in ("aiormq", "aio_pika"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)


class Link:
    """A connection. `lost` resolves when it, or its channel, has ended."""

    def __init__(self, settings: Settings, purpose: str) -> None:
        self._settings = settings
        self._purpose = purpose
        self._connection: Connection | None = None
        self._said = ""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def where(self) -> str:
        return f"{self._settings.url}, vhost {self._settings.vhost}"

    async def connect(self, tls: ssl.SSLContext | None) -> AbstractChannel:
        """Connect and open a channel with confirms. Raises BrokerFailed."""
        try:
            self._connection = Connection(
                self._settings.full_url(),
                ssl_context=tls,
                client_properties={"connection_name": f"backhaul {self._purpose}"},
            )
            return await self.within(self._opened(self._connection))
        except UNUSABLE as error:
            await self.close()
            raise BrokerFailed(self._unreachable(error)) from None
        except BaseException:
            await self.close()
            raise

    async def _opened(self, connection: Connection) -> AbstractChannel:
        await connection.connect(timeout=CONNECT_SECONDS)
        connection.close_callbacks.add(self._on_close)
        channel = connection.channel(publisher_confirms=True, on_return_raises=True)
        channel.close_callbacks.add(self._on_close)
        await channel.initialize(timeout=self._settings.answer_seconds)
        return channel

    async def within(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work. Raises BrokerFailed if the connection ends first.

        Passes the library's errors on.
        """
        try:
            return await unless_lost(work, self.lost)
        except ConnectionLostError:
            raise BrokerFailed(self.ended()) from None

    async def ask(self, work: Coroutine[Any, Any, T], what: str) -> T:
        """Return the broker's answer. Raises BrokerFailed.

        Passes ChannelNotFoundEntity on. `what` names the request in messages.
        """
        try:
            async with asyncio.timeout(self._settings.answer_seconds):
                return await self.within(work)
        except ChannelNotFoundEntity:
            raise
        except TimeoutError:
            seconds = self._settings.answer_seconds
            raise BrokerFailed(
                f"RabbitMQ at {self.where} did not answer {what} within {seconds:g} s"
            ) from None
        except UNUSABLE as error:
            raise BrokerFailed(self.refused(what, error)) from None

    async def close(self) -> None:
        """Close channel and connection; the broker requeues what it has not acked."""
        self._end(None)
        connection = self._connection
        if connection is not None:
            await close_soon(connection.close)
            if not connection.is_closed:
                # The broker did not answer, so the library does not count it as closed.
                await close_soon(connection.close)

    def lose(self, why: str) -> None:
        """Count the connection as lost."""
        self._said = self._said or why
        self._end(None)

    def ended(self) -> str:
        """Return a sentence about the end of the connection."""
        why = f": {self._said}" if self._said else ""
        return f"the connection to RabbitMQ at {self.where} ended{why}"

    def refused(self, what: str, error: BaseException) -> str:
        """Return a sentence about a refused request, and how to allow it."""
        said = words_of(error)
        if said.startswith("ACCESS_REFUSED"):
            user, vhost = self._settings.user, self._settings.vhost
            said += (
                f"; grant the user {user} this permission: rabbitmqctl set_permissions"
                f" -p {vhost} {user} CONFIGURE WRITE READ"
            )
        return f"RabbitMQ at {self.where} refused {what}: {said}"

    def _on_close(self, _: object, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, asyncio.CancelledError):
            self._said = self._said or words_of(error)
        self._end(None)

    def _end(self, result: None) -> None:
        if not self.lost.done():
            self.lost.set_result(result)

    def _unreachable(self, error: BaseException) -> str:
        said = words_of(error)
        if isinstance(error, ProbableAuthenticationError | AuthenticationError):
            return (
                f"RabbitMQ at {self._settings.url} refused the login of the user"
                f" {self._settings.user}; check user and password"
            )
        if isinstance(error, InvalidFrameError) and "Connection.OpenOk" in said:
            # The library does not pass on why the broker closes the connection.
            return (
                f"RabbitMQ at {self._settings.url} refused the virtual host"
                f" {self._settings.vhost}; check vhost, and the permissions of the user"
                f" {self._settings.user}"
            )
        return f"no RabbitMQ at {self._settings.url} can be used: {said}"


def words_of(error: BaseException) -> str:
    """Return what the broker said, or else what the library says."""
    if isinstance(error, TimeoutError):
        return "it does not answer"
    if found := _REPLY.search(str(error)):
        return found[1] or found[2]
    return str(error) or type(error).__name__
