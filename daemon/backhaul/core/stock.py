"""Computes the stock adjustment that turns the platform's stock into a count."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from backhaul.core.clock import earlier, from_text, to_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

AHEAD_SECONDS = 300.0
"""How far a count may seem to lie in the future: clocks differ."""
LARGEST_ADJUSTMENT = 1_000_000
"""Largest adjustment the platform takes."""
ADJUSTMENT_REASON = "MANUAL_ADJUSTMENT"
"""Why a count's step is made, as the platform is told: all know this one reason."""


class ListEnd(NamedTuple):
    """The end of a full stock list: what it leaves out is 0, up to a share.

    `listed_at` is when it was written, `rows` how many it has. `counted_at` is the
    latest time at which one of its articles was counted, empty if that is not known.
    """

    listed_at: str
    rows: int
    absent_limit: float
    counted_at: str = ""


class Policy(Struct, frozen=True):
    """How the counts of one back office are to be read, and what is too strange."""

    quantity_means: Literal["available", "on_hand"] = "available"
    buffer: int = 0
    max_step: int | None = None
    stale_seconds: float | None = None
    unseen_seconds: float = 0.0
    """How long an order may be placed before the back office knows of it."""


class ListedLevel(NamedTuple):
    """A stock target from the same list as another: what the list said, and where.

    One that `can_withdraw` has not changed the store's stock, nor may have. One that is
    `withdrawn` was contradicted before.
    """

    command_id: str
    quantity: int
    locator: str
    can_withdraw: bool
    withdrawn: bool


class Count(Struct, frozen=True):
    """What the back office says: so many units at `as_of`."""

    quantity: int
    as_of: str


class Movement(Struct, frozen=True):
    """A change of stock on the platform, or a sale that only its order tells of.

    `after` is None where only the order tells. `is_correction` marks the step of a
    count; `caused_at` is when a command of ours was asked for that made it.
    """

    at: str
    delta: int
    after: int | None
    cause: str
    is_correction: bool = False
    caused_at: str | None = None


class PendingMove(Struct, frozen=True):
    """A command that will still move the stock, by `delta`, asked for at that time."""

    command: str
    delta: int
    caused_at: str


class Reservation(Struct, frozen=True):
    """Units of an order that were sold and not shipped when the back office counted."""

    order: str
    units: int


class StockSnapshot(Struct, frozen=True):
    """All that is known of one variant's stock at one moment.

    `anchors` are the levels that may have been the last before the movements: several,
    where one moment saw several moves; none, where nothing older is known. `untold` are
    sales that only their orders tell of; `unheard` names a step of ours that is not
    among the movements yet. `moved_at` is when the stock last changed; `is_proved`
    tells that the platform's history since the count was read, `is_studied` that it was
    asked for: there may be none.
    """

    level: int
    mirrored: int | None
    movements: tuple[Movement, ...] = ()
    anchors: frozenset[int] = frozenset()
    promises: tuple[PendingMove, ...] = ()
    reserved: tuple[Reservation, ...] = ()
    moved_at: str = ""
    untold: tuple[Movement, ...] = ()
    unheard: str = ""
    is_proved: bool = False
    is_studied: bool = False


class ProductStock(Struct, frozen=True):
    """A product's levels; `is_proved` when the history since then was read.

    `is_studied` when it was asked for, and, where there is none, the orders were read.
    """

    levels: Mapping[str, int]
    is_proved: bool = False
    is_studied: bool = False


class Computation(Struct, frozen=True):
    """How a count became a step, kept as evidence for whoever asks why."""

    quantity: int
    as_of: str
    moved: int
    reserved: int
    buffer: int
    target: int
    level: int
    promised: int
    delta: int
    movements: tuple[Movement, ...] = field(default=())
    promises: tuple[PendingMove, ...] = field(default=())
    orders: tuple[Reservation, ...] = field(default=())

    def in_words(self) -> str:
        """Return one sentence that answers: why is it so many?"""
        return f"{'; '.join(self._parts())}: {self.target} wanted; {self._step()}"

    def _parts(self) -> Iterator[str]:
        yield f"{self.quantity} counted as of {self.as_of}"
        if self.moved:
            since = "came" if self.moved > 0 else "left"
            yield f"{abs(self.moved)} {since} since"
        if self.reserved:
            yield f"{self.reserved} sold and not shipped then"
        if self.buffer:
            yield f"{self.buffer} kept back"

    def _step(self) -> str:
        there = f"{self.level} there"
        if self.promised:
            there += f", {self.promised:+d} on its way"
        return f"{there}: {self.delta:+d}" if self.delta else f"{there}: nothing to do"


def compute(count: Count, shelf: StockSnapshot, policy: Policy) -> Computation:
    """Return the step that makes the platform's stock what the count means now."""
    counted = tuple(m for m in shelf.movements if _is_news(m, count, policy))
    before = tuple(p for p in shelf.promises if p.caused_at <= count.as_of)
    orders = shelf.reserved if policy.quantity_means == "on_hand" else ()
    moved, promised = sum(m.delta for m in counted), sum(p.delta for p in before)
    reserved = sum(order.units for order in orders)
    target = max(count.quantity + moved - reserved - policy.buffer, 0)
    return Computation(
        quantity=count.quantity,
        as_of=count.as_of,
        moved=moved,
        reserved=reserved,
        buffer=policy.buffer,
        target=target,
        level=shelf.level,
        promised=promised,
        delta=target - shelf.level - promised,
        movements=counted,
        promises=before,
        orders=orders,
    )


