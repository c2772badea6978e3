"""Tests of the lists of orders: tabs, pages, customers, and what waits."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.core.lifecycle import Cause
from backhaul.core.resources import Shipment
from backhaul.store.order_lists import OrderPlace, OrderTab, Parcel
from backhaul.store.testing.command_scenes import plan, sent
from backhaul.store.testing.mirror_scenes import show_customer, show_order
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.order_lists import ListedOrder

STORES = ("main", "north")


def placed(minute: int) -> str:
    """Return a time so many minutes after noon."""
    return f"2026-03-01T12:{minute:02}:00.000Z"


async def orders(
    store: Store,
    tab: OrderTab = OrderTab.ALL,
    stores: tuple[str, ...] = STORES,
    limit: int = 99,
    before: OrderPlace | None = None,
) -> list[ListedOrder]:
    """Return orders as operators see them."""
    return await store.read(lambda reader: reader.orders(tab, stores, limit, before))


async def names(
    store: Store, tab: OrderTab = OrderTab.ALL, stores: tuple[str, ...] = STORES
) -> list[str]:
    """Return the stores and numbers of orders, in the order of the list."""
    return [f"{each.store} {each.name}" for each in await orders(store, tab, stores)]


class OrderListsConformance(StoreConformance):
    """Tests of the lists of orders."""

    async def test_the_newest_orders_come_first_on_pages_of_any_size(
        self, store: Store
    ) -> None:
        for number in range(1, 6):
            name = STORES[number % 2]
            at = placed(number // 2)  # two at one time, of both stores
            await show_order(store, f"ord_{number}", name=name, placed_at=at)
        await show_order(store, "ord_9", placed_at=placed(1))
        await show_order(store, "ord_8", placed_at=None)
        whole = await orders(store)
        assert [f"{each.store} {each.name}" for each in whole] == [
            *("north #1005", "main #1004", "north #1003", "main #1009"),
            *("main #1002", "north #1001", "main #1008"),
        ]
        for size in (1, 2, 3):
            shown, before = [], None
            while page := await orders(store, limit=size, before=before):
                shown += page
                before = OrderPlace.of(str(page[-1].place))
                assert len(shown) <= len(whole), "a page came twice"
            assert shown == whole, size
        assert await names(store, stores=("north",)) == [
            *("north #1005", "north #1003", "north #1001")
        ]

    async def test_a_tab_has_the_orders_in_its_state(self, store: Store) -> None:
        states = ("UNFULFILLED", "PARTIALLY_FULFILLED", "FULFILLED", None)
        for number, state in enumerate(states, 1):
            await show_order(store, f"ord_{number}", fulfillment_status=state)
        cancelled: dict[str, Any] = {
            "cancelled_at": placed(3),
            "fulfillment_status": "UNFULFILLED",
        }
        await show_order(store, "ord_5", **cancelled)
        assert [await names(store, tab) for tab in list(OrderTab)[1:5]] == [
            ["main #1001"],
            ["main #1002"],
            ["main #1003"],
            ["main #1005"],
        ]

    async def test_an_order_waits_for_its_commands(self, store: Store) -> None:
        for number in range(1, 5):
            at = placed(number)
            await show_order(store, f"ord_{number}", placed_at=at)
        await sent(store, Cause.CONFIRMED, target="ord_1")
        await sent(store, Cause.UNDECIDABLE, target="ord_2")
        await plan(store, target="ord_3")
        await plan(store, "cancel", target="ord_3")
        waiting = await orders(store, OrderTab.WAITING)
        assert [(each.name, each.waiting) for each in waiting] == [
            ("#1003", 2),
            ("#1002", 1),
        ]
        place = waiting[0].place
        (older,) = await orders(store, OrderTab.WAITING, before=place)
        assert older.name == "#1002"
        assert await names(store, OrderTab.WAITING, ("north",)) == []

    async def test_an_order_is_listed_with_its_customer(self, store: Store) -> None:
        await show_customer(store, "cus_1", "asha@shop.example")
        await show_order(store, "ord_1", customer_id="cus_1", placed_at=placed(3))
        guest = {"id": "cus_2", "name": "Ravi"}
        shown: dict[str, Any] = {
            "customer": guest,
            "customer_id": "cus_2",
            "placed_at": placed(2),
        }
        await show_order(store, "ord_2", **shown)
        await show_order(store, "ord_3", placed_at=placed(1), total_minor=None)
        found = await orders(store)
        assert [(each.customer_id, each.customer) for each in found] == [
            ("cus_1", "Asha"),
            ("cus_2", "Ravi"),
            (None, None),
        ]
        assert [(each.total_minor, each.currency) for each in found] == [
            *((100, "INR"), (100, "INR"), (None, "INR"))
        ]
        own = await store.read(lambda reader: reader.orders_of("main", "cus_1", 9))
        assert own == found[:1]

    async def test_the_parcels_of_an_order_are_listed(self, store: Store) -> None:
        parcels = (
            Shipment("shp_2", "DHL", "T2", placed(2)),
            Shipment("shp_1", None, None, placed(1)),
        )
        await show_order(store, shipments=parcels)
        found = await store.read(lambda reader: reader.parcels("main", "ord_1"))
        assert found == [
            Parcel("shp_1", None, None, placed(1)),
            Parcel("shp_2", "DHL", "T2", placed(2)),
        ]

    async def test_a_place_that_is_none_is_the_beginning(self, store: Store) -> None:
        await show_order(store)
        assert OrderPlace.of("nonsense") is None
        assert await orders(store, before=OrderPlace.of(None)) != []
