"""Turns rows of the change feed into deliveries, for each connection.

The deliveries and the connection's cursor change in one transaction, so that each row
of the feed is turned into deliveries exactly once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from backhaul.core.clock import from_text, to_text
from backhaul.core.identity import command_id
from backhaul.core.resources import is_paid, is_stopped
from backhaul.store.sql.commands import restore_adoption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.core.clock import Clock
    from backhaul.store.deliveries import Subscriber
    from backhaul.store.sql.family import Connection

BATCH = 64
TOLERANCE = timedelta(seconds=60)
"""How far the platform's clock may be behind before a new object counts as old."""
OLD = "the object existed before the connection was set up"

_ROWS = """
    SELECT id, kind, object_id, at FROM changes
    WHERE id > :cursor AND store = :store ORDER BY id LIMIT :most
"""
_ORDER = """
    SELECT awaiting_confirmation, financial_status, placed_at, cancelled_at, updated_at,
           fulfillment_status
    FROM orders WHERE store = :store AND id = :id
"""
_PRODUCT = """
    SELECT updated_at, CASE WHEN deleted_at IS NULL THEN 'updated' ELSE 'deleted' END
    FROM products WHERE store = :store AND id = :id
"""
_CUSTOMER = """
    SELECT updated_at, 'updated' FROM customers WHERE store = :store AND id = :id
"""
_OBJECTS = {"product": _PRODUCT, "customer": _CUSTOMER}
_LEVELS = """
    SELECT l.variant_id, l.updated_at FROM inventory_levels l
    LEFT JOIN delivered_levels t ON t.instance = :instance AND t.store = l.store
         AND t.variant_id = l.variant_id
    WHERE l.store = :store AND l.product_id = :product
      AND (t.stock IS NULL OR t.stock != l.stock)
"""
_PLAN = """
    INSERT INTO deliveries (id, instance, store, topic, object_id, change_id, state,
                            reason, created_at, due_at, settled_at)
    VALUES (:id, :instance, :store, :topic, :object_id, :change, :state, :reason, :now,
            :now, :settled_at)
    ON CONFLICT (id) DO NOTHING
"""
_NEWEST_CHANGE = "SELECT coalesce(max(id), 0) AS newest FROM changes"
_SUBSCRIBE = """
    INSERT INTO change_subscribers (instance, store, since, begun, "cursor")
    VALUES (:instance, :store, :now, :newest, :cursor)
    ON CONFLICT (instance) DO NOTHING
"""
_SINCE = "SELECT since FROM change_subscribers WHERE instance = :instance"
_SET_RULES = """
    UPDATE change_subscribers SET release_when = :release_when, old_before = :old_before
    WHERE instance = :instance
"""
_SKIP_LEVELS = """
    INSERT INTO delivered_levels (instance, store, variant_id, stock)
    SELECT :instance, store, variant_id, stock FROM inventory_levels
    WHERE store = :store
    ON CONFLICT (instance, store, variant_id) DO NOTHING
"""
_YOUNG_ORDERS = "SELECT id FROM orders WHERE store = :store AND placed_at >= :floor"
_PROGRESS = """
    SELECT since, begun, "cursor" FROM change_subscribers WHERE instance = :instance
"""
_MOVE_CURSOR = """
    UPDATE change_subscribers SET "cursor" = :cursor WHERE instance = :instance
"""


class _Change(NamedTuple):
    id: int
    kind: str
    object_id: str
    at: str


class _Notification(NamedTuple):
    """A change notification; `unique` tells it from others of its topic."""

    topic: str
    object_id: str
    unique: str


class _Order(NamedTuple):
    awaiting_confirmation: int
    financial_status: str | None
    placed_at: str | None
    cancelled_at: str | None
    updated_at: str
    fulfillment_status: str | None

    @property
    def is_over(self) -> bool:
        """Whether the order is cancelled or stopped."""
        return bool(self.cancelled_at) or is_stopped(
            self.financial_status, self.fulfillment_status
        )


def delivery_id(instance: str, store: str, topic: str, key: str) -> str:
    """Return the id of a delivery; the same change has the same id for good."""
    return command_id(store, instance, key, topic)


def subscribe(connection: Connection, subscriber: Subscriber, now: str) -> None:
    """Register a connection. A new one skips old objects, unless it wants all."""
    (newest,) = connection.execute(_NEWEST_CHANGE).fetchone()
    is_all = subscriber.begin == "all"
    values = {
        "instance": subscriber.instance,
        "store": subscriber.store,
        "now": now,
        "newest": newest,
        "cursor": 0 if is_all else newest,
    }
    if connection.execute(_SUBSCRIBE, values).rowcount and not is_all:
        _skip_existing(connection, subscriber, newest, now)
    _set_rules(connection, subscriber)


def _set_rules(connection: Connection, subscriber: Subscriber) -> None:
    """Record which orders a connection receives, to explain the others."""
    values = {"instance": subscriber.instance}
    (since,) = connection.execute(_SINCE, values).fetchone()
    takes_orders = "order.placed" in subscriber.topics
    rules = {
        "release_when": subscriber.release_when if takes_orders else None,
        "old_before": _floor(since) if subscriber.begin == "now" else None,
    }
    connection.execute(_SET_RULES, values | rules)


def _skip_existing(
    connection: Connection, subscriber: Subscriber, newest: int, now: str
) -> None:
    """Mark existing stock as delivered, and the orders whose date is too recent."""
    values = {"instance": subscriber.instance, "store": subscriber.store}
    connection.execute(_SKIP_LEVELS, values)
    young = {"store": subscriber.store, "floor": _floor(now)}
    for (order,) in connection.execute(_YOUNG_ORDERS, young).fetchall():
        notification = _Notification("order.placed", order, order)
        _plan(connection, subscriber, notification, newest, now, old=True)


