"""Which carrier a parcel of Tryton has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from proteus import Model

from backhaul_connectors.tryton import Tryton
from backhaul_connectors.tryton.reader import MOVES_AT_ONCE
from backhaul_sdk import Applied, CheckFailed, Fulfillment
from backhaul_sdk.testing import MemoryHost, sample_change
from connectors.erp_answers import AnsweringErp
from connectors.test_tryton import settings_of
from scenes.tryton import common_folder, tryton
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from backhaul_sdk import Connector
    from scenes.tryton import TrytonServer

FIELDS = "model.stock.shipment.out.fields_get"
READ = "model.stock.shipment.out.read"
WRITTEN = {
    "__class__": "datetime",
    **dict.fromkeys(("hour", "minute", "second", "microsecond"), 0),
    **dict.fromkeys(("month", "day"), 1),
    "year": 2026,
}


@pytest.fixture
async def erp() -> AsyncIterator[AnsweringErp]:
    """Return a Tryton that has shipped three orders, and knows nothing of carriers."""
    erp = AnsweringErp()
    shipments = [
        {"id": id_, "number": f"CU{id_}", "write_date": WRITTEN, "reference": "BD1"}
        for id_ in (1, 2, 3)
    ]
    moves = [
        {
            "id": id_,
            "shipment": f"stock.shipment.out,{id_}",
            "origin": f"sale.line,{id_}",
            "quantity": 1.0,
            "product.": {"code": "LS-S"},
        }
        for id_ in (1, 2, 3)
    ]
    party = {"party.": {"code": "SHOP"}}
    lines = [
        {"id": id_, "sale.": {"reference": f"ord_{id_}", **party}} for id_ in (1, 2, 3)
    ]
    erp.results |= {
        "model.stock.shipment.out.search_read": lambda *_: shipments,
        "model.stock.move.search_read": lambda *_: moves,
        "model.sale.line.read": lambda *_: lines,
        FIELDS: lambda *_: {},
    }
    await erp.plug_in()
    yield erp
    await erp.close()


async def companies(erp: AnsweringErp) -> dict[str, str | None]:
    """Return who carries each order, by what is pulled."""
    connector = erp.connector(stock_seconds=0)
    await connector.open()
    shipped = await pulled(connector)
    assert {each.tracking_number for each in shipped} == {"BD1"}
    return carriers_of(shipped)


async def pulled(connector: Connector[Any]) -> list[Fulfillment]:
    host = MemoryHost()
    await host.pull(connector)
    return [each for each in host.records.values() if isinstance(each, Fulfillment)]


def carriers_of(shipped: list[Fulfillment]) -> dict[str, str | None]:
    return {each.order: each.tracking_company for each in shipped}


async def test_a_carriers_name_goes_with_its_parcel(erp: AnsweringErp) -> None:
    def carriers(ids: list[int], fields: list[str], _: object) -> list[dict[str, Any]]:
        assert (ids, fields) == ([1, 2, 3], ["carrier.party.name"])
        dhl = {"id": 7, "party.": {"id": 8, "name": " DHL "}}
        nameless = {"id": 9, "party.": {"id": 10, "name": None}}
        known = {1: dhl, 2: None, 3: nameless}
        return [{"id": id_, "carrier.": known[id_]} for id_ in ids]

    erp.results[FIELDS] = lambda names, _: {name: {} for name in names}
    erp.results[READ] = carriers
    told = await companies(erp)
    assert told == {"ord_1": "DHL", "ord_2": None, "ord_3": None}


async def test_a_tryton_without_carriers_gets_no_query_for_carriers(
    erp: AnsweringErp,
) -> None:
    assert set((await companies(erp)).values()) == {None}
    assert READ not in erp.asked


async def test_a_user_who_may_not_read_carriers_still_ships(erp: AnsweringErp) -> None:
    def refuse() -> web.Response:
        said = ["UserError", ["You are not allowed to access Carrier.", "", None]]
        return web.json_response({"id": 1, "error": said})

    erp.results[FIELDS] = lambda names, _: {name: {} for name in names}
    erp.answers[READ] = refuse
    assert set((await companies(erp)).values()) == {None}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrytonServer]:
    folder, common = tmp_path_factory.mktemp("tryton"), common_folder(tmp_path_factory)
    with tryton(folder, common, "stock_shipment_cost") as running:
        yield running


@pytest.mark.programs
async def test_a_real_tryton_with_carriers_names_them(server: TrytonServer) -> None:
    sales = [sample_change(number) for number in (1, 2)]
    options = {"sale_state": "confirmed", "stock_seconds": 0}
    connector = Tryton("erp", settings_of(server.port, **options))
    for sale in sales:
        assert isinstance(await connector.push(sale), Applied)
    carried, picked_up = [sale.object_id for sale in sales]
    await asyncio.to_thread(ship, server, carried, picked_up)
    shipped: list[Fulfillment] = []
    async with asyncio.timeout(HANG_SECONDS):
        # What was shipped in the second that is not over yet is read with the next:
        # until then a pull may bring one of them, or none.
        while len(shipped) < len(sales):
            shipped = await pulled(connector)
    await connector.close()
    assert {each.tracking_number for each in shipped} == {"BD1"}
    assert carriers_of(shipped) == {carried: "DHL", picked_up: None}


def ship(server: TrytonServer, carried: str, picked_up: str) -> None:
    """Send two orders, the first with a carrier."""
    with server.log_in() as house:
        house.add_services(["DELIVERY"])
        (delivery,) = Model.get("product.product").find([("code", "=", "DELIVERY")])
        party = Model.get("party.party")(name="DHL")
        party.save()
        carrier = Model.get("carrier")(party=party, carrier_product=delivery)
        carrier.save()
        shipment = house.pick(carried)
        shipment.carrier = carrier
        shipment.save()
        for order in (carried, picked_up):
            house.ship(order, "BD1")


async def test_a_server_that_repeats_the_moves_of_a_shipment_is_not_read_for_ever(
    erp: AnsweringErp,
) -> None:
    move = {"shipment": "stock.shipment.out,1", "origin": None, "quantity": 1.0}
    moves = [{"id": id_, **move} for id_ in range(MOVES_AT_ONCE)]
    erp.results["model.stock.move.search_read"] = lambda *_: moves
    with pytest.raises(CheckFailed, match="returned the same page again"):
        async with asyncio.timeout(HANG_SECONDS):
            await pulled(erp.connector(stock_seconds=0))
