"""What the ERPNext connector reads, and what its check finds, against a test double."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from backhaul_connectors.erpnext.reader import written_between
from backhaul_sdk import (
    Bad,
    CheckFailed,
    Fulfillment,
    Line,
    StockLevel,
)
from backhaul_sdk.testing import MemoryHost
from connectors.erpnext_double import (
    SECRET,
    USER,
    ErpNextDouble,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul_sdk import Connector, Record

pytestmark = [pytest.mark.programs]


@pytest.fixture
async def site() -> AsyncIterator[ErpNextDouble]:
    site = ErpNextDouble()
    await site.plug_in()
    yield site
    await site.close()


async def pulled(
    connector: Connector[Any], host: MemoryHost | None = None
) -> list[Record | Bad]:
    """Return everything that a host has after one pull."""
    host = host or MemoryHost()
    await connector.open()
    await host.pull(connector)
    return [*host.records.values(), *host.bad.values()]


class TestDeliveryNotes:
    """Submitted delivery notes become fulfillments."""

    async def test_a_submitted_note_is_a_fulfillment(self, site: ErpNextDouble) -> None:
        goods = [("LS-S", 2.0), ("MUG", 1.0), ("LS-S", 1.0)]
        more = {"lr_no": "JD1", "transporter_name": "DHL", "name": "DN/26-001"}
        site.deliver(site.sell("ord_1"), goods, **more)
        site.now += timedelta(seconds=1)
        (found,) = await pulled(site.connector(stock_seconds=0))
        assert isinstance(found, Fulfillment)
        assert found.key == "note:DN/26-001:ord_1"
        assert (found.order, found.locator) == ("ord_1", "delivery note DN/26-001")
        assert (found.tracking_company, found.tracking_number) == ("DHL", "JD1")
        assert found.lines == (
            Line(sku="LS-S", quantity=3),
            Line(sku="MUG", quantity=1),
        )
        # Half past five in India.
        assert found.shipped_at == "2026-01-01T00:00:00Z"

    async def test_others_are_not_read(self, site: ErpNextDouble) -> None:
        sale = site.sell("ord_1")
        site.deliver(sale, docstatus=0)
        site.deliver(sale, docstatus=2)
        site.deliver(sale, is_return=1)
        site.deliver(sale, customer="Wholesale")
        site.deliver(None)
        site.now += timedelta(seconds=1)
        assert await pulled(site.connector(stock_seconds=0)) == []

    async def test_a_delivery_before_the_start_date_is_not_read(
        self, site: ErpNextDouble
    ) -> None:
        """Also if somebody writes into it today."""
        site.deliver(site.sell("ord_1"))
        site.deliver(site.sell("ord_2"), posting_date="2026-01-02")
        site.now += timedelta(seconds=1)
        options = {"stock_seconds": 0, "shipped_since": "2026-01-02"}
        (found,) = await pulled(site.connector(**options))
        assert isinstance(found, Fulfillment)
        assert found.order == "ord_2"

    async def test_a_note_of_two_orders_is_a_parcel_of_each(
        self, site: ErpNextDouble
    ) -> None:
        name = site.deliver(site.sell("ord_1"))
        other = {"item_code": "MUG", "stock_qty": 1.0}
        other["against_sales_order"] = site.sell("ord_2")
        site.documents["Delivery Note"][name]["items"].append(other)
        site.now += timedelta(seconds=1)
        found = await pulled(site.connector(stock_seconds=0))
        assert [(r.order, r.lines) for r in found if isinstance(r, Fulfillment)] == [
            ("ord_1", (Line(sku="LS-S", quantity=2),)),
            ("ord_2", (Line(sku="MUG", quantity=1),)),
        ]

    async def test_a_note_without_a_sales_order_may_name_the_order_itself(
        self, site: ErpNextDouble
    ) -> None:
        site.deliver(None, po_no="ord_1")
        site.now += timedelta(seconds=1)
        (found,) = await pulled(site.connector(stock_seconds=0))
        assert isinstance(found, Fulfillment)
        assert found.order == "ord_1"

    async def test_a_note_that_was_amended_is_the_same_shipment(
        self, site: ErpNextDouble
    ) -> None:
        sale = site.sell("ord_1")
        first = site.deliver(sale, name="DN-1")
        site.now += timedelta(seconds=1)
        connector, host = site.connector(stock_seconds=0), MemoryHost()
        before = await pulled(connector, host)
        site.documents["Delivery Note"][first]["docstatus"] = 2
        site.deliver(sale, name="DN-1-1", docstatus=2, amended_from="DN-1")
        site.deliver(sale, name="DN-1-2", amended_from="DN-1-1")
        site.now += timedelta(seconds=1)
        batches = [batch async for batch in connector.pull(host.cursor)]
        assert [each.key for b in batches for each in b.records] == [
            each.key for each in before
        ]

    async def test_a_fraction_of_a_unit_is_quarantined(
        self, site: ErpNextDouble
    ) -> None:
        site.deliver(site.sell("ord_1"), [("LS-S", 0.5)])
        site.deliver(site.sell("ord_2"))
        site.now += timedelta(seconds=1)
        good, bad = await pulled(site.connector(stock_seconds=0))
        assert isinstance(good, Fulfillment)
        assert isinstance(bad, Bad)
        assert bad.reason.startswith("quantity of LS-S must be a whole number, not 0.5")

    async def test_no_change_is_missed_while_the_clocks_of_the_site_go_back(
        self,
    ) -> None:
        """At 01:00 UTC it is 02:00 in Berlin once more; ERPNext stores local times."""
        site = ErpNextDouble("Europe/Berlin")
        await site.plug_in()
        connector, host = site.connector(stock_seconds=0), MemoryHost()
        site.now = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)
        for number in range(24):
            at = site.now + timedelta(minutes=2)
            site.deliver(site.sell(f"ord_{number}"), at=at)
            site.now += timedelta(minutes=5)
            await pulled(connector, host)
        assert len(host.records) == 24
        await site.close()

    async def test_the_zone_of_the_settings_wins(self, site: ErpNextDouble) -> None:
        connector = site.connector(stock_seconds=0, time_zone="UTC")
        site.deliver(site.sell("ord_1"), at=site.now - timedelta(hours=6))
        (found,) = await pulled(connector)
        assert isinstance(found, Fulfillment)
        assert found.shipped_at == "2026-01-01T05:30:00Z"

    async def test_an_unknown_zone_is_reported(self) -> None:
        site = ErpNextDouble()
        await site.plug_in()
        site.zone = "Mars/Olympus"
        with pytest.raises(CheckFailed, match="the time zone 'Mars/Olympus', which"):
            await site.connector().check()
        await site.close()


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("2026-07-01T00:00", "2026-07-01T00:10", ("02:00:00", "02:10:00")),
        # 02:55 in summer, then 02:05 in winter: the hour of 02:00 comes twice.
        ("2026-10-25T00:55", "2026-10-25T01:05", ("01:55:00", "03:05:00")),
        ("2026-03-29T00:55", "2026-03-29T01:05", ("01:55:00", "03:05:00")),
    ],
)
def test_a_window_covers_all_local_times_of_its_writes(
    since: str, until: str, expected: tuple[str, str]
) -> None:
    first, last = (
        datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (since, until)
    )
    found = written_between(first, last, ZoneInfo("Europe/Berlin"))
    assert tuple(each[-8:] for each in found) == expected


class TestStock:
    """Bins become stock counts."""

    async def test_the_stock_of_an_item_is_the_sum_of_its_bins(
        self, site: ErpNextDouble
    ) -> None:
        site.add("Warehouse", "Shop - C")
        site.item("MUG")
        site.item("TEA")
        site.item("SHIPPING", is_stock_item=0)
        site.item("SHIRT", has_variants=1)
        site.stock("LS-S", 3.0)
        site.stock("LS-S", 4.0, "Shop - C", reserved=2)
        site.stock("LS-S", 50.0, "Damaged - C")
        site.stock("MUG", -1.0)
        options = {"shipments": False, "warehouses": ["Stores - C", "Shop - C"]}
        levels = await pulled(site.connector(**options, batch_rows=2))
        assert [
            (each.sku, each.quantity, each.as_of)
            for each in levels
            if isinstance(each, StockLevel)
        ] == [
            ("LS-S", 7, "2026-03-01T12:00:00Z"),
            ("MUG", 0, "2026-03-01T12:00:00Z"),
            ("TEA", 0, "2026-03-01T12:00:00Z"),
        ]
        reserved = {**options, "subtract_reserved": True}
        first = (await pulled(site.connector(**reserved)))[0]
        assert isinstance(first, StockLevel)
        assert first.quantity == 5

    async def test_without_warehouses_no_stock_is_read(
        self, site: ErpNextDouble
    ) -> None:
        site.stock("LS-S", 3.0)
        assert await pulled(site.connector(warehouses=[])) == []

    async def test_no_url_is_longer_than_proxies_accept(
        self, site: ErpNextDouble
    ) -> None:
        for number in range(300):
            code = f"A rather long item code with a name in it {number:04}"
            site.item(code)
            site.stock(code, 1.0)
        assert len(await pulled(site.connector(shipments=False))) == 301
        assert site.longest_url < 2_000

    async def test_the_stock_is_read_again_after_a_restore(
        self, site: ErpNextDouble
    ) -> None:
        connector, host = site.connector(), MemoryHost()
        await pulled(connector, host)
        assert [batch async for batch in connector.pull(host.cursor)] == []
        cursor = connector.restart_stock(host.cursor)
        assert len([batch async for batch in connector.pull(cursor)]) == 1


class TestCheck:
    """`backhaul connectors check` says what was found."""

    async def test_the_check_lists_what_would_be_read_and_written(
        self, site: ErpNextDouble
    ) -> None:
        site.deliver(site.sell("ord_1"))
        site.stock("LS-S", 3.0)
        connector = site.connector()
        await connector.check()
        assert connector.findings() == [
            f"{site.url} is ERPNext 15.2.0, its time zone is Asia/Kolkata, and the key"
            f" is that of {USER}",
            "1 submitted delivery note would be read",
            "the stock of 1 item would be read from 1 bin",
            "orders can be written: the user may create sales orders and addresses",
        ]

    async def test_the_check_names_every_doctype_that_the_user_cannot_read(
        self, site: ErpNextDouble
    ) -> None:
        site.denied = {("Delivery Note", "read"), ("Bin", "read")}
        with pytest.raises(CheckFailed) as failure:
            await site.connector().check()
        assert str(failure.value).startswith(
            "the ERPNext user of the API key cannot read Delivery Note, Bin; give this"
            " user the roles Stock User and Sales User. the ERPNext server"
        )

    @pytest.mark.parametrize(
        ("options", "denied", "words"),
        [
            ({"warehouses": ["X"]}, set(), "ERPNext has no warehouse 'X'"),
            ({"customer": "X"}, set(), "ERPNext has no customer 'X'"),
            (
                {"customer": "X", "company": "Y", "shipping_item": "Z"},
                set(),
                r"'X' \(customer\), no company 'Y' \(company\), no item 'Z' \(ship",
            ),
            (
                {},
                {("Sales Order", "create")},
                "lacks the permission to create Sales Order",
            ),
            (
                {"orders": "submitted"},
                {("Sales Order", "submit")},
                "lacks the permission to submit Sales Order",
            ),
        ],
    )
    async def test_the_check_names_all_that_is_missing(
        self,
        site: ErpNextDouble,
        options: dict[str, Any],
        denied: set[tuple[str, str]],
        words: str,
    ) -> None:
        site.denied = denied
        with pytest.raises(CheckFailed, match=words):
            await site.connector(**options).check()

    async def test_a_wrong_key_is_reported_without_the_secret(
        self, site: ErpNextDouble
    ) -> None:
        with pytest.raises(CheckFailed) as failure:
            await site.connector(api_key="wrong").check()
        assert "the server denied access; check the key and its rights" in str(
            failure.value
        )
        assert SECRET not in str(failure.value)
