"""What the Odoo connector writes and refuses to write, against a test double."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import Absent, Applied, Found, NotSent, Rejected
from backhaul_sdk.testing import sample_change
from connectors.odoo_double import OdooDouble

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul_sdk import Change

pytestmark = [pytest.mark.programs]
VERSIONS = ["14.0", "17.0", "18.0", "19.0"]
ADDRESS = {
    "name": "Kim Example",
    "phone": "+49 30 1234",
    "address1": "1 Sample Street",
    "address2": None,
    "city": "Sampleton",
    "province": None,
    "zip": "12345",
    "country": "DE",
}


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


def placed(number: int, **members: Any) -> Change:
    """Return a placed order with other members of its document."""
    change = sample_change(number)
    document = {**change.document, "shippingAddress": ADDRESS, **members}
    return replace(change, document=document)


class TestOrders:
    """Orders become sales orders."""

    @pytest.mark.parametrize(
        ("wanted", "state"), [("quotation", "draft"), ("confirmed", "sale")]
    )
    async def test_an_order_becomes_one_sales_order(
        self, odoo: OdooDouble, wanted: str, state: str
    ) -> None:
        odoo.records.add("product.pricelist", name="Shop", currency_id=odoo.euro)
        service = odoo.product("SHIPPING", type="service", is_storable=False)
        team = odoo.records.add("crm.team", name="Shop")
        item = {**sample_change(1).document["items"][0], "discount": "5.00"}
        change = placed(1, items=[item], totals={"shipping": "4.90"})
        connector = odoo.connector(
            orders=wanted, shipping_product="SHIPPING", sales_team="Shop"
        )
        assert await connector.lookup(change) == Absent()
        said = [await connector.push(change) for _ in range(3)]
        assert said == [Applied("1")] * 3
        assert await connector.lookup(change) == Found("1")
        sale = odoo.records.only("sale.order")
        assert (sale["client_order_ref"], sale["origin"]) == ("ord_00000001", "#1002")
        assert (sale["state"], sale["team_id"], sale["pricelist_id"]) == (
            state,
            team,
            1,
        )
        lines = odoo.records.rows["sale.order.line"].values()
        assert [
            (r["product_id"], r["product_uom_qty"], r["price_unit"], r["discount"])
            for r in lines
        ] == [(odoo.shirt, 2, 7.5, 0), (service, 1, 4.9, 0)]
        customer, delivery = odoo.records.rows["res.partner"].values()
        assert (customer["ref"], customer["email"]) == (
            "cus_00000001",
            "kim-1@example.com",
        )
        assert (delivery["ref"], delivery["parent_id"]) == ("ord_00000001", 1)
        assert (delivery["street"], delivery["zip"], delivery["country_id"]) == (
            "1 Sample Street",
            "12345",
            odoo.germany,
        )
        assert (sale["partner_id"], sale["partner_shipping_id"]) == (1, 2)

    async def test_a_customer_becomes_one_contact(self, newer: OdooDouble) -> None:
        connector = newer.connector()
        customer = {"id": "cus_1", "name": "Kim", "email": "kim@example.com"}
        guest = {"customer": None, "email": "Guest@example.com"}
        for number in (1, 2):
            await connector.push(placed(number, customer=customer))
            await connector.push(placed(number + 2, **guest))
        contacts = newer.records.rows["res.partner"].values()
        own = [row["ref"] for row in contacts if row["type"] != "delivery"]
        assert own == ["cus_1", "guest@example.com"]

    async def test_a_single_contact_may_represent_all_customers(
        self, newer: OdooDouble
    ) -> None:
        connector = newer.connector(customer="SHOP")
        said = await connector.push(placed(1))
        assert said == Rejected(
            "Odoo has no contact with the reference 'SHOP'; create it, or correct"
            " the setting customer"
        )
        shop = newer.records.add("res.partner", ref="SHOP")
        assert isinstance(await connector.push(placed(1)), Applied)
        assert newer.records.only("sale.order")["partner_id"] == shop

    @pytest.mark.parametrize(
        ("members", "reason"),
        [
            (
                {"items": [{"sku": "NEW", "quantity": 1, "unitPrice": "1"}]},
                "Odoo has no product with the default_code 'NEW'; create it with this"
                " default_code",
            ),
            (
                {"items": [{"sku": None, "title": "Mug", "quantity": 1}]},
                "the variant 'Mug' of the order has no SKU",
            ),
            (
                {"currency": "USD"},
                "Odoo has no pricelist in USD; create one, so that orders can have this"
                " currency",
            ),
            (
                {"shippingAddress": {**ADDRESS, "country": "XX"}},
                "Odoo has no country with the code 'XX'; correct the order's address",
            ),
        ],
    )
    async def test_an_order_that_odoo_cannot_have_is_rejected(
        self, newer: OdooDouble, members: dict[str, Any], reason: str
    ) -> None:
        assert await newer.connector().push(placed(1, **members)) == Rejected(reason)
        assert newer.records.rows["sale.order"] == {}
        assert newer.records.rows["res.partner"] == {}

    async def test_a_cancelled_order_cancels_its_sales_order(
        self, odoo: OdooDouble
    ) -> None:
        connector = odoo.connector(orders="confirmed")
        cancelled = sample_change(1, "order.cancelled")
        assert await connector.push(cancelled) == Applied(None), "it was never here"
        assert await connector.lookup(cancelled) == Absent()
        await connector.push(placed(1))
        assert await connector.lookup(cancelled) == Absent()
        assert [await connector.push(cancelled) for _ in range(2)] == [Applied("1")] * 2
        assert odoo.records.only("sale.order")["state"] == "cancel"
        assert await connector.lookup(cancelled) == Found("1")
        # What a person or the store cancelled is not confirmed again.
        assert await connector.push(placed(1)) == Applied("1")
        assert odoo.records.only("sale.order")["state"] == "cancel"

    async def test_a_delivered_order_is_not_cancelled(self, newer: OdooDouble) -> None:
        connector = newer.connector(orders="confirmed")
        await connector.push(placed(1))
        newer.deliver(1)
        said = await connector.push(sample_change(1, "order.cancelled"))
        assert said == Rejected(
            "S00001 was delivered with WH/OUT/00001 and can no longer be cancelled;"
            " have the goods returned in Odoo"
        )
        assert newer.records.only("sale.order")["state"] == "sale"

    async def test_a_locked_order_is_rejected_in_odoos_words(
        self, newer: OdooDouble
    ) -> None:
        connector = newer.connector(orders="confirmed")
        await connector.push(placed(1))
        newer.records.only("sale.order")["state"] = "done"
        said = await connector.push(sample_change(1, "order.cancelled"))
        assert said == Rejected(
            "Odoo refuses: You cannot cancel a locked order. Please unlock it first."
        )

    async def test_without_the_orders_setting_no_orders_are_written(
        self, newer: OdooDouble
    ) -> None:
        connector = newer.connector(orders="none")
        assert connector.topics() == frozenset()
        assert isinstance(await connector.push(placed(1)), Rejected)
        assert newer.records.rows["sale.order"] == {}

    async def test_an_order_that_was_written_before_the_setting_is_found(
        self, newer: OdooDouble
    ) -> None:
        """Otherwise the host would send it again, without an end."""
        await newer.connector(orders="quotation").push(placed(1))
        found = await newer.connector(orders="none").lookup(placed(1))
        assert found == Found("1")


async def test_a_right_that_was_missing_is_no_fault_of_the_order(
    newer: OdooDouble,
) -> None:
    connector = newer.connector()
    newer.denied = {("product.product", "read")}
    said = await connector.push(placed(1))
    assert isinstance(said, NotSent), said
    newer.denied.clear()
    assert isinstance(await connector.push(placed(1)), Applied)
