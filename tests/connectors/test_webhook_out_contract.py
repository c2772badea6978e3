"""webhook_out fulfills the push contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk.testing import Failure, PushBench, PushContract
from connectors.examples import documented
from connectors.receiving import SECRET, Receiver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from backhaul_sdk import Connector


class ReceiverBench(PushBench):
    """A receiver that takes a message once."""

    secrets = (SECRET, SECRET.removeprefix("whsec_"))

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def connector(self) -> Connector[Any]:
        return self._receiver.connector()

    def state(self) -> object:
        return dict(self._receiver.taken), self._receiver.tries

    def example(self) -> Mapping[str, object]:
        return documented("webhook_out")

    async def effects(self) -> Sequence[int]:
        return [int(taken.rpartition(":")[2]) for taken in self._receiver.taken]

    def tries(self) -> int:
        return self._receiver.tries

    async def fail(self, failure: Failure) -> None:
        self._receiver.failure = failure

    async def recover(self) -> None:
        self._receiver.failure = None

    async def unplug(self) -> None:
        await self._receiver.unplug()

    async def plug_in(self) -> None:
        await self._receiver.plug_in()


class TestWebhookOut(PushContract):
    """Run against a receiver on loopback."""

    @pytest.fixture
    async def bench(self) -> AsyncIterator[PushBench]:
        receiver = Receiver()
        await receiver.plug_in()
        yield ReceiverBench(receiver)
        await receiver.close()
