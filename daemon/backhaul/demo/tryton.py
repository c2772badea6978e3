"""Sets up the demo's Tryton and works in it as its staff; needs the package `proteus`.

    python -m backhaul.demo.tryton CONFIG DATABASE

gives a new database a company and its customer. `CONFIG` is that of trytond; the module
`sale` is there already.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from proteus import Model, Wizard, config

from backhaul.core.clock import to_text
from backhaul.demo.back_office_checks import Sale, TrytonBooks
from backhaul.demo.daemon_rows import Cause, counted_since, records_from
from backhaul.demo.demo_folder import KEPT_BY_TRYTON, TRYTON
from backhaul.demo.tryton_server import DATABASE, USER, server_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.daemon_rows import Placement
    from backhaul.demo.demo_folder import DemoFolder
    from backhaul.demo.processes import Program
    from backhaul.demo.tryton_server import TrytonServer


CUSTOMER = "SHOP"
CURRENCY = "INR"
"""What the demo's store sells in."""


def set_up(config_file: str, database: str) -> None:
    """Give a new database its company and customer; no server needs to run."""
    config.set_trytond(f"sqlite:///{database}", config_file=config_file)
    _make_company(make_currency("Rupee", CURRENCY))
    preferences = Model.get("res.user").get_preferences(True, {})
    config.get_config().set_context(preferences)
    _configure_sales()
    customer = _saved("party.party", name="The shop", code=CUSTOMER)
    customer.addresses[0].street = "1 Sample Street"
    customer.save()


def make_currency(name: str, code: str) -> Any:
    """Make a currency that is worth as much as any other."""
    currency = _saved("currency.currency", name=name, symbol=code, code=code)
    currency.rates.new(date=date(2020, 1, 1), rate=Decimal(1))
    currency.save()
    return currency


def _saved(model: str, **values: Any) -> Any:
    record = Model.get(model)(**values)
    record.save()
    return record


def _make_company(currency: Any) -> None:
    wizard = Wizard("company.company.config")
    wizard.execute("company")
    wizard.form.party = _saved("party.party", name="Our company")
    wizard.form.currency = currency
    wizard.execute("add")


def _configure_sales() -> None:
    configuration = Model.get("sale.configuration")(1)
    configuration.sale_invoice_method = "manual"
    configuration.sale_shipment_method = "order"
    configuration.save()


IN_THE_HOUSE = ("STO", "OUT")
"""The codes of the locations where goods are until they leave."""


class House:
    """One person's session. It blocks, and belongs to the thread that made it.

    What Tryton refuses raises what its library raises.
    """

    def __init__(self, url: str, password: str) -> None:
        self._session = ExitStack()
        address = f"{url}/{DATABASE}/rpc/"
        self._config = self._session.enter_context(
            config.set_xmlrpc_session(address, USER, password)
        )

    def close(self) -> None:
        """Log out."""
        self._session.close()

    def add_goods(self, skus: Sequence[str], quantity: int) -> None:
        """Make articles that are kept here, with so many of each in the house.

        They get their codes last: until then nobody reads that there are none.
        """
        products = self._add(skus, "goods", coded=False)
        for product in products:
            self._receive(product, quantity)
        for product, sku in zip(products, skus, strict=True):
            product.suffix_code = sku
        Model.get("product.product").save(products)

    def add_services(self, skus: Iterable[str]) -> None:
        """Make articles that may be sold and that others keep."""
        self._add(skus, "service", coded=True)

    def receive(self, sku: str, quantity: int) -> None:
        """Take goods from a supplier into the house."""
        self._receive(self._one("product.product", "code", sku), quantity)

    def has_sale(self, reference: str) -> bool:
        """Tell whether there is one with that reference, quoted."""
        wanted = [("reference", "=", reference), ("state", "!=", "draft")]
        return bool(Model.get("sale.sale").find(wanted))

    def pick(self, reference: str) -> Any:
        """Confirm a sale, and pick all its goods; return the shipment."""
        sale = self._one("sale.sale", "reference", reference)
        if sale.state == "quotation":
            sale.click("confirm")
        (shipment,) = sale.shipments
        if shipment.state != "picked":
            shipment.click("assign_force")
            shipment.click("pick")
        return shipment

    def ship(self, reference: str, tracking: str) -> str:
        """Confirm a sale and send all its goods; return the shipment's number."""
        shipment = self.pick(reference)
        shipment.reference = tracking
        shipment.save()
        for step in ("pack", "do"):
            shipment.click(step)
        return str(shipment.number)

    def books(self) -> TrytonBooks:
        """Return every sale, and how many of each article are in the house."""
        units: dict[int, Counter[str]] = {}
        for line in self._read("sale.line", [], "sale", "product.code", "quantity"):
            sold = units.setdefault(line["sale"], Counter())
            sold[line["product."]["code"]] += int(line["quantity"])
        sales = [
            Sale(str(row["reference"]), row["state"], units.get(row["id"], {}))
            for row in self._read("sale.sale", [], "reference", "state")
        ]
        places = [self._one("stock.location", "code", c).id for c in IN_THE_HOUSE]
        with self._config.set_context(locations=places, with_childs=True):
            goods = [("type", "=", "goods"), ("code", "!=", None)]
            rows = self._read("product.product", goods, "code", "quantity")
        return TrytonBooks(sales, {row["code"]: int(row["quantity"]) for row in rows})

    def _receive(self, product: Any, quantity: int) -> None:
        move = Model.get("stock.move")(product=product, quantity=quantity)
        move.from_location = self._one("stock.location", "code", "SUP")
        move.to_location = self._one("stock.location", "code", "STO")
        move.unit_price = Decimal(5)
        move.currency = self._one("currency.currency", "code", CURRENCY)
        move.save()
        move.click("do")

    def _add(self, skus: Iterable[str], kind: str, *, coded: bool) -> list[Any]:
        """Make products in one call; proteus would ask for each field of each."""
        unit = self._one("product.uom", "name", "Unit").id
        made = [
            {
                "name": sku,
                "type": kind,
                "default_uom": unit,
                "salable": True,
                "sale_uom": unit,
                "list_price": Decimal(20),
                "products": [("create", [{"suffix_code": sku if coded else None}])],
            }
            for sku in skus
        ]
        templates = self._config.get_proxy("product.template")
        ids = templates.create(made, self._config.context)
        of_these = [("template", "in", ids)]
        return list(Model.get("product.product").find(of_these, order=[("id", "ASC")]))

    def _one(self, model: str, field: str, value: str) -> Any:
        (found,) = Model.get(model).find([(field, "=", value)])
        return found

    def _read(
        self, model: str, domain: Sequence[Any], *fields: str
    ) -> Sequence[dict[str, Any]]:
        proxy = self._config.get_proxy(model)
        rows: Sequence[dict[str, Any]] = proxy.search_read(
            list(domain), 0, None, [("id", "ASC")], list(fields), self._config.context
        )
        return rows


