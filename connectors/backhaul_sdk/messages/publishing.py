"""Publishes change notifications over one connection, which is opened when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_sdk.change_documents import document_of
from backhaul_sdk.contract import NotSent, Uncertain
from backhaul_sdk.messages.broker import BrokerFailed
from backhaul_sdk.messages.tasks import close_soon

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backhaul_sdk.contract import Change, LookedUp, Pushed
    from backhaul_sdk.messages.broker import Publisher


class PublishingLink:
    """The connection on which changes are published; a broken one is replaced."""

    def __init__(self, connect: Callable[[], Awaitable[Publisher]]) -> None:
        self._connect = connect
        self._publisher: Publisher | None = None

    async def push(self, change: Change) -> Pushed:
        """Publish a change once."""
        try:
            publisher = await self._connected()
        except BrokerFailed as error:
            return NotSent(str(error))
        said: Pushed = Uncertain("the request was cancelled")
        try:
            said = await publisher.publish(change, document_of(change))
        finally:
            # A late confirm must not be taken for the next change's.
            if isinstance(said, Uncertain):
                await self.close()
        return said

    async def lookup(self, change: Change) -> LookedUp:
        """Return whether the broker has a change. Raises BrokerFailed."""
        return await (await self._connected()).lookup(change)

    async def close(self) -> None:
        """Close the connection. Safe to call twice."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            await close_soon(publisher.close)

    async def _connected(self) -> Publisher:
        if self._publisher is not None and self._publisher.is_lost:
            await self.close()
        if self._publisher is None:
            self._publisher = await self._connect()
        return self._publisher
