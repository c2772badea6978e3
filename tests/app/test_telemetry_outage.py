"""A collector that hangs, refuses or is not configured blocks nothing else."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from loguru import logger

from backhaul.core.clock import SystemClock
from backhaul.observe.metrics import Metrics
from backhaul.observe.otel.telemetry import SDK_LOGGER, Telemetry
from backhaul.settings.telemetry import Telemetry as Settings
from backhaul.store.sqlite.opening import open_store
from scenes.daemon import UNUSED_ADDRESS, Office, connected
from scenes.otlp_collector import collecting
from scenes.reference_shop import open_shop
from scenes.stored import COMMANDS_AND_TARGETS, count, rows_of
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loguru import Message

PARCEL = ("order,tracking_company,tracking_number", "1001,DHL,T2")
EXPORTING = """
[telemetry]
otlp_endpoint = "{}"
metrics_every = "50ms"
"""
PROGRAM = "scenes.watched_daemon"
TRACING = ("observe/otel/", "runtime/tracing")
TESTS = Path(__file__).parents[1]


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office(UNUSED_ADDRESS.removesuffix("/hook"), "svc_live_" + "0" * 40)
    yield made
    made.remove()


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Return the actions that are logged at INFO and above."""
    found: list[str] = []

    def keep(message: Message) -> None:
        found.append(message.record["extra"].get("action", ""))

    sink = logger.add(keep, level="INFO", format="")
    yield found
    logger.remove(sink)


def watched_run(office: Office) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", PROGRAM, str(office.config), office.webhook_secret],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )


async def test_a_daemon_without_telemetry_loads_and_calls_nothing_of_it(
    office: Office,
) -> None:
    store = open_store(office.database, SystemClock())
    store.start()
    await store.kv.put("facts:main", '{"store_id":"sto_1","currency":"INR"}')
    await store.stop()
    done = await asyncio.to_thread(watched_run, office)
    assert done.returncode == 0, done.stderr[-2_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["status"], found["loaded"]) == (200, [])
    called = [file.rpartition("/backhaul/")[2] for file in found["called"]]
    assert {"ingest/receiver.py", "store/sql/inbox/fold.py"} <= {*called}
    assert [file for file in called if file.startswith(TRACING)] == []


async def test_webhooks_and_commands_go_on_while_the_collector_hangs(
    tmp_path: Path,
) -> None:
    async with collecting() as collector, open_shop(tmp_path / "shop") as shop:
        collector.hangs = True
        product = await shop.product(stock=10)
        more = EXPORTING.format(collector.url)
        async with connected(shop, more) as (office, daemon):
            await until(collector.asked.is_set, "an export hangs")
            await shop.order(product)
            await until(lambda: count(office.place, "orders") == 1, "the order")
            office.put("fulfillments-1.csv", *PARCEL)
            await until(
                lambda: (
                    rows_of(office.place, COMMANDS_AND_TARGETS, "state")
                    == [("applied",)]
                ),
                "the command is applied",
            )
            dropped = daemon.metrics.counter("telemetry_dropped_total")
            await until(
                lambda: dropped["metrics", "queue full"], "exports of metrics dropped"
            )
        assert dropped["spans", "stopped"] > 0
    assert collector.spans == []


async def test_a_collector_that_refuses_is_reported_once(
    tmp_path: Path, lines: list[str]
) -> None:
    async with collecting() as collector, open_shop(tmp_path / "shop") as shop:
        collector.refuses = True
        more = EXPORTING.format(collector.url)
        async with connected(shop, more) as (_, daemon):
            dropped = daemon.metrics.counter("telemetry_dropped_total")
            await until(
                lambda: dropped["metrics", "not taken"] > 3, "some exports are refused"
            )
            collector.refuses = False
            await until(lambda: collector.metrics, "an export is taken")
            await until(lambda: "telemetry.resumed" in lines, "the line about it")
    assert lines.count("telemetry.failing") == 1
    assert lines.count("telemetry.resumed") == 1
    assert "library.logged" not in lines


def test_a_failure_is_reported_with_the_words_of_its_own_export() -> None:
    """Spans and metrics are exported in two threads, at the same time."""
    said: list[str] = []
    sink = logger.add(lambda message: said.append(str(message)), format="{message}")
    telemetry = Telemetry(Settings(otlp_endpoint="http://127.0.0.1:9"), Metrics())
    refused, other_begun, reported = (threading.Event() for _ in range(3))

    def refuse(_spans: list[str]) -> bool:
        logging.getLogger(SDK_LOGGER).error("401 Unauthorized")
        refused.set()
        return not other_begun.wait(HANG_SECONDS)

    def begin(_metrics: list[str]) -> bool:
        other_begun.set()
        return reported.wait(HANG_SECONDS)

    spans = telemetry._queue("spans", refuse, 1, 1)
    metrics = telemetry._queue("metrics", begin, 1, 1)
    try:
        spans.put("a span")
        assert refused.wait(HANG_SECONDS)
        metrics.put("a metric")
        spans.stop(HANG_SECONDS)
        reported.set()
        metrics.stop(HANG_SECONDS)
    finally:
        telemetry.stop()
        logger.remove(sink)
    assert "does not take telemetry: 401 Unauthorized." in said[0]
