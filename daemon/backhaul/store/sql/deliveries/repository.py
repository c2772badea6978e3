"""Deliveries: claimed in order for each object, and one commit for each step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from loguru import logger

from backhaul.core.identity import cancellation
from backhaul.core.lifecycle import Cause, State, next_state
from backhaul.errors import BackhaulError
from backhaul.store.deliveries import Outgoing
from backhaul.store.operations import AuditEntry
from backhaul.store.sql.deliveries import change_fanout
from backhaul.store.sql.dialect import document_of, is_damaged
from backhaul.store.sql.family import Family, background, write
from backhaul.store.sql.inbox.refetch_queue import Conflict, enqueue_refetch
from backhaul.store.sql.mirror.rows import NEWEST, document_text
from backhaul.store.sql.operations.operators import add_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.deliveries import DeliveryOutcome, Subscriber
    from backhaul.store.sql.family import Connection, Engine

_COLUMNS = (
    "d.seq, d.id, d.store, d.topic, d.object_id, c.at, d.attempts, d.failures, d.looks"
)
# A delivery waits for every earlier delivery of its object that is not resolved, and
# until Backhaul knows whether the change is an echo of a command.
_NEXT = f"""
    SELECT {_COLUMNS}, c.instance AS cause
    FROM deliveries d JOIN feed c ON c.id = d.change_id
    WHERE d.instance = :instance AND d.state = 'planned' AND d.due_at <= :now
      AND NOT c.waits AND NOT EXISTS (
        SELECT 1 FROM deliveries o WHERE o.instance = d.instance
          AND o.object_id = d.object_id AND o.seq < d.seq
          AND o.state IN ('planned', 'sending', 'uncertain', 'parked'))
    ORDER BY d.seq LIMIT 1
"""  # noqa: S608 - constants
_NEXT_UNCERTAIN = f"""
    SELECT {_COLUMNS} FROM deliveries d JOIN changes c ON c.id = d.change_id
    WHERE d.instance = :instance AND d.state = 'uncertain' AND d.due_at <= :now
    ORDER BY d.due_at LIMIT 1
"""  # noqa: S608 - constants
# Each half uses an index of its own.
_HAS_OPEN = """
    SELECT 1 FROM deliveries WHERE instance = :instance AND state = 'planned'
    UNION ALL
    SELECT 1 FROM deliveries
    WHERE instance = :instance AND state IN ('sending', 'uncertain') LIMIT 1
"""
_LEVEL = f"""
    SELECT l.product_id, v.sku, l.stock, t.stock AS delivered
    FROM inventory_levels l
    LEFT JOIN variants v
      ON v.store = l.store AND v.id = l.variant_id AND {NEWEST}
    LEFT JOIN delivered_levels t ON t.instance = :instance AND t.store = l.store
         AND t.variant_id = l.variant_id
    WHERE l.store = :store AND l.variant_id = :variant
"""  # noqa: S608 - constants
_DAMAGED = (
    "the changed object is damaged in the database and is being refetched; resend the"
    " delivery then"
)
_DAMAGED_ROW = "the delivery is damaged in the database and cannot be sent; discard it"
_INTERRUPTED = "the daemon stopped while the connection received this delivery"
_UNDER_WAY = frozenset({State.SENDING, State.UNCERTAIN})
_VERBS = {
    "resend": Cause.PERSON_RESENDS,
    "applied": Cause.PERSON_CONFIRMS,
    "discard": Cause.PERSON_DISCARDS,
    "park": Cause.PERSON_PARKS,
}
MOST_SKIPPED = 50
"""The most outdated deliveries that one transaction skips."""
# Changes that are not deliveries yet count, because they may have another level.
_FOLLOWS = """
    SELECT 1 FROM deliveries d JOIN deliveries o ON o.instance = d.instance
      AND o.object_id = d.object_id AND o.seq > d.seq AND o.state = 'planned'
    WHERE d.seq = :seq
    UNION ALL
    SELECT 1 FROM change_subscribers s JOIN changes c ON c.id > s."cursor"
    WHERE s.instance = :instance AND c.store = :store
      AND c.kind IN ('level', 'product') AND c.object_id = :product
"""
_CANCELLED_AT = """
    SELECT max(cancelled_at) AS at FROM orders WHERE store = :store AND id = :order
"""
_CANCELLED_BY = """
    SELECT instance FROM commands WHERE store = :store AND effect_id = :effect
"""
_INTERRUPT = """
    UPDATE deliveries SET state = :state, reason = :reason, due_at = :now
    WHERE instance = :instance AND state = 'sending'
