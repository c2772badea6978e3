"""Two parcels of one order without a number: whose is the one that is shown?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support import payloads
from support.databases import rows
from support.push_scene import Scene, working
from support.push_server import document, message, problem
from support.waiting import until

if TYPE_CHECKING:
    from support.push_server import Connection, Request

NAMELESS: dict[str, Any] = {"tracking_company": None, "tracking_number": None}
FULFILL = "/orders/ord_1/fulfill"


def order(*parcels: str) -> bytes:
    """Return the order with parcels that bear no number."""
    names: dict[str, Any] = {"trackingCompany": None, "trackingNumber": None}
    shown = [payloads.shipment(id_, **names) for id_ in parcels]
    return document({"data": payloads.order("ord_1", at=50, shipments=shown)})


async def two(stage: Scene, *answers: bytes) -> tuple[str, str]:
    """Plan two parcels; only the first is taken, and its echo does not come."""
    await stage.fold(payloads.order("ord_1", at=1))
    stage.platform.says(FULFILL, order("shp_1"), *answers)
    stage.platform.says("/orders/ord_1", order("shp_1"))
    first = await stage.plan("fulfill", "ord_1", **NAMELESS)
    return first, await stage.plan("fulfill", "ord_1", **NAMELESS)


def effects(stage: Scene) -> list[tuple[Any, ...]]:
    return rows(stage.path, "SELECT effect_id FROM commands ORDER BY seq")


def found(stage: Scene, command: str) -> list[str]:
    query = "SELECT found FROM looks WHERE command_id = ? ORDER BY id"
    return [row[0] for row in rows(stage.path, query, command)]


async def test_the_parcel_of_another_command_is_no_proof(stage: Scene) -> None:
    first, second = await two(stage, message(500), order("shp_1", "shp_2"))
    async with working(stage):
        await stage.reaches(first, "applied")
        await until(lambda: len(found(stage, second)) == 1, "a look")
        await stage.pass_time(120)
        await until(lambda: len(found(stage, second)) == 2, "another")
        await stage.pass_time(480)
        await stage.reaches(second, "applied")
    assert found(stage, second) == ["absent"] * 3
    assert len(stage.server.commands) == 3
    assert effects(stage) == [("shp_1",), ("shp_2",)]


async def test_its_own_parcel_beside_that_of_another_is_one(stage: Scene) -> None:
    first, second = await two(stage, message(500))

    async def both(_: Request, connection: Connection) -> None:
        await connection.send(order("shp_1", "shp_2"))

    stage.platform.says("/orders/ord_1", both)
    async with working(stage):
        await stage.reaches(first, "applied")
        await stage.reaches(second, "applied")
    assert len(stage.server.commands) == 2
    assert effects(stage) == [("shp_1",), ("shp_2",)]


@pytest.mark.parametrize(
    "code", ["ORDER_ALREADY_FULFILLED", "QUANTITY_NOT_FULFILLABLE"]
)
async def test_a_conflict_with_another_command_is_for_a_person(
    code: str, stage: Scene
) -> None:
    first, second = await two(stage, problem(409, code))
    async with working(stage):
        await stage.reaches(first, "applied")
        await stage.reaches(second, "parked")
    assert "shows something else" in stage.reason(second)


async def test_a_parcel_that_a_conflict_proved_proves_no_other(stage: Scene) -> None:
    refused = problem(409, "ORDER_ALREADY_FULFILLED")
    stage.platform.says(FULFILL, refused)
    stage.platform.says("/orders/ord_1", order("shp_1"))
    first = await stage.plan("fulfill", "ord_1", **NAMELESS)
    second = await stage.plan("fulfill", "ord_1", **NAMELESS)
    async with working(stage):
        await stage.reaches(first, "applied")
        await stage.reaches(second, "parked")
    assert effects(stage) == [("shp_1",), (None,)]
