"""The metrics that a running daemon exports, with a real platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from observe.test_metrics import samples
from scenes.daemon import Office, connected
from scenes.damaged_rows import insert
from scenes.reference_shop import Shop, open_shop
from scenes.stored import count, rows_of
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.app.daemon import Daemon


COLUMNS = "order,tracking_company,tracking_number"


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "shop") as opened:
        yield opened


async def read_metrics(daemon: Daemon) -> dict[str, float]:
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{daemon.admin_url}/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return samples(answer.content)


async def test_an_order_and_its_parcel_are_counted(shop: Shop) -> None:
    product = await shop.product(stock=10)
    async with connected(shop) as (office, daemon):
        await shop.order(product)
        await until(lambda: count(office.database, "orders") == 1, "the order")
        office.put("fulfillments-1.csv", COLUMNS, "1001,DHL,T1", "9999,DHL,T2")
        await until(lambda: applied(office) == 1, "the parcel")
        await until(lambda: count(office.database, "records") == 2, "both rows")
        async with httpx.AsyncClient() as client:
            for store in ("main", "other"):
                url = f"{daemon.public_url}/webhooks/{store}"
                assert (await client.post(url, content=b"{}")).status_code == 401
        found = await read_metrics(daemon)
    assert found["backhaul_webhooks_total main kept"] >= 1
    assert found["backhaul_webhooks_total main unsigned"] == 1
    assert found["backhaul_webhooks_total unknown unsigned"] == 1
    signed = [name for name in found if name.startswith("backhaul_webhook_verify")]
    assert len(signed) == 1
    assert found["backhaul_commands_total main fulfill applied"] == 1
    assert found["backhaul_platform_requests_total main POST 200"] == 1
    assert found["backhaul_platform_seconds_count main POST"] == 1
    assert found["backhaul_command_sent_seconds_count main fulfill"] == 1
    assert 0 < found["backhaul_command_sent_seconds_sum main fulfill"] < HANG_SECONDS
    assert found["backhaul_event_applied_seconds_count"] >= 1
    assert found["backhaul_connector_up courier"] == 1
    assert found["backhaul_records_waiting courier"] == 1
    assert found["backhaul_last_record_timestamp_seconds courier"] > 0
    assert found["backhaul_first_read_timestamp_seconds main"] > 0
    assert found["backhaul_heartbeat_timestamp_seconds"] > 0
    assert found["backhaul_database_bytes database"] > 0
    assert not [name for name in found if name.startswith("backhaul_sending_stopped")]


async def test_work_that_waits_for_an_operator_is_reported(shop: Shop) -> None:
    async with connected(shop) as (office, daemon):
        office.put("fulfillments-1.csv", COLUMNS, ",DHL,T1")
        await until(lambda: count(office.database, "quarantine") == 1, "the bad row")
        daemon._shops["main"].sender.dispatcher.switch.block_all("for this test")
        found = await read_metrics(daemon)
    assert found["backhaul_quarantine_rows courier"] == 1
    assert [found[n] for n in found if n.startswith("backhaul_sending_stopped")] == [1]


async def test_a_removed_store_raises_no_alarm_by_its_last_sample(
    shop: Shop,
) -> None:
    async with connected(shop) as (office, daemon):
        times = {
            f"{word}_at": "2026-03-01T12:00:00.000Z" for word in ("began", "ended")
        }
        for kind in ("orders", "products"):
            known = {"store": "gone", "job": "full", "kind": kind, "unrepaired": 1}
            insert(office.database, "passes", **known, **times)
        found = await read_metrics(daemon)
        while "backhaul_first_read_timestamp_seconds main" not in found:
            found = await read_metrics(daemon)  # the first sync is running
    assert [name for name in found if " gone" in name and "drift" not in name] == []


def applied(office: Office) -> int:
    states = rows_of(office.database, "commands", "state")
    return states.count(("applied",))
