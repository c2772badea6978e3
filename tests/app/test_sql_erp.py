"""A SQL ERP and a real platform: orders go out, shipments and stock counts come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock, to_text
from scenes.daemon import DaemonProcess, connected, connected_process
from scenes.reference_process import reference
from scenes.reference_shop import cart, open_shop
from scenes.sql_erp import SqlErp, locked
from scenes.stored import rows_of, values_of
from scenes.waiting import await_true, until

if TYPE_CHECKING:
    from pathlib import Path

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess
    from scenes.reference_shop import Shop


async def stock(shop: Shop, product: Any) -> int:
    state = await shop.state()
    levels = {level["productId"]: level["stock"] for level in state["levels"]}
    return int(levels[product["id"]])


async def test_an_order_goes_to_the_erp_once_and_its_shipment_comes_back(
    tmp_path: Path,
) -> None:
    erp = SqlErp(tmp_path / "erp.db")
    async with (
        open_shop(tmp_path / "shop") as shop,
        connected(shop, erp.configuration) as (office, _),
    ):
        placed = await shop.order(await shop.product())
        await until(erp.orders, "the order is in the ERP")
        assert erp.orders() == [(placed["number"], placed["status"])]
        shipment = (str(placed["number"]), "House Freight", "HF1")
        erp.run(
            "INSERT INTO shipments (order_number, tracking_company, tracking_number)"
            " VALUES (?, ?, ?)",
            shipment,
        )
        await until(lambda: is_shipped(office), "the order is shipped")
        (order,) = (await shop.state())["orders"]
        assert [each["trackingNumber"] for each in order["shipments"]] == ["HF1"]
        assert erp.writes() == [placed["id"]]


def is_shipped(office: Office) -> bool:
    states = rows_of(office.database, "orders", "fulfillment_status")
    return states == [("FULFILLED",)]


async def test_a_count_of_the_erp_is_applied_while_orders_go_on(
    tmp_path: Path,
) -> None:
    erp = SqlErp(tmp_path / "erp.db")
    async with (
        open_shop(tmp_path / "shop") as shop,
        connected(shop, erp.configuration) as (office, _),
    ):
        product = await shop.product(stock=50, sku="LAMP")
        for _ in range(3):
            await sell(shop, product)
        counted_at = to_text(SystemClock().now())
        await sell(shop, product, 2)
        erp.run(
            "INSERT INTO counts (sku, quantity, counted_at) VALUES ('LAMP', 80, ?)",
            (counted_at,),
        )
        for _ in range(3):
            await sell(shop, product)
        await until(lambda: target(office), "the count is done")
        assert target(office) == ["applied"]
        assert await stock(shop, product) == 80 - 2 - 3


async def sell(shop: Shop, product: Any, quantity: int = 1) -> None:
    sold = await shop.shopper("POST", "/orders", cart(product, quantity))
    assert sold.status < 300, sold.body


def target(office: Office) -> list[str]:
    states = values_of(office.database, "commands_and_targets", "state", kind="target")
    return [state for state in states if state != "planned"]


def buy(server: ReferenceProcess) -> str:
    product = server.state()["products"][0]
    ordered = server.storefront("POST", "/orders", cart(product))
    assert ordered.status < 300, ordered.body
    return str(ordered.data()["id"])


@pytest.mark.programs
def test_a_daemon_killed_before_its_order_is_written_writes_it_once(
    tmp_path: Path,
) -> None:
    erp = SqlErp(tmp_path / "erp.db")
    with (
        reference(tmp_path / "shop", fixture="fresh") as server,
        connected_process(server, erp.configuration) as daemon,
    ):
        with locked(erp.path):
            order = buy(server)
            await_sending(daemon.office)
            daemon.kill()
        assert erp.writes() == []
        finish(daemon.office)
        assert erp.writes() == [order]
        assert deliveries(daemon.office) == [("applied", "taken", 2)]


@pytest.mark.programs
def test_a_daemon_killed_before_it_notes_the_order_does_not_write_it_again(
    tmp_path: Path,
) -> None:
    erp = SqlErp(tmp_path / "erp.db")
    with (
        reference(tmp_path / "shop", fixture="fresh") as server,
        connected_process(server, erp.configuration) as daemon,
    ):
        with locked(erp.path):
            order = buy(server)
            await_sending(daemon.office)
            ours = locked(daemon.office.database)
            ours.__enter__()
        await_true(erp.writes, "the order is in the ERP")
        daemon.kill()
        ours.__exit__(None, None, None)
        finish(daemon.office)
        assert erp.writes() == [order]
        expected = [("applied", "found in the receiving system", 1)]
        assert deliveries(daemon.office) == expected


def deliveries(office: Office) -> list[tuple[Any, ...]]:
    columns = ("state", "reason", "attempts")
    return rows_of(office.database, "deliveries", *columns, topic="order.placed")


def await_sending(office: Office) -> None:
    def look() -> bool:
        return [state for state, *_ in deliveries(office)] == ["sending"]

    await_true(look, "the order is being handed over")


def finish(office: Office) -> None:
    """Restart the daemon until the order is delivered."""

    def look() -> bool:
        return [state for state, *_ in deliveries(office)] == ["applied"]

    again = DaemonProcess(office)
    try:
        await_true(look, "the order is told", 90)
    finally:
        again.kill()
