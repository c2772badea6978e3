"""The list of stock, page by page: first which variants, then what is known of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.store.filters import Sort
from backhaul.store.sql import selection
from backhaul.store.sql.dialect import hint, member
from backhaul.store.sql.mirror.rows import NEWEST
from backhaul.store.sql.read_models.stock_details import NEWEST_TARGET, with_details
from backhaul.store.sql.schema.inbox_and_mirror import ORDER_STORE, STOCK_SKU
from backhaul.store.sql.selection import all_words, as_list, given, where
from backhaul.store.stock_lists import PushState, StockPage, StockPlace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backhaul.store.filters import Filter
    from backhaul.store.sql.family import Connection

MOST_PUSHED = 1_000
"""The stock targets, and the open commands, that a page of one state reads."""
_VARIANT = member("c.payload", "$.variant_id")
_IS_OWN = f"{member('c.payload', '$.target')} IS NULL"
"""Whether an adjustment `c` belongs to a record, and to no stock target."""
# What keeps a page fast while many commands of another kind are open.
_ADJUSTS = """
    SELECT {columns} FROM (SELECT * FROM commands WHERE {state} LIMIT {most}) c
    WHERE c.kind = 'adjust'
"""
# Without these words no engine would use the index that has only open rows.
_IS_OPEN = "state IN ('planned', 'sending', 'uncertain')"
_IS_NEWEST = f"t.id = ({NEWEST_TARGET.format(variant='t.variant_id', store='t.store')})"
_TARGETS: Mapping[PushState, str] = {
    PushState.WAITING: "t.state = 'waiting'",
    PushState.HELD: "t.state = 'held'",
    PushState.PARKED: "t.state = 'parked'",
}
"""The stock targets in each state that they can have."""
_COMMANDS: Mapping[PushState, str] = {
    PushState.ADJUSTING: f"state IN ('planned', 'sending') AND {_IS_OPEN}",
    PushState.UNCERTAIN: "state = 'uncertain'",
    PushState.PARKED: "state = 'parked'",
}
"""The adjustments in each state; each target that is adjusting has an open one."""


def _in_state(state: PushState) -> str:
    """Return a query for the variants for which something is pushed."""
    parts = []
    if state in _TARGETS:
        parts.append(f"""
            SELECT * FROM (
              SELECT t.store, t.variant_id FROM stock_targets t
              WHERE {_TARGETS[state]} AND {_IS_NEWEST} LIMIT {MOST_PUSHED}) o
        """)  # noqa: S608 - constants
    if state in _COMMANDS:
        columns = f"c.store, {_VARIANT} AS variant_id"
        own = {"columns": columns, "state": _COMMANDS[state], "most": MOST_PUSHED}
        parts.append(_ADJUSTS.format(**own))
    return " UNION ".join(parts)


def _counted(state: PushState) -> str:
    """Return a query with a row for each stock target, and for other adjustments."""
    most = selection.MOST_COUNTED + 1
    parts = []
    if state in _TARGETS:
        parts.append(f"""
            SELECT * FROM (SELECT t.id FROM stock_targets t
              WHERE {_TARGETS[state]} LIMIT {most}) o
        """)  # noqa: S608 - constants
    if state in _COMMANDS:
        own = {"columns": "c.id", "state": _COMMANDS[state], "most": most}
        is_own = f" AND {_IS_OWN}" if parts else ""
        parts.append(_ADJUSTS.format(**own) + is_own)
    return " UNION ALL ".join(parts)


_IN_STATE = {state: _in_state(state) for state in PushState}
_COUNTED = {state: _counted(state) for state in PushState}
_OF_SKU = "SELECT n.store, n.id AS variant_id FROM variants n WHERE n.sku = :sku"
_OF_OBJECT = """
    SELECT n.store, n.id AS variant_id FROM variants n WHERE n.id = :object
    UNION SELECT n.store, n.id FROM variants n
    WHERE n.store = :store AND n.product_id = :object
"""
_LEVEL = "FROM inventory_levels l WHERE l.store = v.store AND l.variant_id = v.id"
_WORDS = """
    coalesce(v.sku, '') || ' ' || coalesce(v.title, '') || ' '
    || coalesce(v.barcode, '') || ' ' || coalesce((SELECT p.title FROM products p
         WHERE p.store = v.store AND p.id = v.product_id), '')
