"""The whole Reader: lists, objects with their timelines, search and figures."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from backhaul.core.clock import from_text, to_text
from backhaul.store.filters import Sort
from backhaul.store.mappings import ListedMapping
from backhaul.store.read_models import Reader
from backhaul.store.read_records import (
    ConfirmationTimes,
    ConnectionFigures,
    Counts,
    FoundObject,
    ListedLevel,
    ListedVariant,
    NearMatch,
    OrderLine,
    Overview,
    SearchHit,
    StoreFigures,
    TimelineEntry,
)
from backhaul.store.sql.dialect import epoch
from backhaul.store.sql.inbox import quarantine, unreadable_orders
from backhaul.store.sql.mirror import payment_states
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.mirror.search_index import CURSOR as SEARCH_CURSOR
from backhaul.store.sql.mirror.sync_progress import sync_states
from backhaul.store.sql.operations import alerts, kv
from backhaul.store.sql.read_models import (
    catalogue,
    near_matches,
    orders,
    recent_changes,
    stock,
    timeline,
)
from backhaul.store.sql.read_models.lists import SqlLists
from backhaul.store.sql.records import mappings, unused_of_order
from backhaul.store.sql.selection import NO_END
from backhaul.store.stock_lists import StockPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backhaul.store.catalogue_lists import (
        ListedCustomer,
        ListedProduct,
        ListPlace,
    )
    from backhaul.store.filters import Filter
    from backhaul.store.mirror import SyncState
    from backhaul.store.operations import AlertConditions
    from backhaul.store.order_lists import ListedOrder, OrderPlace, OrderTab, Parcel
    from backhaul.store.read_records import RecentChange
    from backhaul.store.sql.family import Connection
    from backhaul.store.stock_lists import StockPage

Search: TypeAlias = (
    "Callable[[Connection, str, str | None, int, int], Sequence[SearchHit]]"
)
"""Full-text search: words, kind, limit, and how many hits to skip."""

HOUR = timedelta(hours=1)
LONGEST_NUMBER = 18
"""Digits of the number of an order; a longer one fits no column."""
GUEST_ORDERS = 10_000
"""The orders that are searched for the e-mail of a customer without an account.

The index finds the words of `m@web.de` in `x.m@web.de` too, and may rank that first.
"""
_PARTS = {
    "order": """
        SELECT sku, title, quantity, fulfilled_quantity, product_id, variant_id,
               unit_price_minor
        FROM order_items WHERE store = :store AND order_id = :id ORDER BY id
    """,
    "product": """
        SELECT v.id, v.sku, v.title, v.barcode, l.stock, v.price_minor, v.currency
        FROM variants v
        LEFT JOIN inventory_levels l ON l.store = v.store AND l.variant_id = v.id
        WHERE v.store = :store AND v.product_id = :id ORDER BY v.id
    """,
}
# The view has the columns of `backhaul export stock`.
_LEVELS = f"""
    SELECT {", ".join(ListedLevel.__struct_fields__)} FROM stock WHERE {{}}
    ORDER BY store, variant_id LIMIT :limit
"""  # noqa: S608 - constants
_LEVEL_TERMS = {
    "sku": "sku = :sku",
    "store": "store = :store",
    "after_store": "(store, variant_id) > (:after_store, :after_variant)",
}
_MIRRORED = """
    SELECT (SELECT count(*) FROM orders) AS orders,
           (SELECT count(*) FROM products) AS products,
           (SELECT count(*) FROM variants) AS variants,
           (SELECT count(*) FROM customers) AS customers
"""
# On PostgreSQL each store has a cursor of its own.
_UNINDEXED = f"""
    SELECT CASE WHEN EXISTS (SELECT 1 FROM kv WHERE name LIKE :cursor || ':%')
        THEN (SELECT count(*) FROM kv JOIN changes c
              ON c.store = substr(kv.name, length(:cursor) + 2)
                AND c.id > CAST(kv.value AS BIGINT)
              WHERE kv.name LIKE :cursor || ':%')
        ELSE (SELECT count(*) FROM changes WHERE id > {kv.number(":cursor")})
        END AS changes
"""  # noqa: S608 - a fragment
_CONFIRMATIONS = f"""
    SELECT {epoch("e.at")} - {epoch("c.sent_at")} AS seconds
    FROM echoes e JOIN commands c ON c.id = e.command_id
    WHERE c.sent_at IS NOT NULL AND e.at >= :since ORDER BY seconds
"""  # noqa: S608 - fragments
_COUNTS = """
    SELECT (SELECT coalesce(max(id), 0) FROM inbox) AS events,
           (SELECT coalesce(max(id), 0) FROM inbox)
             - (SELECT coalesce(max(id), 0) FROM event_outcomes) AS to_fold,
           (SELECT count(*) FROM refetch_queue) AS in_doubt,
           (SELECT received_at FROM inbox ORDER BY id DESC LIMIT 1) AS last_event_at,
           (SELECT count(*) FROM orders) AS orders,
           (SELECT count(*) FROM products WHERE deleted_at IS NULL) AS products,
           (SELECT count(*) FROM records WHERE state = 'waiting') AS waiting_records,
           (SELECT count(*) FROM quarantine WHERE state = 'open') AS quarantined,
           (SELECT count(*) FROM stock_targets WHERE state = 'held') AS counts_held
