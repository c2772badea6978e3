"""A Tryton server and a real platform: orders go out, shipments and stock come in."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock, to_text
from backhaul.demo.back_office_checks import Sale, TrytonBooks
from backhaul.demo.comparison import compare_sides
from backhaul.demo.daemon_rows import (
    Cause,
    counted_since,
    read_daemon_rows,
    read_progress,
    records_from,
)
from backhaul.demo.demo_folder import COURIER, SCANNER, TRYTON
from scenes.daemon import DaemonProcess, connected_process
from scenes.reference_process import reference
from scenes.reference_shop import cart
from scenes.sql_erp import locked
from scenes.stored import rows_of
from scenes.tryton import PASSWORD, common_folder, tryton
from scenes.tryton_setup import PRODUCTS
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backhaul.demo.comparison import ComparisonReport
    from scenes.reference_process import ReferenceProcess
    from scenes.tryton import TrytonServer

pytestmark = [pytest.mark.programs]
PATIENCE_SECONDS = 120
CONFIGURATION = """
[connectors.tryton]
type = "tryton"
every = "250ms"
url = "{server.url}"
database = "erp"
user = "admin"
password = "{password}"
customer = "SHOP"
stock_seconds = 2
lag_seconds = 1
in_flight_seconds = 2
network = {{ allow = ["127.0.0.1"], ports = [{server.port}], allow_http = true }}
counts = {{ quantity_means = "on_hand" }}
"""


@pytest.fixture
def erp(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TrytonServer]:
    folder = tmp_path / "tryton"
    folder.mkdir()
    with tryton(folder, common_folder(tmp_path_factory)) as server:
        yield server


class Day:
    """A merchant's day with a store and Tryton; `causes` are the planned changes."""

    def __init__(
        self, erp: TrytonServer, server: ReferenceProcess, daemon: DaemonProcess
    ) -> None:
        self.erp = erp
        self.server = server
        self.daemon = daemon
        self.office = daemon.office
        self.causes: list[Cause] = []
        self.done_at = ""

    def order(self, sku: str, quantity: int = 1) -> str:
        """Buy in the store; return the order's id."""
        products = self.server.state()["products"]
        (product,) = (
            {**each, "variants": [variant]}
            for each in products
            for variant in each["variants"]
            if variant["sku"] == sku
        )
        ordered = self.server.storefront("POST", "/orders", cart(product, quantity))
        assert ordered.status < 300, ordered.body
        return str(ordered.data()["id"])

    def await_sale(self, order: str) -> None:
        await_true(
            lambda: (order, "quotation") in self.sales(),
            "the order is a sale",
            PATIENCE_SECONDS,
        )

    def sales(self) -> list[tuple[str, str]]:
        return self.erp.rows("SELECT reference, state FROM sale_sale ORDER BY id")

    def ship(self, order: str, tracking: str) -> None:
        with self.erp.log_in() as house:
            number = house.ship(order, tracking)
        self.done_at = to_text(SystemClock().now())
        self.causes.append(
            Cause(
                kind="fulfill",
                instance=TRYTON,
                locator=f"shipment {number}",
                order_id=order,
                tracking_number=tracking,
            )
        )

    def receive(self, sku: str, quantity: int) -> None:
        with self.erp.log_in() as house:
            house.receive(sku, quantity)
        self.done_at = to_text(SystemClock().now())

    def cancel(self, order: str) -> None:
        (number,) = (
            each["number"]
            for each in self.server.state()["orders"]
            if each["id"] == order
        )
        name = "cancellations-1.csv"
        self.office.put(name, "order,restock,reason", f"{number},yes,customer")
        self.causes.append(
            Cause(kind="cancel", instance=COURIER, locator=f"{name}:2", order_id=order)
        )

    def level(self, sku: str) -> int:
        levels = self.server.state()["levels"]
        (stock,) = (each["stock"] for each in levels if each["sku"] == sku)
        return int(stock)

    def await_level(self, sku: str, stock: int) -> None:
        await_true(
            lambda: self.level(sku) == stock,
            f"{stock} of {sku} are for sale",
            PATIENCE_SECONDS,
        )

    def order_of(self, order: str) -> dict[str, Any]:
        orders = {each["id"]: each for each in self.server.state()["orders"]}
        return dict(orders[order])

    def await_quiet(self) -> None:
        """Wait until nothing is left to do, and Tryton then reported its stock."""

        def look() -> bool:
            database = self.office.database
            sent = sum(cause.instance == TRYTON for cause in self.causes)
            if records_from(database, TRYTON, "shipment %") < sent:
                return False
            counted = counted_since(database, TRYTON, self.done_at)
            pending = self.server.state()["deliveries"]["PENDING"]
            busy = pending or read_progress(database).waiting
            return counted == len(PRODUCTS) and not busy

        await_true(look, "all is done", PATIENCE_SECONDS)

    def ledger(self) -> ComparisonReport:
        books = read_daemon_rows(self.office.database, "main", SCANNER)
        return compare_sides(
            self.server.state(), books, self.causes, tryton=self._tryton_books()
        )

    def _tryton_books(self) -> TrytonBooks:
        """Read the resulting rows in Tryton's tables."""
        lines = self.erp.rows(
            "SELECT s.id, s.reference, s.state, p.code, l.quantity FROM sale_sale s"
            " JOIN sale_line l ON l.sale = s.id JOIN product_product p"
            " ON p.id = l.product"
        )
        units: dict[tuple[int, str, str], Counter[str]] = {}
        for id_, order, state, code, quantity in lines:
            sold = units.setdefault((id_, order, state), Counter())
            sold[code] += int(quantity)
        with self.erp.log_in() as house:
            on_hand = house.books().on_hand
        return TrytonBooks(
            [Sale(*key[1:], sold) for key, sold in units.items()], on_hand
        )


