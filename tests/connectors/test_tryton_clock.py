"""Reads continue when the clock of a Tryton server is set back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.tryton.rpc import typed, untyped
from backhaul_sdk import Fulfillment, StockLevel
from backhaul_sdk.testing import MemoryHost
from connectors.erp_answers import AnsweringErp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
GOODS = "model.product.product.search_read"
SHIPMENTS = "model.stock.shipment.out.search_read"


class House(AnsweringErp):
    """Ships orders and tells its stock; `now` is what its clock shows."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.shipped: list[dict[str, Any]] = []
        place = {"id": 1, "storage_location": 1, "output_location": 2}
        self.results |= {
            SHIPMENTS: self._shipments,
            "model.stock.shipment.out.fields_get": lambda *_: {},
            "model.stock.move.search_read": self._moves,
            "model.sale.line.read": self._lines,
            "model.stock.location.search_read": lambda *_: [place],
            GOODS: lambda *_: [{"id": 1, "code": "LS-S", "quantity": 5.0}],
        }

    def shows(self, now: datetime) -> None:
        self.now = now
        self.headers["Date"] = format_datetime(now, usegmt=True)

    def ship(self, id_: int) -> None:
        row = {"id": id_, "number": f"CU{id_}", "write_date": typed(self.now)}
        self.shipped.append(row)

    def _shipments(self, domain: list[Any], *_: object) -> list[dict[str, Any]]:
        """Search as Tryton does: what is behind the place, and old enough."""
        (_, _, settled), *rest = untyped(domain)[1:]
        written = [(untyped(row["write_date"]), row["id"], row) for row in self.shipped]
        after = rest[0][1][0][2] if rest else None
        last = rest[0][2][1][2] if rest else 0
        return [
            row
            for at, id_, row in sorted(written, key=lambda each: each[:2])
            if at <= settled and (after is None or (at, id_) > (after, last))
        ]

    def _moves(self, domain: list[Any], *_: object) -> list[dict[str, Any]]:
        ids = [int(name.rpartition(",")[2]) for name in domain[0][2]]
        return [
            {
                "id": id_,
                "shipment": f"stock.shipment.out,{id_}",
                "origin": f"sale.line,{id_}",
                "quantity": 1.0,
                "product.": {"code": "LS-S"},
            }
            for id_ in ids
        ]

    def _lines(self, ids: list[int], *_: object) -> list[dict[str, Any]]:
        party = {"party.": {"code": "SHOP"}}
        return [
            {"id": id_, "sale.": {"reference": f"ord_{id_}", **party}} for id_ in ids
        ]


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    house.shows(NOON)
    await house.plug_in()
    yield house
    await house.close()


def counts(host: MemoryHost) -> list[str]:
    """Return when each count was taken."""
    every = host.records.values()
    return sorted(each.as_of for each in every if isinstance(each, StockLevel))


async def test_stock_is_read_again_after_the_clock_was_set_back(house: House) -> None:
    connector, host = house.connector(stock_seconds=900), MemoryHost()
    await connector.open()
    await host.pull(connector)
    house.shows(NOON - timedelta(days=30))
    await host.pull(connector)
    assert counts(host) == ["2026-01-30T12:00:00Z", "2026-03-01T12:00:00Z"]


@pytest.mark.parametrize("seconds", [-899, -2, 2, 899])
async def test_servers_with_slightly_different_clocks_are_not_queried_more_often(
    house: House, seconds: int
) -> None:
    connector, host = house.connector(stock_seconds=900), MemoryHost()
    await connector.open()
    await host.pull(connector)
    house.shows(NOON + timedelta(seconds=seconds))
    await host.pull(connector)
    assert counts(host) == ["2026-03-01T12:00:00Z"]
    assert house.asked.count(GOODS) == 1


async def test_a_shipment_after_the_clock_was_set_back_is_imported(
    house: House,
) -> None:
    """Its time is before the place up to which shipments were read."""
    connector, host = house.connector(stock_seconds=0), MemoryHost()
    await connector.open()
    house.ship(1)
    await host.pull(connector)
    house.shows(NOON - timedelta(hours=1))
    house.ship(2)
    await host.pull(connector)
    house.shows(NOON + timedelta(hours=1))
    house.ship(3)
    for _ in range(2):
        await host.pull(connector)
    shipped = [r.order for r in host.records.values() if isinstance(r, Fulfillment)]
    assert shipped == ["ord_1", "ord_2", "ord_3"]


async def test_after_a_restore_the_stock_is_read_again_and_no_shipment(
    house: House,
) -> None:
    connector, host = house.connector(stock_seconds=900), MemoryHost()
    await connector.open()
    house.ship(1)
    await host.pull(connector)
    house.shows(NOON + timedelta(seconds=2))
    again = connector.pull(connector.restart_stock(host.cursor))
    (record,) = [record async for batch in again for record in batch.records]
    assert isinstance(record, StockLevel)
