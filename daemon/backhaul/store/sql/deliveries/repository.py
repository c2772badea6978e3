"""Deliveries: claimed in order for each object, and moved on, one commit a step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.core.clock import to_text
from backhaul.core.identity import cancellation
from backhaul.core.lifecycle import Cause, State, next_state
from backhaul.errors import BackhaulError
from backhaul.store.deliveries import Outgoing
from backhaul.store.operations import AuditEntry
from backhaul.store.sql.deliveries import change_fanout
from backhaul.store.sql.documents import document_of
from backhaul.store.sql.inbox.refetch_queue import Conflict, enqueue_refetch
from backhaul.store.sql.mirror.rows import DOCUMENTS, NEWEST
from backhaul.store.sql.operations.audit_log import add_entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.deliveries import DeliveryOutcome, Subscriber
    from backhaul.store.sqlite.writer import Writer

_COLUMNS = (
    "d.seq, d.id, d.store, d.topic, d.object_id, c.at, d.attempts, d.failures, d.looks"
)
# Nothing overtakes an earlier one of its object that is not settled, and a row of the
# feed is told only once it is known whose change it is.
_NEXT = f"""
    SELECT {_COLUMNS}, c.instance, d.change_id
    FROM deliveries d JOIN feed c ON c.id = d.change_id
    WHERE d.instance = :instance AND d.state = 'planned' AND d.due_at <= :now
      AND c.waits = 0 AND NOT EXISTS (
        SELECT 1 FROM deliveries o WHERE o.instance = d.instance
          AND o.object_id = d.object_id AND o.seq < d.seq
          AND o.state IN ('planned', 'sending', 'uncertain', 'parked'))
    ORDER BY d.seq LIMIT 1
"""  # noqa: S608 - constants
_DOUBTFUL = f"""
    SELECT {_COLUMNS} FROM deliveries d JOIN changes c ON c.id = d.change_id
    WHERE d.instance = ? AND d.state = 'uncertain' AND d.due_at <= ?
    ORDER BY d.due_at LIMIT 1
"""  # noqa: S608 - constants
# Each half by an index of its own.
_ANY_OPEN = """
    SELECT 1 FROM deliveries WHERE instance = ?1 AND state = 'planned'
    UNION ALL
    SELECT 1 FROM deliveries
    WHERE instance = ?1 AND state IN ('sending', 'uncertain') LIMIT 1
"""
_LEVEL = f"""
    SELECT l.product_id, l.variant_id, v.sku, l.stock, t.stock
    FROM inventory_levels l
    LEFT JOIN variants v
      ON v.store = l.store AND v.id = l.variant_id AND {NEWEST}
    LEFT JOIN told_levels t ON t.instance = ?1 AND t.store = l.store
         AND t.variant_id = l.variant_id
    WHERE l.store = ?2 AND l.variant_id = ?3
"""  # noqa: S608 - constants
_DAMAGED = "what it tells of is damaged in the database and is read again; resend it"
_INTERRUPTED = "the program stopped while this was being handed over"
_UNDER_WAY = frozenset({State.SENDING, State.UNCERTAIN})
_VERBS = {
    "resend": Cause.PERSON_RESENDS,
    "applied": Cause.PERSON_CONFIRMS,
    "drop": Cause.PERSON_DROPS,
    "park": Cause.PERSON_PARKS,
}
PASSED_OVER = 50
"""How many that are no news any more are passed over in one transaction."""
# Rows of the feed that are not deliveries yet count: they may tell of another level.
_FOLLOWS = """
    SELECT 1 FROM deliveries d JOIN deliveries o ON o.instance = d.instance
      AND o.object_id = d.object_id AND o.seq > d.seq AND o.state = 'planned'
    WHERE d.seq = :seq
    UNION ALL
    SELECT 1 FROM subscribers s JOIN changes c ON c.id > s."cursor"
    WHERE s.instance = :instance AND c.store = :store
      AND c.kind IN ('level', 'product') AND c.object_id = :product
"""
_CANCELLED_BY = """
    SELECT instance FROM commands WHERE store = ? AND effect_id = ?
