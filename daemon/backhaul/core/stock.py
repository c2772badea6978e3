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
"""How far in the future a stock count may be dated: clocks differ."""
LARGEST_ADJUSTMENT = 1_000_000
"""Largest adjustment that the platform accepts."""
ADJUSTMENT_REASON = "MANUAL_ADJUSTMENT"
"""Reason sent with the adjustment of a stock count; every platform accepts it."""


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
    """How to read one back office's stock counts, and which need an operator."""

    quantity_means: Literal["available", "on_hand"] = "available"
    buffer: int = 0
    max_step: int | None = None
    stale_seconds: float | None = None
    unseen_seconds: float = 0.0
    """Order lag: how long an order may take to reach the back office."""


class ListedLevel(NamedTuple):
    """A stock target from the same list as another: its quantity and its row.

    `can_withdraw` is True if it has not changed the store's stock and no request for it
    may still do so. `withdrawn` is True if another row contradicted it before.
    """

    command_id: str
    quantity: int
    locator: str
    can_withdraw: bool
    withdrawn: bool


class Count(Struct, frozen=True):
    """A stock count of the back office: the units it had at `as_of`."""

    quantity: int
    as_of: str


class Movement(Struct, frozen=True):
    """A change of stock on the platform, or a sale that only its order shows.

    `after` is None for such a sale. `is_correction` marks the adjustment of a stock
    count. `caused_at` is when our command behind the change was requested.
    """

    at: str
    delta: int
    after: int | None
    cause: str
    is_correction: bool = False
    caused_at: str | None = None


class PendingMove(Struct, frozen=True):
    """A command that will still move the stock by `delta`, requested at `caused_at`."""

    command: str
    delta: int
    caused_at: str


class Reservation(Struct, frozen=True):
    """Units of an order that were sold and not shipped when the back office counted."""

    order: str
    units: int


class StockSnapshot(Struct, frozen=True):
    """Everything known about one variant's stock at one time.

    `anchors` are the levels that may have come last before the movements: several if
    there were several moves at one time, none if nothing older is known. `untold` are
    sales that only their orders show. `unheard` names an adjustment of our own that is
    not among the movements yet. `moved_at` is when the stock last changed. `is_proved`
    is True if the platform's history since the stock count was read, `is_studied` if it
    was requested, though there may be none. `is_pre_restore` is True if the stock count
    is older than a restore of the database, and no operator has released it since.
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
    is_pre_restore: bool = False


class ProductStock(Struct, frozen=True):
    """A product's stock levels; `is_proved` if the history since then was read.

    `is_studied` is True if the history was requested and, where there is none, the
    orders were read.
    """

    levels: Mapping[str, int]
    is_proved: bool = False
    is_studied: bool = False


class Computation(Struct, frozen=True):
    """How a stock count became an adjustment, stored as evidence for `why`."""

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
        """Return one sentence that explains the adjustment."""
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


def compute(count: Count, stock: StockSnapshot, policy: Policy) -> Computation:
    """Return the adjustment that applies a stock count to the platform's stock now."""
    before = tuple(p for p in stock.promises if p.caused_at <= count.as_of)
    orders = stock.reserved if policy.quantity_means == "on_hand" else ()
    held = {f"order {order.order}" for order in orders}
    counted = tuple(
        m
        for m in stock.movements
        # The stock may leave later than the order came; its units leave only once.
        if _is_uncounted(m, count, policy) and not (m.delta < 0 and m.cause in held)
    )
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
        level=stock.level,
        promised=promised,
        delta=target - stock.level - promised,
        movements=counted,
        promises=before,
        orders=orders,
    )


def reach_back(count: Count, policy: Policy) -> str:
    """Return the time from which, inclusive, movements matter to a stock count."""
    since = to_text(from_text(count.as_of).replace(microsecond=0))
    if policy.quantity_means == "available":
        since = earlier(since, timedelta(seconds=policy.unseen_seconds))
    return since


