"""A customer who was erased here and exists at the platform is not drift."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.sync.diff_repair import Comparison
from backhaul.sync.on_demand import SyncDryRun
from scenes.customers import GUEST, customer, erase, find_secrets, order
from scenes.scripted_platform import document
from scenes.stored import count, values_of
from sync.conftest import reconciling

if TYPE_CHECKING:
    from backhaul.sync.sync_scheduler import Reconciler
    from sync.conftest import Place

ORDERS = {
    "of a customer": order(1),
    "of a guest": order(1, customer=GUEST),
}


def show(place: Place, path: str, shown: dict[str, Any]) -> None:
    more = {"total": 1, "hasMore": False}
    place.platform.respond(path, document({"data": [shown], "meta": more}))
    place.platform.respond(f"{path}/{shown['id']}", document({"data": shown}))


async def sync_and_poll(reconciler: Reconciler, kind: str) -> list[tuple[int, int]]:
    """Run a full sync and a poll; return what each found and did not repair."""
    runs = [
        *await reconciler.read_lists("full", [kind]),
        *await reconciler.poll([kind]),
    ]
    return [(one.found, one.unrepaired) for one in runs]


def kept(place: Place) -> int:
    return count(place.store.place, "events")


@pytest.mark.parametrize("whose", ORDERS)
async def test_an_order_of_an_erased_customer_equals_that_of_the_platform(
    whose: str, place: Place
) -> None:
    show(place, "/orders", ORDERS[whose])
    async with reconciling(place) as reconciler:
        assert await sync_and_poll(reconciler, "orders") == [(1, 0), (0, 0)]
        await erase(place.store, str(GUEST["email"]))
        before = kept(place)
        await place.clock.sleep(300)
        assert await sync_and_poll(reconciler, "orders") == [(0, 0), (0, 0)]
    assert (kept(place), find_secrets(place.store)) == (before, [])


async def test_an_erased_customer_equals_that_of_the_platform(
    place: Place,
) -> None:
    show(place, "/customers", customer())
    async with reconciling(place) as reconciler:
        assert await sync_and_poll(reconciler, "customers") == [(1, 0), (0, 0)]
        await erase(place.store)
        before = kept(place)
        await place.clock.sleep(300)
        assert await sync_and_poll(reconciler, "customers") == [(0, 0), (0, 0)]
        dry_run = SyncDryRun(
            place.client,
            Comparison("main", place.store.mirror, lambda: "INR", nothing),
            place.clock,
            0.0,
        )
        assert [found async for found in dry_run.run("customers")] == []
    assert (kept(place), find_secrets(place.store)) == (before, [])


async def nothing() -> None:
    """Fold nothing."""


async def test_a_change_of_such_an_order_comes_in_without_the_customer(
    place: Place,
) -> None:
    show(place, "/orders", order(1))
    async with reconciling(place) as reconciler:
        await sync_and_poll(reconciler, "orders")
        await erase(place.store)
        await place.clock.sleep(300)
        show(place, "/orders", order(1, 200, status="CANCELLED"))
        assert await sync_and_poll(reconciler, "orders") == [(1, 0), (0, 0)]
    status = values_of(place.store.place, "orders", "status")
    assert (status, find_secrets(place.store)) == (["CANCELLED"], [])
