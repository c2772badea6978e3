"""Tests of what commands ask for, in lists and on the page of one command."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.resources import Item
from backhaul.store.asked import MINUS, TIMES, AskedLine
from backhaul.store.filters import Filter
from backhaul.store.testing.command_scenes import ADJUSTMENT, detail, plan
from backhaul.store.testing.mirror_scenes import show_order, show_product
from backhaul.store.testing.scenes import StoreConformance
from backhaul.store.testing.target_scenes import count

if TYPE_CHECKING:
    from backhaul.store import Store

ALL = Filter()
PARCEL = {"tracking_number": "T1", "tracking_company": "DHL"}
FIVE = tuple(
    Item(f"li_{n}", "prod_1", "var_1", f"SKU-{n}", f"Lamp {n}", 9, 0, 50)
    for n in range(5)
)


async def asked(store: Store) -> list[str]:
    """Return what each command asks for, the newest first."""
    rows = await store.read(lambda reader: reader.commands(ALL, 99))
    return [row.asked for row in rows]


def lines(*numbers: int) -> list[dict[str, object]]:
    """Return lines of a shipment, each with one unit more than the one before."""
    return [{"line_id": f"li_{n}", "quantity": n + 1} for n in numbers]


class AskedCommandsConformance(StoreConformance):
    """Tests of what commands ask for."""

    async def test_a_shipment_asks_for_units_and_a_parcel(self, store: Store) -> None:
        await show_order(store, items=FIVE)
        await plan(store, payload={"lines": lines(0, 1), **PARCEL})
        await plan(store, payload={"lines": lines(0, 1, 2, 3, 4), **PARCEL})
        await plan(store, payload={"lines": [], "tracking_number": None})
        await plan(store, payload={"lines": lines(7), "tracking_number": "T2"})
        assert await asked(store) == [
            f"8 {TIMES} ?; T2",
            "all open units; no tracking number",
            f"1 {TIMES} SKU-0, 2 {TIMES} SKU-1, 3 {TIMES} SKU-2, 2 more lines;"
            " T1 (DHL)",
            f"1 {TIMES} SKU-0, 2 {TIMES} SKU-1; T1 (DHL)",
        ]

    async def test_one_command_shows_every_line(self, store: Store) -> None:
        await show_order(store, items=FIVE)
        id_ = await plan(store, payload={"lines": lines(0, 1, 2, 3, 4), **PARCEL})
        found = (await detail(store, id_)).asked
        assert found.lines == tuple(
            AskedLine(f"SKU-{n}", f"Lamp {n}", n + 1) for n in range(5)
        )
        assert (found.more_lines, found.parcel()) == (0, "T1 (DHL)")

    async def test_a_cancellation_asks_for_a_restock_or_none(
        self, store: Store
    ) -> None:
        for restock in (True, False):
            payload = {"restock": restock, "reason": "OTHER"}
            await plan(store, "cancel", payload=payload)
        more = {"restock": False, "restock_unshipped": True}
        await plan(store, "cancel", payload=more)
        assert await asked(store) == [
            "cancel with restock of unshipped units",
            "cancel without restock (OTHER)",
            "cancel with restock (OTHER)",
        ]

    async def test_a_change_of_stock_names_its_sku(self, store: Store) -> None:
        await plan(store, "adjust", "prod_2", payload={"variant_id": "v", "delta": 3})
        await show_product(store)
        payload = {**ADJUSTMENT, "reason": "DAMAGED"}
        await plan(store, "adjust", "prod_1", payload=payload)
        await count(store, 1_200, 0)
        assert await asked(store) == [
            "SKU-1 = 1,200",
            f"SKU-1 {MINUS}2 (DAMAGED)",
            "v +3",
        ]

    async def test_a_command_is_listed_with_the_place_of_its_record(
        self, store: Store
    ) -> None:
        await plan(store)
        (row,) = await store.read(lambda reader: reader.commands(ALL, 9))
        (open_row,) = await store.read(lambda r: r.open_commands("planned", 9))
        assert row.instance == "courier"
        assert row.locator == open_row.locator
        assert row.locator.startswith("file:")

    async def test_an_unexpected_payload_is_still_listed(self, store: Store) -> None:
        odd = {"lines": "x", "tracking_number": None}
        await plan(store, payload=odd)
        await plan(store, payload={"lines": [{"line_id": "1", "quantity": "2"}, 7]})
        await plan(store, "adjust", "prod_1", payload={"delta": "two"})
        assert await asked(store) == [
            "? ?",
            f"None {TIMES} ?; no tracking number",
            "all open units; no tracking number",
        ]
