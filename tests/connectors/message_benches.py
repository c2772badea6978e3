"""The bench of a message broker, whatever its protocol."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from backhaul_sdk.messages import MessageConnector
from backhaul_sdk.testing import Bench, Failure, MemoryHost, PushBench
from connectors.examples import documented
from scenes.loop_guard import on_purpose
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from backhaul_sdk import Change, Connector
    from scenes.tcp_relay import Relay

T = TypeVar("T")
MAPPING: Mapping[str, Any] = {
    "kind": "fulfillment",
    "key": "id",
    "fields": {"order": "order", "tracking_number": "parcel"},
    "lines": "lines",
}
"""How a source of the tests is read."""


def shipment(number: int, **members: object) -> bytes:
    """Return the message about a shipment; a number is always one shipment."""
    lines = [{"sku": "LS-S", "quantity": 1}]
    item = {"id": f"S-{number}", "order": str(1_001 + number), "lines": lines}
    return json.dumps(item | members).encode()


@on_purpose()
def run_apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run work on a loop of its own, and wait: benches are asked synchronously."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


class Hub(ABC):
    """A running broker, as its administrator and the other programs see it."""

    name: str
    secrets: Sequence[str]
    failures: Sequence[Failure]
    relay: Relay

    @abstractmethod
    def connector(self, **options: Any) -> MessageConnector[Any]:
        """Return a connector that reaches the broker through the relay."""

    @property
    @abstractmethod
    def source(self) -> dict[str, str]:
        """Return the settings that name the source of the tests."""

    @abstractmethod
    async def left(self) -> int:
        """Return how many messages are in the source while nobody reads it."""

    @abstractmethod
    async def prepare(self) -> None:
        """Create source and destination, as an administrator does."""

    @abstractmethod
    def missing(self, *, create: bool = False) -> dict[str, Any]:
        """Return settings that name a source and a destination that do not exist."""

    @abstractmethod
    async def bind_created(self) -> None:
        """Let messages of the created destination go where one may read them."""

    @abstractmethod
    async def delete_source(self) -> None:
        """Delete the source and what is in it."""

    @abstractmethod
    async def send(self, bodies: Sequence[bytes]) -> None:
        """Put messages into the source, and wait until they are stored."""

    @abstractmethod
    async def unacknowledged(self) -> int:
        """Return how many messages of the source are not acknowledged."""

    @abstractmethod
    async def published(self) -> Sequence[str]:
        """Return the ids of all messages that the connector published."""

    @abstractmethod
    async def state(self) -> object:
        """Return everything of the broker that a connector could change."""

    @abstractmethod
    async def refuse(self, failure: Failure) -> None:
        """Refuse messages, for good (`REFUSES`) or for now (`BUSY`)."""

    @abstractmethod
    async def accept(self) -> None:
        """Take messages again."""

    @abstractmethod
    async def kill(self) -> None:
        """Kill the broker, as a power cut would."""

    @abstractmethod
    async def start(self) -> None:
        """Start the broker again; it works when this returns."""


class MessageBench(Bench, PushBench):
    """Programs that send shipments to a broker, and read its change notifications."""

    def __init__(self, hub: Hub, published: bytes, unpluggings: int = 50) -> None:
        self.unpluggings = unpluggings
        self._hub = hub
        self._published = published
        self.secrets = hub.secrets
        self.failures = hub.failures
        hub.relay.counted = published

    def connector(self) -> Connector[Any]:
        return self._hub.connector()

    def offer(self, first: int, number: int) -> None:
        self._send([shipment(each) for each in range(first, first + number)])

    def offer_a_bad_one_among(self, good: int) -> None:
        bodies = [shipment(each) for each in range(good)]
        self._send([*bodies[: good // 2], b'{"id": ', *bodies[good // 2 :]])

    def offer_with_unknown_field(self, number: int) -> None:
        self._send([shipment(number, weather="fine")])

    def _send(self, bodies: Sequence[bytes]) -> None:
        run_apart(partial(self._hub.send, bodies))

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return [bad.reason for bad in host.bad.values()]

    async def take_in(self, connector: Connector[Any], host: MemoryHost) -> None:
        assert isinstance(connector, MessageConnector)
        await connector.listen(host.emit)
        try:
            # One wait each: a cancellation is tried at every wait.
            await asyncio.gather(self._all_stored(connector))
        finally:
            await connector.close()

    async def _all_stored(self, connector: MessageConnector[Any]) -> None:
        await connector.subscribed()
        await until(
            lambda: not run_apart(self._hub.unacknowledged), "all is acknowledged"
        )

    def state(self) -> object:
        return run_apart(self._hub.state), self._hub.relay.seen

    def example(self) -> Mapping[str, object]:
        return documented(self._hub.name)

    def change(self, number: int, topic: str | None = None) -> Change:
        return super().change(number, topic or "order.placed")

    async def effects(self) -> Sequence[int]:
        return [int(each.rpartition(":")[2]) for each in await self._hub.published()]

    def tries(self) -> int:
        return self._hub.relay.seen

    async def fail(self, failure: Failure) -> None:
        if failure is Failure.BREAKS:
            self._hub.relay.cut_before = self._published
        elif failure is Failure.LOSES_ANSWER:
            self._hub.relay.cut_after = self._published
        else:
            await self._hub.refuse(failure)

    async def recover(self) -> None:
        relay = self._hub.relay
        if relay.cut_before is None and relay.cut_after is None:
            await self._hub.accept()
        relay.cut_before = relay.cut_after = None

    async def unplug(self) -> None:
        await self._hub.kill()

    async def plug_in(self) -> None:
        await self._hub.start()