T = TypeVar("T")
FIRST_STOCK = 300
LOOK_SECONDS, PATIENCE_SECONDS = 0.5, 300.0


class TrytonStaff:
    """Ships orders and takes goods in. Its library works in a thread of its own."""

    def __init__(self, server: TrytonServer, program: Program, clock: Clock) -> None:
        self.server = server
        self.program = program
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "tryton")
        self._house: House | None = None
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._shipped = 0
        self._done_at = ""

    async def move_in(self, skus: Sequence[str]) -> None:
        """Log in, and make every article that the store sells.

        The last ones are kept here, and nobody else may say how many there are.
        """
        house = await self._do(House, self.server.url, self.server.password)
        self._house = house
        await self._do(house.add_services, skus[:-KEPT_BY_TRYTON])
        await self._do(house.add_goods, skus[-KEPT_BY_TRYTON:], FIRST_STOCK)

    async def close(self) -> None:
        """Log out, once what is being done is done."""
        if self._house is not None:
            await self._do(self._house.close)
        self._thread.shutdown()

    def ship(self, order: Placement, said: Callable[[Cause], None]) -> None:
        """Have an order shipped as soon as it is a sale; `said` hears of it."""

        async def work() -> None:
            if (cause := await self._ship(order)) is not None:
                said(cause)

        self._work.put_nowait(work)

    def receive(self, sku: str, quantity: int) -> None:
        """Have goods taken in."""

        async def work() -> None:
            await self._do(self._here.receive, sku, quantity)

        self._work.put_nowait(work)

    async def work(self) -> None:
        """Do what comes up, for ever. Cancel to stop."""
        while True:
            task = await self._work.get()
            await task()
            self._done_at = to_text(self._clock.now())
            self._work.task_done()

    async def finish(self) -> None:
        """Wait until all that came up is done."""
        await self._work.join()

    def untold(self, database: Path) -> int:
        """Return what the daemon has not heard: shipments, and levels since then."""
        shipments = self._shipped - records_from(database, TRYTON, "shipment %")
        levels = KEPT_BY_TRYTON - counted_since(database, TRYTON, self._done_at)
        return max(shipments, 0) + levels

    async def books(self) -> TrytonBooks:
        """Return what Tryton holds."""
        return await self._do(self._here.books)

    @property
    def _here(self) -> House:
        assert self._house is not None, "nobody has moved in"  # noqa: S101 - as it says
        return self._house

    async def _ship(self, order: Placement) -> Cause | None:
        """Ship it; without a sale there is nothing to ship: the report shows that."""
        until = self._clock.monotonic() + PATIENCE_SECONDS
        while not await self._do(self._here.has_sale, order.order_id):
            if self._clock.monotonic() > until:
                return None
            await self._clock.sleep(LOOK_SECONDS)
        tracking = f"TR{order.number:06}"
        number = await self._do(self._here.ship, order.order_id, tracking)
        self._shipped += 1
        return Cause(
            kind="fulfill",
            instance=TRYTON,
            locator=f"shipment {number}",
            order_id=order.order_id,
            tracking_number=tracking,
        )

    async def _do(self, work: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, *arguments)


@asynccontextmanager
async def open_tryton(
    home: DemoFolder, port: int, kept: Path, clock: Clock
) -> AsyncIterator[TrytonStaff]:
    """Run a server on a copy of the database that is kept."""
    server = server_for(home, port, kept)
    program = server.program(home.path / "tryton.log", clock)
    staff = TrytonStaff(server, program, clock)
    try:
        await program.start()
        yield staff
    finally:
        await staff.close()
        await program.stop()


if __name__ == "__main__":
    set_up(*sys.argv[1:])
