"""From the change feed to deliveries: which rows are news for which instance.

Deliveries and the cursor over the feed are written in one transaction, so that a row
of the feed is turned into news once, whatever dies in between.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.core.clock import from_text, to_text
from backhaul.core.identity import command_id
from backhaul.core.status_rank import is_paid, is_stopped

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from backhaul.core.clock import Clock
    from backhaul.store.deliveries import Subscriber

BATCH = 64
TOLERANCE = timedelta(seconds=60)
"""How far the platform's clock may be behind ours before news are taken for old."""
OLD = "it was there before the connector was set up"

_ROWS = """
    SELECT id, kind, object_id, at FROM changes
    WHERE id > ? AND store = ? ORDER BY id LIMIT ?
"""
_ORDER = """
    SELECT awaiting_confirmation, financial_status, placed_at, cancelled_at, updated_at,
           fulfillment_status
    FROM orders WHERE store = ? AND id = ?
"""
_LEVELS = """
    SELECT l.variant_id, l.updated_at FROM inventory_levels l
    LEFT JOIN told_levels t ON t.instance = ?1 AND t.store = l.store
         AND t.variant_id = l.variant_id
    WHERE l.store = ?2 AND l.product_id = ?3
      AND (t.stock IS NULL OR t.stock != l.stock)
"""
_PLAN = """
    INSERT OR IGNORE INTO deliveries (id, instance, store, topic, object_id, change_id,
                                      state, reason, created_at, due_at, settled_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class _Row(Struct, frozen=True):
    id: int
    kind: str
    object_id: str
    at: str


class _News(Struct, frozen=True):
    topic: str
    object_id: str
    unique: str


def delivery_id(instance: str, store: str, topic: str, key: str) -> str:
    """Return the id of a change for an instance: one cause has one id for good."""
    return command_id(store, instance, key, topic)


def subscribe(connection: sqlite3.Connection, subscriber: Subscriber, now: str) -> None:
    """Remember an instance that is new, and what it shall not be told of."""
    (newest,) = connection.execute(
        "SELECT coalesce(max(id), 0) FROM changes"
    ).fetchone()
    is_all = subscriber.begin == "all"
    added = connection.execute(
        'INSERT OR IGNORE INTO subscribers (instance, store, since, begun, "cursor")'
        " VALUES (?, ?, ?, ?, ?)",
        (subscriber.instance, subscriber.store, now, newest, 0 if is_all else newest),
    )
    if added.rowcount and not is_all:
        _pass_over(connection, subscriber, newest, now)
    _keep_rules(connection, subscriber)


def _keep_rules(connection: sqlite3.Connection, subscriber: Subscriber) -> None:
    """Keep beside an instance which orders it is told of, to explain the others."""
    (since,) = connection.execute(
        "SELECT since FROM subscribers WHERE instance = ?", (subscriber.instance,)
    ).fetchone()
    takes_orders = "order.placed" in subscriber.topics
    connection.execute(
        "UPDATE subscribers SET release_when = ?, old_before = ? WHERE instance = ?",
        (
            subscriber.release_when if takes_orders else None,
            _floor(since) if subscriber.begin == "now" else None,
            subscriber.instance,
        ),
    )


def _pass_over(
    connection: sqlite3.Connection, subscriber: Subscriber, newest: int, now: str
) -> None:
    """Mark what is there: its stock, and the orders too young to tell by their date."""
    connection.execute(
        "INSERT OR IGNORE INTO told_levels (instance, store, variant_id, stock)"
        " SELECT ?, store, variant_id, stock FROM inventory_levels WHERE store = ?",
        (subscriber.instance, subscriber.store),
    )
    rows = connection.execute(
        "SELECT id FROM orders WHERE store = ? AND placed_at >= ?",
        (subscriber.store, _floor(now)),
    ).fetchall()
    for (order,) in rows:
        news = _News("order.placed", order, order)
        _plan(connection, subscriber, news, newest, now, old=True)


class Fanout:
    """One instance's way along the feed, inside of a transaction."""

    def __init__(
        self, connection: sqlite3.Connection, subscriber: Subscriber, clock: Clock
    ) -> None:
        self._connection = connection
        self._subscriber = subscriber
        self._clock = clock
        self._now = to_text(clock.now())
        since, self._begun, self._cursor = connection.execute(
            'SELECT since, begun, "cursor" FROM subscribers WHERE instance = ?',
            (subscriber.instance,),
        ).fetchone()
        self._floor = _floor(since) if subscriber.begin == "now" else ""

    def follow(self, slice_seconds: float) -> bool:
        """Go on for about that long; tell whether there is more."""
        store = self._subscriber.store
        rows = self._connection.execute(_ROWS, (self._cursor, store, BATCH)).fetchall()
        until, done = self._clock.monotonic() + slice_seconds, 0
        for row in (_Row(*values) for values in rows):
            for news in self._news(row):
                if news.topic in self._subscriber.topics:
                    _plan(self._connection, self._subscriber, news, row.id, self._now)
            self._cursor, done = row.id, done + 1
            if self._clock.monotonic() >= until:
                break
        if done:
            self._connection.execute(
                'UPDATE subscribers SET "cursor" = ? WHERE instance = ?',
                (self._cursor, self._subscriber.instance),
            )
        return done < len(rows) or len(rows) == BATCH

    def _news(self, row: _Row) -> Iterator[_News]:
        if row.kind == "order":
            yield from self._order(row)
        elif row.kind == "customer":
            yield from self._object(row, "customers")
        elif row.kind == "product":
            yield from self._object(row, "products")
        if row.kind in {"product", "level"}:
            yield from self._stock(row)

    def _order(self, row: _Row) -> Iterator[_News]:
        place = (self._subscriber.store, row.object_id)
        found = self._connection.execute(_ORDER, place).fetchone()
        if found is None:
            return
        awaiting, paid, placed_at, cancelled_at, updated_at, fulfillment = found
        is_over = bool(cancelled_at) or is_stopped(paid, fulfillment)
        if "order.placed" in self._subscriber.topics:
            told = self._told("order.placed", row.object_id)
            if told is None:
                is_old = (placed_at or updated_at) < self._floor
                if not (is_old or is_over) and self._released(awaiting, paid):
                    yield _News("order.placed", row.object_id, row.object_id)
            if told in {None, "superseded"}:
                return
        elif updated_at < self._floor:
            return
        if is_over and self._told("order.cancelled", row.object_id) is None:
            yield _News("order.cancelled", row.object_id, row.object_id)
        elif row.id > self._begun:
            yield _News("order.updated", row.object_id, self._unique(row))

    def _released(self, awaiting: object, paid: str | None) -> bool:
        rule = self._subscriber.release_when
        if rule == "confirmed":
            return not awaiting
        return rule == "placed" or is_paid(paid)

    def _told(self, topic: str, object_id: str) -> str | None:
        """Return the state of what is told once, None while it is not."""
        subscriber = self._subscriber
        id_ = delivery_id(subscriber.instance, subscriber.store, topic, object_id)
        query = "SELECT state FROM deliveries WHERE id = ?"
        found = self._connection.execute(query, (id_,)).fetchone()
        return found[0] if found else None

    def _object(self, row: _Row, table: str) -> Iterator[_News]:
        gone = "deleted_at IS NOT NULL" if table == "products" else "0"
        found = self._connection.execute(
            f"SELECT updated_at, {gone} FROM {table} WHERE store = ? AND id = ?",  # noqa: S608 - constants
            (self._subscriber.store, row.object_id),
        ).fetchone()
        if found is not None and found[0] >= self._floor:
            what = "deleted" if found[1] else "updated"
            yield _News(f"{row.kind}.{what}", row.object_id, self._unique(row))

    def _stock(self, row: _Row) -> Iterator[_News]:
        subscriber = self._subscriber
        place = (subscriber.instance, subscriber.store, row.object_id)
        for variant, updated_at in self._connection.execute(_LEVELS, place).fetchall():
            if updated_at >= self._floor:
                yield _News("stock.changed", variant, self._unique(row, variant))

    def _unique(self, row: _Row, object_id: str = "") -> str:
        """Return what tells a change from others; all that was there is one."""
        key = f"{object_id or row.object_id}"
        return key if row.id <= self._begun else f"{key}@{row.id}@{row.at}"


def _floor(since: str) -> str:
    return to_text(from_text(since) - TOLERANCE)


def _plan(
    connection: sqlite3.Connection,
    subscriber: Subscriber,
    news: _News,
    change: int,
    now: str,
    *,
    old: bool = False,
) -> None:
    instance, store = subscriber.instance, subscriber.store
    connection.execute(
        _PLAN,
        (
            delivery_id(instance, store, news.topic, news.unique),
            instance,
            store,
            news.topic,
            news.object_id,
            change,
            "superseded" if old else "planned",
            OLD if old else "",
            now,
            now,
            now if old else None,
        ),
    )
