"""The Tryton side of the ledger: its sales, and its stock."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from backhaul.demo.back_office_checks import Sale, TrytonBooks
from backhaul.demo.daemon_rows import Kind
from backhaul.demo.demo_folder import TRYTON
from demo.world import CANCELLED, OPEN, SHIPPED, World, agreeing_world, command

Change = Callable[[World], object]
COUNT = "d" * 32
CAUSE = f"record {TRYTON} product LS-S"
NAME = f"count {COUNT[:8]} for prod_1"
LEVEL = "Tryton's stock of LS-S"


def world_with_a_tryton() -> World:
    """408 are for sale: of 410 in the house, two are sold and not shipped."""
    world = agreeing_world()
    told = {"topic": "order.placed", "instance": TRYTON, "state": "applied"}
    orders = (SHIPPED, CANCELLED, OPEN)
    world.tables["deliveries"] = [{**told, "object_id": each} for each in orders]
    world.tables["commands"] += [count()]
    units = {"LS-S": 2}
    states = {SHIPPED: "processing", CANCELLED: "cancelled", OPEN: "quotation"}
    sales = [Sale(order, state, units) for order, state in states.items()]
    world.tryton = TrytonBooks(sales, {"LS-S": 410})
    return world


def count() -> dict[str, object]:
    said = {"variant_id": "var_1", "quantity": 410, "as_of": "2026-03-31T10:00:03Z"}
    return command(COUNT, "target", "prod_1", said, cause=CAUSE)


def found_after(change: Change) -> set[tuple[Kind, str]]:
    world = world_with_a_tryton()
    change(world)
    return {(found.kind, found.subject) for found in world.ledger().findings}


def tryton(change: Callable[[TrytonBooks], TrytonBooks]) -> Change:
    def apply(world: World) -> None:
        assert world.tryton is not None
        world.tryton = change(world.tryton)

    return apply


def sales(change: Callable[[list[Sale]], list[Sale]]) -> Change:
    return tryton(lambda books: replace(books, sales=change([*books.sales])))


def test_an_agreeing_world_has_no_findings() -> None:
    assert world_with_a_tryton().ledger().findings == ()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (sales(lambda all_: all_[:2]), (Kind.LOST, "order #1003 in Tryton")),
        (sales(lambda all_: [all_[0], all_[2]]), (Kind.LOST, "order #1002 in Tryton")),
        (
            sales(lambda all_: [*all_, all_[2]]),
            (Kind.DOUBLED, "order #1003 in Tryton"),
        ),
        (
            sales(lambda all_: [*all_, Sale("ord_9", "draft", {})]),
            (Kind.UNEXPECTED, "sale of ord_9"),
        ),
        (
            sales(lambda all_: [*all_[:2], replace(all_[2], state="cancelled")]),
            (Kind.DIFFERING, "order #1003 in Tryton"),
        ),
        (
            sales(lambda all_: [all_[0], replace(all_[1], state="draft"), all_[2]]),
            (Kind.DIFFERING, "order #1002 in Tryton"),
        ),
        (
            sales(lambda all_: [*all_[:2], replace(all_[2], units={"LS-S": 3})]),
            (Kind.DIFFERING, "order #1003 in Tryton"),
        ),
        (
            tryton(lambda books: replace(books, on_hand={"LS-S": 409})),
            (Kind.DIFFERING, LEVEL),
        ),
        (
            tryton(lambda books: replace(books, on_hand={"LS-S": 410, "LS-M": 1})),
            (Kind.DIFFERING, "Tryton's stock of LS-M"),
        ),
    ],
)
def test_sales_in_tryton_are_compared_with_the_store(
    change: Change, found: tuple[Kind, str]
) -> None:
    assert found_after(change) == {found}


def test_an_order_cancelled_before_its_delivery_to_tryton_may_be_no_sale() -> None:
    def change(world: World) -> None:
        del world.tables["deliveries"][1]
        sales(lambda all_: [all_[0], all_[2]])(world)

    assert found_after(change) == set()


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ("applied", None),
        ("superseded", None),
        ("rejected", (Kind.LOST, CAUSE)),
        ("parked", (Kind.PARKED, NAME)),
        ("planned", (Kind.DIFFERING, NAME)),
    ],
)
def test_a_reading_of_the_stock_comes_to_an_end(
    state: str, found: tuple[Kind, str] | None
) -> None:
    def change(world: World) -> None:
        world.command(COUNT)["state"] = state

    assert found_after(change) == ({found} if found else set())