@pytest.fixture
def day(erp: TrytonServer, tmp_path: Path) -> Iterator[Day]:
    more = CONFIGURATION.format(server=erp, password=PASSWORD)
    with (
        reference(tmp_path / "shop", fixture="fresh") as server,
        connected_process(server, more) as daemon,
    ):
        yield Day(erp, server, daemon)


def test_a_day_with_tryton_leaves_nothing_lost_doubled_or_different(day: Day) -> None:
    day.await_level("LS-S", 10_000)
    day.await_level("LS-M", 20_000)
    sent, cancelled, still_open = (day.order("LS-S", 2) for _ in range(3))
    for each in (sent, cancelled, still_open):
        day.await_sale(each)
    day.ship(sent, "TRY-1")
    day.cancel(cancelled)
    day.receive("LS-S", 30)
    day.receive("LS-M", 5)
    day.await_quiet()
    order = day.order_of(sent)
    assert [each["trackingNumber"] for each in order["shipments"]] == ["TRY-1"]
    assert order["fulfillmentStatus"] == "FULFILLED"
    assert day.sales() == [
        (sent, "processing"),
        (cancelled, "cancelled"),
        (still_open, "quotation"),
    ]
    assert day.level("LS-S") == 10_000 + 30 - 2 - 2
    assert day.level("LS-M") == 20_000 + 5
    assert day.ledger().findings == ()


def test_an_order_is_one_sale_though_both_are_killed(day: Day) -> None:
    day.await_level("LS-S", 10_000)
    order = day.order("LS-S")

    def is_at(state: str) -> bool:
        wanted = {"instance": "tryton", "state": state}
        return bool(rows_of(day.office.database, "deliveries", **wanted))

    await_true(lambda: is_at("sending"), "it is being written", PATIENCE_SECONDS)
    with locked(day.office.database):
        await_true(day.sales, "there is a sale", PATIENCE_SECONDS)
        day.daemon.kill()
        day.erp.kill()
    day.erp.start()
    again = DaemonProcess(day.office)
    try:
        await_true(lambda: is_at("applied"), "it is told", PATIENCE_SECONDS)
    finally:
        again.kill()
    assert day.sales() == [(order, "quotation")]
