"""What the ERPNext connector writes and refuses to write, and how it handles errors."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from backhaul_sdk import Absent, Applied, Found, NotSent, Rejected, Uncertain
from backhaul_sdk.testing import sample_change
from connectors.erpnext_double import SECRET, ErpNextDouble, FrappeFault, described

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from backhaul_sdk import Change

pytestmark = [pytest.mark.programs]
CREATE = ("POST", "Sales Order")
SUBMIT = ("PUT", "Sales Order")
ADDRESS = {
    "name": "Kim Example",
    "phone": "+49 30 1234",
    "address1": "1 Sample Street",
    "address2": "Yard",
    "city": "Sampleton",
    "province": None,
    "zip": "12345",
    "country": "DE",
}


@pytest.fixture
async def site() -> AsyncIterator[ErpNextDouble]:
    site = ErpNextDouble()
    await site.plug_in()
    yield site
    await site.close()


def placed(number: int, **members: Any) -> Change:
    """Return a placed order with other members of its document."""
    change = sample_change(number)
    document = {**change.document, "shippingAddress": ADDRESS, **members}
    return replace(change, document=document)


class TestOrders:
    """Orders become sales orders."""

    @pytest.mark.parametrize(("wanted", "status"), [("draft", 0), ("submitted", 1)])
    async def test_an_order_becomes_one_sales_order(
        self, site: ErpNextDouble, wanted: str, status: int
    ) -> None:
        site.item("SHIPPING", is_stock_item=0)
        item = {**sample_change(1).document["items"][0], "discount": "5.00"}
        change = placed(1, items=[item], totals={"shipping": "4.90"})
        connector = site.connector(
            orders=wanted, shipping_item="SHIPPING", company="C", delivery_days=2
        )
        assert await connector.lookup(change) == Absent()
        # In the evening of the last day of the month it is the next one in India.
        site.now = datetime(2026, 2, 28, 20, tzinfo=UTC)
        said = [await connector.push(change) for _ in range(3)]
        (name,) = site.documents["Sales Order"]
        assert said == [Applied(name)] * 3
        assert await connector.lookup(change) == Found(name)
        sale = site.documents["Sales Order"][name]
        assert sale == {
            **sale,
            "docstatus": status,
            "customer": "Shop",
            "po_no": "ord_00000001",
            "title": "#1002",
            "company": "C",
            "currency": "EUR",
            "transaction_date": "2026-03-01",
            "delivery_date": "2026-03-03",
            "shipping_address_name": "ord_00000001-Shipping",
            "items": [
                {
                    "item_code": "LS-S",
                    "qty": 2,
                    "rate": 7.5,
                    "delivery_date": "2026-03-03",
                },
                {
                    "item_code": "SHIPPING",
                    "qty": 1,
                    "rate": 4.9,
                    "delivery_date": "2026-03-03",
                },
            ],
        }
        (address,) = site.documents["Address"].values()
        assert address["country"] == "Germany"
        assert address["address_line2"] == "Kim Example, Yard"
        assert address["links"] == [{"link_doctype": "Customer", "link_name": "Shop"}]

    @pytest.mark.parametrize(
        ("members", "reason"),
        [
            (
                {"items": [{"sku": "NEW", "quantity": 1, "unitPrice": "1"}]},
                "ERPNext has no product with the item code 'NEW'; create it with this"
                " item code",
            ),
            (
                {"shippingAddress": {**ADDRESS, "country": "XX"}},
                "ERPNext has no country with the code 'XX'; correct the order's"
                " address",
            ),
        ],
    )
    async def test_an_order_that_erpnext_cannot_have_is_rejected(
        self, site: ErpNextDouble, members: dict[str, Any], reason: str
    ) -> None:
        assert await site.connector().push(placed(1, **members)) == Rejected(reason)
        assert site.documents["Sales Order"] == {}
        assert site.documents["Address"] == {}

    async def test_a_cancelled_order_cancels_its_sales_order(
        self, site: ErpNextDouble
    ) -> None:
        connector = site.connector(orders="submitted")
        cancelled = sample_change(1, "order.cancelled")
        assert await connector.push(cancelled) == Applied(None), "it was never here"
        await connector.push(placed(1))
        assert await connector.lookup(cancelled) == Absent()
        (name,) = site.documents["Sales Order"]
        assert [await connector.push(cancelled) for _ in range(2)] == [
            Applied(name),
            Applied(name),
        ]
        assert site.documents["Sales Order"][name]["docstatus"] == 2
        assert await connector.lookup(cancelled) == Found(name)
        assert await connector.push(placed(1)) == Applied(name), "it is not renewed"

    async def test_the_draft_of_a_cancelled_order_is_deleted(
        self, site: ErpNextDouble
    ) -> None:
        connector = site.connector()
        await connector.push(placed(1))
        said = await connector.push(sample_change(1, "order.cancelled"))
        assert isinstance(said, Applied)
        assert site.documents["Sales Order"] == {}

    async def test_the_amended_sales_order_counts(self, site: ErpNextDouble) -> None:
        site.sell("ord_00000001", docstatus=2)
        amended = site.sell("ord_00000001")
        connector = site.connector(orders="submitted")
        assert await connector.push(placed(1)) == Applied(amended)

    async def test_the_cancellation_of_a_delivered_order_is_rejected_as_erpnext_says(
        self, site: ErpNextDouble
    ) -> None:
        connector = site.connector(orders="submitted")
        await connector.push(placed(1))
        (name,) = site.documents["Sales Order"]
        site.deliver(name)
        said = await connector.push(sample_change(1, "order.cancelled"))
        assert said == Rejected(
            f"ERPNext refuses: Cannot cancel because Sales Order {name} is linked with"
            " a Delivery Note"
        )

    @pytest.mark.parametrize("options", [{"customer": ""}, {"orders": "none"}])
    async def test_without_a_customer_or_a_state_no_orders_are_written(
        self, options: dict[str, str], site: ErpNextDouble
    ) -> None:
        connector = site.connector(**options)
        assert connector.topics() == frozenset()
        assert isinstance(await connector.push(placed(1)), Rejected)
        await connector.check()
        assert not [each for each in connector.findings() if "orders can" in each]


def fault(status: int, kind: str, message: str = "x") -> Callable[[], web.Response]:
    document = described(FrappeFault(status, kind, message))
    return lambda: web.json_response(document, status=status)


def status(code: int, **headers: str) -> Callable[[], web.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: web.Response(status=code, headers=named)


SENT_AGAIN: dict[str, tuple[Callable[[], web.Response], float | None]] = {
    "too many requests, with a wait": (status(429, Retry_After="7"), 7.0),
    "down for a while": (status(503, Retry_After="30"), 30.0),
    "changed meanwhile": (fault(417, "TimestampMismatchError"), None),
    "locked": (fault(417, "DocumentLockedError"), None),
    "a deadlock": (fault(500, "QueryDeadlockError"), None),
    "a right is missing": (fault(403, "PermissionError"), None),
    "the key was revoked": (fault(401, "AuthenticationError"), None),
    "no such path": (status(404), None),
}
LOOKED_UP = {
    "a fault": fault(500, "TypeError", "unsupported operand"),
    "broke": status(500),
    "its proxy lost it": status(502),
    "no JSON": lambda: web.Response(text="<html>"),
    "no document": lambda: web.json_response({"message": "Logged In"}),
}


class TestFailures:
    """What becomes of each way in which ERPNext can fail."""

    @pytest.mark.parametrize("request_", [CREATE, SUBMIT])
    @pytest.mark.parametrize("name", SENT_AGAIN)
    async def test_a_change_with_a_temporary_error_is_sent_again(
        self, site: ErpNextDouble, name: str, request_: tuple[str, str]
    ) -> None:
        site.answers[request_], wait = SENT_AGAIN[name]
        connector = site.connector(orders="submitted")
        said = await connector.push(sample_change(1))
        assert isinstance(said, NotSent), said
        assert said.retry_after_seconds == wait
        site.answers.clear()
        assert isinstance(await connector.push(sample_change(1)), Applied)
        (sale,) = site.documents["Sales Order"].values()
        assert sale["docstatus"] == 1

    @pytest.mark.parametrize("name", LOOKED_UP)
    async def test_a_change_that_may_have_been_applied_is_looked_up(
        self, site: ErpNextDouble, name: str
    ) -> None:
        site.answers[CREATE] = LOOKED_UP[name]
        connector = site.connector()
        said = await connector.push(sample_change(1))
        assert isinstance(said, Uncertain), said
        site.answers.clear()
        assert isinstance(await connector.push(sample_change(1)), Applied)

    @pytest.mark.parametrize("kind", ["ValidationError", "MandatoryError"])
    async def test_an_error_for_an_operator_is_rejected_as_erpnext_says(
        self, site: ErpNextDouble, kind: str
    ) -> None:
        site.answers[CREATE] = fault(417, kind, "The year is closed.")
        said = await site.connector().push(sample_change(1))
        assert said == Rejected("ERPNext refuses: The year is closed.")

    async def test_its_words_are_shown_without_the_secret(
        self, site: ErpNextDouble
    ) -> None:
        site.answers[CREATE] = fault(417, "ValidationError", f"who is {SECRET}?")
        said = await site.connector().push(sample_change(1))
        assert said == Rejected("ERPNext refuses: who is [redacted]?")
