"""Commands that the platform refuses are rejected, held, parked or sent differently."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scenes import payloads
from scenes.pushing import Scene, applied_response, working
from scenes.scripted_platform import Connection, Request, document, message, problem

FULFILL = "/orders/ord_1/fulfill"
CANCEL = "/orders/ord_1/cancel"
ADJUST = "/inventory/adjust"
ALL = '{"everything"'

FINAL = [
    (status, outcome)
    for status in (400, 405, 410, 413, 415, 422)
    for outcome in ("problem", "plain")
]


@pytest.mark.parametrize(("status", "shape"), FINAL)
async def test_refusal_in_the_platforms_words_is_final(
    status: int, shape: str, stage: Scene
) -> None:
    plain = document({"error": "no"}, status)
    said = plain if shape == "plain" else problem(status, "ODD")
    stage.platform.respond(FULFILL, said)
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(command, "rejected")
    assert stage.attempts(command) == [(1, "rejected", status, 1)]
    assert stage.reason(command).startswith(f"{status} ")


UNSURE = [408, 500, 502, 503, 504, 418]


@pytest.mark.parametrize("status", UNSURE)
async def test_ambiguous_answer_is_parked_and_never_repeated(
    status: int, stage: Scene
) -> None:
    stage.platform.respond(ADJUST, message(status, b'{"code":"X"}'))
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(command, "parked")
        await stage.pass_time(3_600)
        await stage.run_pending()
    assert stage.attempts(command) == [(1, "uncertain", status, 1)]
    assert len(stage.server.commands) == 1


async def test_parked_command_blocks_nothing_else(stage: Scene) -> None:
    stage.platform.respond(FULFILL, message(500), applied_to_bd2)
    parked = await stage.plan("fulfill", "ord_1")
    behind = await stage.plan("fulfill", "ord_1", tracking_number="BD2")
    other = await stage.plan("fulfill", "ord_2")
    async with working(stage):
        await stage.await_parked(parked)
        for command in (behind, other):
            await stage.await_state(command, "applied")


async def applied_to_bd2(request: Request, connection: Connection) -> None:
    await connection.send(applied_response(request))


CONFLICTS = [
    ("fulfill", FULFILL, "STOCK_CHANGED"),
    ("adjust", ADJUST, "STOCK_CHANGED"),
    ("adjust", ADJUST, "INSUFFICIENT_STOCK"),
    ("adjust", ADJUST, "ANYTHING_ELSE"),
]


@pytest.mark.parametrize(("kind", "path", "code"), CONFLICTS)
async def test_a_conflict_that_an_operator_must_see_is_parked(
    kind: str, path: str, code: str, stage: Scene
) -> None:
    stage.platform.respond(path, problem(409, code))
    command = await stage.plan(kind, "prod_1" if kind == "adjust" else "ord_1")
    async with working(stage):
        await stage.await_state(command, "parked")
    assert stage.reason(command) == f"409 {code}: no"
    assert len(stage.server.commands) == 1


IDEMPOTENCY = [(409, "IDEMPOTENCY_IN_PROGRESS"), (422, "IDEMPOTENCY_KEY_REUSED")]


@pytest.mark.parametrize(("status", "code"), IDEMPOTENCY)
async def test_a_problem_with_the_key_leaves_the_command_uncertain(
    status: int, code: str, stage: Scene
) -> None:
    stage.platform.respond(FULFILL, problem(status, code))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_parked(command)
    assert stage.attempts(command) == [(1, "uncertain", status, 1)]


SHIPPED = payloads.order(shipments=[payloads.shipment()])
OTHERWISE = payloads.order(shipments=[payloads.shipment(trackingNumber="BD9")])
GONE = {"restocked": True, "cancelledAt": payloads.instant(3)}
CANCELLED = payloads.order(cancellation=GONE)
KEPT = payloads.order(cancellation=GONE | {"restocked": False})
ALREADY = [
    ("fulfill", "shipped-so", SHIPPED, "applied"),
    ("fulfill", "shipped-otherwise", OTHERWISE, "parked"),
    ("fulfill", "not-shipped", payloads.order(), "parked"),
    ("cancel", "cancelled-so", CANCELLED, "applied"),
    ("cancel", "cancelled-otherwise", KEPT, "parked"),
    ("cancel", "not-cancelled", payloads.order(), "parked"),
]


@pytest.mark.parametrize("plain", [False, True], ids=["problem", "plain"])
@pytest.mark.parametrize(
    ("kind", "name", "order", "state"), ALREADY, ids=[row[1] for row in ALREADY]
)
async def test_a_conflict_is_resolved_by_what_the_order_shows(
    kind: str, name: str, order: dict[str, Any], state: str, plain: bool, stage: Scene
) -> None:
    said = {"error": "already"} if plain else {"code": "ORDER_ALREADY"}
    stage.platform.respond(f"/orders/ord_1/{kind}", document(said, 409))
    stage.platform.respond("/orders/ord_1", document({"data": order}))
    command = await stage.plan(kind, "ord_1")
    async with working(stage):
        await stage.await_state(command, state)
    assert len(stage.server.commands) == 1
    shows = {"applied": "shows the same effect", "parked": "shows something else"}
    said = {
        "cancelled-otherwise": "is cancelled, without the restock that was asked for"
    }
    assert stage.reason(command).endswith(
        f"the order {said.get(name, shows[state])}"
    ), name


async def test_a_conflict_is_checked_again_when_the_order_cannot_be_read(
    stage: Scene,
) -> None:
    stage.platform.respond(FULFILL, problem(409, "ORDER_ALREADY_FULFILLED"))
    stage.platform.respond("/orders/ord_1", message(500), document({"data": SHIPPED}))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_commands(1)
        assert stage.state(command) == "planned"
        await stage.pass_time(1)
        await stage.await_state(command, "applied")
    assert stage.column("failures", command) == 1


async def test_held_fulfillment_waits_until_the_order_changes(stage: Scene) -> None:
    stage.platform.respond(
        FULFILL, problem(409, "ORDER_AWAITING_CONFIRMATION"), applied_to_bd2
    )
    await stage.fold(payloads.order("ord_1", at=1))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_commands(1)
        assert (stage.state(command), stage.column("hold_reason", command)) == (
            "planned",
            "order",
        )
        await stage.pass_time(86_400)
        await stage.fold(payloads.order("ord_2", at=2, number=1002))
        await stage.await_commands(1)
        await stage.fold(payloads.order("ord_1", at=3))
        await stage.await_state(command, "applied")
    assert stage.column("failures", command) == 0
    assert [row[1] for row in stage.attempts(command)] == ["held", "confirmed"]


async def test_held_fulfillment_lets_a_cancellation_pass(stage: Scene) -> None:
    stage.platform.respond(FULFILL, problem(409, "ORDER_AWAITING_CONFIRMATION"))
    held = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_commands(1)
        cancel = await stage.plan("cancel", "ord_1")
        stage.dispatcher.wake()
        await stage.await_state(cancel, "applied")
        await stage.fold(payloads.order("ord_1", at=9, cancellation=GONE))
        await stage.await_state(held, "rejected")
    assert [request.path for request in stage.server.commands] == [FULFILL, CANCEL]


NOTED = problem(422, "V", errors=[{"pointer": "/note", "detail": "unknown"}])
UNKNOWN_NOTE = [NOTED, document({"error": "unknown member note"}, 422)]


@pytest.mark.parametrize("said", UNKNOWN_NOTE, ids=["problem", "plain"])
async def test_unknown_note_is_left_out_from_now_on(said: bytes, stage: Scene) -> None:
    stage.platform.respond(ADJUST, said, applied_to_bd2)
    first = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(first, "applied")
        second = await stage.plan("adjust", "prod_2")
        stage.dispatcher.wake()
        await stage.await_state(second, "applied")
    with_note, without, later = stage.sent_bodies()
    assert with_note.pop("note") == f"bh:{first}"
    assert without == with_note
    assert "note" not in later
    assert later["variantId"] == "var_1"
    assert stage.column("failures", first) == 0
    assert stage.column("request", first) == stage.server.commands[1].body


async def test_complaint_about_a_member_that_was_not_sent_ends_the_matter(
    stage: Scene,
) -> None:
    """The command is not repeated forever if the platform always names "note"."""
    stage.platform.respond(ADJUST, NOTED)
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(command, "rejected")
    assert len(stage.server.commands) == 2


NO_VARIANT = [
    problem(422, "V", errors=[{"pointer": "/variantId", "detail": "unknown"}]),
    document({"error": "unknown member variantId"}, 400),
]


@pytest.mark.parametrize("said", NO_VARIANT, ids=["problem", "plain"])
async def test_adjustment_is_never_sent_without_its_variant(
    said: bytes, stage: Scene
) -> None:
    stage.platform.respond(ADJUST, said)
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(command, "parked")
        await stage.pass_time(3_600)
        await stage.run_pending()
    assert all(body["variantId"] == "var_1" for body in stage.sent_bodies())
    assert len(stage.server.commands) == 1


async def test_object_that_does_not_exist_is_a_final_refusal(stage: Scene) -> None:
    stage.platform.respond(FULFILL, problem(404, "ORDER_NOT_FOUND"))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_state(command, "rejected")
    assert stage.reason(command).endswith("/orders/ord_1 does not exist")


PRODUCT = payloads.product(variants=[payloads.variant("var_2")])


async def test_variant_that_does_not_exist_is_a_final_refusal(stage: Scene) -> None:
    """Otherwise one deleted variant would stop the whole store repeatedly."""
    stage.platform.respond(ADJUST, problem(404, "VARIANT_NOT_FOUND"))
    stage.platform.respond("/products/prod_1", document({"data": PRODUCT}))
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(command, "rejected")
    assert stage.reason(command).endswith("/products/prod_1 lacks the variant")
    assert stage.dispatcher.state()["stopped"] == {}


PRESENT = {
    "order-is-there": (FULFILL, "/orders/ord_1", {"data": payloads.order()}),
    "variant-is-there": (ADJUST, "/products/prod_1", {"data": payloads.product()}),
    "other-product": (ADJUST, "/products/prod_1", {"data": PRODUCT | {"id": "prod_2"}}),
    "no-variants": (ADJUST, "/products/prod_1", {"data": {"id": "prod_1"}}),
    "no-object": (ADJUST, "/products/prod_1", []),
}


@pytest.mark.parametrize("name", PRESENT)
async def test_404_that_reading_does_not_confirm_stops_the_store(
    name: str, stage: Scene
) -> None:
    path, read, found = PRESENT[name]
    stage.platform.respond(path, problem(404, "NOT_FOUND"))
    stage.platform.respond(read, document(found))
    kind = "adjust" if path == ADJUST else "fulfill"
    command = await stage.plan(kind, read.rpartition("/")[2])
    async with working(stage):
        await stage.await_commands(1)
        assert stage.state(command) == "planned"
        assert json.dumps(stage.dispatcher.state()["stopped"]).startswith(ALL)
    assert stage.attempts(command) == [(1, "stopped", 404, 1)]


async def test_404_of_everything_stops_the_store(stage: Scene) -> None:
    """A wrong prefix or a deployment causes 404 for the object and for all lists."""
    for path in (FULFILL, "/orders", "/products", "/inventory"):
        stage.platform.respond(path, problem(404, "NOT_FOUND"))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_commands(1)
    assert stage.state(command) == "planned"
    assert json.dumps(stage.dispatcher.state()["stopped"]).startswith(ALL)
