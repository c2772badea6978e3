"""Makes a Tryton database with a company, goods and a customer: a program of its own.

    python tryton_setup.py CONFIG DATABASE

`CONFIG` is that of trytond; the password is in the file that TRYTONPASSFILE names.
"""

from __future__ import annotations

import sys
from datetime import date
from decimal import Decimal
from typing import Any

from proteus import Model, Wizard, config

PRODUCTS = ("LS-S", "LS-M", "LS-L")
CUSTOMER = "SHOP"


def main(config_file: str, database: str) -> None:
    config.set_trytond(f"sqlite:///{database}", config_file=config_file)
    currency = _saved("currency.currency", name="Euro", symbol="E", code="EUR")
    currency.rates.new(date=date(2020, 1, 1), rate=Decimal(1))
    currency.save()
    _make_company(currency)
    preferences = Model.get("res.user").get_preferences(True, {})
    config.get_config()._context = preferences
    _configure_sales()
    customer = _saved("party.party", name="The shop", code=CUSTOMER)
    customer.addresses[0].street = "1 Sample Street"
    customer.save()
    for number, code in enumerate(PRODUCTS):
        _make_product(code, 10_000 * (number + 1), currency)


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


def _make_product(code: str, stock: int, currency: Any) -> None:
    """Make goods with a code that can be sold, of which so many are in the house."""
    unit = Model.get("product.uom").find([("name", "=", "Unit")])[0]
    template = Model.get("product.template")(name=code, type="goods", default_uom=unit)
    template.salable = True
    template.sale_uom = unit
    template.list_price = Decimal(20)
    template.products[0].suffix_code = code
    template.save()
    receive(template.products[0], stock, currency)


def receive(product: Any, quantity: int, currency: Any) -> None:
    """Move goods into the house."""
    locations = Model.get("stock.location")
    (supplier,) = locations.find([("code", "=", "SUP")])
    (storage,) = locations.find([("code", "=", "STO")])
    move = Model.get("stock.move")(product=product, quantity=quantity)
    move.from_location, move.to_location = supplier, storage
    move.unit_price, move.currency = Decimal(5), currency
    move.save()
    move.click("do")


if __name__ == "__main__":
    main(*sys.argv[1:])