"""
# After the clock went back, no delivery may wait for the old time.
_WAKE = """
    UPDATE deliveries SET due_at = :now
    WHERE instance = :instance AND state IN ('planned', 'uncertain') AND due_at > :now
"""
_SUBSCRIBERS = "SELECT instance FROM change_subscribers WHERE release_when IS NOT NULL"
_RETIRE = "UPDATE change_subscribers SET release_when = NULL WHERE instance = :instance"
_STATE = "SELECT state FROM deliveries WHERE seq = :seq"
_MOVE = """
    UPDATE deliveries SET state = :state, reason = :reason, settled_at = :settled_at
    WHERE seq = :seq
"""
_SEND = """
    UPDATE deliveries SET attempts = attempts + 1, sent_at = :now WHERE seq = :seq
"""
_RECORD = """
    UPDATE deliveries SET due_at = :due_at, failures = :failures, looks = :checks,
           reference = coalesce(:reference, reference)
    WHERE seq = :seq
"""
_REOPEN = """
    UPDATE deliveries SET due_at = :now, failures = 0, looks = 0 WHERE seq = :seq
"""
_LAST_SENT = "SELECT attempts, sent_at FROM deliveries WHERE seq = :seq"
_ADD_ATTEMPT = """
    INSERT INTO delivery_attempts (delivery, kind, number, started_at, finished_at,
           state, reason)
    VALUES (:delivery, :kind, :number, :started_at, :now, :state, :reason)
"""
_ONE = f"""
    SELECT {_COLUMNS}, d.instance FROM deliveries d
    JOIN changes c ON c.id = d.change_id WHERE d.seq = :seq
"""  # noqa: S608 - constants
_TRACEPARENT = """
    SELECT i.traceparent FROM deliveries d JOIN changes c ON c.id = d.change_id
    JOIN inbox i ON i.id = c.event WHERE d.seq = :seq
"""
_FORGET_LEVEL = """
    DELETE FROM delivered_levels
    WHERE instance = :instance AND store = :store AND variant_id = :variant
"""
_PUT_LEVEL = """
    INSERT INTO delivered_levels (instance, store, variant_id, stock)
    VALUES (:instance, :store, :variant, :stock)
    ON CONFLICT (instance, store, variant_id) DO UPDATE SET stock = excluded.stock
"""
_SETTLED = frozenset({State.APPLIED, State.REJECTED, State.SUPERSEDED})


class _Delivery(NamedTuple):
    """A row of a delivery, with the time of its change."""

    seq: int
    id: str
    store: str
    topic: str
    object_id: str
    at: str
    attempts: int
    failures: int
    checks: int

    @property
    def kind(self) -> str:
        return self.topic.partition(".")[0]

    @property
    def is_damaged(self) -> bool:
        return any(map(is_damaged, self))


class SqlDeliveries(Family):
    """Every method is one transaction, but `claim` may be several."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine)
        self._clock = clock

    @write
    def subscribe(self, connection: Connection, subscriber: Subscriber) -> None:
        now = self._now()
        change_fanout.subscribe(connection, subscriber, now)
        state = next_state(State.SENDING, Cause.UNKNOWN)
        values = {"instance": subscriber.instance, "now": now}
        connection.execute(
            _INTERRUPT, values | {"state": state.value, "reason": _INTERRUPTED}
        )
        connection.execute(_WAKE, values)

    @write
    def retire(self, connection: Connection, instances: Sequence[str]) -> None:
        for (instance,) in connection.execute(_SUBSCRIBERS).fetchall():
            if instance not in instances:
                connection.execute(_RETIRE, {"instance": instance})

    @background
    def fan_out(
        self, connection: Connection, subscriber: Subscriber, slice_seconds: float
    ) -> bool:
        fanout = change_fanout.Fanout(connection, subscriber, self._clock)
        return fanout.run(slice_seconds)

    @write
    def has_open(self, connection: Connection, instance: str) -> bool:
        found = connection.execute(_HAS_OPEN, {"instance": instance}).fetchone()
        return found is not None

    async def claim(self, subscriber: Subscriber) -> Outgoing | None:
        unit = partial(self._claim, subscriber.instance)
        # Outdated deliveries are skipped in small parts, between other writes.
        claimed, is_more = await self._engine.write(unit)
        while claimed is None and is_more:
            claimed, is_more = await self._engine.background(unit)
        return claimed

    def _claim(
        self, instance: str, connection: Connection
    ) -> tuple[Outgoing | None, bool]:
        """Claim the next delivery; return it, and True if there may be more."""
        values = {"instance": instance, "now": self._now()}
        for _ in range(MOST_SKIPPED):
            row = connection.execute(_NEXT, values).fetchone()
            if row is None:
                return None, False
            *columns, cause = row
            claim = _Claim(connection, instance, values["now"])
            found = claim.begin(_Delivery(*columns), cause)
            if found is not None:
                return found, True
        return None, True

    @write
    def traceparent_of(self, connection: Connection, delivery: Outgoing) -> str | None:
        row = connection.execute(_TRACEPARENT, {"seq": delivery.seq}).fetchone()
        return row[0] if row else None

    @write
    def next_uncertain(self, connection: Connection, instance: str) -> Outgoing | None:
        values = {"instance": instance, "now": self._now()}
        row = connection.execute(_NEXT_UNCERTAIN, values).fetchone()
        if row is None:
            return None
        delivery = _Delivery(*row)
        document = _document(connection, instance, delivery)
        return Outgoing(*delivery, document or {"id": delivery.object_id})

    @write
    def record_outcome(
        self,
        connection: Connection,
        instance: str,
        delivery: Outgoing,
        outcome: DeliveryOutcome,
    ) -> bool:
        now = self._now()
        before = _state(connection, delivery.seq)
        if before not in _UNDER_WAY:
            return False
        state = _move(connection, delivery.seq, outcome.cause, outcome.reason, now)
        _add_attempt(connection, delivery.seq, before, state, outcome, now)
        if outcome.cause is Cause.CONFIRMED and delivery.topic == "stock.changed":
            _put_level(connection, instance, delivery.store, delivery.document)
        connection.execute(
            _RECORD,
            {
                "seq": delivery.seq,
                "due_at": outcome.due_at or now,
                "failures": outcome.failures,
                "checks": outcome.checks,
                "reference": outcome.reference,
            },
        )
        return True

    @write
    def decide(
        self, connection: Connection, seq: int, verb: str, who: str, reason: str
    ) -> State:
        now = self._now()
        state = _move(connection, seq, _VERBS[verb], f"{verb} by {who}: {reason}", now)
        detail = f"delivery {seq}: {reason}"
        add_entry(connection, now, AuditEntry(who, f"deliveries {verb}", detail))
        connection.execute(_REOPEN, {"seq": seq, "now": now})
        return state


