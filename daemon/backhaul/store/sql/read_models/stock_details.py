"""What a list of stock shows of each variant: its stock, pushes and last movement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from backhaul.store.sql.commands.asked import locators
from backhaul.store.sql.dialect import member
from backhaul.store.sql.mirror.rows import KEYS, key_is, part_of_key, read_by_keys
from backhaul.store.stock_lists import ListedStock, PushState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backhaul.store.sql.family import Connection

Variant: TypeAlias = "tuple[str, str, str]"
"""The store, the product and the id of a variant."""
NEWEST_TARGET = """
    SELECT n.id FROM stock_targets n
    WHERE n.variant_id = {variant} AND n.store = {store}
    ORDER BY n.as_of DESC, n.seq DESC LIMIT 1
"""
"""The newest stock target of a variant: a newer one replaces those before it."""
_NEWEST_OF_KEY = NEWEST_TARGET.format(variant=part_of_key(2), store=part_of_key(0))
_OWN = f"""
    SELECT v.store, v.sku, p.title AS product, v.title AS variant, l.stock,
           l.updated_at AS since, v.barcode, v.product_id, v.id AS variant_id
    FROM {KEYS} variants v ON {key_is("v", ("store", "product_id", "id"))}
    LEFT JOIN inventory_levels l ON l.store = v.store AND l.variant_id = v.id
    LEFT JOIN products p ON p.store = v.store AND p.id = v.product_id
"""  # noqa: S608 - constants
_OWN_NAMES = (
    *("store", "sku", "product", "variant", "stock", "since", "barcode"),
    *("product_id", "variant_id"),
)
_TARGETS = f"""
    SELECT t.store, t.variant_id, t.id, t.state, t.quantity, t.as_of, t.instance
    FROM {KEYS} stock_targets t ON t.id = ({_NEWEST_OF_KEY})
"""  # noqa: S608 - constants
_ADJUSTED = member("c.payload", "$.variant_id")
_TARGET = member("c.payload", "$.target")
MOST_PARKED = 1_000
"""The newest parked commands that are searched for adjustments."""
_OPEN = f"""
    SELECT c.store, {_ADJUSTED} AS variant_id, c.id, c.state
    FROM {KEYS} commands c
      ON c.store = {part_of_key(0)} AND c.lane = 'product:' || {part_of_key(1)}
     AND c.state IN ('planned', 'sending', 'uncertain')
    WHERE c.kind = 'adjust'
"""  # noqa: S608 - constants
_PARKED = f"""
    SELECT c.store, {_ADJUSTED} AS variant_id, c.id, c.state
    FROM (SELECT * FROM commands WHERE state = 'parked'
          ORDER BY seq DESC LIMIT {MOST_PARKED}) c
    WHERE c.kind = 'adjust'
"""  # noqa: S608 - constants
_MOVES = f"""
    SELECT m.store, m.variant_id, m.reason, o.name, o.id, c.id, c.instance,
           {_TARGET} AS target
    FROM {KEYS} stock_ledger m ON m.id = (
      SELECT n.id FROM stock_ledger n
      WHERE n.variant_id = {part_of_key(2)} AND n.store = {part_of_key(0)}
      ORDER BY n.at DESC, n.id DESC LIMIT 1)
    LEFT JOIN orders o ON o.store = m.store AND o.id = m.cause
    LEFT JOIN commands c ON c.store = m.store AND c.effect_id = m.adjustment_id
"""  # noqa: S608 - constants
_URGENT = (PushState.UNCERTAIN, PushState.PARKED, PushState.HELD, PushState.ADJUSTING)
"""Of several things that are pushed for one variant, the first of these is shown."""
_ADJUSTMENTS = {
    "planned": PushState.ADJUSTING,
    "sending": PushState.ADJUSTING,
    "uncertain": PushState.UNCERTAIN,
    "parked": PushState.PARKED,
}


class _Push(NamedTuple):
    """Something that is pushed, or how it ended, and the id of its command."""

    state: str
    command: str

    @property
    def rank(self) -> int:
        if self.state in _URGENT:
            return _URGENT.index(PushState(self.state))
        return len(_URGENT) + (self.state != PushState.WAITING)


Key: TypeAlias = "tuple[str, str]"


def with_details(
    connection: Connection, variants: Sequence[Variant]
) -> list[ListedStock]:
    """Return rows of the list for these variants, in any order."""
    if not variants:
        return []
    rows = {
        (row[0], row[-1]): ListedStock(**dict(zip(_OWN_NAMES, row, strict=True)))
        for row in read_by_keys(connection, _OWN, variants)
    }
    pushes: dict[Key, list[_Push]] = {key: [] for key in rows}
    for store, id_, target, state, quantity, as_of, instance in read_by_keys(
        connection, _TARGETS, variants
    ):
        pushes[store, id_].append(_Push(state, target))
        counted = {"counted": quantity, "counted_at": as_of, "counted_by": instance}
        rows[store, id_] = replace(rows[store, id_], **counted)
    for store, id_, command, state in _adjustments(connection, variants):
        if (store, id_) in pushes:
            pushes[store, id_].append(_Push(_ADJUSTMENTS[state], command))
    for key, found in pushes.items():
        if found:
            shown = min(found, key=lambda push: push.rank)
            rows[key] = replace(rows[key], push=shown.state, command=shown.command)
    return _with_moves(connection, variants, rows)


def _adjustments(
    connection: Connection, variants: Iterable[Variant]
) -> Iterable[Sequence[Any]]:
    products = dict.fromkeys((store, product) for store, product, _ in variants)
    yield from read_by_keys(connection, _OPEN, products)
    yield from connection.execute(_PARKED, {})


def _with_moves(
    connection: Connection, variants: Sequence[Variant], rows: dict[Key, ListedStock]
) -> list[ListedStock]:
    """Return the rows with the last movement of each variant, and its origin."""
    moves = read_by_keys(connection, _MOVES, variants)
    ids = [target or command for *_, command, _, target in moves if command]
    places = locators(connection, ids) if ids else {}
    for store, id_, reason, order, order_id, command, instance, target in moves:
        rows[store, id_] = replace(
            rows[store, id_],
            reason=reason,
            order=order,
            order_id=order_id,
            changed_by=command,
            source=instance,
            locator=places.get(target or command or "") or None,
        )
    return list(rows.values())
