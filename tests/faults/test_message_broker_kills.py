"""Message brokers are killed amid deliveries and acknowledgements; each counts once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from connectors.message_benches import Hub, run_apart
from connectors.message_hubs import hub, rabbit
from faults.trials import LONG, chances, tell
from scenes import payloads
from scenes.back_office import host_of
from scenes.databases import append_and_fold, started_store
from scenes.payloads import envelope
from scenes.stored import rows_of, values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.connect.host import Host
    from backhaul_sdk import Bad, Receipt, Record
    from backhaul_sdk.messages import MessageConnector

__all__ = ["hub", "rabbit"]
KILLS = {"nats": 50, "amqp": 50 if LONG else 3}
"""RabbitMQ takes ten seconds to start."""
STORED_A_LIFE = 5
"""So many records are stored before the broker may die: everybody is at work again."""
LONGEST_LIFE_SECONDS = 0.1
ANSWER_SECONDS = 10.0
AGAIN_SECONDS = 0.05
ROUNDS = 10
CLOCK = SystemClock()
MOVEMENT: dict[str, Any] = {
    "kind": "stock_adjustment",
    "key": "id",
    "fields": {"sku": "sku", "delta": "delta"},
}


@dataclass(slots=True)
class Warehouse:
    """Sends one movement after the other, each until the broker has confirmed it."""

    hub: Hub
    sent: int = 0
    is_ending: bool = False

    async def work(self) -> None:
        while not self.is_ending:
            await self._insist({"id": self.sent, "sku": "LS-S", "delta": 1})
            self.sent += 1

    async def _insist(self, movement: dict[str, Any]) -> None:
        body = json.dumps(movement).encode()
        while True:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self.hub.send([body])
            except Exception:  # noqa: BLE001 - whatever a library says of a dead broker
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return


@dataclass(slots=True)
class Counting:
    """Counts what a host has stored."""

    host: Host
    stored: int = 0

    async def emit(self, record: Record | Bad) -> Receipt:
        receipt = await self.host.emit(record)
        self.stored += receipt.state == "accepted"
        return receipt


async def drain(hub: Hub, connector: MessageConnector[Any]) -> None:
    """Let the connector acknowledge what is left, and close it."""
    for _ in range(ROUNDS):
        await connector.close()
        if not await hub.left():
            return
        await connector.open()
        await connector.subscribed()
        await until(lambda: not run_apart(hub.left), "nothing is left to be delivered")
    pytest.fail("messages that are stored come again and again")


@pytest.mark.faults
@pytest.mark.timeout(2_400)
async def test_a_killed_broker_loses_and_doubles_no_message(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database, moments, kills = tmp_path / "backhaul.db", chances(), KILLS[hub.name]
    connector = hub.connector(receive={"movements": {**hub.source, **MOVEMENT}})
    warehouse = Warehouse(hub)
    async with started_store(database) as store:
        await append_and_fold(store, envelope("products/create", payloads.product()))
        counting = Counting(host_of(connector, store))
        await connector.open()
        await connector.listen(counting.emit)
        sending = asyncio.ensure_future(warehouse.work())
        for life in range(kills):
            enough = counting.stored + STORED_A_LIFE
            await until(
                lambda enough=enough: counting.stored >= enough,  # type: ignore[misc]  # mypy cannot infer it
                f"records in life {life}",
            )
            await CLOCK.sleep(moments.uniform(0, LONGEST_LIFE_SECONDS))
            await hub.kill()
            await hub.start()
        warehouse.is_ending = True
        await sending
        await until(lambda: counting.stored == warehouse.sent, "all are stored")
        await drain(hub, connector)
        kept = rows_of(database, "records", "command_id", "state")
        planned = values_of(database, "commands", "payload", kind="adjust")
    tell(capsys, warehouse.sent - len(kept), warehouse.sent, f"{kills} kills")
    assert len(kept) == len({command for command, _ in kept}) == warehouse.sent
    assert {state for _, state in kept} == {"accepted"}
    assert [json.loads(each)["delta"] for each in planned] == [1] * warehouse.sent