"""
_SETTLED = frozenset({State.APPLIED, State.REJECTED, State.SUPERSEDED})


class SqlDeliveries:
    """Every verb is one transaction."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def subscribe(self, subscriber: Subscriber) -> None:
        """Remember the instance, from its first time on, and doubt what was sending."""

        def unit(connection: sqlite3.Connection) -> None:
            now = to_text(self._clock.now())
            change_fanout.subscribe(connection, subscriber, now)
            connection.execute(
                "UPDATE deliveries SET state = ?, reason = ?, due_at = ?"
                " WHERE instance = ? AND state = 'sending'",
                (
                    next_state(State.SENDING, Cause.UNKNOWN),
                    _INTERRUPTED,
                    now,
                    subscriber.instance,
                ),
            )
            # A clock that was set back must not keep anything waiting.
            connection.execute(
                "UPDATE deliveries SET due_at = min(due_at, ?)"
                " WHERE instance = ? AND state IN ('planned', 'uncertain')",
                (now, subscriber.instance),
            )

        await self._writer.urgent(unit)

    async def retire(self, instances: Sequence[str]) -> None:
        """Note that no connection but these waits for orders."""

        def unit(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE subscribers SET release_when = NULL WHERE instance NOT IN"
                " (SELECT value FROM json_each(?))",
                (json.dumps([*instances]),),
            )

        await self._writer.urgent(unit)

    async def fan_out(self, subscriber: Subscriber, slice_seconds: float) -> bool:
        """Make rows of the change feed deliveries; tell whether there is more."""

        def unit(connection: sqlite3.Connection) -> bool:
            follower = change_fanout.Fanout(connection, subscriber, self._clock)
            return follower.follow(slice_seconds)

        return await self._writer.background(unit)

    async def has_open(self, instance: str) -> bool:
        """Tell whether anything is to be handed over, or in doubt."""

        def unit(connection: sqlite3.Connection) -> bool:
            return connection.execute(_ANY_OPEN, (instance,)).fetchone() is not None

        return await self._writer.urgent(unit)

    async def claim(self, subscriber: Subscriber) -> Outgoing | None:
        """Move the next that may leave to `sending`, durably, and return it."""

        def unit(connection: sqlite3.Connection) -> tuple[Outgoing | None, bool]:
            return _claim(connection, subscriber.instance, to_text(self._clock.now()))

        # What is no news any more is passed over a few at a time: others write too.
        claimed, is_more = await self._writer.urgent(unit)
        while claimed is None and is_more:
            claimed, is_more = await self._writer.background(unit)
        return claimed

    async def next_uncertain(self, instance: str) -> Outgoing | None:
        """Return the next in doubt that is due."""

        def unit(connection: sqlite3.Connection) -> Outgoing | None:
            now = to_text(self._clock.now())
            row = connection.execute(_DOUBTFUL, (instance, now)).fetchone()
            if row is None:
                return None
            _, _, store, topic, object_id, *_ = row
            document = _document(connection, instance, topic, store, object_id)
            return _outgoing(row, document or {"id": object_id})

        return await self._writer.urgent(unit)

    async def record_outcome(
        self, instance: str, delivery: Outgoing, outcome: DeliveryOutcome
    ) -> bool:
        """Move a delivery on, durably; False where a person has decided meanwhile."""

        def unit(connection: sqlite3.Connection) -> bool:
            now = to_text(self._clock.now())
            if _state(connection, delivery.seq) not in _UNDER_WAY:
                return False
            _move(connection, delivery.seq, outcome.cause, outcome.reason, now)
            if outcome.cause is Cause.CONFIRMED and delivery.topic == "stock.changed":
                _told(connection, instance, delivery.store, delivery.document)
            connection.execute(
                "UPDATE deliveries SET due_at = ?, failures = ?, looks = ?,"
                " reference = coalesce(?, reference) WHERE seq = ?",
                (
                    outcome.due_at or now,
                    outcome.failures,
                    outcome.checks,
                    outcome.reference,
                    delivery.seq,
                ),
            )
            return True

        return await self._writer.urgent(unit)

    async def decide(self, seq: int, verb: str, who: str, reason: str) -> State:
        """Move a delivery as a person says; return it. Raises BackhaulError."""

        def unit(connection: sqlite3.Connection) -> State:
            now = to_text(self._clock.now())
            said = f"{verb} by {who}: {reason}"
            state = _move(connection, seq, _VERBS[verb], said, now)
            deed = AuditEntry(who, f"deliveries {verb}", f"delivery {seq}: {reason}")
            add_entry(connection, now, deed)
            connection.execute(
                "UPDATE deliveries SET due_at = ?, failures = 0, looks = 0"
                " WHERE seq = ?",
                (now, seq),
            )
            return state

        return await self._writer.urgent(unit)


def _claim(
    connection: sqlite3.Connection, instance: str, now: str
) -> tuple[Outgoing | None, bool]:
    """Begin the next delivery, and tell whether there may be more."""
    values = {"instance": instance, "now": now}
    for _ in range(PASSED_OVER):
        row = connection.execute(_NEXT, values).fetchone()
        if row is None:
            return None, False
        *columns, cause, _ = row
        found = _claimed(connection, instance, columns, cause, now)
        if found is not None:
            return found, True
    return None, True


