"""Tests of cancelled orders: incidents of parcels that left, and what is restocked."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.identity import cancellation
from backhaul.core.lifecycle import Cause
from backhaul.core.resources import Item, Shipment
from backhaul.store.matching import NewCommand
from backhaul.store.mirror import Parcel
from backhaul.store.read_models import CommandFilter
from backhaul.store.records import NewRecord, Tracked
from backhaul.store.testing.command_scenes import (
    at,
    claimed,
    detail,
    resolve,
    sent,
    state_of,
)
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.mirror_scenes import NOON, show_order

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.read_records import OpenIncident
    from backhaul.store.testing.contract import MovableClock

LINES = (
    Item("li_1", "prod_1", "var_1", "A", "Lamp", 2, 0, 50),
    Item("li_2", "prod_1", "var_1", "A", "Lamp", 3, 0, 50),
    Item("li_3", "prod_2", "var_2", "B", "Shade", 1, 0, 50),
)
BACK = f"{0:031x}b"
UNSHIPPED = {"restock": False, "restock_unshipped": True}


async def incidents(store: Store) -> list[OpenIncident]:
    """Return the open incidents."""
    return await store.read(lambda reader: reader.incidents())


async def cancel(
    store: Store, payload: dict[str, Any], cause: Cause = Cause.CONFIRMED, **change: Any
) -> None:
    """Apply a cancellation of `ord_1`, of which the platform showed this."""
    await sent(store, cause, kind="cancel", payload=payload, change=change)


async def restocked(store: Store) -> dict[str, int]:
    """Return the units of each variant that planned adjustments put back."""
    wish = CommandFilter(kind="adjust")
    rows = await store.read(lambda reader: reader.commands(wish, 99))
    found: dict[str, int] = {}
    for row in rows:
        wanted = (await detail(store, row.id)).wanted
        found[wanted["variant_id"]] = wanted["delta"]
    assert len(rows) == len(found)
    return found


async def track(
    store: Store, parcel: str, status: str, rank: int, *, propose: bool = False
) -> str:
    """Report the status of a parcel of `ord_1`, which may cancel the order."""
    order = Parcel(parcel, "ord_1", "#1001", 1001, None, is_cancelled=False)
    command = NewCommand(BACK, "cancel", "ord_1", "order:ord_1", {"restock": True})
    found = Tracked(
        (order,),
        f"number of {parcel}",
        status,
        rank,
        NOON,
        command if status == "returned" else None,
        propose,
    )
    record = NewRecord(f"{parcel} {status} {rank}", b"null", "", "", "")
    (outcome,) = await store.records.accept(
        "courier", "main", [record], None, lambda *_: found
    )
    return outcome.reason


async def show_parcels(store: Store, *ids: str) -> None:
    """Let an event show `ord_1` with these parcels."""
    parcels = tuple(Shipment(id_, None, f"number of {id_}", None) for id_ in ids)
    await show_order(store, "ord_1", items=LINES, shipments=parcels)


class CancellationsConformance(FamilyTests):
    """Tests of incidents and restocks, and of parcels that came back."""

    async def test_a_cancellation_that_crossed_our_parcel_is_an_incident_once(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        payload = {"tracking_number": "BD1", "lines": []}
        own = await sent(store, Cause.CONFIRMED, payload=payload)
        clock.advance(60)
        gone: dict[str, Any] = {"items": LINES, "cancelled_at": NOON}
        await show_order(store, "ord_1", 1, **gone)
        await show_order(store, "ord_1", 2, **gone, fulfillment_status="RESTOCKED")
        (found,) = await incidents(store)
        assert (found.store, found.order_id, found.command_id) == (
            "main",
            "ord_1",
            own.id,
        )
        assert found.at == at(clock)
        assert found.says.startswith("order #1001 ")
        assert "BD1" in found.says

    async def test_a_late_or_own_cancellation_is_no_incident(
        self, store: Store, clock: MovableClock
    ) -> None:
        for target in ("ord_1", "ord_2", "ord_3"):
            await show_order(store, target, items=LINES)
        await sent(store, Cause.CONFIRMED, target="ord_1")
        clock.advance(86_401)
        await sent(store, Cause.CONFIRMED, target="ord_2")
        await sent(store, Cause.CONFIRMED, kind="cancel", target="ord_2")
        await sent(store, Cause.REFUSED, target="ord_3")
        for target in ("ord_1", "ord_2", "ord_3"):
            await show_order(store, target, 1, items=LINES, cancelled_at=NOON)
        assert await incidents(store) == []

    async def test_a_restock_of_units_that_had_shipped_is_an_incident(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        shipped = {"fulfilled": {"li_1": 1, "li_2": 3}}
        await cancel(store, {"restock": True}, evidence=shipped)
        (found,) = await incidents(store)
        assert found.says == (
            "order #1001 was cancelled with a restock after 4 units had shipped: the"
            " stock is 4 units too high"
        )

    @pytest.mark.parametrize(
        ("payload", "fulfilled"),
        [({"restock": True}, {"li_1": 0}), ({"restock": False}, {"li_1": 2})],
    )
    async def test_a_cancellation_that_restocked_nothing_too_much_is_no_incident(
        self, payload: dict[str, Any], fulfilled: dict[str, int], store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        await cancel(store, payload, evidence={"fulfilled": fulfilled})
        assert await incidents(store) == []

    async def test_units_of_a_returned_parcel_are_in_the_warehouse_again(
        self, store: Store
    ) -> None:
        await show_parcels(store, "shp_1")
        await track(store, "shp_1", "returned", 9)
        (command,) = await claimed(store)
        evidence = {"fulfilled": {"li_1": 2}}
        await resolve(store, command, Cause.CONFIRMED, evidence=evidence)
        assert await state_of(store, BACK) == "applied"
        assert await incidents(store) == []

    async def test_an_own_cancellation_restocks_what_has_not_shipped(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        effect = cancellation("ord_1", NOON)
        evidence = {"fulfilled": {"li_1": 1, "li_3": 1}}
        await cancel(store, UNSHIPPED, effect_id=effect, evidence=evidence)
        assert await restocked(store) == {"var_1": 4}
        assert await incidents(store) == []

    async def test_a_foreign_cancellation_restocks_nothing_and_is_an_incident(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", items=LINES)
        await cancel(store, UNSHIPPED)
        assert await restocked(store) == {}
        (found,) = await incidents(store)
        assert "was cancelled without a restock, and not by this daemon" in found.says

    async def test_a_parcel_that_came_back_cancels_its_order_once(
        self, store: Store
    ) -> None:
        await show_parcels(store, "shp_1", "shp_2")
        assert "1 of its parcels did not" in await track(store, "shp_1", "returned", 9)
        assert "cancels the order" in await track(store, "shp_2", "returned", 9)
        shown = await detail(store, BACK)
        assert (shown.state, shown.kind, shown.target) == ("planned", "cancel", "ord_1")
        assert shown.cause == "parcel number of shp_2 came back (courier)"
        again = await track(store, "shp_2", "returned", 10)
        assert "already requested" in again

    async def test_a_proposed_cancellation_waits_for_an_operator(
        self, store: Store
    ) -> None:
        await show_parcels(store, "shp_1", "shp_2")
        says = await track(store, "shp_1", "returned", 9, propose=True)
        assert "proposes to cancel" in says
        assert await state_of(store, BACK) == "parked"

    async def test_the_status_of_a_parcel_only_moves_forward(
        self, store: Store
    ) -> None:
        await show_parcels(store, "shp_1")
        assert "is delivered" in await track(store, "shp_1", "delivered", 3)
        assert "or a later one" in await track(store, "shp_1", "in transit", 2)
        assert "or a later one" in await track(store, "shp_1", "lost", 3)
        (order,) = await store.read(lambda r: r.find_objects("order", "ord_1"))
        entries = await store.read(lambda r: r.timeline("order", order))
        states = [each.state for each in entries if each.what == "parcel"]
        assert states == ["delivered"]
