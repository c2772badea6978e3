"""The ledger of stock: one row for each move, however often it is reported.

The `adjustment_id` identifies a move. A delivery may lack it: then the history, or the
same delivery in other bytes, reports the move again. Two reports are one move if
variant, stock afterwards and time are equal, and if change, reason and order are equal
as far as the delivery has them. The values of the history win.

With whole seconds, goods can leave, return and leave again at one time. Then deliveries
of different events are separate moves. A row belongs to at most one id and one such
event, so in the end there are as many rows as the richer source has, in any order of
arrival.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from backhaul.store.sql.dialect import batch, hint
from backhaul.store.sql.mirror.rows import KEYS, part_of_key, read_by_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backhaul.core.resources import StockChange, StockMove
    from backhaul.store.sql.family import Connection

_COLUMNS = """
    l.id, l.store, l.product_id, l.variant_id, l.at, l.stock_after, l.adjustment,
    l.reason, l.cause, l.adjustment_id, l.told_by
"""
# The + keeps SQLite from an index that returns all moves of a store.
_CANDIDATES = f"""
    SELECT {_COLUMNS} FROM {KEYS} stock_ledger l
      ON l.variant_id = {part_of_key(1)} AND l.at = {part_of_key(2)}
     AND {hint("+")}l.store = {part_of_key(0)}
    UNION
    SELECT {_COLUMNS} FROM {KEYS} stock_ledger l
      ON l.store = {part_of_key(0)} AND l.adjustment_id = {part_of_key(3)}
     AND l.variant_id = {part_of_key(1)}
    ORDER BY 1
"""  # noqa: S608 - constants
_SET_ID = batch("""
    UPDATE stock_ledger SET adjustment_id = :adjustment_id, adjustment = :adjustment,
        reason = :reason, cause = :cause, told_by = :told_by
    WHERE id = :id
""")
_SET_EVENT = batch("UPDATE stock_ledger SET told_by = :told_by WHERE id = :id")
_ADD = batch("""
    INSERT INTO stock_ledger
        (store, product_id, variant_id, adjustment, stock_after, reason, cause,
         adjustment_id, at, told_by)
    VALUES (:store, :product, :variant, :adjustment, :stock_after, :reason, :cause,
            :adjustment_id, :at, :told_by)
    ON CONFLICT (store, adjustment_id, variant_id) DO NOTHING