"""
_NEWEST_TARGET = NEWEST_TARGET.format(variant="v.id", store="v.store")
_CONDITIONS: Mapping[str, str] = {
    "is_sku": "v.sku = :sku",
    "is_object": ":object IN (v.id, v.product_id)",
    "connector": f"""
        (SELECT t.instance FROM stock_targets t WHERE t.id = ({_NEWEST_TARGET}))
          = :connector
    """,  # noqa: S608 - constants
    "is_below": f"(SELECT l.stock {_LEVEL}) < CAST(:below AS BIGINT)",
    "ends_below": "l.stock < CAST(:below AS BIGINT)",
    "since": f"(SELECT l.updated_at {_LEVEL}) >= :since",
    "until": f"(SELECT l.updated_at {_LEVEL}) < :until",
    "words": all_words(_WORDS),
}
"""The condition of each term; a query has those of its filter alone."""
_SEARCHED = ("connector", "is_below", "since", "until", "words")
"""The terms that no index answers."""
_SKU = STOCK_SKU.replace("sku", "v.sku")


class _Order:
    """An order of the list: the rows along its index, or along given variants."""

    def __init__(self, table: str, joined: str, key: str, id_: str) -> None:
        store = ORDER_STORE.replace("store", f"{table[-1]}.store")
        self.key, self.id = key, id_
        self._own = f"FROM {table} WHERE {store} = :store AND {self._between()}"
        self._along = f"""
            FROM {table} {joined} WHERE {store} = :store AND {self._between()}
        """
        more = "" if table.startswith("variants") else f"JOIN {table} ON {{on}}"
        self._of_variants = f"""
            FROM ({{variants}}) w {hint("CROSS")} JOIN variants v
              ON v.store = w.store AND v.id = w.variant_id
            {more.format(on="l.store = v.store AND l.variant_id = v.id")}
            WHERE w.store = :store AND {self._between()}
        """

    def _between(self) -> str:
        # No engine compares a row of values along an index of expressions.
        return f"""
            {self.key} >= :key AND ({self.key} > :key OR {self.id} > :id)
        """

    def rows(self, variants: str | None, conditions: str, *, ends: bool) -> str:
        """Return the query for the variants of a page; `ends` at a last place."""
        found = self._along
        if variants is not None:
            found = self._of_variants.replace("{variants}", variants)
        last = f"AND {self.key} <= :last_key AND ({self.key} < :last_key OR"
        return f"""
            SELECT v.store, v.product_id, v.id {found} AND {NEWEST} AND {conditions}
            {f"{last} {self.id} <= :last_id)" if ends else ""}
            ORDER BY {self.key}, {self.id} LIMIT :limit
        """

    def edge(self) -> str:
        """Return the query for the last of `scanned` rows along the index."""
        return f"""
            SELECT {self.key}, {self.id} {self._own}
            ORDER BY {self.key}, {self.id} LIMIT 1 OFFSET :scanned
        """


BY_SKU = _Order("variants v", "", _SKU, "v.id")
BY_STOCK = _Order(
    "inventory_levels l",
    f"{hint('CROSS')} JOIN variants v ON v.id = l.variant_id AND v.store = l.store",
    "l.stock",
    "l.variant_id",
)
_LOWEST = -(2**63)
_LAST = chr(0x10FFFF)
"""A text behind every id."""


def find(
    connection: Connection,
    wanted: Filter,
    stores: Iterable[str],
    limit: int,
    after: StockPlace | None,
    sort: Sort,
    scanned: int | None,
) -> StockPage:
    """Return the variants that match behind a place, of each store on its own."""
    search = _Search(connection, wanted, limit, sort, scanned)
    names = [name for name in stores if wanted.store in {None, name}]
    found: list[tuple[str, str, str]] = []
    ends: list[StockPlace] = []
    for name in names:
        rows, end = search.of_store(name, after)
        found += rows
        ends += [] if end is None else [end]
    # Behind the first place where a search ended, variants of that store may lie.
    end = min(ends, key=search.sorted_by, default=None)
    listed = with_details(connection, found)
    listed.sort(key=lambda row: search.sorted_by(row.place))
    if end is not None:
        before = search.sorted_by(end)
        listed = [row for row in listed if search.sorted_by(row.place) <= before]
    return StockPage(listed[:limit], end if len(listed) < limit else None)


class _Search:
    """One search of the list, store by store."""

    def __init__(
        self,
        connection: Connection,
        wanted: Filter,
        limit: int,
        sort: Sort,
        scanned: int | None,
    ) -> None:
        self._connection = connection
        self._is_by_stock = sort is Sort.LOWEST
        self._order = BY_STOCK if self._is_by_stock else BY_SKU
        self._variants = _variants_of(wanted)
        self._values = _values_of(wanted, self._variants)
        if wanted.below is not None:
            # Along the index of the stock, the list ends there.
            self._values["ends_below" if self._is_by_stock else "is_below"] = True
        self._limit = limit
        is_searched = any(self._values.get(name) is not None for name in _SEARCHED)
        self._scanned = scanned if is_searched and self._variants is None else None

    def sorted_by(self, place: StockPlace) -> tuple[Any, str, str]:
        """Return the key of a place in the order of the list."""
        return self._key_of(place), place.store, place.id

    def _key_of(self, place: StockPlace) -> Any:
        return place.stock if self._is_by_stock else place.sku

    def of_store(
        self, store: str, after: StockPlace | None
    ) -> tuple[list[tuple[str, str, str]], StockPlace | None]:
        """Return variants of a store, and the place where the search ended before."""
        values = self._values | {"store": store, **self._bounds(store, after)}
        end = self._edge(values)
        if end is not None:
            values |= {"last_key": self._key_of(end), "last_id": end.id}
        query = self._order.rows(
            self._variants, where(_CONDITIONS, values), ends=end is not None
        )
        values |= {"limit": self._limit}
        rows = self._connection.execute(query, given(values))
        return [(row[0], row[1], row[2]) for row in rows], end

    def _bounds(self, store: str, after: StockPlace | None) -> dict[str, Any]:
        """Return the key and id that all variants of a store behind a place have."""
        if after is None:
            return {"key": _LOWEST if self._is_by_stock else "", "id": ""}
        if store == after.store:
            return {"key": self._key_of(after), "id": after.id}
        # Of equal keys, the variants of the stores that sort before come earlier.
        return {
            "key": self._key_of(after),
            "id": _LAST if store < after.store else "",
        }

    def _edge(self, values: Mapping[str, Any]) -> StockPlace | None:
        """Return the last place to search; None if that is the end of the list."""
        if self._scanned is None:
            return None
        own = {name: values[name] for name in ("store", "key", "id")}
        own |= {"scanned": self._scanned - 1}
        row = self._connection.execute(self._order.edge(), own).fetchone()
        if row is None:
            return None
        if self._is_by_stock:
            return StockPlace(values["store"], row[1], row[0], "")
        return StockPlace(values["store"], row[1], 0, row[0])


def _variants_of(wanted: Filter) -> str | None:
    """Return a query for the variants that an index finds; None if it is all of them.

    The other terms are conditions for these variants.
    """
    if wanted.state is not None:
        return _IN_STATE[PushState(wanted.state)]
    if wanted.sku is not None:
        return _OF_SKU
    return _OF_OBJECT if wanted.object is not None else None


def _values_of(wanted: Filter, variants: str | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: getattr(wanted, name) for name in ("connector", "since", "until", "below")
    }
    values |= {"words": as_list(wanted.words)}
    values |= {"sku": wanted.sku, "object": wanted.object}
    if variants is not None and variants != _OF_SKU:
        values["is_sku"] = wanted.sku and True
    if variants is not None and variants != _OF_OBJECT:
        values["is_object"] = wanted.object and True
    return values


def count_states(connection: Connection) -> dict[str, int]:
    """Count what is pushed in each state; a count ends above MOST_COUNTED."""
    return {
        state.value: selection.count(connection, query)
        for state, query in _COUNTED.items()
    }
