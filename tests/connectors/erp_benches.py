"""The benches of the Tryton connector: what reads, what writes, and what goes wrong."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul_sdk import Applied, CheckFailed
from backhaul_sdk.testing import Bench, Failure, PushBench, sample_change
from connectors.examples import documented
from scenes.tryton import PASSWORD, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul_connectors.tryton import Tryton
    from backhaul_sdk import Change
    from backhaul_sdk.testing import MemoryHost
    from scenes.tcp_relay import Relay
    from scenes.tryton import TrytonServer

FIRST_ID = 1_000
"""Of the copies: behind all that was made in other ways."""
OWN = f"{FIRST_ID} + x"
COPIED: dict[str, dict[str, str]] = {
    "sale_sale": {"id": OWN, "number": "x", "reference": "printf('ord_%08d', x)"},
    "sale_line": {"id": OWN, "sale": OWN},
    "stock_shipment_out": {
        "id": OWN,
        "number": "x",
        "reference": "'BD' || x",
        # Long ago, so that nobody waits for a second to end, and four in each second.
        "write_date": "datetime('2020-01-01', (x / 4) || ' seconds')",
    },
    "stock_move": {
        # There are two: to where goods wait to leave, and from there to the customer.
        "id": f"2 * ({OWN}) + id % 2",
        "shipment": f"'stock.shipment.out,' || ({OWN})",
        "origin": f"CASE WHEN origin LIKE 'sale.line,%' THEN 'sale.line,' || ({OWN}) "
        "ELSE origin END",
    },
}
"""What differs between the sample and its copy number x, by table."""


class Sales(PushBench):
    """A server behind a relay, which breaks the line at the worst moments."""

    secrets = (PASSWORD,)
    unpluggings = 5
    failures = (Failure.REFUSES, Failure.BREAKS, Failure.LOSES_ANSWER)

    def __init__(
        self, server: TrytonServer, relay: Relay, connect: Callable[..., Tryton]
    ) -> None:
        self.server = server
        self.relay = relay
        self.connect = connect
        relay.counted = b"model.sale.sale.create"

    def connector(self) -> Tryton:
        return self.connect(self.relay.port, sale_state="draft")

    def change(self, number: int, topic: str | None = None) -> Change:
        return sample_change(number, topic or "order.placed")

    def state(self) -> object:
        return content(self.server)

    def example(self) -> Mapping[str, object]:
        return documented("tryton")

    async def effects(self) -> Sequence[int]:
        rows = self.server.rows("SELECT reference FROM sale_sale")
        return [int(reference.removeprefix("ord_")) for (reference,) in rows]

    def tries(self) -> int:
        return self.relay.seen

    async def fail(self, failure: Failure) -> None:
        if failure is Failure.REFUSES:
            self.server.change("UPDATE product_product SET code = code || '-gone'")
        elif failure is Failure.BREAKS:
            self.relay.cut_before = b"model.sale.sale.create"
        else:
            self.relay.cut_after = b"model.sale.sale.create"

    async def recover(self) -> None:
        self.relay.cut_before = self.relay.cut_after = None
        self.server.change(
            "UPDATE product_product SET code = replace(code, '-gone', '')"
        )

    async def unplug(self) -> None:
        await self.relay.down()

    async def plug_in(self) -> None:
        await self.relay.up()

    async def at_rest(self) -> None:
        await self.relay.at_rest()


class Shipped(Bench):
    """Shipments that are done: copies of one that Tryton made, behind a relay.

    Levels of stock are not among them: what is read again is another record, as of
    another moment.
    """

    secrets = (PASSWORD,)
    many_records = 20_000  # Tryton itself is busy for milliseconds with each

    def __init__(
        self, server: TrytonServer, relay: Relay, connect: Callable[..., Tryton]
    ) -> None:
        self.server = server
        self.relay = relay
        self.connect = connect
        self.batch_rows = 10

    def connector(self) -> Tryton:
        return self.connect(
            self.relay.port, stock_seconds=0, batch_rows=self.batch_rows
        )

    def state(self) -> object:
        return content(self.server)

    def example(self) -> Mapping[str, object]:
        return documented("tryton")

    def offer(self, first: int, number: int) -> None:
        self.batch_rows = 1_000 if number > 1_000 else 10
        copy_sample(self.server, range(first, first + number))

    def offer_a_bad_one_among(self, good: int) -> None:
        self.offer(0, good + 1)
        bad = f"'stock.shipment.out,{FIRST_ID + good // 2}'"
        self.server.change(
            f"UPDATE stock_move SET quantity = 0.5 WHERE shipment = {bad}"  # noqa: S608 - a number
        )

    def offer_with_unknown_field(self, number: int) -> None:
        self.offer(number, 1)
        self.server.change(
            "UPDATE stock_shipment_out SET planned_date = '2020-01-01', shipped_by = 1"
        )

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return [bad.reason for bad in host.bad.values()]

    async def provoke(self) -> Sequence[str]:
        said: list[str] = []
        for options in ({"database": "nope"}, {"user": "nobody"}):
            with pytest.raises(CheckFailed) as failure:
                await self.connect(self.server.port, **options).check()
            said += [
                str(failure.value),
                repr(failure.value),
                repr(failure.value.__cause__),
            ]
        return said

    async def unplug(self) -> None:
        await self.relay.down()

    async def plug_in(self) -> None:
        await self.relay.up()


def content(server: TrytonServer) -> object:
    """Return all sales and shipments."""
    return [server.rows(f"SELECT * FROM {name}") for name in TABLES]  # noqa: S608 - our own names


async def keep_sample(server: TrytonServer, connector: Tryton) -> None:
    """Have Tryton ship an order, and keep its rows aside, unless they are there."""
    if server.rows("SELECT name FROM sqlite_master WHERE name = 'sample_sale_sale'"):
        return
    change = sample_change(0)
    assert isinstance(await connector.push(change), Applied)
    await asyncio.to_thread(_ship, server, change.object_id)
    server.change(
        *(f"CREATE TABLE sample_{name} AS SELECT * FROM {name}" for name in COPIED),  # noqa: S608 - our own names
        "DELETE FROM sample_stock_move WHERE shipment IS NULL",
    )
    server.empty()


def _ship(server: TrytonServer, reference: str) -> None:
    with server.log_in() as house:
        house.ship(reference, "BD0")


def copy_sample(server: TrytonServer, numbers: range) -> None:
    """Write a copy for each number; the same ones change nothing."""
    server.change(*(_copying(server, name, numbers) for name in COPIED))


def _copying(server: TrytonServer, table: str, numbers: range) -> str:
    about = f"SELECT name FROM pragma_table_info('{table}')"  # noqa: S608 - our names
    values = [COPIED[table].get(name, f'"{name}"') for (name,) in server.rows(about)]
    many = f"SELECT x + 1 FROM n WHERE x < {numbers[-1]}"  # noqa: S608 - a number
    many = f"WITH RECURSIVE n(x) AS (SELECT {numbers[0]} UNION ALL {many})"
    rows = f"SELECT {', '.join(values)} FROM sample_{table}, n"  # noqa: S608 - our names
    return f"{many} INSERT OR REPLACE INTO {table} {rows}"
