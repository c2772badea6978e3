"""The ERP's side of the ledger: what it counted, and which changes it received."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from backhaul.demo.daemon_rows import Cause, Kind
from backhaul.demo.workers import ReceivedByErp
from demo.world import (
    CANCEL,
    CANCELLED,
    OPEN,
    T2,
    World,
    agreeing_world,
    command,
    ledger_row,
    move,
)

Change = Callable[[World], object]
COUNT, STEP = "d" * 32, "e" * 32
COUNTED_AT, LATER = "2026-03-31T10:00:03.000Z", "2026-03-31T10:00:04.000Z"
CAUSE = "target by erp, counts 1"
NAME = f"count {COUNT[:8]} for prod_1"
LEVEL = "counted stock of LS-S"


def world_with_an_erp() -> World:
    """408 were there, the ERP counted 405; it was told of all three orders."""
    world = agreeing_world()
    world.causes.append(count("counts 1", 405, COUNTED_AT))
    world.tables["commands"] += [
        command(
            COUNT,
            "target",
            "prod_1",
            {"variant_id": "var_1", "quantity": 405, "as_of": COUNTED_AT},
            cause="record erp counts 1",
        ),
        command(
            STEP,
            "adjust",
            "prod_1",
            {"variant_id": "var_1", "delta": -3, "target": COUNT},
            evidence={"adjustment_id": "adj_6"},
            cause="record erp counts 1",
        ),
    ]
    happen(world, move("adj_6", -3, 405, "MANUAL_ADJUSTMENT", note=f"bh:{STEP}"))
    orders = world.state["orders"]
    news = [("order.placed", each["id"]) for each in orders]
    world.told = ReceivedByErp(
        [
            {"order_id": each["id"], "number": each["number"], "status": each["status"]}
            for each in orders
        ],
        [
            {"topic": topic, "order_id": id_}
            for topic, id_ in [*news, ("order.cancelled", CANCELLED)]
        ],
    )
    return world


def count(locator: str, quantity: int, at: str) -> Cause:
    return Cause(
        kind="target",
        instance="erp",
        locator=locator,
        sku="LS-S",
        quantity=quantity,
        counted_at=at,
    )


def happen(world: World, entry: dict[str, Any]) -> None:
    """Let stock move on both sides."""
    world.state["history"].append(entry)
    world.tables["stock_ledger"].append(ledger_row(entry))
    for level in (world.state["levels"][0], world.tables["inventory_levels"][0]):
        level["stock"] += entry["adjustment"]


def found_after(change: Change) -> set[tuple[Kind, str]]:
    world = world_with_an_erp()
    change(world)
    return {(found.kind, found.subject) for found in world.ledger().findings}


def test_an_agreeing_world_has_no_findings() -> None:
    assert world_with_an_erp().ledger().findings == ()


def be(state: str) -> Change:
    return lambda world: world.command(COUNT).update(state=state)


def forget(world: World) -> None:
    world.tables["commands"].remove(world.command(COUNT))


def hear_twice(world: World) -> None:
    twin = {**world.command(COUNT), "id": "9" * 32}
    world.tables["commands"].append(twin)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (forget, (Kind.LOST, CAUSE)),
        (be("rejected"), (Kind.LOST, CAUSE)),
        (be("parked"), (Kind.PARKED, NAME)),
        (be("planned"), (Kind.DIFFERING, NAME)),
        (hear_twice, (Kind.DOUBLED, CAUSE)),
        (lambda world: world.causes.pop(), (Kind.UNEXPECTED, NAME)),
    ],
)
def test_a_count_is_heard_once(change: Change, found: tuple[Kind, str]) -> None:
    assert found_after(change) == {found}


def test_a_count_may_be_overtaken_by_a_newer_one() -> None:
    assert found_after(be("superseded")) == set()


def test_a_count_may_be_replaced_by_a_newer_one_before_its_article_is_known() -> None:
    def found(place: int, replaced: str) -> set[tuple[Kind, str]]:
        def change(world: World) -> None:
            world.causes.insert(place, count("counts 0", 9, T2))
            row = {"cause": f"record erp {replaced}"}
            world.tables["replaced"] = [row]
            if replaced == "counts 1":
                forget(world)

        return found_after(change)

    older = (Kind.LOST, "target by erp, counts 0")
    assert found(0, "counts 0") == found(-1, "counts 0") == set()
    assert found(0, "counts 5") == {older}
    assert found(0, "counts 1") == {older, (Kind.LOST, CAUSE)}


def test_a_count_that_was_heard_wrongly_differs() -> None:
    def mishear(world: World) -> None:
        world.command(COUNT)["payload"] = '{"quantity": 406, "target": ""}'

    assert found_after(mishear) == {(Kind.DIFFERING, CAUSE)}


def moved(delta: int, reason: str, at: str, **values: Any) -> Change:
    entry = move("adj_7", delta, 405 + delta, reason, **values) | {"createdAt": at}
    return lambda world: happen(world, entry)


def test_units_sold_after_the_count_are_subtracted() -> None:
    def levels(at: str) -> set[tuple[Kind, str]]:
        found = found_after(moved(-2, "ORDER_PLACED", at, order_id=OPEN))
        return {each for each in found if each[1] == LEVEL}

    assert levels(COUNTED_AT) == levels(LATER) == set()
    assert levels(T2) == {(Kind.DIFFERING, LEVEL)}


def test_units_to_be_restocked_are_in_a_later_count() -> None:
    def levels(asked_at: str) -> set[tuple[Kind, str]]:
        def change(world: World) -> None:
            world.state["history"].remove(world.history("ORDER_CANCELLED"))
            moved(2, "ORDER_CANCELLED", LATER, order_id=CANCELLED)(world)
            world.command(CANCEL)["caused_at"] = asked_at

        return {each for each in found_after(change) if each[1] == LEVEL}

    assert levels(LATER) == set()
    assert levels(T2) == {(Kind.DIFFERING, LEVEL)}


def test_units_restocked_before_the_count_are_no_change_when_requested_again() -> None:
    """After a restore the back office hands in again what was done long ago."""
    found = found_after(lambda world: world.command(CANCEL).update(caused_at=LATER))
    assert LEVEL not in {subject for _, subject in found}


def test_the_newest_count_of_an_article_holds() -> None:
    def change(world: World) -> None:
        be("superseded")(world)
        world.causes.insert(0, count("counts 10", 7, COUNTED_AT))

    assert (Kind.DIFFERING, LEVEL) in found_after(change)


def told_of(world: World) -> ReceivedByErp:
    assert world.told is not None
    return world.told


def orders(change: Callable[[list[Any]], object]) -> Change:
    return lambda world: change(told_of(world).orders)  # type: ignore[arg-type]  # a list of ours


def news(change: Callable[[list[Any]], object]) -> Change:
    return lambda world: change(told_of(world).news)  # type: ignore[arg-type]  # a list of ours


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (orders(lambda r: r.pop()), (Kind.LOST, "order #1003 in the ERP")),
        (
            orders(lambda r: r.append({**r[0], "order_id": "ord_9"})),
            (Kind.UNEXPECTED, "order ord_9 in the ERP"),
        ),
        (
            orders(lambda r: r[0].update(number=9)),
            (Kind.DIFFERING, "order #1001 in the ERP"),
        ),
        (
            orders(lambda r: r[1].update(status="PENDING")),
            (Kind.DIFFERING, "order #1002 in the ERP"),
        ),
        (news(lambda r: r.pop()), (Kind.LOST, f"order.cancelled of {CANCELLED}")),
        (
            news(lambda r: r.append({**r[2]})),
            (Kind.DOUBLED, f"order.placed of {OPEN}"),
        ),
        (
            news(lambda r: r.append({**r[3], "order_id": OPEN})),
            (Kind.UNEXPECTED, f"order.cancelled of {OPEN}"),
        ),
    ],
)
def test_changes_delivered_to_the_erp_are_compared_with_the_store(
    change: Change, found: tuple[Kind, str]
) -> None:
    assert found_after(change) == {found}


@pytest.mark.parametrize(
    ("is_planned", "heard", "found"),
    [
        (False, (), set()),
        (
            True,
            (),
            {
                (Kind.LOST, "order #1002 in the ERP"),
                (Kind.LOST, f"order.placed of {CANCELLED}"),
                (Kind.LOST, f"order.cancelled of {CANCELLED}"),
            },
        ),
        (
            False,
            ("order.placed",),
            {
                (Kind.LOST, "order #1002 in the ERP"),
                (Kind.LOST, f"order.cancelled of {CANCELLED}"),
            },
        ),
    ],
)
def test_an_order_cancelled_before_its_turn_is_never_delivered(
    is_planned: bool, heard: tuple[str, ...], found: set[tuple[Kind, str]]
) -> None:
    def change(world: World) -> None:
        told = told_of(world)
        told.orders[:] = [r for r in told.orders if r["order_id"] != CANCELLED]  # type: ignore[index]  # a list of ours
        told.news[:] = [  # type: ignore[index]  # a list of ours
            row
            for row in told.news
            if row["order_id"] != CANCELLED or row["topic"] in heard
        ]
        if is_planned:
            plan = {"topic": "order.placed", "instance": "erp", "state": "applied"}
            world.tables["deliveries"] = [{**plan, "object_id": CANCELLED}]

    assert found_after(change) == found


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("parked", Kind.PARKED),
        ("rejected", Kind.LOST),
        ("uncertain", Kind.DIFFERING),
        ("applied", None),
        ("superseded", None),
    ],
)
def test_undelivered_changes_are_reported(state: str, kind: Kind | None) -> None:
    def change(world: World) -> None:
        delivery = {"topic": "order.placed", "object_id": OPEN, "instance": "erp"}
        world.tables["deliveries"] = [{**delivery, "state": state, "reason": "why"}]

    subject = f"order.placed of {OPEN} to erp"
    assert found_after(change) == ({(kind, subject)} if kind else set())
