"""Furnishes a Tryton database with a company and its customer: a program of its own.

    python -m backhaul.demo.tryton_setup CONFIG DATABASE

`CONFIG` is that of trytond; the module `sale` is there already.
"""

from __future__ import annotations

import sys
from datetime import date
from decimal import Decimal
from typing import Any

from proteus import Model, Wizard, config

CUSTOMER = "SHOP"
CURRENCY = "INR"
"""What the demo's store sells in."""


def main(config_file: str, database: str) -> None:
    """Do it, as nobody in particular: the server is not needed."""
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


if __name__ == "__main__":
    main(*sys.argv[1:])