"""
_COUNTED = Counts.__struct_fields__[:9]
_COMMAND_STATES = """
    SELECT state, count(*) AS commands FROM commands_and_targets GROUP BY state
"""
# If reads have filled the inbox since, the last use of a secret shows the webhook.
_LAST_WEBHOOK = """
    SELECT max(at) AS at FROM (
        SELECT max(received_at) AS at FROM (
            SELECT store, kind, received_at FROM inbox ORDER BY id DESC LIMIT 5000
            ) latest
        WHERE store = :store AND kind = 'delivery'
        UNION ALL
        SELECT max(last_used_at) FROM webhook_secrets WHERE store = :store) webhooks
"""
_TO_FOLD = """
    SELECT store, count(*) AS to_fold, min(received_at) AS oldest_at FROM inbox
    WHERE id > (SELECT coalesce(max(id), 0) FROM event_outcomes) GROUP BY store
"""
_CONNECTION = """
    SELECT (SELECT received_at FROM records WHERE instance = :name
            ORDER BY id DESC LIMIT 1) AS last_record_at,
           (SELECT count(*) FROM quarantine
            WHERE state = 'open' AND name = :name) AS quarantined,
           (SELECT count(*) FROM deliveries
            WHERE state = 'parked' AND instance = :name) AS deliveries_parked
"""
_OLDEST_PLANNED = """
    SELECT min(at) AS at FROM (
      SELECT min(created_at) AS at FROM commands
      WHERE state = 'planned' AND hold_reason IS NULL
      UNION ALL
      SELECT min(created_at) FROM stock_targets WHERE state = 'waiting') planned
