"""A further tracking number for an order that was shipped completely."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.errors import BackhaulError
from scenes import payloads
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of
from scenes.pushing import working
from scenes.scripted_platform import document, message, problem
from scenes.stored import rows_of, value_of, values_of

if TYPE_CHECKING:
    from scenes.pushing import Scene

ORDER = "/orders/ord_1"
FULFILL = "/orders/ord_1/fulfill"
REFUSED = (
    "the store accepts no other tracking number for a fulfilled order; change the"
    " number in the store's dashboard"
)


def order(at: int, units: int = 2, *numbers: str, **members: Any) -> payloads.Document:
    """Return an order of two units; the first parcel has `units` of them."""
    quarantine_correction = [{"lineItemId": "li_1", "quantity": units}]
    parcels = [
        payloads.shipment(
            f"shp_{number}",
            trackingCompany="DHL",
            trackingNumber=number,
            items=[] if place else quarantine_correction,
        )
        for place, number in enumerate(numbers or ("JD1",))
    ]
    status = "FULFILLED" if units == 2 else "PARTIALLY_FULFILLED"
    return payloads.order(
        at=at,
        items=[payloads.item(fulfilledQuantity=units)],
        shipments=parcels,
        **{"fulfillmentStatus": status, **members},
    )


def shown(*arguments: Any, **members: Any) -> bytes:
    return document({"data": order(*arguments, **members)})


async def quarantine_correction(stage: Scene, **members: Any) -> int:
    """Quarantine a second parcel of a completely fulfilled order; return its row."""
    parcel = {"tracking_company": "DHL", "tracking_number": "JD2", **members}
    receipt = await host_of(ScriptedConnector(), stage.store).emit(
        fulfillment_record("k2", **parcel)
    )
    assert receipt.state == "quarantined", receipt.what
    row = value_of(stage.place, "quarantine", "id", state="open")
    return int(row)


async def correct(stage: Scene, **members: Any) -> str:
    await stage.fold(order(1))
    row = await quarantine_correction(stage, **members)
    return await stage.store.quarantine.correct(row, "otto", "the label was replaced")


async def test_a_store_that_accepts_it_has_the_number_and_ships_nothing(
    stage: Scene,
) -> None:
    command = await correct(stage)
    stage.platform.respond(ORDER, shown(1))
    stage.platform.respond(FULFILL, shown(2, 2, "JD1", "JD2"))
    async with working(stage):
        await stage.await_state(command, "applied")
    assert stage.sent_bodies() == [{"trackingCompany": "DHL", "trackingNumber": "JD2"}]
    assert stage.column("effect_id", command) == "shp_JD2"
    audit = rows_of(stage.place, "audit", "who", "action")
    assert audit == [("otto", "quarantine correct")]
    assert value_of(stage.place, "quarantine", "state") == "retried"


async def test_a_refusal_of_the_store_is_reported_in_plain_words(stage: Scene) -> None:
    command = await correct(stage)
    stage.platform.respond(ORDER, shown(1))
    stage.platform.respond(FULFILL, problem(409, "ORDER_ALREADY_FULFILLED"))
    async with working(stage):
        await stage.await_state(command, "rejected")
    assert stage.reason(command).endswith(REFUSED)
    assert len(stage.server.commands) == 1


@pytest.mark.parametrize(
    "seen", [shown(2, 1), shown(2, cancellation={"cancelledAt": payloads.instant(2)})]
)
async def test_nothing_is_sent_where_the_order_has_open_units_again(
    seen: bytes, stage: Scene
) -> None:
    """The mirror shows the order as fulfilled; the store does not."""
    command = await correct(stage)
    stage.platform.respond(ORDER, seen)
    async with working(stage):
        await stage.await_state(command, "rejected")
    assert stage.server.commands == []
    assert "nothing was sent" in stage.reason(command).lower()


async def test_nothing_is_sent_where_the_mirror_shows_open_units_by_then(
    stage: Scene,
) -> None:
    command = await correct(stage)
    line = payloads.item(quantity=3, fulfilledQuantity=2)
    await stage.fold({**order(2), "items": [line]})
    async with working(stage):
        await stage.await_state(command, "rejected")
    assert stage.server.commands == []


async def test_nothing_is_sent_while_the_order_cannot_be_read(stage: Scene) -> None:
    command = await correct(stage)
    stage.platform.respond(ORDER, message(503), shown(1))
    stage.platform.respond(FULFILL, shown(2, 2, "JD1", "JD2"))
    async with working(stage):
        await stage.run_pending()
        assert stage.server.commands == []
        while stage.state(command) != "applied":
            await stage.pass_time(5)
            await stage.run_pending()
    assert len(stage.server.commands) == 1


async def test_a_correction_with_a_lost_answer_is_looked_up_and_not_sent_twice(
    stage: Scene,
) -> None:
    command = await correct(stage)
    stage.platform.respond(ORDER, shown(1), shown(2, 2, "JD1", "JD2"))
    stage.platform.respond(FULFILL, message(502))
    async with working(stage):
        while stage.state(command) != "applied":
            await stage.pass_time(60)
            await stage.run_pending()
    assert "502" in stage.first_attempt_reason(command)
    assert len(stage.server.commands) == 1


@pytest.mark.parametrize(
    ("units", "members", "said"),
    [
        (1, {"lines": (), "tracking_number": None}, "not a shipment with a tracking"),
        (1, {}, "still has 1 open units in the store"),
        (0, {}, "still has 2 open units in the store"),
    ],
)
async def test_a_correction_is_not_offered_where_it_cannot_apply(
    units: int, members: dict[str, Any], said: str, stage: Scene
) -> None:
    await stage.fold(order(1, units))
    question = {"question": "which of them?", **members}
    row = await quarantine_correction(stage, **question)
    with pytest.raises(BackhaulError, match=said):
        await stage.store.quarantine.correct(row, "otto", "a try")
    assert values_of(stage.place, "commands", "id") == []
    assert value_of(stage.place, "quarantine", "state") == "open"


async def test_a_number_that_the_store_shows_is_not_sent(stage: Scene) -> None:
    await stage.fold(order(1))
    row = await quarantine_correction(stage)
    await stage.fold(order(2, 2, "JD1", "JD2"))
    with pytest.raises(BackhaulError, match="already shows the number JD2"):
        await stage.store.quarantine.correct(row, "otto", "a try")


async def test_a_row_is_corrected_once(stage: Scene) -> None:
    command = await correct(stage)
    row = value_of(stage.place, "quarantine", "id")
    with pytest.raises(BackhaulError, match="nothing was changed"):
        await stage.store.quarantine.correct(row, "otto", "again")
    payload = json.loads(stage.column("payload", command))
    assert (payload["number_only"], payload["lines"]) == (True, [])