def _add_attempt(
    connection: Connection,
    seq: int,
    before: State,
    state: State,
    outcome: DeliveryOutcome,
    now: str,
) -> None:
    """Add the attempt that has ended, or the check of an uncertain delivery."""
    attempts, sent_at = connection.execute(_LAST_SENT, {"seq": seq}).fetchone()
    is_attempt = before is State.SENDING
    values = {
        "delivery": seq,
        "kind": "attempt" if is_attempt else "check",
        "number": attempts if is_attempt else outcome.checks,
        "started_at": sent_at if is_attempt else None,
        "now": now,
        "state": state.value,
        "reason": outcome.reason,
    }
    connection.execute(_ADD_ATTEMPT, values)


def document_now(connection: Connection, seq: int) -> dict[str, Any] | None:
    """Return the document that a delivery would send now, as far as it is readable."""
    row = connection.execute(_ONE, {"seq": seq}).fetchone()
    if row is None:
        return None
    *columns, instance = row
    return _document(connection, instance, _Delivery(*columns))


class _Claim:
    """Begins deliveries of one connection, inside one transaction."""

    def __init__(self, connection: Connection, instance: str, now: str) -> None:
        self._connection = connection
        self._instance = instance
        self._now = now

    def begin(self, delivery: _Delivery, cause: str | None) -> Outgoing | None:
        """Move a delivery to `sending`, or to its end if there is nothing to send.

        `cause` is the connection that caused the change, if it is an echo.
        """
        document = _document(self._connection, self._instance, delivery)
        if self._is_echo(delivery, cause):
            self._move(
                delivery,
                Cause.REPLACED,
                "the connection's own command caused this change",
            )
            if delivery.topic == "stock.changed" and document:
                self._skip_level(delivery, document)
        elif document is None:
            self._move(
                delivery, Cause.REPLACED, "the object is gone, or was delivered already"
            )
        elif not document:
            self._park_damaged(delivery)
        else:
            self._send(delivery)
            return Outgoing(*delivery, document)
        return None

    def _is_echo(self, delivery: _Delivery, cause: str | None) -> bool:
        """Return True if a delivery only reports what its connection asked for.

        An event may show a parcel of the connection and a foreign cancellation at once,
        so a cancellation has to be the connection's own too.
        """
        if delivery.topic == "order.cancelled" and (
            self._canceller(delivery) != self._instance
        ):
            return False
        return cause == self._instance and delivery.topic != "order.placed"

    def _canceller(self, delivery: _Delivery) -> str | None:
        order, store = delivery.object_id, delivery.store
        values = {"store": store, "order": order}
        (at,) = self._connection.execute(_CANCELLED_AT, values).fetchone()
        effect = {"store": store, "effect": cancellation(order, at) if at else ""}
        row = self._connection.execute(_CANCELLED_BY, effect).fetchone()
        return row[0] if row else None

    def _skip_level(self, delivery: _Delivery, document: dict[str, Any]) -> None:
        """Mark the level of an echo as delivered, unless another change follows."""
        values = {
            "seq": delivery.seq,
            "instance": self._instance,
            "store": delivery.store,
            "product": document["productId"],
        }
        if not self._connection.execute(_FOLLOWS, values).fetchone():
            _put_level(self._connection, self._instance, delivery.store, document)

    def _park_damaged(self, delivery: _Delivery) -> None:
        """Park a delivery that is damaged; refetch its object if that is damaged."""
        reason = _DAMAGED_ROW if delivery.is_damaged else _DAMAGED
        state = self._move(delivery, Cause.UNDECIDABLE, reason)
        if not delivery.is_damaged:
            place = (delivery.store, delivery.kind, delivery.object_id)
            conflict = Conflict(*place, "it is damaged here")
            enqueue_refetch(self._connection, conflict, self._now, self._now)
        logger.bind(action=f"delivery.{state}", instance=self._instance).warning(
            "{} {} {}: {}",
            self._instance,
            delivery.topic,
            delivery.object_id,
            reason,
        )

    def _send(self, delivery: _Delivery) -> None:
        self._move(delivery, Cause.SEND, "")
        values = {"seq": delivery.seq, "now": self._now}
        self._connection.execute(_SEND, values)
        if delivery.topic == "stock.changed":
            # The delivered level is unknown until the connection has answered.
            level = {"instance": self._instance, "store": delivery.store}
            level["variant"] = delivery.object_id
            self._connection.execute(_FORGET_LEVEL, level)

    def _move(self, delivery: _Delivery, cause: Cause, reason: str) -> State:
        return _move(self._connection, delivery.seq, cause, reason, self._now)