"""


class SqlReader(SqlLists, Reader):
    """Reads as of `now`; `search` is the engine's full-text search."""

    def __init__(self, connection: Connection, search: Search, now: str) -> None:
        super().__init__(connection)
        self._search = search
        self._hour_ago = to_text(from_text(now) - HOUR)

    def find_objects(self, kind: str, name: str) -> list[FoundObject]:
        bare = name.removeprefix("#")
        is_number = bare.isascii() and bare.isdigit() and len(bare) <= LONGEST_NUMBER
        values = {
            "name": name,
            "bare": bare,
            "number": int(bare) if is_number else None,
        }
        if kind == "customer":
            values["guest"] = self._without_account(name)
        rows = self._rows(timeline.FIND[kind], values)
        if rows:
            return [_object(row, timeline.FACTS[kind]) for row in rows]
        others = quarantine.objects_named(self._connection, kind, name)
        if not others and kind == "order":
            others = unused_of_order.orders_named(self._connection, name)
        return [
            FoundObject(
                row["name"], row["store"], row["id"], {"mirrored": row["mirrored"]}
            )
            for row in others
        ]

    def _without_account(self, email: str) -> str | None:
        """Return the id of a customer without an account, by the e-mail of an order."""
        for hit in self._search(self._connection, email, "order", GUEST_ORDERS, 0):
            values = {"store": hit.store, "id": hit.id, "email": email}
            for (found,) in self._rows(timeline.GUEST, values):
                return None if found is None else str(found)
        return None

    def searched_in(self, kind: str) -> str:
        names = ("orders", "products", "variants", "customers")
        counts = dict(zip(names, self._rows(_MIRRORED)[0], strict=True))
        return timeline.SEARCHED[kind].format(**counts)

    def object(self, kind: str, store: str, id_: str) -> FoundObject | None:
        rows = self._rows(timeline.OBJECT[kind], {"store": store, "id": id_})
        return _object(rows[0], timeline.OBJECT_FACTS[kind]) if rows else None

    def orders(
        self,
        tab: OrderTab,
        stores: Iterable[str],
        limit: int,
        before: OrderPlace | None = None,
    ) -> list[ListedOrder]:
        return orders.list_orders(self._connection, tab, stores, limit, before)

    def products(
        self, limit: int, before: ListPlace | None = None
    ) -> list[ListedProduct]:
        return catalogue.list_products(self._connection, limit, before)

    def customers(
        self, limit: int, before: ListPlace | None = None
    ) -> list[ListedCustomer]:
        return catalogue.list_customers(self._connection, limit, before)

    def orders_of(self, store: str, customer_id: str, limit: int) -> list[ListedOrder]:
        return orders.of_customer(self._connection, store, customer_id, limit)

    def parcels(self, store: str, id_: str) -> list[Parcel]:
        return orders.parcels(self._connection, store, id_)

    def order_lines(self, store: str, id_: str) -> list[OrderLine]:
        rows = self._rows(_PARTS["order"], {"store": store, "id": id_})
        return [OrderLine(*row) for row in rows]

    def variants(self, store: str, id_: str) -> list[ListedVariant]:
        rows = self._rows(_PARTS["product"], {"store": store, "id": id_})
        return [ListedVariant(*row) for row in rows]

    def stock_levels(
        self, sku: str | None, store: str | None, limit: int, after: tuple[str, str]
    ) -> list[ListedLevel]:
        values = {"sku": sku, "store": store, "limit": limit}
        values |= {"after_store": after[0], "after_variant": after[1]}
        terms = [text for name, text in _LEVEL_TERMS.items() if values[name]]
        rows = self._rows(_LEVELS.format(" AND ".join(terms) or "1 = 1"), values)
        return [ListedLevel(*row) for row in rows]

    def stock(
        self,
        wanted: Filter,
        stores: Iterable[str],
        limit: int,
        after: str | None = None,
        sort: Sort = Sort.USUAL,
        scanned: int | None = None,
    ) -> StockPage:
        place = StockPlace.of(after)
        return stock.find(self._connection, wanted, stores, limit, place, sort, scanned)

    def timeline(self, kind: str, found: FoundObject) -> list[TimelineEntry]:
        is_variant = kind == "sku"
        values = {
            "store": found.store,
            "id": found.id,
            "object": found.facts["product_id"] if is_variant else found.id,
            "variant": found.id if is_variant else None,
        }
        rows = self._rows(timeline.TIMELINE[kind], values)
        entries = [TimelineEntry(*row) for row in rows]
        if kind == "order":
            order = {"store": found.store, "id": found.id, "name": found.name}
            more = unused_of_order.timeline_rows(self._connection, order)
            entries += [TimelineEntry(**row) for row in more]
        return sorted(entries, key=lambda each: (each.at or "", each.turn))

    def search(
        self, text: str, kind: str | None, limit: int, skip: int = 0
    ) -> list[SearchHit]:
        hits = self._search(self._connection, text, kind, limit, skip)
        if hits or skip:
            return list(hits)
        rows = quarantine.search(self._connection, text, kind)[:limit]
        return [SearchHit(**row) for row in rows]

    def unindexed(self) -> int:
        return int(self._rows(_UNINDEXED, {"cursor": SEARCH_CURSOR})[0][0])

    def change_places(self) -> dict[str, int]:
        return recent_changes.ends(self._connection)

    def recent_changes(
        self, places: Mapping[str, int], limit: int
    ) -> dict[str, list[RecentChange]]:
        return recent_changes.since(self._connection, places, limit)

    def counts(self) -> Counts:
        (row,) = self._rows(_COUNTS)
        return Counts(
            **dict(zip(_COUNTED, row, strict=True)),
            commands=dict(map(tuple, self._rows(_COMMAND_STATES))),
            unreadable_orders=unreadable_orders.list_all(self._connection),
            incidents=self.incidents(),
            unknown_statuses=payment_states.unknown_statuses(self._connection),
            unknown_topics=alerts.unknown_topics(self._connection, self._hour_ago),
        )

    def near_matches(
        self, kind: str, store: str, name: str, limit: int = 5
    ) -> list[NearMatch]:
        return near_matches.find(self._connection, kind, store, name, limit)

    def knows(self, kind: str, store: str, name: str) -> bool:
        mirror = MirrorReader(self._connection)
        if kind == "order":
            return bool(mirror.orders_named(store, name))
        return bool(mirror.variants_named(store, name))

    def sells(self, store: str, name: str) -> bool:
        mirror = MirrorReader(self._connection)
        return bool(mirror.variants_named(store, name, mapped=False))

    def mappings(
        self,
        store: str | None,
        words: str | None,
        limit: int,
        before: int | None = None,
    ) -> list[ListedMapping]:
        values = {"store": store, "words": words, "limit": limit}
        before = NO_END if before is None else before
        rows = self._rows(mappings.LIST, {**values, "before": before})
        return [ListedMapping(*row) for row in rows]

    def conditions(self, instances: Iterable[str]) -> AlertConditions:
        return alerts.conditions(self._connection, instances, self._hour_ago)

    def overview(self, stores: Iterable[str], instances: Iterable[str]) -> Overview:
        behind = {store: rest for store, *rest in self._rows(_TO_FOLD)}
        return Overview(
            {
                name: StoreFigures(
                    self._rows(_LAST_WEBHOOK, {"store": name})[0][0],
                    *behind.get(name, (0, None)),
                )
                for name in stores
            },
            {
                name: ConnectionFigures(*self._rows(_CONNECTION, {"name": name})[0])
                for name in instances
            },
            self._rows(_OLDEST_PLANNED)[0][0],
        )

    def confirmations(self) -> ConfirmationTimes:
        rows = self._rows(_CONFIRMATIONS, {"since": self._hour_ago})
        seconds = [round(row[0], 3) for row in rows]
        if not seconds:
            return ConfirmationTimes(0)
        last = len(seconds) - 1
        median, p99 = seconds[last // 2], seconds[last * 99 // 100]
        return ConfirmationTimes(len(seconds), median, p99)

    def consistency(self) -> dict[str, SyncState]:
        return sync_states(self._connection)


def _object(row: Sequence[Any], facts: Sequence[str]) -> FoundObject:
    name, store, id_, *values = row
    return FoundObject(str(name), store, id_, dict(zip(facts, values, strict=True)))
