"""The base of the connectors for message brokers: records in, changes out."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from backhaul_sdk.contract import CheckFailed, Connector, Rejected
from backhaul_sdk.messages.publishing import PublishingLink
from backhaul_sdk.messages.reading import MessageReader
from backhaul_sdk.messages.receiving import Receiver
from backhaul_sdk.messages.settings import BrokerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from backhaul_sdk.contract import (
        Batch,
        Change,
        Emit,
        LookedUp,
        Pushed,
        Route,
    )
    from backhaul_sdk.messages.broker import Broker, Publisher, Subscription
    from backhaul_sdk.messages.settings import Source

SettingsT = TypeVar("SettingsT", bound=BrokerSettings)


class MessageConnector(Connector[SettingsT]):
    """A connection to a message broker.

    Records arrive while the connector listens. `pull` submits nothing: it reports to
    the host whether the broker works, so that the host logs it once.
    """

    def __init__(self, instance: str, settings: SettingsT) -> None:
        super().__init__(instance, settings)
        self._link = PublishingLink(self._publisher)
        self._receivers = {
            name: Receiver(
                partial(self._subscription, name), MessageReader(name, source)
            )
            for name, source in self.sources().items()
        }
        self._emit: Emit | None = None
        self._is_open = False

    @abstractmethod
    def sources(self) -> Mapping[str, Source]:
        """Return the sources of records in the settings, by name."""

    @abstractmethod
    def publishes(self) -> bool:
        """Return whether the settings say where changes go."""

    @abstractmethod
    async def broker(self) -> Broker:
        """Return the broker of the settings; imports its library here, not before."""

    def topics(self) -> frozenset[str]:
        """Return the change topics, if the settings say where changes go."""
        return self.spec.topics if self.publishes() else frozenset()

    async def check(self) -> None:
        await (await self.broker()).check()

    async def open(self) -> None:
        self._is_open = True
        self._start()

    async def close(self) -> None:
        self._is_open = False
        for receiver in self._receivers.values():
            await receiver.stop()
        await self._link.close()

    async def listen(self, emit: Emit) -> Sequence[Route]:
        self._emit = emit
        self._start()
        return ()

    def problems(self) -> Sequence[str]:
        """Return why sources cannot be read; empty while all can be."""
        problems = dict.fromkeys(each.problem for each in self._receivers.values())
        return [problem for problem in problems if problem]

    async def subscribed(self) -> None:
        """Wait until every source is subscribed to, for tests and tools."""
        for receiver in self._receivers.values():
            await receiver.subscribed.wait()

    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        """Report whether the broker works."""
        for receiver in self._receivers.values():
            await receiver.tried()
        if problems := self.problems():
            raise CheckFailed("; ".join(problems))
        async for batch in super().pull(cursor):
            yield batch

    async def push(self, change: Change) -> Pushed:
        if not self.publishes():
            return Rejected("the configuration of the connection has no table publish")
        return await self._link.push(change)

    async def lookup(self, change: Change) -> LookedUp:
        return await self._link.lookup(change)

    def _start(self) -> None:
        if self._is_open and self._emit is not None:
            for receiver in self._receivers.values():
                receiver.start(self._emit)

    async def _subscription(self, name: str) -> Subscription:
        return await (await self.broker()).subscribe(name)

    async def _publisher(self) -> Publisher:
        return await (await self.broker()).publisher()
