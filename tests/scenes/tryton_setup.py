"""Adds goods and another currency to a Tryton database: a program of its own.

    python tryton_setup.py CONFIG DATABASE

`CONFIG` is that of trytond; the company is there already.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

from proteus import Model, config

from backhaul.demo.tryton import CURRENCY, make_currency

PRODUCTS = ("LS-S", "LS-M", "LS-L")


def main(config_file: str, database: str) -> None:
    config.set_trytond(f"sqlite:///{database}", config_file=config_file)
    preferences = Model.get("res.user").get_preferences(True, {})
    config.get_config().set_context(preferences)
    make_currency("Euro", "EUR")
    (currency,) = Model.get("currency.currency").find([("code", "=", CURRENCY)])
    for number, code in enumerate(PRODUCTS):
        _make_product(code, 10_000 * (number + 1), currency)


def _make_product(code: str, stock: int, currency: Any) -> None:
    """Create a product with a code that can be sold, and its stock."""
    unit = Model.get("product.uom").find([("name", "=", "Unit")])[0]
    template = Model.get("product.template")(name=code, type="goods", default_uom=unit)
    template.salable = True
    template.sale_uom = unit
    template.list_price = Decimal(20)
    template.products[0].suffix_code = code
    template.save()
    receive(template.products[0], stock, currency)


def receive(product: Any, quantity: int, currency: Any) -> None:
    """Move goods into the warehouse."""
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
