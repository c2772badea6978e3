"""What people do in Tryton: goods come in, sales are confirmed, shipments leave.

It is done with Tryton's own client library, over the network like everybody's work.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from proteus import Model, config

from backhaul.demo.sales import Sale, TrytonBooks
from backhaul.demo.tryton_server import DATABASE, USER
from backhaul.demo.tryton_setup import CURRENCY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
