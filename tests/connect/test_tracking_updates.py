"""A parcel's tracking status never goes back; a return may cancel its order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store.commands import Decision
from backhaul_sdk import Tracking
from scenes import payloads
from scenes.back_office import ScriptedConnector, host_of
from scenes.databases import append_and_fold
from scenes.payloads import envelope
from scenes.stored import rows_of, value_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul_sdk import Receipt


@pytest.fixture
async def sent(store: Store) -> Store:
    """Return a store whose order 1001 was sent in two parcels."""
    parcels = [
        payloads.shipment("shp_1", trackingNumber="T1"),
        payloads.shipment("shp_2", trackingNumber="T2"),
    ]
    order = payloads.order(at=5, shipments=parcels, externalId="POS-9")
    await append_and_fold(store, envelope("orders/fulfilled", order))
    return store


def cancellations(sent: Store) -> list[tuple[Any, ...]]:
    return rows_of(sent.place, "commands", "kind", "target", "state", "reason")


async def tell(
    store: Store, key: str, status: str, number: str = "T1", **members: Any
) -> Receipt:
    record = Tracking(key=key, tracking_number=number, status=status, **members)
    return await host_of(ScriptedConnector("courier"), store).emit(record)


async def test_the_ladder_leads_one_way(sent: Store) -> None:
    assert (await tell(sent, "1", "in_transit")).state == "accepted"
    await tell(sent, "2", "delivered")
    await tell(sent, "3", "out_for_delivery")
    assert sorted(rows_of(sent.place, "parcels", "tracking_number", "status")) == [
        ("T1", "delivered")
    ]
    said = value_of(sent.place, "records", "reason", key="3")
    assert said == "a parcel of order #1001 already had this status or a later one"


async def test_a_parcel_that_is_not_mirrored_yet_is_waited_for(
    sent: Store,
) -> None:
    receipt = await tell(sent, "1", "delivered", number="T9")
    assert receipt.state == "waiting"
    assert "no parcel has the number 'T9'" in receipt.what


async def test_an_unknown_status_is_quarantined(sent: Store) -> None:
    assert (await tell(sent, "1", "lost at sea")).state == "quarantined"


async def test_a_parcel_of_several_orders_needs_the_orders_name(
    sent: Store,
) -> None:
    twin = [payloads.shipment("shp_9", trackingNumber="T1")]
    order = payloads.order("ord_2", 6, number=1002, shipments=twin)
    await append_and_fold(sent, envelope("orders/fulfilled", order))
    assert "any of the orders" in (await tell(sent, "1", "delivered")).what
    assert (await tell(sent, "2", "delivered", order="#1002")).state == "accepted"
    assert value_of(sent.place, "parcels", "order_id") == "ord_2"


async def test_a_parcel_that_came_back_is_a_proposal(sent: Store) -> None:
    await tell(sent, "1", "returned")
    ((kind, target, state, reason),) = cancellations(sent)
    assert (kind, target, state) == ("cancel", "ord_1", "parked")
    assert reason.startswith("Backhaul proposes to cancel the order: parcel T1 came")
    await tell(sent, "2", "returned", number="T2")
    assert len(cancellations(sent)) == 1


@pytest.mark.parametrize(
    ("verb", "state"), [("resend", "planned"), ("discard", "rejected")]
)
async def test_an_operator_decision_about_a_proposal_stays(
    sent: Store, verb: str, state: str
) -> None:
    await tell(sent, "1", "returned")
    command = value_of(sent.place, "commands", "id")
    await sent.decisions.decide(Decision(command, verb, "kim", "they asked for it"))
    before = cancellations(sent)
    await tell(sent, "2", "returned", number="T2")
    assert cancellations(sent) == before
    assert before[0][2] == state
    said = value_of(sent.place, "records", "reason", key="2")
    assert said.endswith("is returned; the cancellation was already requested")


async def test_an_order_is_cancelled_once_every_parcel_came_back(
    sent: Store,
) -> None:
    await tell(sent, "1", "returned", on_return="cancel")
    assert cancellations(sent) == []
    await tell(sent, "2", "returned", number="T2", on_return="cancel")
    assert [row[:3] for row in cancellations(sent)] == [("cancel", "ord_1", "planned")]