def _put_level(
    connection: Connection, instance: str, store: str, document: dict[str, Any]
) -> None:
    """Record the level that a connection received last."""
    values = {"instance": instance, "store": store}
    level = {"variant": document["variantId"], "stock": document["stock"]}
    connection.execute(_PUT_LEVEL, values | level)


def _document(
    connection: Connection, instance: str, delivery: _Delivery
) -> dict[str, Any] | None:
    """Return the document from the mirror; None if there is nothing to deliver.

    It is empty if the delivery or the row of the mirror is damaged.
    """
    if delivery.is_damaged:
        return {}
    if delivery.topic == "stock.changed":
        return _level(connection, instance, delivery)
    if delivery.topic == "product.deleted":
        return {"id": delivery.object_id}
    place = (delivery.kind, delivery.store, delivery.object_id)
    text = document_text(connection, *place)
    return None if text is None else document_of(text)


def _level(
    connection: Connection, instance: str, delivery: _Delivery
) -> dict[str, Any] | None:
    variant = delivery.object_id
    values = {"instance": instance, "store": delivery.store, "variant": variant}
    row = connection.execute(_LEVEL, values).fetchone()
    if row is None:
        return None
    product, sku, stock, delivered = row
    if stock == delivered:
        return None
    return {
        "id": variant,
        "productId": product,
        "variantId": variant,
        "sku": sku,
        "stock": stock,
    }


def _state(connection: Connection, seq: int) -> State:
    row = connection.execute(_STATE, {"seq": seq}).fetchone()
    if row is None:
        raise BackhaulError(
            f"there is no delivery {seq}; see: backhaul connectors deliveries"
        )
    return State(row[0])


def _move(
    connection: Connection, seq: int, cause: Cause, reason: str, now: str
) -> State:
    """Move a delivery to its next state; return that state. Raises BackhaulError."""
    before = _state(connection, seq)
    try:
        state = next_state(before, cause)
    except ValueError:
        raise BackhaulError(
            f"delivery {seq} is {before}, and this action is not possible in this"
            " state; see: backhaul connectors resolve --help"
        ) from None
    settled_at = now if state in _SETTLED else None
    values = {"seq": seq, "state": state.value, "reason": reason}
    connection.execute(_MOVE, values | {"settled_at": settled_at})
    return state
