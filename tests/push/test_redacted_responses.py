"""The platform's responses are stored without the data of erased customers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from scenes import customers
from scenes.customers import GUEST, OTHER, SILENT
from scenes.pushing import working
from scenes.scripted_platform import document, message
from scenes.stored import value_of

if TYPE_CHECKING:
    from scenes.pushing import Scene

FULFILL = "/orders/ord_1/fulfill"
SENT = {"tracking_number": "T1"}


async def stored_response(stage: Scene, answer: bytes, state: str) -> dict[str, Any]:
    """Erase the customer, then fulfill an order; return the stored response."""
    await stage.fold(customers.order(1, shipments=[]))
    await customers.erase(stage.store)
    stage.platform.respond(FULFILL, answer)
    command = await stage.plan("fulfill", "ord_1", **SENT)
    async with working(stage):
        await stage.await_state(command, state)
    await stage.store.erasure.empty_log()
    kept = value_of(stage.place, "attempts", "response")
    found: dict[str, Any] = json.loads(kept)
    return found


@pytest.mark.parametrize(
    "person", [customers.PERSON, GUEST], ids=["by id", "by e-mail"]
)
async def test_an_order_in_an_answer_is_stored_without_its_customer(
    stage: Scene, person: dict[str, Any]
) -> None:
    order = customers.order(1, at=9, customer=person)
    kept = await stored_response(stage, document({"data": order}), "applied")
    assert customers.find_secrets(stage.store) == []
    assert kept["data"]["shipments"] == order["shipments"]
    assert kept["data"]["items"] == order["items"]


async def test_so_is_one_that_a_refusal_shows(stage: Scene) -> None:
    refusal = {"code": "NO_SUCH_THING", "current": customers.order(1, at=9)}
    answer = message(422, body=json.dumps(refusal).encode())
    kept = await stored_response(stage, answer, "rejected")
    assert customers.find_secrets(stage.store) == []
    assert kept["code"] == "NO_SUCH_THING"


async def test_the_order_of_another_customer_is_stored_as_it_came(stage: Scene) -> None:
    order = customers.order(1, at=9, customer=OTHER, **SILENT)
    kept = await stored_response(stage, document({"data": order}), "applied")
    assert kept == {"data": order}