def reach_back(count: Count, policy: Policy) -> str:
    """Return since when movements matter to a count; those of that moment do."""
    since = to_text(from_text(count.as_of).replace(microsecond=0))
    if policy.quantity_means == "available":
        since = earlier(since, timedelta(seconds=policy.unseen_seconds))
    return since


def _is_news(movement: Movement, count: Count, policy: Policy) -> bool:
    """Tell whether the count did not know of a movement."""
    if movement.is_correction:
        return False
    if movement.caused_at is not None:
        # After a restore its record may have been handed in anew, long after it moved.
        return min(movement.caused_at, movement.at) > count.as_of
    if movement.at > count.as_of:
        return True
    if movement.delta > 0:
        return False
    return _is_same_second(movement.at, count.as_of) or (
        policy.quantity_means == "available"
        and policy.unseen_seconds > 0
        and movement.at >= reach_back(count, policy)
    )


def _is_same_second(at: str, as_of: str) -> bool:
    """Tell whether `at` is a whole second that may hide a moment after `as_of`.

    Platforms may tell whole seconds. What left the shelf is then taken off: to sell
    what is not there is worse than to hold one back until the next count.
    """
    return at.endswith(".000Z") and at[:19] == as_of[:19]


def understand(count: Count, shelf: StockSnapshot) -> StockSnapshot | str:
    """Return the shelf with movements that lead to its level, or say what is missing.

    A sale whose movement was lost is taken from its order, where that closes the gap.
    """
    if shelf.mirrored != shelf.level:
        return f"the platform has {shelf.level}, the mirror {shelf.mirrored}"
    missing = shelf.unheard or _gap(count, shelf)
    if not missing:
        return shelf if shelf.anchors or shelf.is_proved else _with_first_sales(shelf)
    sold = sum(sale.delta for sale in shelf.untold)
    before = replace(shelf, level=shelf.level - sold)
    is_held = shelf.anchors or shelf.movements
    if sold and not shelf.unheard and is_held and _gap(count, before) is None:
        return replace(shelf, movements=shelf.movements + shelf.untold)
    return missing


def _with_first_sales(shelf: StockSnapshot) -> StockSnapshot:
    """Add the sales whose movements were lost before the first that is known.

    They leave no gap: what was there before that movement is not known.
    """
    first = min((move.at for move in shelf.movements), default="")
    lost = tuple(sale for sale in shelf.untold if sale.at < first)
    return replace(shelf, movements=shelf.movements + lost) if lost else shelf


def _gap(count: Count, shelf: StockSnapshot) -> str | None:
    """Say what is missing between the movements and the level."""
    start = _start(shelf.level, shelf.movements)
    if start is None:
        return f"the movements that are known do not lead to {shelf.level}"
    if shelf.anchors and start not in shelf.anchors:
        known = ", ".join(map(str, sorted(shelf.anchors)))
        return f"the movements begin at {start}, and it was {known} before them"
    if shelf.anchors or shelf.is_proved:
        return None
    if shelf.movements:
        unknown = f"it is not known whether {start} was there when it was counted"
        return None if shelf.is_studied else unknown
    if shelf.moved_at > count.as_of:
        return f"the stock changed at {shelf.moved_at}, and no movement tells of it"
    return None


def _start(level: int, moves: Sequence[Movement]) -> int | None:
    """Return where a way through all moves to `level` begins; None where there is none.

    Each move leads from one level to another; in which order is not told.
    """
    ends = Counter([level])
    for move in moves:
        after = move.after or 0
        ends[after - move.delta] += 1
        ends[after] -= 1
    left = {stock: number for stock, number in ends.items() if number}
    if len(left) != 1:
        return None
    ((start, number),) = left.items()
    return start if number == 1 else None


def review_reason(
    computation: Computation, policy: Policy, now: datetime
) -> str | None:
    """Say why a step is to be looked at by a person first."""
    if abs(computation.delta) > LARGEST_ADJUSTMENT:
        return f"the platform takes steps up to {LARGEST_ADJUSTMENT:,}"
    if policy.max_step is not None and abs(computation.delta) > policy.max_step:
        return f"the step is larger than max_step = {policy.max_step}"
    age_seconds = (now - from_text(computation.as_of)) / timedelta(seconds=1)
    if age_seconds < -AHEAD_SECONDS:
        return "it was counted in the future: a clock is wrong"
    if policy.stale_seconds is not None and age_seconds > policy.stale_seconds:
        return f"it was counted {age_seconds / 3_600:.1f} hours ago: a stale source"
    return None


def misdirected_variants(
    delta: int,
    seen: Mapping[str, int],
    expected: Mapping[str, Collection[int]],
    shown_by: Collection[str],
) -> list[str]:
    """Return variants that a step moved although it was addressed to another.

    `seen` are the levels read back, `expected` those that everything else may explain;
    `shown_by` are variants that the platform itself names with the step.
    """
    moved = (
        variant
        for variant, level in seen.items()
        if variant in expected
        and all(level - known == delta for known in expected[variant])
    )
    return sorted({*shown_by, *moved})
