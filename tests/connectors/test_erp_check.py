"""`backhaul connectors check` shows what a connection to an ERP would read."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from connectors import erpnext_double
from connectors.erpnext_double import ErpNextDouble
from connectors.odoo_double import DATABASE, KEY, USER, OdooDouble
from scenes.daemon import CommandResult, Office, in_process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.programs]


@pytest.fixture
async def odoo() -> AsyncIterator[OdooDouble]:
    odoo = OdooDouble("17.0")
    await odoo.plug_in()
    yield odoo
    await odoo.close()


async def checked(table: str, *options: str) -> CommandResult:
    """Check the connection `shop` of a configuration, from the command line."""
    more = f'[connectors.shop]\ntype = "{table}'
    office = Office("http://127.0.0.1:9", "svc_live_0123456789abcdef", more=more)
    try:
        arguments = ("connectors", "check", "shop", *options)
        run = partial(in_process, *arguments, config=office.config)
        return await asyncio.to_thread(run)
    finally:
        office.remove()


def odoo_table(odoo: OdooDouble) -> str:
    return f"""odoo"
url = "{odoo.url}"
database = "{DATABASE}"
user = "{USER}"
api_key = "{KEY}"
every = "1h"
network = {{ allow = ["127.0.0.1"], ports = [{odoo.port}], allow_http = true }}
"""


async def test_odoo_is_checked_with_one_command(odoo: OdooDouble) -> None:
    odoo.deliver(odoo.sell("ord_1"))
    said = await checked(odoo_table(odoo))
    assert said.code == 0, said.err
    assert said.out.splitlines() == [
        "shop: ready",
        f"shop: {odoo.url} is Odoo 17.0, and its json-rpc works",
        "shop: 1 finished delivery would be read",
        "shop: the stock of 1 product with a default_code would be read from 0 quants",
    ]
    found = (await checked(odoo_table(odoo), "--json")).json()
    assert len(found["notices"]) == 3


async def test_missing_parts_of_odoo_are_reported(odoo: OdooDouble) -> None:
    odoo.denied = {("stock.quant", "read")}
    said = await checked(odoo_table(odoo))
    assert said.code != 0
    assert "shop: the Odoo user of the API key cannot read stock.quant" in said.err
    assert KEY not in said.err


async def test_erpnext_is_checked_with_one_command() -> None:
    site = ErpNextDouble()
    await site.plug_in()
    table = f"""erpnext"
url = "{site.url}"
api_key = "{erpnext_double.KEY}"
api_secret = "{erpnext_double.SECRET}"
warehouses = ["Stores - C"]
every = "1h"
network = {{ allow = ["127.0.0.1"], ports = [{site.port}], allow_http = true }}
"""
    said = await checked(table)
    await site.close()
    assert said.code == 0, said.err
    assert said.out.splitlines() == [
        "shop: ready",
        f"shop: {site.url} is ERPNext 15.2.0, its time zone is Asia/Kolkata, and the"
        f" key is that of {erpnext_double.USER}",
        "shop: 0 submitted delivery notes would be read",
        "shop: the stock of 1 item would be read from 0 bins",
    ]
