"""The interface of a message broker: what a connector for one has to implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backhaul_sdk.contract import CheckFailed, Unknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul_sdk.contract import Change, LookedUp, Pushed


class BrokerFailed(CheckFailed):
    """The broker cannot be used now; the text says what, where, and how to fix it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of the broker.

    `id` is the same when the broker delivers the message again; it is empty if the
    broker and the sender gave it none. `sent_at` (RFC 3339) is when the message was
    written, as far as that is known. `locator` says where an operator finds it.
    `acknowledge` tells the broker that the message is stored and need not come again.
    """

    body: bytes = field(repr=False)
    id: str
    sent_at: str
    locator: str
    acknowledge: Callable[[], Awaitable[None]]


class Subscription(ABC):
    """An open subscription to one source of messages."""

    @abstractmethod
    async def next(self) -> Sequence[Message]:
        """Wait for messages, and return those that have arrived, in their order.

        The broker keeps each message until it is acknowledged. Raises BrokerFailed when
        the subscription is lost.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connection; messages without an acknowledgement come again."""


class Publisher(ABC):
    """An open connection that publishes change notifications."""

    @abstractmethod
    async def publish(self, change: Change, body: bytes) -> Pushed:
        """Publish a change once, with its id, and wait for the broker's confirm."""

    async def lookup(self, change: Change) -> LookedUp:
        """Return whether the broker has a change."""
        return Unknown("this broker cannot look up a message by its id")

    @property
    @abstractmethod
    def is_lost(self) -> bool:
        """Whether the connection has ended."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""


class Broker(ABC):
    """Opens connections to one broker. Each method raises BrokerFailed."""

    @abstractmethod
    async def check(self) -> None:
        """Check access, and that everything which is configured exists."""

    @abstractmethod
    async def subscribe(self, source: str) -> Subscription:
        """Connect, and subscribe to the source of that name in the settings."""

    @abstractmethod
    async def publisher(self) -> Publisher:
        """Connect, in order to publish."""