def _claimed(
    connection: sqlite3.Connection,
    instance: str,
    columns: list[Any],
    cause: str | None,
    now: str,
) -> Outgoing | None:
    """Begin a delivery, unless there is nothing to be told any more."""
    seq, _, store, topic, object_id, *_ = columns
    document = _document(connection, instance, topic, store, object_id)
    if _is_own(connection, instance, cause, store, topic, object_id):
        _move(connection, seq, Cause.REPLACED, "its own command caused this", now)
        if topic == "stock.changed" and document:
            place = {"seq": seq, "instance": instance, "store": store}
            place["product"] = document["productId"]
            if not connection.execute(_FOLLOWS, place).fetchone():
                _told(connection, instance, store, document)
    elif document is None:
        _move(connection, seq, Cause.REPLACED, "it is gone, or told already", now)
    elif not document:
        _park_damaged(connection, seq, instance, (topic, store, object_id), now)
    else:
        _move(connection, seq, Cause.SEND, "", now)
        connection.execute(
            "UPDATE deliveries SET attempts = attempts + 1, sent_at = ? WHERE seq = ?",
            (now, seq),
        )
        if topic == "stock.changed":
            # What it is told last is not known until it has answered.
            connection.execute(
                "DELETE FROM told_levels WHERE instance = ? AND store = ?"
                " AND variant_id = ?",
                (instance, store, object_id),
            )
        return _outgoing(columns, document)
    return None


def _park_damaged(
    connection: sqlite3.Connection,
    seq: int,
    instance: str,
    about: tuple[str, str, str],
    now: str,
) -> None:
    """Leave to a person what cannot be told; until they look it is read again."""
    topic, store, object_id = about
    state = _move(connection, seq, Cause.UNDECIDABLE, _DAMAGED, now)
    conflict = Conflict(store, topic.partition(".")[0], object_id, "it is damaged here")
    enqueue_refetch(connection, conflict, now, now)
    logger.bind(action=f"delivery.{state}", instance=instance).warning(
        "{} {} {}: {}", instance, topic, object_id, _DAMAGED
    )


def _outgoing(columns: Sequence[Any], document: dict[str, Any]) -> Outgoing:
    seq, id_, store, topic, object_id, at, attempts, failures, looks = columns
    return Outgoing(
        seq, id_, store, topic, object_id, at, attempts, failures, looks, document
    )


def _is_own(
    connection: sqlite3.Connection,
    instance: str,
    cause: str | None,
    store: str,
    topic: str,
    order: str,
) -> bool:
    """Tell whether a delivery would tell an instance what it asked for itself.

    An event may show one's own parcel and a customer's cancellation at once, so who
    cancelled is told by the cancellation, and that nothing else changed by the cause.
    """
    if topic == "order.cancelled" and _canceller(connection, store, order) != instance:
        return False
    return cause == instance and topic != "order.placed"


def _canceller(connection: sqlite3.Connection, store: str, order: str) -> str | None:
    (at,) = connection.execute(
        "SELECT max(cancelled_at) FROM orders WHERE store = ? AND id = ?",
        (store, order),
    ).fetchone()
    effect = (store, cancellation(order, at)) if at else (store, "")
    row = connection.execute(_CANCELLED_BY, effect).fetchone()
    return row[0] if row else None


def _told(
    connection: sqlite3.Connection,
    instance: str,
    store: str,
    document: dict[str, Any],
) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO told_levels VALUES (?, ?, ?, ?)",
        (instance, store, document["variantId"], document["stock"]),
    )


def _document(
    connection: sqlite3.Connection,
    instance: str,
    topic: str,
    store: str,
    object_id: str,
) -> dict[str, Any] | None:
    """Return what is told, as the mirror has it; None where that is nothing.

    It is empty where the mirror's row is damaged.
    """
    if topic == "stock.changed":
        return _level(connection, instance, store, object_id)
    if topic == "product.deleted":
        return {"id": object_id}
    query = DOCUMENTS[topic.partition(".")[0]]
    row = connection.execute(query, (store, object_id)).fetchone()
    if row is None:
        return None
    return document_of(row[0])


def _level(
    connection: sqlite3.Connection, instance: str, store: str, variant: str
) -> dict[str, Any] | None:
    row = connection.execute(_LEVEL, (instance, store, variant)).fetchone()
    if row is None:
        return None
    product, variant, sku, stock, told = row
    if stock == told:
        return None
    return {
        "id": variant,
        "productId": product,
        "variantId": variant,
        "sku": sku,
        "stock": stock,
    }


def _state(connection: sqlite3.Connection, seq: int) -> State:
    row = connection.execute(
        "SELECT state FROM deliveries WHERE seq = ?", (seq,)
    ).fetchone()
    if row is None:
        raise BackhaulError(
            f"there is no delivery {seq}; see: backhaul connectors deliveries"
        )
    return State(row[0])


def _move(
    connection: sqlite3.Connection, seq: int, cause: Cause, reason: str, now: str
) -> State:
    """Move a delivery through the table of moves; return where it stands then."""
    before = _state(connection, seq)
    try:
        state = next_state(before, cause)
    except ValueError:
        raise BackhaulError(
            f"delivery {seq} is {before}; that cannot be done to it"
        ) from None
    connection.execute(
        "UPDATE deliveries SET state = ?, reason = ?, settled_at = ? WHERE seq = ?",
        (state, reason, now if state in _SETTLED else None, seq),
    )
    return state
