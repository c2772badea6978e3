"""What the Odoo connector reads, and what its check finds, against a test double."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from backhaul_connectors.odoo.settings import Settings
from backhaul_sdk import (
    Bad,
    CheckFailed,
    Fulfillment,
    Line,
    StockLevel,
)
from backhaul_sdk.testing import MemoryHost
from connectors.odoo_double import KEY, OdooDouble

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul_sdk import Batch, Connector, Record

pytestmark = [pytest.mark.programs]
VERSIONS = ["14.0", "16.0", "17.0", "18.0", "19.0"]


@pytest.fixture(params=VERSIONS)
async def odoo(request: pytest.FixtureRequest) -> AsyncIterator[OdooDouble]:
    odoo = OdooDouble(request.param)
    await odoo.plug_in()
    yield odoo
    await odoo.close()


@pytest.fixture
async def newer() -> AsyncIterator[OdooDouble]:
    odoo = OdooDouble("17.0")
    await odoo.plug_in()
    yield odoo
    await odoo.close()


async def pulled(
    connector: Connector[Any], host: MemoryHost | None = None
) -> list[Record | Bad]:
    """Return everything that a host has after one pull."""
    host = host or MemoryHost()
    await connector.open()
    await host.pull(connector)
    return [*host.records.values(), *host.bad.values()]


def keys_of(batch: Batch) -> list[str]:
    return [record.key for record in batch.records]


class TestDeliveries:
    """Finished outgoing pickings become fulfillments."""

    async def test_a_finished_delivery_is_a_fulfillment(self, odoo: OdooDouble) -> None:
        mug = odoo.product("MUG")
        carrier = odoo.records.add("delivery.carrier", name="DHL")
        picking = odoo.deliver(
            odoo.sell("ord_1"),
            [(odoo.shirt, 2.0), (mug, 1.0), (odoo.shirt, 1.0)],
            carrier_id=carrier,
            carrier_tracking_ref="JD1",
        )
        odoo.now += timedelta(seconds=1)
        (found,) = await pulled(odoo.connector(stock_seconds=0))
        assert isinstance(found, Fulfillment)
        assert found.key == f"picking:{picking}:ord_1"
        assert (found.order, found.locator) == ("ord_1", "delivery WH/OUT/00001")
        assert (found.tracking_company, found.tracking_number) == ("DHL", "JD1")
        # Two rows of one product, such as two lots, are one line.
        assert found.lines == (
            Line(sku="LS-S", quantity=3),
            Line(sku="MUG", quantity=1),
        )
        assert found.shipped_at == "2026-01-01T00:00:00Z"

    async def test_others_are_not_read(self, newer: OdooDouble) -> None:
        newer.deliver(newer.sell("ord_1"), state="assigned")
        newer.deliver(newer.sell("ord_2"), picking_type_id=newer.incoming)
        newer.deliver(newer.sell(""), name="WH/OUT/9")
        newer.records.rows["sale.order"][3]["client_order_ref"] = False
        newer.now += timedelta(seconds=1)
        assert await pulled(newer.connector(stock_seconds=0)) == []

    async def test_only_those_of_the_sales_team_and_the_customer(
        self, newer: OdooDouble
    ) -> None:
        add = newer.records.add
        team, shop = add("crm.team", name="Shop"), add("res.partner", ref="SHOP")
        newer.deliver(newer.sell("PO-77", team_id=add("crm.team", name="Wholesale")))
        newer.deliver(newer.sell("ord_2", team_id=team, partner_id=shop))
        newer.deliver(newer.sell("ord_3", partner_id=shop))
        newer.now += timedelta(seconds=1)
        options = {"stock_seconds": 0, "sales_team": "Shop"}
        (found,) = await pulled(newer.connector(**options))
        assert isinstance(found, Fulfillment)
        assert found.order == "ord_2"
        both = await pulled(newer.connector(stock_seconds=0, customer="SHOP"))
        assert {each.order for each in both if isinstance(each, Fulfillment)} == {
            "ord_2",
            "ord_3",
        }

    async def test_a_delivery_before_the_start_date_is_not_read(
        self, newer: OdooDouble
    ) -> None:
        """Also if somebody writes into it today."""
        newer.deliver(newer.sell("ord_1"))
        newer.deliver(newer.sell("ord_2"), date_done=newer.now)
        newer.now += timedelta(seconds=1)
        options = {"stock_seconds": 0, "shipped_since": "2026-01-02"}
        (found,) = await pulled(newer.connector(**options))
        assert isinstance(found, Fulfillment)
        assert found.order == "ord_2"

    async def test_the_source_document_may_name_the_order(
        self, newer: OdooDouble
    ) -> None:
        newer.deliver(newer.sell("PO-77"), origin="#1001")
        newer.now += timedelta(seconds=1)
        options = {"stock_seconds": 0, "order_field": "origin"}
        (found,) = await pulled(newer.connector(**options))
        assert isinstance(found, Fulfillment)
        assert found.order == "#1001"

    async def test_a_delivery_waits_for_its_tracking_reference(
        self, newer: OdooDouble
    ) -> None:
        picking = newer.deliver(newer.sell("ord_1"))
        newer.now += timedelta(seconds=1)
        connector = newer.connector(stock_seconds=0, require_tracking=True)
        host = MemoryHost()
        assert await pulled(connector, host) == []
        row = newer.records.rows["stock.picking"][picking]
        row |= {"carrier_tracking_ref": "JD1", "write_date": newer.now}
        newer.now += timedelta(seconds=1)
        (found,) = await pulled(connector, host)
        assert isinstance(found, Fulfillment)
        assert found.tracking_number == "JD1"

    async def test_a_delivery_that_is_written_again_is_the_same_record(
        self, newer: OdooDouble
    ) -> None:
        """An invoice or a note changes the time of writing, not what left."""
        picking = newer.deliver(newer.sell("ord_1"))
        newer.now += timedelta(seconds=1)
        connector, host = newer.connector(stock_seconds=0), MemoryHost()
        first = await pulled(connector, host)
        newer.records.rows["stock.picking"][picking]["write_date"] = newer.now
        newer.now += timedelta(seconds=1)
        batches = [batch async for batch in connector.pull(host.cursor)]
        assert [each for batch in batches for each in batch.records] == first

    async def test_a_product_without_a_reference_is_quarantined(
        self, odoo: OdooDouble
    ) -> None:
        odoo.deliver(odoo.sell("ord_1"), [(odoo.product(False), 1.0)])
        odoo.deliver(odoo.sell("ord_2"))
        odoo.now += timedelta(seconds=1)
        good, bad = await pulled(odoo.connector(stock_seconds=0))
        assert isinstance(good, Fulfillment)
        assert isinstance(bad, Bad)
        assert bad.reason == (
            "a product of the shipment has no default_code in Odoo; set its"
            " default_code to the store's SKU"
        )

    async def test_another_unit_is_quarantined_where_odoo_does_not_convert_it(
        self,
    ) -> None:
        older = OdooDouble("16.0")
        await older.plug_in()
        picking = older.deliver(older.sell("ord_1"))
        older.move(picking, older.product("MUG"), 1.0, older.dozen)
        older.now += timedelta(seconds=1)
        (bad,) = await pulled(older.connector(stock_seconds=0))
        await older.close()
        assert isinstance(bad, Bad)
        assert bad.reason.startswith(
            "MUG was delivered in Dozens, and its own unit is Units; "
        )
        # With its unit the quantity is not a number: nobody ships 1 by mistake.
        assert bad.read["lines.2.sku"].text == "MUG"
        assert bad.read["lines.2.quantity"].text == "1 Dozens"

    async def test_no_delivery_of_one_second_is_missed(self, newer: OdooDouble) -> None:
        """Odoo compares microseconds and shows seconds; ids are not in that order."""
        at = newer.now
        late_first = [0.9, 0.1, 0.5, 0.2, 0.8, 0.3]
        for number, fraction in enumerate(late_first):
            sale = newer.sell(f"ord_{number}")
            newer.deliver(sale, write_date=at + timedelta(seconds=fraction))
        newer.now += timedelta(seconds=1)
        connector = newer.connector(stock_seconds=0, batch_rows=2)
        assert len(await pulled(connector)) == len(late_first)

    async def test_deliveries_that_change_between_two_pages_move_no_others(
        self, newer: OdooDouble
    ) -> None:
        """A page by its offset would leave out as many as left the window before it."""
        orders = [f"ord_{number}" for number in range(6)]
        written = {order: newer.deliver(newer.sell(order)) for order in orders}
        newer.now += timedelta(seconds=1)
        connector = newer.connector(stock_seconds=0, batch_rows=2)
        pages = connector.pull(None)
        read = [keys_of(await anext(pages))]
        newer.now += timedelta(seconds=1)
        for order in ("ord_0", "ord_5"):
            row = newer.records.rows["stock.picking"][written[order]]
            row["write_date"] = newer.now
        newer.now += timedelta(seconds=1)
        batches = [batch async for batch in pages]
        cursor = batches[-1].cursor
        batches += [batch async for batch in connector.pull(cursor)]
        read += [keys_of(batch) for batch in batches if batch.records]
        keys = [f"picking:{id_}:{order}" for order, id_ in written.items()]
        once, again = keys[:5], [keys[0], keys[5]]
        assert [key for page in read for key in page] == [*once, *again]

    async def test_the_clock_is_read_once_for_all_pages(self, odoo: OdooDouble) -> None:
        for number in range(5):
            odoo.deliver(odoo.sell(f"ord_{number}"))
        odoo.now += timedelta(seconds=1)
        connector = odoo.connector(stock_seconds=0, batch_rows=2)
        assert len(await pulled(connector)) == 5
        assert odoo.version_requests == 1

    async def test_a_delivery_that_is_committed_late_is_not_missed(
        self, newer: OdooDouble
    ) -> None:
        connector = newer.connector(stock_seconds=0, lag_seconds=60)
        host = MemoryHost()
        newer.deliver(newer.sell("ord_1"), write_date=newer.now - timedelta(seconds=61))
        assert len(await pulled(connector, host)) == 1
        # Its transaction began before, and took 50 seconds.
        newer.deliver(newer.sell("ord_2"), write_date=newer.now - timedelta(seconds=50))
        newer.now += timedelta(seconds=60)
        assert len(await pulled(connector, host)) == 2

    async def test_a_clock_that_was_set_back_delays_nothing(
        self, newer: OdooDouble
    ) -> None:
        newer.deliver(newer.sell("ord_1"))
        newer.now += timedelta(seconds=1)
        connector, host = newer.connector(stock_seconds=0), MemoryHost()
        await pulled(connector, host)
        newer.now -= timedelta(hours=1)
        newer.deliver(newer.sell("ord_2"))
        newer.now += timedelta(seconds=1)
        assert len(await pulled(connector, host)) == 2

    async def test_nothing_new_moves_no_cursor(self, newer: OdooDouble) -> None:
        connector, host = newer.connector(stock_seconds=0), MemoryHost()
        await pulled(connector, host)
        newer.now += timedelta(hours=1)
        assert [batch async for batch in connector.pull(host.cursor)] == []


class TestStock:
    """Quants in internal locations become stock counts."""

    async def test_the_stock_of_a_product_is_the_sum_of_its_quants(
        self, odoo: OdooDouble
    ) -> None:
        mug, none_left = odoo.product("MUG"), odoo.product("TEA")
        odoo.product(False)
        odoo.stock(odoo.shirt, 3.0)
        odoo.stock(odoo.shirt, 4.0, reserved=2.0)
        odoo.stock(odoo.shirt, 50.0, odoo.customers)
        odoo.stock(mug, -1.0)
        levels = await pulled(odoo.connector(shipments=False, batch_rows=2))
        assert none_left
        assert [
            (each.sku, each.quantity, each.note)
            for each in levels
            if isinstance(each, StockLevel)
        ] == [("LS-S", 7, ""), ("MUG", 0, "-1 is taken as 0"), ("TEA", 0, "")]
        assert {each.as_of for each in levels if isinstance(each, StockLevel)} == {
            "2026-03-01T12:00:00Z"
        }

    async def test_reserved_units_can_be_subtracted(self, newer: OdooDouble) -> None:
        newer.stock(newer.shirt, 4.0, reserved=2.0)
        options = {"shipments": False, "subtract_reserved": True}
        (level,) = await pulled(newer.connector(**options))
        assert isinstance(level, StockLevel)
        assert level.quantity == 2

    async def test_a_single_warehouse_can_be_chosen(self, newer: OdooDouble) -> None:
        elsewhere = newer.records.add("stock.location", name="B", usage="internal")
        newer.stock(newer.shirt, 4.0)
        newer.stock(newer.shirt, 9.0, elsewhere)
        options = {"shipments": False, "warehouse": "WH"}
        (level,) = await pulled(newer.connector(**options))
        assert isinstance(level, StockLevel)
        assert level.quantity == 4
        with pytest.raises(CheckFailed, match="no warehouse has the code or the name"):
            await pulled(newer.connector(**{**options, "warehouse": "X"}))

    async def test_the_barcode_can_be_the_sku(self, newer: OdooDouble) -> None:
        newer.stock(newer.shirt, 4.0)
        (level,) = await pulled(newer.connector(shipments=False, sku_field="barcode"))
        assert isinstance(level, StockLevel)
        assert level.sku == "4006381333931"

    async def test_a_fraction_of_a_unit_is_quarantined(self, newer: OdooDouble) -> None:
        newer.stock(newer.shirt, 0.1)
        newer.stock(newer.product("MUG"), 0.1)
        for _ in range(9):
            newer.stock(newer.shirt, 0.1)
        level, bad = await pulled(newer.connector(shipments=False))
        assert isinstance(level, StockLevel)
        assert level.quantity == 1, "ten tenths are one"
        assert isinstance(bad, Bad)
        assert bad.reason.startswith("quantity of MUG must be a whole number, not 0.1")

    async def test_products_that_change_between_two_pages_move_no_others(
        self, newer: OdooDouble
    ) -> None:
        """Somebody archives a product that was read, and creates another one."""
        products = {sku: newer.product(sku) for sku in ("A", "B", "C", "D")}
        connector = newer.connector(shipments=False, batch_rows=2)
        pages = connector.pull(None)
        read = [*(await anext(pages)).records]
        del newer.records.rows["product.product"][products["A"]]
        newer.product("E")
        read += [record async for batch in pages for record in batch.records]
        skus = [each.sku for each in read if isinstance(each, StockLevel)]
        assert skus == ["LS-S", "A", "B", "C", "D", "E"]

    async def test_the_stock_is_read_when_it_is_due(self, newer: OdooDouble) -> None:
        newer.stock(newer.shirt, 4.0)
        connector, host = newer.connector(shipments=False), MemoryHost()
        assert len(await pulled(connector, host)) == 1
        newer.now += timedelta(seconds=899)
        assert [batch async for batch in connector.pull(host.cursor)] == []
        newer.now += timedelta(seconds=1)
        assert len(await pulled(connector, host)) == 2
        cursor = connector.restart_stock(host.cursor)
        assert len([batch async for batch in connector.pull(cursor)]) == 1


class TestCheck:
    """`backhaul connectors check` says what was found."""

    async def test_the_check_lists_what_would_be_read_and_written(
        self, odoo: OdooDouble
    ) -> None:
        odoo.deliver(odoo.sell("ord_1"))
        odoo.stock(odoo.shirt, 3.0)
        connector = odoo.connector()
        await connector.check()
        api = "json-2" if odoo.major >= 19 else "json-rpc"
        assert connector.findings() == [
            f"{odoo.url} is Odoo {odoo.version}, and its {api} works",
            "1 finished delivery would be read",
            "the stock of 1 product with a default_code would be read from 1 quant",
            "orders can be written: the user may create sales orders and contacts",
        ]

    async def test_the_check_names_every_model_that_the_user_cannot_read(
        self, odoo: OdooDouble
    ) -> None:
        odoo.denied = {("stock.picking", "read"), ("stock.quant", "read")}
        with pytest.raises(CheckFailed) as failure:
            await odoo.connector().check()
        assert str(failure.value) == (
            "the Odoo user of the API key cannot read stock.picking, stock.quant; give"
            " this user the rights Inventory / User and Sales / User. Odoo refuses: You"
            " are not allowed to access 'stock.picking' records."
        )

    async def test_the_check_names_every_model_that_the_user_cannot_create(
        self, odoo: OdooDouble
    ) -> None:
        odoo.denied = {("res.partner", "create")}
        with pytest.raises(CheckFailed, match=r"cannot create res\.partner; give"):
            await odoo.connector().check()

    async def test_the_check_names_every_setting_without_a_match_in_odoo(
        self, newer: OdooDouble
    ) -> None:
        named = {"customer": "SHOP", "sales_team": "Web", "shipping_product": "SHIP"}
        with pytest.raises(CheckFailed) as failure:
            await newer.connector(**named).check()
        assert str(failure.value) == (
            "Odoo has no contact with the reference 'SHOP' (customer), no sales team"
            " 'Web' (sales_team), no product with the default_code 'SHIP'"
            " (shipping_product); correct these settings, or create what is missing"
        )
        newer.records.add("res.partner", ref="SHOP")
        newer.records.add("crm.team", name="Web")
        with pytest.raises(CheckFailed, match=r"^Odoo has no product with the"):
            await newer.connector(**named).check()
        newer.product("SHIP")
        await newer.connector(**named).check()

    async def test_the_check_says_that_deliveries_have_no_carrier(self) -> None:
        odoo = OdooDouble("17.0", modules=["sale_stock"])
        await odoo.plug_in()
        connector = odoo.connector(stock_seconds=0, orders="none")
        await connector.check()
        assert connector.findings()[-1].startswith("deliveries have no carrier")
        with pytest.raises(CheckFailed, match="Odoo has no tracking references"):
            await odoo.connector(require_tracking=True).check()
        await odoo.close()

    async def test_the_check_says_which_module_links_deliveries_to_orders(self) -> None:
        odoo = OdooDouble("17.0", modules=[])
        await odoo.plug_in()
        with pytest.raises(CheckFailed, match="install its module sale_stock, or set"):
            await odoo.connector().check()
        odoo.deliver(0, origin="ord_1")
        connector = odoo.connector(order_field="origin")
        await connector.check()
        await odoo.close()

    async def test_a_wrong_login_is_reported_without_the_key(
        self, newer: OdooDouble
    ) -> None:
        with pytest.raises(CheckFailed) as failure:
            await newer.connector(user="nobody").check()
        assert "refuses the login of nobody to the database company" in str(
            failure.value
        )
        assert KEY not in str(failure.value)


@pytest.mark.parametrize("missing", ["database", "user"])
def test_json_rpc_needs_a_database_and_a_user(missing: str) -> None:
    told = {"url": "https://odoo.example", "api_key": "k", "database": "d", "user": "u"}
    del told[missing]
    Settings.model_validate({**told, "api": "json-2"})
    with pytest.raises(ValidationError, match="needs database and user"):
        Settings.model_validate(told)
