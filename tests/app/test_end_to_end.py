"""The daemon and a real platform in one process, from the webhook to the shipment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from scenes.daemon import connected
from scenes.reference_shop import Shop, open_shop
from scenes.stored import COMMANDS_AND_TARGETS, count, rows_of, value_of, values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.app.daemon import Daemon
    from scenes.daemon import Office

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "shop") as opened:
        yield opened


async def scan(
    office: Office, daemon: Daemon, order: str, number: str = "T1"
) -> httpx.Response:
    members = {"mode": "pack", "code": order, "trackingNumber": number}
    headers = {"Authorization": f"Bearer {office.device_token}"}
    async with httpx.AsyncClient() as client:
        return await client.post(
            f"{daemon.public_url}/connect/bench/scan", json=members, headers=headers
        )


def order_states(office: Office) -> list[tuple[Any, ...]]:
    return sorted(
        rows_of(office.place, "orders", "number", "status", "fulfillment_status")
    )


def command_states(office: Office) -> list[tuple[Any, ...]]:
    return rows_of(office.place, COMMANDS_AND_TARGETS, "kind", "state")


async def test_an_order_is_mirrored_and_shipped(shop: Shop) -> None:
    product = await shop.product(stock=10)
    async with connected(shop) as (office, daemon):
        first, second = await shop.order(product), await shop.order(product)
        await until(lambda: count(office.place, "orders") == 2, "the orders")
        answer = await scan(office, daemon, "#1001")
        assert (answer.status_code, answer.json()["accepted"]) == (200, True)
        office.put(
            "fulfillments-1.csv",
            "order,tracking_company,tracking_number",
            "1002,DHL,T2",
        )
        await until(
            lambda: [state[2] for state in order_states(office)] == ["FULFILLED"] * 2,
            "both are known to be shipped",
        )
        await until(  # the webhook may be folded before the response
            lambda: command_states(office) == [("fulfill", "applied")] * 2,
            "both commands are applied",
        )
        levels = rows_of(office.place, "inventory_levels", "stock")
        assert levels == [(8,)]
    for order, number in ((first, "T1"), (second, "T2")):
        shown = (await shop.v1("GET", f"/orders/{order['id']}")).data
        assert [p["trackingNumber"] for p in shown["shipments"]] == [number]


OWN_NAMES = """
[stores.main.fields]
tracking_company = "carrier"
tracking_number = "awb"
"""


async def test_a_parcel_is_read_by_the_names_it_is_written_by(shop: Shop) -> None:
    body = {"quirks": ["tracking-fields=carrier,awb"]}
    assert (await shop.control("PUT", "/stores/demo/quirks", body)).status == 200
    product = await shop.product()
    async with connected(shop, OWN_NAMES) as (office, daemon):
        await shop.order(product)
        await until(lambda: count(office.place, "orders") == 1, "the order")
        assert (await scan(office, daemon, "1001")).status_code == 200
        await until(
            lambda: values_of(office.place, "shipments", "tracking_number") == ["T1"],
            "the parcel",
        )
        await until(
            lambda: (
                count(
                    office.place,
                    COMMANDS_AND_TARGETS,
                    state={"planned", "sending"},
                )
                == 0
            ),
            "it is decided",
        )
        assert command_states(office) == [("fulfill", "applied")]


async def test_existing_objects_are_read(shop: Shop) -> None:
    product = await shop.product(stock=10)
    for _ in range(3):
        await shop.order(product)
    async with connected(shop) as (office, _):
        await until(lambda: count(office.place, "orders") == 3, "the orders")
        await until(
            lambda: values_of(office.place, "inventory_levels", "stock") == [7],
            "the stock",
        )


async def test_the_same_scan_twice_ships_once(shop: Shop) -> None:
    product = await shop.product()
    async with connected(shop) as (office, daemon):
        order = await shop.order(product)
        await until(lambda: count(office.place, "orders") == 1, "the order")
        answers = await asyncio.gather(
            *(scan(office, daemon, "1001") for _ in range(5))
        )
        assert {answer.status_code for answer in answers} == {200}
        await until(lambda: ("fulfill", "applied") in command_states(office), "shipped")
        assert command_states(office) == [("fulfill", "applied")]
    shown = (await shop.v1("GET", f"/orders/{order['id']}")).data
    assert len(shown["shipments"]) == 1


async def test_a_scan_that_comes_before_its_order_waits_for_it(shop: Shop) -> None:
    product = await shop.product()
    async with connected(shop) as (office, daemon):
        answer = await scan(office, daemon, "1001")
        assert answer.status_code == 200
        assert value_of(office.place, "records", "state") == "waiting"
        await shop.order(product)
        await until(
            lambda: command_states(office) == [("fulfill", "applied")], "it is shipped"
        )


async def test_a_device_that_is_not_known_is_refused(shop: Shop) -> None:
    async with connected(shop) as (office, daemon):
        office.device_token = "wrong"
        answer = await scan(office, daemon, "1001")
        assert answer.status_code == 401
        assert count(office.place, "records") == 0


async def test_stock_and_cancellations_go_out_by_file(shop: Shop) -> None:
    product = await shop.product(stock=10, sku="LAMP")
    async with connected(shop) as (office, _):
        order = await shop.order(product, 2)
        await until(lambda: count(office.place, "orders") == 1, "the order")
        office.put("cancellations-1.csv", "order,restock,reason", "1001,yes,CUSTOMER")
        await until(
            lambda: order_states(office) == [(1001, "CANCELLED", "RESTOCKED")],
            "it is cancelled",
        )
        office.put("stock-deltas-1.csv", "sku,adjustment,reason", "LAMP,-4,DAMAGED")
        await until(
            lambda: values_of(office.place, "inventory_levels", "stock") == [6],
            "the stock",
        )
        ledger = rows_of(
            office.place, "stock_ledger", "adjustment", "stock_after", "reason"
        )
    shown = (await shop.v1("GET", f"/orders/{order['id']}")).data
    assert shown["cancellation"]["restocked"] is True
    assert ledger[-1][:2] == (-4, 6)


async def test_health_and_readiness_are_distinguished(shop: Shop) -> None:
    async with connected(shop) as (office, daemon), httpx.AsyncClient() as client:
        for path in ("/healthz", "/readyz"):
            assert (await client.get(daemon.admin_url + path)).status_code == 200
        status = (await client.get(f"{daemon.admin_url}/api/status")).json()
        assert status["public_url"] == daemon.public_url
        assert status["connectors"]["courier"]["up"] is True
        assert set(status["stores"]) == {"main"}
        for path in ("/api/status", "/healthz", "/webhooks"):
            answer = await client.get(daemon.public_url + path)
            assert answer.status_code == 404
        mode = (office.folder / "state" / "backhaul.sock").stat().st_mode
        assert mode & 0o777 == 0o600
