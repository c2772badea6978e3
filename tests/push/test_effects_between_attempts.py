"""An abandoned attempt takes effect before the next attempt, which is lost too."""

from __future__ import annotations

from typing import Any

from backhaul.store.commands import Decision
from scenes import payloads
from scenes.databases import append_and_fold
from scenes.pushing import Scene, working
from scenes.scripted_platform import document, message, problem
from scenes.stock_history import HISTORY, history, move
from scenes.waiting import until

ADJUST, FULFILL, ORDER = "/inventory/adjust", "/orders/ord_1/fulfill", "/orders/ord_1"
LOST = message(500)
LATE = "adj_late"
NAMELESS: dict[str, Any] = {"tracking_company": None, "tracking_number": None}


def shown(*parcels: payloads.Document, at: int) -> payloads.Document:
    return payloads.order("ord_1", at=at, shipments=list(parcels))


async def await_second_attempt(stage: Scene, command: str) -> None:
    """Let three checks find nothing, until the second attempt is sent."""
    await until(lambda: stage.column("looks", command) == 1, "a check")
    await stage.pass_time(120)
    await until(lambda: stage.column("looks", command) == 2, "another check")
    await stage.pass_time(480)
    await until(lambda: len(stage.server.commands) == 2, "the second attempt")


async def test_an_adjustment_is_found_by_the_checks_of_the_next_attempt(
    stage: Scene,
) -> None:
    stage.platform.respond(ADJUST, LOST, problem(429, "RATE_LIMITED"), LOST)
    stage.platform.respond(HISTORY, history())
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await await_second_attempt(stage, command)
        effect = payloads.stock_change(at=700, adjustment_id=LATE)
        await append_and_fold(
            stage.store, payloads.envelope("inventory/level_update", effect)
        )
        stage.platform.respond(HISTORY, history(move(700, command, adjustmentId=LATE)))
        await stage.pass_time(60)
        await stage.await_state(command, "applied")
    assert len(stage.server.commands) == 3
    assert stage.column("effect_id", command) == LATE


async def test_so_is_a_parcel_without_a_number(stage: Scene) -> None:
    stage.platform.respond(FULFILL, LOST, problem(429, "RATE_LIMITED"), LOST)
    stage.platform.respond(ORDER, document({"data": shown(at=50)}))
    await stage.fold(shown(at=50))
    command = await stage.plan("fulfill", "ord_1", **NAMELESS)
    async with working(stage):
        await await_second_attempt(stage, command)
        effect = payloads.shipment(
            "shp_late", trackingCompany=None, trackingNumber=None
        )
        await stage.fold(shown(effect, at=700))
        stage.platform.respond(ORDER, document({"data": shown(effect, at=700)}))
        await stage.pass_time(60)
        await stage.await_state(command, "applied")
    assert len(stage.server.commands) == 3
    assert stage.column("effect_id", command) == "shp_late"


async def test_a_resend_by_an_operator_disowns_all_earlier_effects(
    stage: Scene,
) -> None:
    stage.platform.respond(ADJUST, LOST)
    stage.platform.respond(HISTORY, history())
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await until(lambda: stage.column("looks", command) == 1, "a check")
        known = payloads.stock_change(at=30, adjustment_id=LATE)
        await append_and_fold(
            stage.store, payloads.envelope("inventory/level_update", known)
        )
        await stage.pass_time(1)
        for verb in ("park", "resend"):
            await stage.store.decisions.decide(Decision(command, verb, "ann", "seen"))
        await stage.pass_time(1)
        await until(lambda: len(stage.server.commands) == 2, "the second attempt")
    assert f'"adjustment_id":"{LATE}"' in stage.column("baseline", command)
