"""F32 for MQTT: the broker is killed during acknowledgements; each scan counts once."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul_connectors.scanner import Scanner
from backhaul_connectors.scanner.settings import Settings
from faults.belts import belt_at
from faults.trials import LONG, chances, tell
from scenes import payloads
from scenes.back_office import host_of
from scenes.databases import append_and_fold, started_store
from scenes.mosquitto import mosquitto
from scenes.payloads import envelope
from scenes.stored import rows_of, values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scenes.mosquitto import Mosquitto

KILLS = 50 if LONG else 3
ANSWERS_A_LIFE = 5
"""So many scans are answered before the broker may die: everybody is at work again."""
LONGEST_LIFE_SECONDS = 0.1
CLOCK = SystemClock()


@asynccontextmanager
async def intake(database: Path, broker: Mosquitto) -> AsyncIterator[Scanner]:
    """Take scans into a store that knows the article."""
    options = {"mqtt_host": "127.0.0.1", "mqtt_port": broker.port, "mqtt_tls": False}
    settings = Settings.model_validate({**options, "mqtt_devices": ["belt"]})
    async with started_store(database) as store:
        await append_and_fold(store, envelope("products/create", payloads.product()))
        scanner = Scanner("hall", settings)
        host = host_of(scanner, store)
        await host.listen(60)
        try:
            yield scanner
        finally:
            await host.close()


@pytest.mark.faults
async def test_a_killed_broker_loses_and_doubles_no_scan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database, moments = tmp_path / "backhaul.db", chances()
    problems = set[str]()
    async with (
        mosquitto(tmp_path) as broker,
        intake(database, broker) as scanner,
        belt_at(broker) as belt,
    ):

        def has_enough() -> bool:
            assert scanner.broker is not None
            problems.add(scanner.broker.problem)
            return belt.has_enough()

        for life in range(KILLS):
            belt.expect(ANSWERS_A_LIFE)
            await until(has_enough, f"answers in life {life}")
            await CLOCK.sleep(moments.uniform(0, LONGEST_LIFE_SECONDS))
            await broker.kill()
            await broker.start()
        belt.end()
        await until(lambda: belt.is_done, "every scan has its answer")
        kept = rows_of(database, "records", "command_id", "state")
        planned = values_of(database, "commands", "payload", kind="adjust")
    tell(capsys, belt.sent - len(kept), belt.sent, f"{KILLS} kills")
    waits = [said for said in problems if "timed out" in said]
    assert not waits, "it waited for a broker that was gone"
    assert len(kept) == len({command for command, _ in kept}) == belt.sent
    assert {state for _, state in kept} == {"accepted"}
    assert [json.loads(payload)["delta"] for payload in planned] == [1] * belt.sent