class Fanout:
    """Moves one connection along the change feed, inside one transaction."""

    def __init__(
        self, connection: Connection, subscriber: Subscriber, clock: Clock
    ) -> None:
        self._connection = connection
        self._subscriber = subscriber
        self._clock = clock
        self._now = to_text(clock.now())
        since, self._begun, self._cursor = connection.execute(
            _PROGRESS, {"instance": subscriber.instance}
        ).fetchone()
        self._floor = _floor(since) if subscriber.begin == "now" else ""

    def run(self, slice_seconds: float) -> bool:
        """Plan deliveries for about that long; return True if there is more."""
        values = {"cursor": self._cursor, "most": BATCH}
        rows = self._connection.execute(
            _ROWS, values | {"store": self._subscriber.store}
        ).fetchall()
        until, done = self._clock.monotonic() + slice_seconds, 0
        for change in (_Change(*values) for values in rows):
            for notification in self._notifications(change):
                if notification.topic in self._subscriber.topics:
                    self._plan(notification, change)
            self._cursor, done = change.id, done + 1
            if self._clock.monotonic() >= until:
                break
        if done:
            moved = {"instance": self._subscriber.instance, "cursor": self._cursor}
            self._connection.execute(_MOVE_CURSOR, moved)
        return done < len(rows) or len(rows) == BATCH

    def _plan(self, notification: _Notification, change: _Change) -> None:
        place = (self._connection, self._subscriber)
        _plan(*place, notification, change.id, self._now)

    def _notifications(self, change: _Change) -> Iterator[_Notification]:
        if change.kind == "order":
            yield from self._order(change)
        elif change.kind in _OBJECTS:
            yield from self._object(change)
        if change.kind in {"product", "level"}:
            yield from self._stock(change)

    def _order(self, change: _Change) -> Iterator[_Notification]:
        id_ = change.object_id
        values = {"store": self._subscriber.store, "id": id_}
        found = self._connection.execute(_ORDER, values).fetchone()
        if found is None:
            return
        order = _Order(*found)
        if "order.placed" in self._subscriber.topics:
            placed = self._state_of("order.placed", id_)
            if placed is None:
                is_old = (order.placed_at or order.updated_at) < self._floor
                if order.is_over and not is_old and self._may_be_known(order):
                    yield _Notification("order.cancelled", id_, id_)
                elif not (is_old or order.is_over) and self._is_released(order):
                    yield _Notification("order.placed", id_, id_)
            if placed in {None, "superseded"}:
                return
        elif order.updated_at < self._floor:
            return
        if order.is_over and self._state_of("order.cancelled", id_) is None:
            yield _Notification("order.cancelled", id_, id_)
        elif change.id > self._begun:
            yield _Notification("order.updated", id_, self._unique(change))

    def _may_be_known(self, order: _Order) -> bool:
        """Return True if the connection may know an order that this database forgot.

        A restored database lacks what was delivered after its copy was made. Nobody
        else would tell the connection that such an order was cancelled since.
        """
        restored_at = restore_adoption.restored_at(
            self._connection, self._subscriber.store, self._now
        )
        placed_at = order.placed_at or order.updated_at
        return restored_at is not None and _floor(placed_at) <= restored_at

    def _is_released(self, order: _Order) -> bool:
        rule = self._subscriber.release_when
        if rule == "confirmed":
            return not order.awaiting_confirmation
        return rule == "placed" or is_paid(order.financial_status)

    def _state_of(self, topic: str, object_id: str) -> str | None:
        """Return the state of a delivery that an object has once, None without it."""
        subscriber = self._subscriber
        id_ = delivery_id(subscriber.instance, subscriber.store, topic, object_id)
        query = "SELECT state FROM deliveries WHERE id = :id"
        found = self._connection.execute(query, {"id": id_}).fetchone()
        return found[0] if found else None

    def _object(self, change: _Change) -> Iterator[_Notification]:
        values = {"store": self._subscriber.store, "id": change.object_id}
        found = self._connection.execute(_OBJECTS[change.kind], values).fetchone()
        if found is not None and found[0] >= self._floor:
            topic = f"{change.kind}.{found[1]}"
            yield _Notification(topic, change.object_id, self._unique(change))

    def _stock(self, change: _Change) -> Iterator[_Notification]:
        values = {
            "instance": self._subscriber.instance,
            "store": self._subscriber.store,
            "product": change.object_id,
        }
        levels = self._connection.execute(_LEVELS, values).fetchall()
        for variant, updated_at in levels:
            if updated_at >= self._floor:
                unique = self._unique(change, variant)
                yield _Notification("stock.changed", variant, unique)

    def _unique(self, change: _Change, object_id: str = "") -> str:
        """Return the key of a change. All changes before the first contact are one."""
        key = object_id or change.object_id
        return key if change.id <= self._begun else f"{key}@{change.id}@{change.at}"


def _floor(since: str) -> str:
    return to_text(from_text(since) - TOLERANCE)


def _plan(
    connection: Connection,
    subscriber: Subscriber,
    notification: _Notification,
    change: int,
    now: str,
    *,
    old: bool = False,
) -> None:
    instance, store = subscriber.instance, subscriber.store
    connection.execute(
        _PLAN,
        {
            "id": delivery_id(instance, store, notification.topic, notification.unique),
            "instance": instance,
            "store": store,
            "topic": notification.topic,
            "object_id": notification.object_id,
            "change": change,
            "state": "superseded" if old else "planned",
            "reason": OLD if old else "",
            "now": now,
            "settled_at": now if old else None,
        },
    )