def _is_uncounted(movement: Movement, count: Count, policy: Policy) -> bool:
    """Return True if the stock count does not include a movement."""
    if movement.is_correction:
        return False
    if movement.caused_at is not None:
        # After a restore its record may have been submitted again, long after it moved.
        return min(movement.caused_at, movement.at) > count.as_of
    if movement.at > count.as_of:
        return True
    if movement.delta > 0:
        return False
    return _may_be_later(movement.at, count.as_of) or (
        policy.quantity_means == "available"
        and policy.unseen_seconds > 0
        and movement.at >= reach_back(count, policy)
    )


def _may_be_later(at: str, as_of: str) -> bool:
    """Return True if `at`, not after `as_of`, may be rounded down from a later time.

    Both have milliseconds, and platforms may report whole seconds. Such a sale is then
    subtracted: overselling is worse than holding back one unit until the next count.
    """
    return at == as_of or (at.endswith(".000Z") and at[:19] == as_of[:19])


def understand(count: Count, stock: StockSnapshot) -> StockSnapshot | str:
    """Return the snapshot with movements that lead to its level, or what is missing.

    A sale whose movement was lost is taken from its order if that closes the gap.
    """
    if stock.mirrored != stock.level:
        return f"the platform has {stock.level}, the mirror {stock.mirrored}"
    missing = stock.unheard or _gap(count, stock)
    if not missing:
        return stock if stock.anchors or stock.is_proved else _with_first_sales(stock)
    sold = sum(sale.delta for sale in stock.untold)
    before = replace(stock, level=stock.level - sold)
    is_held = stock.anchors or stock.movements
    if sold and not stock.unheard and is_held and _gap(count, before) is None:
        return replace(stock, movements=stock.movements + stock.untold)
    return missing


def _with_first_sales(stock: StockSnapshot) -> StockSnapshot:
    """Add the sales whose movements were lost before the first known one.

    They leave no gap, because the level before that movement is not known.
    """
    first = min((move.at for move in stock.movements), default="")
    lost = tuple(sale for sale in stock.untold if sale.at < first)
    return replace(stock, movements=stock.movements + lost) if lost else stock


def _gap(count: Count, stock: StockSnapshot) -> str | None:
    """Return what is missing between movements and level; None if nothing is."""
    start = _start(stock.level, stock.movements)
    if start is None:
        return f"the known movements do not lead to {stock.level}"
    if stock.anchors and start not in stock.anchors:
        known = ", ".join(map(str, sorted(stock.anchors)))
        return f"the movements begin at {start}, but the level before them was {known}"
    if stock.anchors or stock.is_proved:
        return None
    if stock.movements:
        unknown = f"it is not known whether the level was {start} at the stock count"
        return None if stock.is_studied else unknown
    if stock.moved_at > count.as_of:
        return f"the stock changed at {stock.moved_at}, but no movement shows it"
    return None


def _start(level: int, moves: Sequence[Movement]) -> int | None:
    """Return the level from which all moves lead to `level`; None if there is none.

    Each move leads from one level to another; their order is not known.
    """
    ends = Counter([level])
    for move in moves:
        after = move.after or 0
        ends[after - move.delta] += 1
        ends[after] -= 1
    left = {level: number for level, number in ends.items() if number}
    if len(left) != 1:
        return None
    ((start, number),) = left.items()
    return start if number == 1 else None


def review_reason(
    computation: Computation, policy: Policy, now: datetime
) -> str | None:
    """Return why an operator must review an adjustment first; None if not."""
    if abs(computation.delta) > LARGEST_ADJUSTMENT:
        return f"the platform accepts adjustments of up to {LARGEST_ADJUSTMENT:,} units"
    if policy.max_step is not None and abs(computation.delta) > policy.max_step:
        return f"the adjustment is larger than max_step = {policy.max_step}"
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
    """Return variants that an adjustment moved although it was for another one.

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
