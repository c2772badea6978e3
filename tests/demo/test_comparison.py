"""The demo's ledger finds every kind of disagreement, and reports no false ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from backhaul.demo.daemon_rows import Kind, Placement
from demo.world import (
    ADJUST,
    CANCEL,
    CANCELLED,
    FULFILL,
    OPEN,
    SHIPPED,
    World,
    agreeing_world,
    move,
)

Change = Callable[[World], object]


def found_after(change: Change) -> set[tuple[Kind, str]]:
    """Return kinds and subjects of what is found in a world with one change."""
    world = agreeing_world()
    change(world)
    return {(found.kind, found.subject) for found in world.ledger().findings}


def test_an_agreeing_world_has_no_findings() -> None:
    ledger = agreeing_world().ledger()
    assert ledger.findings == ()
    assert ledger.balances()
    assert (ledger.orders, ledger.commands) == (3, 3)


def test_latencies_use_the_clocks_of_both_sides() -> None:
    ledger = agreeing_world().ledger()
    assert (ledger.mirrored.count, ledger.mirrored.p50) == (1, 1.0)
    assert (ledger.fulfilled.count, ledger.fulfilled.p99) == (1, 2.0)


def remove(table: str) -> Change:
    return lambda world: world.tables[table].pop()


def put(table: str, **values: object) -> Change:
    return lambda world: world.tables[table][-1].update(values)


def add(table: str, **values: object) -> Change:
    return lambda world: world.tables[table].append(
        {**world.tables[table][-1], **values}
    )


@pytest.mark.parametrize(
    ("table", "subject"),
    [
        ("orders", f"order {OPEN}"),
        ("order_items", "order line li_1003"),
        ("shipments", "parcel shp_1"),
        ("products", "product prod_1"),
        ("variants", "variant var_1"),
        ("customers", "customer cus_1"),
        ("inventory_levels", "stock of variant var_1"),
        ("stock_ledger", "stock move adj_5 var_1"),
    ],
)
def test_a_row_that_the_mirror_lacks_is_lost(table: str, subject: str) -> None:
    assert (Kind.LOST, subject) in found_after(remove(table))


@pytest.mark.parametrize(
    ("table", "values", "subject"),
    [
        ("orders", {"status": "CONFIRMED"}, f"order {OPEN}"),
        ("orders", {"awaiting_confirmation": 1}, f"order {OPEN}"),
        ("orders", {"total_minor": 1}, f"order {OPEN}"),
        ("orders", {"document": '{"id": "ord_3"}'}, f"order document {OPEN}"),
        ("order_items", {"fulfilled_quantity": 1}, "order line li_1003"),
        ("shipments", {"tracking_number": "DX9"}, "parcel shp_1"),
        ("shipments", {"tracking_company": None}, "parcel shp_1"),
        ("products", {"title": "Shirt"}, "product prod_1"),
        ("variants", {"sku": "LS-M"}, "variant var_1"),
        ("variants", {"price_minor": 149901}, "variant var_1"),
        ("customers", {"email": None}, "customer cus_1"),
        ("inventory_levels", {"stock": 407}, "stock of variant var_1"),
        ("stock_ledger", {"adjustment": 24}, "stock move adj_5 var_1"),
    ],
)
def test_a_row_that_is_not_the_same_differs(
    table: str, values: dict[str, object], subject: str
) -> None:
    assert found_after(put(table, **values)) == {(Kind.DIFFERING, subject)}


@pytest.mark.parametrize(
    ("table", "values", "subject"),
    [
        ("orders", {"id": "ord_9"}, "order ord_9"),
        ("shipments", {"id": "shp_9"}, "parcel shp_9"),
        ("stock_ledger", {"adjustment_id": "adj_9"}, "stock move adj_9 var_1"),
    ],
)
def test_a_row_that_only_the_mirror_has_is_unexpected(
    table: str, values: dict[str, object], subject: str
) -> None:
    assert (Kind.UNEXPECTED, subject) in found_after(add(table, **values))


def test_a_deleted_product_is_not_missed() -> None:
    change = add("products", id="prod_9", deleted_at="2026-03-31T10:00:00.000Z")
    assert found_after(change) == set()


def test_a_difference_is_reported_with_both_values() -> None:
    world = agreeing_world()
    world.tables["inventory_levels"][0]["stock"] = 7
    (finding,) = world.ledger().findings
    assert finding.what == "stock is 408 at the store, 7 in ours"


def ship_again(world: World) -> None:
    shipments = world.order(SHIPPED)["shipments"]
    shipments.append({**shipments[0], "id": "shp_2"})


def adjust_again(world: World) -> None:
    world.state["history"].append({**move("adj_6", 12, 420, "STOCK_COUNT")})
    world.state["history"][-1]["note"] = f"bh:{ADJUST}"


def restock_again(world: World) -> None:
    entry = deepcopy(world.history("ORDER_CANCELLED"))
    world.state["history"].append({**entry, "adjustmentId": "adj_6"})


def command_name(kind: str, command_id: str, target: str) -> str:
    return f"{kind} command {command_id[:8]} for {target}"


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        (ship_again, command_name("fulfill", FULFILL, SHIPPED)),
        (adjust_again, command_name("adjust", ADJUST, "prod_1")),
        (restock_again, command_name("cancel", CANCEL, CANCELLED)),
    ],
)
def test_an_effect_that_happened_twice_is_doubled(change: Change, subject: str) -> None:
    assert (Kind.DOUBLED, subject) in found_after(change)


def unship(world: World) -> None:
    world.order(SHIPPED)["shipments"].clear()


def uncancel(world: World) -> None:
    world.order(CANCELLED)["cancellation"] = None


def unadjust(world: World) -> None:
    world.state["history"].pop()


NO_EFFECT = [
    (unship, FULFILL, command_name("fulfill", FULFILL, SHIPPED)),
    (uncancel, CANCEL, command_name("cancel", CANCEL, CANCELLED)),
    (unadjust, ADJUST, command_name("adjust", ADJUST, "prod_1")),
]


@pytest.mark.parametrize(("change", "command", "subject"), NO_EFFECT)
def test_an_applied_command_without_effect_is_lost(
    change: Change, command: str, subject: str
) -> None:
    assert (Kind.LOST, subject) in found_after(change)


@pytest.mark.parametrize(("change", "command", "subject"), NO_EFFECT)
def test_a_parked_command_may_have_had_no_effect(
    change: Change, command: str, subject: str
) -> None:
    def park(world: World) -> None:
        change(world)
        world.command(command)["state"] = "parked"

    found = found_after(park)
    assert (Kind.PARKED, subject) in found
    assert (Kind.LOST, subject) not in found


def in_state(command: str, state: str) -> Change:
    return lambda world: world.command(command).update(state=state)


def test_a_parked_command_may_have_had_its_effect() -> None:
    world = agreeing_world()
    in_state(ADJUST, "parked")(world)
    ledger = world.ledger()
    assert [found.kind for found in ledger.findings] == [Kind.PARKED]
    assert ledger.findings[0].what == "had its effect: 200"
    assert not ledger.balances()
    assert ledger.balances(may_park=True)


def test_a_parked_command_that_took_effect_twice_is_doubled() -> None:
    def change(world: World) -> None:
        in_state(ADJUST, "parked")(world)
        adjust_again(world)

    kinds = {kind for kind, _ in found_after(change)}
    assert {Kind.DOUBLED, Kind.PARKED} <= kinds


@pytest.mark.parametrize("state", ["planned", "sending", "uncertain"])
def test_a_command_that_is_still_open_differs(state: str) -> None:
    subject = command_name("adjust", ADJUST, "prod_1")
    assert found_after(in_state(ADJUST, state)) == {(Kind.DIFFERING, subject)}


@pytest.mark.parametrize("state", ["rejected", "superseded"])
def test_a_discarded_command_with_an_effect_is_unexpected(state: str) -> None:
    subject = command_name("adjust", ADJUST, "prod_1")
    assert found_after(in_state(ADJUST, state)) == {(Kind.UNEXPECTED, subject)}


def test_a_rejected_command_leaves_its_cause_lost() -> None:
    def change(world: World) -> None:
        unadjust(world)
        in_state(ADJUST, "rejected")(world)

    cause = "adjust by courier, stock-deltas-0001.csv:2"
    assert (Kind.LOST, cause) in found_after(change)


def test_a_cause_without_a_command_is_lost() -> None:
    cause = "cancel by courier, cancellations-0001.csv:2"

    def change(world: World) -> None:
        world.tables["commands"].remove(world.command(CANCEL))

    assert (Kind.LOST, cause) in found_after(change)


def test_a_cause_that_was_never_acknowledged_may_be_lost() -> None:
    world = agreeing_world()
    world.causes.append(
        replace(world.causes[0], order_id=OPEN, acknowledged=False),
    )
    assert world.ledger().findings == ()


def test_a_cause_with_two_commands_is_doubled() -> None:
    def change(world: World) -> None:
        twin = {**world.command(CANCEL), "id": "d" * 32, "state": "parked"}
        world.tables["commands"].append(twin)

    cause = "cancel by courier, cancellations-0001.csv:2"
    assert (Kind.DOUBLED, cause) in found_after(change)


def test_a_command_without_a_request_is_unexpected() -> None:
    found = found_after(lambda world: world.causes.pop())
    assert found == {(Kind.UNEXPECTED, f"adjust command {ADJUST[:8]}")}


@pytest.mark.parametrize(
    ("position", "heard"),
    [(0, {"tracking_company": "Other"}), (1, {"restock": False}), (2, {"delta": 13})],
)
def test_a_command_with_another_request_differs(
    position: int, heard: dict[str, Any]
) -> None:
    world = agreeing_world()
    cause = replace(world.causes[position], **heard)
    world.causes[position] = cause
    assert [(f.kind, f.subject) for f in world.ledger().findings] == [
        (Kind.DIFFERING, str(cause))
    ]


def unlink_history(world: World) -> None:
    world.history("STOCK_COUNT")["note"] = "bh:somebody"


def strange_parcel(world: World) -> None:
    shipments = world.order(SHIPPED)["shipments"]
    shipments.append({**shipments[0], "id": "shp_2", "trackingNumber": "DX9"})


def strange_cancellation(world: World) -> None:
    world.order(CANCELLED)["cancellation"]["note"] = None


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        (unlink_history, "stock of LS-S"),
        (strange_parcel, f"parcel of {SHIPPED}"),
        (strange_cancellation, "order #1002"),
    ],
)
def test_an_effect_without_a_command_is_unexpected(
    change: Change, subject: str
) -> None:
    assert (Kind.UNEXPECTED, subject) in found_after(change)


def test_an_effect_that_was_lost_and_adopted_is_expected() -> None:
    def adopt(world: World) -> None:
        unlink_history(world)
        world.tables["adopted"] = [{"command_id": "somebody"}]

    assert (Kind.UNEXPECTED, "stock of LS-S") not in found_after(adopt)


def move_parcel(world: World) -> None:
    parcel = world.order(SHIPPED)["shipments"].pop()
    world.order(OPEN)["shipments"].append(parcel)


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        (move_parcel, command_name("fulfill", FULFILL, SHIPPED)),
        (
            lambda world: world.history("STOCK_COUNT").update(adjustment=11),
            command_name("adjust", ADJUST, "prod_1"),
        ),
        (
            lambda world: world.history("STOCK_COUNT").update(adjustmentId="adj_9"),
            command_name("adjust", ADJUST, "prod_1"),
        ),
        (
            lambda world: world.history("ORDER_CANCELLED").update(adjustment=1),
            command_name("cancel", CANCEL, CANCELLED),
        ),
        (
            lambda world: world.order(CANCELLED)["cancellation"].update(
                restocked=False
            ),
            command_name("cancel", CANCEL, CANCELLED),
        ),
    ],
)
def test_an_effect_other_than_the_request_differs(change: Change, subject: str) -> None:
    assert (Kind.DIFFERING, subject) in found_after(change)


def test_a_quarantined_record_is_unexpected() -> None:
    row = {"name": "event 7", "state": "quarantined", "reason": "not JSON"}
    found = found_after(lambda world: world.tables["set_aside"].append(row))
    assert found == {(Kind.UNEXPECTED, "event 7")}


def test_stock_that_the_work_does_not_explain_differs() -> None:
    def change(world: World) -> None:
        world.state["levels"][0]["stock"] = 407
        world.tables["inventory_levels"][0]["stock"] = 407

    assert found_after(change) == {(Kind.DIFFERING, "stock of LS-S")}


def test_an_order_that_the_store_forgot_is_lost() -> None:
    gone = Placement("ord_9", 1009, {"var_1": 1})
    found = found_after(lambda world: world.placements.append(gone))
    assert found == {(Kind.LOST, "order #1009")}


def test_an_order_that_was_never_placed_is_unexpected() -> None:
    found = found_after(lambda world: world.placements.pop())
    assert found == {(Kind.UNEXPECTED, "order #1003")}


def test_an_order_of_something_else_differs() -> None:
    def change(world: World) -> None:
        world.placements[2] = replace(world.placements[2], lines={"var_1": 3})

    assert found_after(change) == {(Kind.DIFFERING, "order #1003")}


def without_notes(world: World) -> None:
    """Let the store keep no notes: it shows no tags."""
    for entry in world.state["history"]:
        entry["note"] = None
    for order in world.state["orders"]:
        if order["cancellation"]:
            order["cancellation"]["note"] = None
    for row in world.tables["orders"]:
        row["document"] = json.dumps(world.order(row["id"]))


def test_a_store_without_notes_agrees_too() -> None:
    assert found_after(without_notes) == set()


def test_a_doubled_effect_is_found_without_notes_too() -> None:
    def change(world: World) -> None:
        adjust_again(world)
        without_notes(world)

    subject = command_name("adjust", ADJUST, "prod_1")
    assert (Kind.DOUBLED, subject) in found_after(change)


def test_an_unrequested_effect_is_found_without_notes_too() -> None:
    def change(world: World) -> None:
        world.history("STOCK_COUNT").update(adjustment=11)
        without_notes(world)

    assert (Kind.UNEXPECTED, "stock of LS-S") in found_after(change)
