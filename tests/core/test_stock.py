"""How an adjustment is calculated from a stock count, and what must be explained."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from backhaul.core.clock import from_text, to_text
from backhaul.core.stock import (
    Count,
    Movement,
    PendingMove,
    Policy,
    Reservation,
    StockSnapshot,
    compute,
    misdirected_variants,
    reach_back,
    review_reason,
    understand,
)

AS_OF = "2026-03-01T12:00:00.500Z"
EARLIER, LATER = "2026-03-01T11:59:00.000Z", "2026-03-01T12:01:00.000Z"
SAME_SECOND = "2026-03-01T12:00:00.000Z"
COUNT = Count(10, AS_OF)
ON_HAND = Policy(quantity_means="on_hand")


def moved(at: str, delta: int, after: int = 0, **members: object) -> Movement:
    return replace(Movement(at, delta, after, "order #1"), **members)


@pytest.mark.parametrize(
    ("movement", "target"),
    [
        (moved(LATER, -3), 7),
        (moved(LATER, 4), 14),
        (moved(EARLIER, -3), 10),
        (moved(SAME_SECOND, -3), 7),
        (moved(SAME_SECOND, 3), 10),
        (moved(AS_OF, -3), 7),
        (moved(AS_OF, 3), 10),
        (moved(LATER, -3, is_correction=True), 10),
        (moved(LATER, -3, caused_at=EARLIER), 10),
        (moved(LATER, -3, caused_at=LATER), 7),
        (moved(EARLIER, -3, caused_at=LATER), 10),
        (moved(LATER, -30), 0),
    ],
)
def test_only_moves_unknown_to_the_count_change_it(
    movement: Movement, target: int
) -> None:
    shelf = StockSnapshot(level=5, mirrored=5, movements=(movement,))
    found = compute(COUNT, shelf, Policy())
    assert (found.target, found.delta) == (target, target - 5)


def test_a_move_pending_before_the_count_is_left_pending() -> None:
    promises = (PendingMove("a", -2, EARLIER), PendingMove("b", 5, LATER))
    found = compute(COUNT, StockSnapshot(12, 12, promises=promises), Policy())
    assert (found.promised, found.delta) == (-2, 0)
    assert "12 there, -2 on its way: nothing to do" in found.in_words()


def test_reservations_reduce_only_the_units_on_hand() -> None:
    shelf = StockSnapshot(10, 10, reserved=(Reservation("#1", 3),))
    assert compute(COUNT, shelf, ON_HAND).target == 7
    assert compute(COUNT, shelf, Policy()).target == 10
    assert compute(COUNT, shelf, replace(ON_HAND, buffer=9)).target == 0


def test_a_reserved_order_is_subtracted_once_whenever_its_stock_left() -> None:
    held = (Reservation("#1", 3),)
    for at in (EARLIER, SAME_SECOND, AS_OF, LATER):
        shelf = StockSnapshot(7, 7, movements=(moved(at, -3),), reserved=held)
        assert compute(COUNT, shelf, ON_HAND).target == 7
    back = (moved(AS_OF, -3), moved(LATER, 3))
    cancelled = StockSnapshot(10, 10, movements=back, reserved=held)
    assert compute(COUNT, cancelled, ON_HAND).target == 10
    other = StockSnapshot(
        5, 5, movements=(moved(LATER, -2, cause="order #2"),), reserved=held
    )
    assert compute(COUNT, other, ON_HAND).target == 5


def test_nothing_was_before_the_first_year() -> None:
    first = replace(COUNT, as_of="0001-01-01T00:00:00.000Z")
    assert reach_back(first, Policy(unseen_seconds=90)) == first.as_of


def test_a_sale_just_before_the_count_may_be_unseen() -> None:
    shelf = StockSnapshot(9, 9, movements=(moved(EARLIER, -1, 9),))
    policy = Policy(unseen_seconds=90)
    assert reach_back(COUNT, policy) < EARLIER < reach_back(COUNT, Policy())
    assert compute(COUNT, shelf, policy).target == 9
    assert compute(COUNT, shelf, replace(policy, quantity_means="on_hand")).target == 10


@pytest.mark.parametrize(
    ("shelf", "said"),
    [
        (StockSnapshot(7, 7), None),
        (StockSnapshot(7, 8), "the mirror 8"),
        (StockSnapshot(7, None), "the mirror None"),
        (
            StockSnapshot(7, 7, (moved(LATER, -1, 7),)),
            "not known whether the level was 8",
        ),
        (StockSnapshot(7, 7, (moved(LATER, -1, 7),), is_studied=True), None),
        (StockSnapshot(7, 7, (moved(LATER, -1, 8),)), "do not lead to 7"),
        (StockSnapshot(7, 7, (moved(LATER, -1, 7),), frozenset({8})), None),
        (StockSnapshot(7, 7, (moved(LATER, -1, 7),), frozenset({9})), "begin at 8"),
        (StockSnapshot(7, 7, (), frozenset({9, 7})), None),
        (StockSnapshot(7, 7, (), frozenset({9})), "the level before them was 9"),
        (StockSnapshot(7, 7, moved_at=LATER), "no movement shows it"),
        (StockSnapshot(7, 7, moved_at=LATER, is_proved=True), None),
        (StockSnapshot(7, 7, moved_at=EARLIER), None),
        (StockSnapshot(7, 7, unheard="nothing was heard"), "nothing was heard"),
    ],
)
def test_a_level_must_be_explained(shelf: StockSnapshot, said: str | None) -> None:
    found = understand(COUNT, shelf)
    if said is None:
        assert found == shelf
    else:
        assert isinstance(found, str)
        assert said in found


def test_a_lost_sale_is_read_from_its_order_where_that_closes_the_gap() -> None:
    sale = Movement(LATER, -3, None, "order #2")
    shelf = StockSnapshot(6, 6, anchors=frozenset({9}), untold=(sale,))
    understood = understand(COUNT, shelf)
    assert isinstance(understood, StockSnapshot)
    assert compute(COUNT, understood, Policy()).target == 7
    assert isinstance(understand(COUNT, replace(shelf, level=5, mirrored=5)), str)
    fits = replace(shelf, level=9, mirrored=9)
    assert understand(COUNT, fits) == fits


def test_a_sale_lost_before_the_first_movement_is_read_from_its_order() -> None:
    """Without a history nothing shows that the stock was 8 before, and not 9."""
    sale = Movement("2026-03-01T12:00:30.000Z", -1, None, "order #1")
    shelf = StockSnapshot(7, 7, (moved(LATER, -1, 7),), untold=(sale,), is_studied=True)
    understood = understand(COUNT, shelf)
    assert isinstance(understood, StockSnapshot)
    assert compute(COUNT, understood, Policy()).target == 8
    for known in (
        replace(shelf, is_proved=True),
        replace(shelf, anchors=frozenset({8})),
        replace(shelf, untold=(replace(sale, at="2026-03-01T12:02:00.000Z"),)),
    ):
        assert understand(COUNT, known) == known


@pytest.mark.parametrize(
    ("quantity", "policy", "age_hours", "said"),
    [
        (10, Policy(), 1, None),
        (10, Policy(max_step=5), 1, None),
        (16, Policy(max_step=5), 1, "max_step = 5"),
        (4, Policy(max_step=5), 1, "max_step = 5"),
        (10, Policy(stale_seconds=3_600), 2, "2.0 hours ago"),
        (10, Policy(stale_seconds=3_600), 1, None),
        (10, Policy(), -1, "in the future"),
        (2_000_000, Policy(), 1, "adjustments of up to"),
    ],
)
def test_a_gap_that_is_too_strange_is_left_to_an_operator(
    quantity: int, policy: Policy, age_hours: int, said: str | None
) -> None:
    found = compute(Count(quantity, AS_OF), StockSnapshot(10, 10), policy)
    now = from_text(AS_OF) + timedelta(hours=age_hours)
    reason = review_reason(found, policy, now)
    assert (reason is None) == (said is None)
    assert said is None or said in str(reason)


def test_a_variant_that_moves_with_another_is_a_stray() -> None:
    expected = {"a": {5}, "b": {5}}
    assert misdirected_variants(-2, {"a": 5, "b": 4}, expected, ()) == []
    assert misdirected_variants(-2, {"a": 5, "b": 3, "new": 3}, expected, ()) == ["b"]
    assert misdirected_variants(-2, {"a": 5, "b": 5}, expected, ("c",)) == ["c"]


def test_a_level_that_something_else_may_explain_is_no_stray() -> None:
    """A sale of 2 arrived late: it happened before the level of 5 was read."""
    assert misdirected_variants(2, {"a": 5}, {"a": {3, 5}}, ()) == []
    assert misdirected_variants(2, {"a": 7}, {"a": {5}}, ()) == ["a"]


DELTAS = st.lists(st.sampled_from([-5, -2, -1, 1, 3]), max_size=8)


@given(st.integers(0, 50), DELTAS, DELTAS, st.integers(0, 100), st.integers(0, 99))
def test_an_adjustment_leads_to_the_count_and_later_moves(
    stock: int, before: list[int], after: list[int], quantity: int, seed: int
) -> None:
    """The order of the movements does not matter; a missing one is detected."""
    level, moves = stock, []
    for number, delta in enumerate([*before, *after]):
        level += delta
        hour = 11 if number < len(before) else 13
        at = to_text(from_text(f"2026-03-01T{hour}:00:00Z") + timedelta(seconds=number))
        moves.append(moved(at, delta, level))
    Random(seed).shuffle(moves)  # noqa: S311 - repeatable, and guards nothing
    shelf = StockSnapshot(level, level, tuple(moves), anchors=frozenset({stock}))
    assert understand(Count(quantity, AS_OF), shelf) == shelf
    found = compute(Count(quantity, AS_OF), shelf, Policy())
    assert level + found.delta == max(quantity + sum(after), 0)
    if moves:
        lost = replace(shelf, movements=tuple(moves[1:]))
        assert isinstance(understand(Count(quantity, AS_OF), lost), str)
