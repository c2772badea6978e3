"""A warehouse with EDI and a real platform: orders go out, parcels come back."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from backhaul_connectors.file_drop.edi.envelope import Envelopes
from backhaul_connectors.file_drop.edi.segments import segments_of
from connectors.interchanges import MERCHANT, WAREHOUSE, edifact, x12
from scenes.daemon import DaemonProcess, connected, connected_process
from scenes.reference_process import reference
from scenes.reference_shop import cart, open_shop
from scenes.stored import rows_of
from scenes.waiting import await_true, until

if TYPE_CHECKING:
    from pathlib import Path

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess

CONFIGURATION = """
[connectors.warehouse]
type = "file_drop"
every = "250ms"
path = "{path}"
unchanged_seconds = 0
fulfillments = "*.edi"
stock_levels = "*.edi"
exports = "orders"
export_format = "{export_format}"
topics = ["order.placed"]

[connectors.warehouse.edi]
own_id = "{own}"
partner_id = "{partner}"
"""
KILLS = 4
MESSAGES = {"edifact": ("BGM", 2), "x12": ("W05", 2)}


class Warehouse:
    """A folder from which a warehouse reads orders, and to which it writes messages."""

    def __init__(self, path: Path, export_format: str) -> None:
        path.mkdir()
        self.path = path
        self._format = export_format
        own, partner = MERCHANT, WAREHOUSE
        if export_format == "x12":
            own, partner = "MERCHANT", "WAREHOUSE"
        self.configuration = CONFIGURATION.format(
            path=path, export_format=export_format, own=own, partner=partner
        )

    def orders(self) -> list[str]:
        """Return the numbers of the received orders, one for each message."""
        tag, element = MESSAGES[self._format]
        return [
            segment.value(element)
            for path in sorted((self.path / "orders").glob("[!.]*"))
            for message in Envelopes(
                segments_of(io.BytesIO(path.read_bytes()), "")
            ).messages()
            for segment in message.segments
            if segment.tag == tag
        ]

    def ship(self, order: str, number: str) -> None:
        """Write a message about a parcel with all units of an order."""
        if self._format == "x12":
            content = x12(
                [
                    *("945", f"W06*F*{order}*20260331*SH-{order}", "W27*M*UPSN*UPS"),
                    *(f"N9*2I*{number}", "LX*1", "W12*CC*1*1**EA**SK*LAMP"),
                ]
            )
        else:
            lines = ["CPS+1", "LIN+1", "PIA+1+LAMP:SA", "QTY+12:1:PCE"]
            head = [f"BGM+351+LS-{order}+9", f"RFF+ON:{order}", f"RFF+CN:{number}"]
            carrier = "TDT+20++30+31+:::House Freight"
            content = edifact(["DESADV:D:96A:UN", *head, carrier, *lines])
        unfinished = self.path / "message.tmp"
        unfinished.write_bytes(content)
        unfinished.rename(self.path / f"{order}.edi")


def is_shipped(office: Office) -> bool:
    states = rows_of(office.database, "orders", "fulfillment_status")
    return states == [("FULFILLED",)]


@pytest.mark.parametrize("export_format", MESSAGES)
async def test_an_order_goes_to_the_warehouse_and_its_parcel_comes_back(
    tmp_path: Path, export_format: str
) -> None:
    warehouse = Warehouse(tmp_path / "drop", export_format)
    async with (
        open_shop(tmp_path / "shop") as shop,
        connected(shop, warehouse.configuration) as (office, _),
    ):
        product = await shop.product(sku="LAMP")
        placed = await shop.order(product)
        await until(warehouse.orders, "the order is at the warehouse")
        (number,) = warehouse.orders()
        assert number == str(placed["number"])
        warehouse.ship(number, "HF1")
        await until(lambda: is_shipped(office), "the order is shipped")
        (order,) = (await shop.state())["orders"]
        assert [each["trackingNumber"] for each in order["shipments"]] == ["HF1"]
        assert warehouse.orders() == [number]


@pytest.mark.programs
@pytest.mark.parametrize("export_format", MESSAGES)
def test_a_daemon_that_is_killed_again_and_again_writes_each_order_once(
    tmp_path: Path, export_format: str
) -> None:
    warehouse = Warehouse(tmp_path / "drop", export_format)
    with (
        reference(tmp_path / "shop", fixture="fresh") as server,
        connected_process(server, warehouse.configuration) as daemon,
    ):
        expected: list[str] = []
        living = daemon
        for count in range(1, KILLS + 1):
            expected.append(buy(server))
            await_asked(daemon.office, count)
            # the daemon may be writing the order now
            living.kill()
            living = DaemonProcess(daemon.office)
        try:
            await_true(lambda: all_applied(daemon.office), "all orders are written", 90)
        finally:
            living.kill()
        assert sorted(warehouse.orders()) == sorted(expected)


def buy(server: ReferenceProcess) -> str:
    """Place an order; return its number."""
    product = server.state()["products"][0]
    ordered = server.storefront("POST", "/orders", cart(product))
    assert ordered.status < 300, ordered.body
    return str(ordered.data()["number"])


def await_asked(office: Office, count: int) -> None:
    """Wait until this many orders are queued or written."""

    def look() -> bool:
        found = rows_of(office.database, "deliveries", "state", topic="order.placed")
        return len(found) >= count

    await_true(look, "the order is to be written", 60)


def all_applied(office: Office) -> bool:
    states = rows_of(office.database, "deliveries", "state", topic="order.placed")
    return set(states) == {("applied",)} and len(states) == KILLS