""")

Key: TypeAlias = tuple[str, str, str, str | None]
"""The store, the variant, the time and the `adjustment_id` of a move."""
Place: TypeAlias = tuple[str, str, str, str, int]
"""The store, the product, the variant, the time and the stock after a move."""


class Move(Struct):
    """A row of the ledger; `id` is None until it is written."""

    id: int | None
    store: str
    product: str
    variant: str
    at: str
    stock_after: int
    adjustment: int
    reason: str | None
    cause: str | None
    adjustment_id: str | None
    told_by: str | None

    @property
    def place(self) -> Place:
        """Return the values that all reports of one move share."""
        return self.store, self.product, self.variant, self.at, self.stock_after


class _State(Struct):
    """What a slice has read of the ledger, and what it changes there."""

    read: set[Key] = field(default_factory=set)
    ids: set[int] = field(default_factory=set)
    at: dict[Place, list[Move]] = field(default_factory=dict)
    by_id: dict[tuple[str, str, str], Move] = field(default_factory=dict)
    added: list[Move] = field(default_factory=list)
    identified: dict[int, Move] = field(default_factory=dict)
    reported: dict[int, Move] = field(default_factory=dict)


class Ledger:
    """The ledger as a slice of events reads and leaves it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._state = _State()

    def load(self, changes: Iterable[tuple[str, StockChange]]) -> None:
        """Read the rows that may be moves of these changes, by store."""
        state = self._state
        keys = (key for store, change in changes for key in _keys(store, change))
        missing = dict.fromkeys(key for key in keys if key not in state.read)
        if not missing:
            return
        state.read.update(missing)
        for row in read_by_keys(self._connection, _CANDIDATES, missing):
            if row[0] not in state.ids:
                state.ids.add(row[0])
                self._keep(Move(*row))

    def _keep(self, move: Move) -> None:
        self._state.at.setdefault(move.place, []).append(move)
        if move.adjustment_id is not None:
            key = move.store, move.adjustment_id, move.variant
            self._state.by_id[key] = move

    def add(self, store: str, change: StockChange, event_id: str) -> bool:
        """Add the moves of a stock change; return False if the ledger has all of them.

        `event_id` is the platform's id of the event that reports them, or empty.
        """
        self.load([(store, change)])
        added = [self._add(store, change, move, event_id) for move in change.moves]
        return any(added)

    def _add(
        self, store: str, change: StockChange, move: StockMove, event_id: str
    ) -> bool:
        id_, level = change.adjustment_id, move.level
        place = (
            store,
            change.product_id,
            level.variant_id,
            change.updated_at,
            level.stock,
        )
        known = sorted(self._state.at.get(place, ()), key=_age)
        cause = id_ if change.order_id is None else change.order_id
        if id_ is None:
            found = _reported(known, change, move, event_id)
            if found is not None:
                self._set_event(found, event_id)
                return False
        else:
            found = _without_id(known, change, move)
            is_known = (store, id_, level.variant_id) in self._state.by_id
            if found is not None and not is_known:
                self._set_id(found, id_, move, cause)
            if found is not None or is_known:
                return False
        told_by = event_id if id_ is None else None
        new = Move(None, *place, move.adjustment, move.reason, cause, id_, told_by)
        self._state.added.append(new)
        self._keep(new)
        return True

    def _set_event(self, move: Move, event_id: str) -> None:
        if move.told_by is None:
            move.told_by = event_id
            if move.id is not None:
                self._state.reported[move.id] = move

    def _set_id(
        self, found: Move, id_: str, move: StockMove, cause: str | None
    ) -> None:
        found.adjustment_id, found.adjustment = id_, move.adjustment
        found.reason, found.cause = move.reason, cause
        self._state.by_id[found.store, id_, found.variant] = found
        if found.id is not None:
            self._state.identified[found.id] = found

    def flush(self) -> None:
        """Write what was added and changed."""
        state, self._state = self._state, _State()
        reported = [
            m for id_, m in state.reported.items() if id_ not in state.identified
        ]
        for statement, moves in (
            (_SET_ID, [*state.identified.values()]),
            (_SET_EVENT, reported),
            (_ADD, state.added),
        ):
            if moves:
                values = [
                    {name: getattr(move, name) for name in move.__struct_fields__}
                    for move in moves
                ]
                self._connection.executemany(statement, values)


def _age(move: Move) -> float:
    """Return the sort key of rows in the order in which they were added."""
    return inf if move.id is None else move.id


def _keys(store: str, change: StockChange) -> Iterator[Key]:
    for move in change.moves:
        variant = move.level.variant_id
        yield store, variant, change.updated_at, change.adjustment_id


def _without_id(
    known: Iterable[Move], change: StockChange, move: StockMove
) -> Move | None:
    """Return the first row without an id that may be a move of a change with one."""
    return next(
        (
            one
            for one in known
            if one.adjustment_id is None
            and one.adjustment in (0, move.adjustment)
            and one.reason in ("", move.reason)
            and (one.cause is None or one.cause == change.order_id)
        ),
        None,
    )


def _reported(
    known: Iterable[Move], change: StockChange, move: StockMove, event_id: str
) -> Move | None:
    """Return the row that an event without an id reports, best the event's own row.

    A row without `told_by` was reported with an id only, or by an earlier version.
    """
    fitting = (
        one
        for one in known
        if (move.adjustment in (0, one.adjustment))
        and (move.reason == "" or (move.reason == one.reason))
        and (change.order_id is None or one.cause == change.order_id)
        and (one.told_by in (None, event_id) or not one.at.endswith(".000Z"))
    )
    return min(
        fitting,
        key=lambda one: (one.told_by != event_id, one.told_by is not None),
        default=None,
    )
