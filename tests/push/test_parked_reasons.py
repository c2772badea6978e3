"""The reason of a parked command: first the platform's response, then the checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes import payloads
from scenes.pushing import working
from scenes.scripted_platform import document, message, problem

if TYPE_CHECKING:
    from scenes.pushing import Scene

FULFILL, ORDER = "/orders/ord_1/fulfill", "/orders/ord_1"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (problem(503, "INJECTED_FAULT"), "answered 503 INJECTED_FAULT: no; "),
        (message(502), "the platform answered 502; "),
        (message(200, b"{}"), "the platform answered 200, but "),
        (message(200, b"<html>"), "the platform answered 200, but "),
    ],
    ids=["503", "502", "empty", "html"],
)
async def test_the_answer_comes_first(stage: Scene, answer: bytes, said: str) -> None:
    stage.platform.respond(FULFILL, answer)
    other = payloads.shipment("shp_9", trackingNumber="BD9")
    line = payloads.item(fulfilledQuantity=2)
    whole = payloads.order(
        shipments=[other], items=[line], fulfillmentStatus="FULFILLED"
    )
    await stage.fold(whole)
    command = await stage.plan("fulfill", "ord_1")
    stage.platform.respond(ORDER, document({"data": whole | {"cancellation": GONE}}))
    async with working(stage):
        await stage.await_parked(command)
    reason = stage.reason(command)
    assert said in reason
    found = "the order does not show the parcel; all of it has shipped"
    assert reason.index(said) < reason.index(found)
    assert reason.endswith("(3 checks)")


GONE = {"restocked": False, "cancelledAt": payloads.instant(3)}
