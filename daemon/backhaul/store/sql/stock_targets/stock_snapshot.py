"""What the mirror and the outbox know of one variant's stock, for its target."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.core.clock import from_text, to_text
from backhaul.core.stock import Movement, PendingMove, Reservation, StockSnapshot
from backhaul.store.sql.commands import restore_adoption
from backhaul.store.sql.dialect import document, member

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from backhaul.store.stock_targets import Target

PATIENCE = timedelta(minutes=15)
"""How long a count waits for the order of what was handed in before it.

So long a restock of ours, too, may be news that did not come yet.
"""
EARLY_SECONDS, LATE_SECONDS = 300, 3_600
"""How long before, as clocks differ, and after an attempt in doubt it may have landed.

That is longer than it is looked for; a move of a later day is somebody else's.
"""
_LEVEL = """
    SELECT stock, updated_at FROM inventory_levels
    WHERE store = :store AND variant_id = :variant
"""
_MOVEMENTS = f"""
    SELECT l.adjustment_id, l.at, l.adjustment, l.stock_after,
           coalesce('order ' || (SELECT coalesce(o.name, o.id) FROM orders o
                    WHERE o.store = l.store AND o.id = l.cause),
                    'command ' || substr(c.id, 1, 8),
                    l.reason || ' ' || coalesce(l.cause, '')),
           {member("c.payload", "$.target")} IS NOT NULL,
           coalesce(c.caused_at, c.created_at, iif(l.reason = 'ORDER_CANCELLED', (
             SELECT min(coalesce(x.caused_at, x.created_at)) FROM commands x
             WHERE x.store = l.store AND x.target = l.cause AND x.kind = 'cancel'
               AND (x.state IN ('applied', 'sending', 'uncertain')
                 OR x.state = 'planned' AND {member("x.payload", "$.restock")})), NULL))
    FROM stock_ledger l
    LEFT JOIN commands c ON c.store = l.store AND c.effect_id = l.adjustment_id
    WHERE l.store = :store AND l.variant_id = :variant AND l.at >= :since
    ORDER BY l.at, l.id
"""  # noqa: S608 - constants
# Of lives that this database does not remember, as it was restored, and of commands
# that are damaged and do not say any more whether they were a count's step.
_ADOPTED = f"""
    SELECT a.command_id, a.adjustment_id FROM adopted a
    JOIN stock_ledger l ON l.store = a.store AND l.adjustment_id = a.adjustment_id
    WHERE a.store = :store AND l.variant_id = :variant AND l.at >= :since
    UNION ALL
    SELECT c.id, c.effect_id FROM stock_ledger l
    JOIN commands c ON c.store = l.store AND c.effect_id = l.adjustment_id
    WHERE l.store = :store AND l.variant_id = :variant AND l.at >= :since
      AND {member("c.payload", "$.delta")} IS NULL
"""  # noqa: S608 - constants
_ANCHORS = """
    SELECT DISTINCT stock_after FROM stock_ledger
    WHERE store = :store AND variant_id = :variant AND at = (
      SELECT max(at) FROM stock_ledger
      WHERE store = :store AND variant_id = :variant AND at < :since)
"""
# Sales that only the order tells of: the news of the stock was lost.
_UNREPORTED_SALES = """
    SELECT o.placed_at, -sum(i.quantity), 'order ' || coalesce(o.name, o.id)
    FROM order_items i JOIN orders o ON o.store = i.store AND o.id = i.order_id
    WHERE i.variant_id = :variant AND i.store = :store AND o.placed_at >= :since
      AND o.cancelled_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM stock_ledger l WHERE l.store = o.store AND l.cause = o.id
        AND l.variant_id = i.variant_id)
    GROUP BY o.id
"""
# What is damaged is not sent, but left to a person as soon as its turn comes.
_ADJUSTS = f"""
    SELECT id, {member("payload", "$.delta")}, coalesce(caused_at, created_at)
    FROM commands WHERE store = :store AND lane = 'product:' || :product
      AND state IN ('planned', 'sending', 'uncertain') AND kind = 'adjust'
      AND {member("payload", "$.delta")} IS NOT NULL
      AND {member("payload", "$.target")} IS NULL
      AND coalesce({member("payload", "$.variant_id")}, :variant) = :variant
"""  # noqa: S608 - constants
# One that may have left is under way until its answer, whatever its order's news say:
# the level may have been read before it landed.
_CANCELS = f"""
    SELECT c.id, sum(i.quantity), coalesce(c.caused_at, c.created_at), c.state
    FROM order_items i
    JOIN orders o ON o.store = i.store AND o.id = i.order_id
    JOIN commands c ON c.store = i.store AND c.lane = 'order:' || i.order_id
      AND c.state IN ('planned', 'sending', 'uncertain') AND c.kind = 'cancel'
      AND coalesce({member("c.payload", "$.restock")}, c.state != 'planned')
    WHERE i.variant_id = :variant AND i.store = :store
      AND (o.cancelled_at IS NULL OR c.state != 'planned')
      AND NOT EXISTS (
        SELECT 1 FROM stock_ledger l WHERE l.store = i.store AND l.cause = o.id
        AND l.variant_id = i.variant_id AND l.reason = 'ORDER_CANCELLED')
    GROUP BY c.id
"""  # noqa: S608 - constants
# Units of a parcel that left later were still on the shelf; a parcel that does not say
# what it holds holds all that is fulfilled.
_RESERVED = f"""
    SELECT coalesce(o.name, o.id), sum(i.quantity - i.fulfilled_quantity + iif(EXISTS (
             SELECT 1 FROM shipments s WHERE s.store = o.store AND s.order_id = o.id
             AND s.shipped_at > :as_of),
           coalesce((
             SELECT sum(p.value ->> 'quantity')
             FROM shipments s, json_each({document("o.document")}, '$.shipments') d,
                  json_each(d.value, '$.items') p
             WHERE s.store = o.store AND s.order_id = o.id AND s.shipped_at > :as_of
               AND d.value ->> 'id' = s.id AND p.value ->> 'lineItemId' = i.id),
           i.fulfilled_quantity), 0)) AS units
    FROM order_items i JOIN orders o ON o.store = i.store AND o.id = i.order_id
    WHERE i.variant_id = :variant AND i.store = :store AND o.placed_at <= :as_of
      AND (o.cancelled_at IS NULL OR o.cancelled_at > :as_of)
    GROUP BY o.id HAVING units > 0
"""  # noqa: S608 - constants
_UNDER_WAY = """
    SELECT kind || ' command ' || substr(id, 1, 8) || ' is under way' FROM commands
    WHERE store = :store AND lane = 'product:' || :product
      AND state IN ('sending', 'uncertain') LIMIT 1
"""
# What was sent before and landed late is known by when the history says it moved. The
# plus leads to the few commands of the product, past the index of all effects.
UNREPORTED = f"""
    SELECT 'no event has arrived yet for command ' || substr(c.id, 1, 8) FROM commands c
    WHERE c.target = :product AND c.store = :store AND c.kind = 'adjust'
      AND c.state = 'applied' AND +c.effect_id IS NOT NULL
      AND (c.sent_at >= :since OR c.settled_at >= :since
        AND {member("c.evidence", "$.moves[0].at")} >= :since)
      AND coalesce({member("c.payload", "$.variant_id")}, :variant) = :variant
      AND NOT EXISTS (SELECT 1 FROM stock_ledger l
                      WHERE l.store = c.store AND l.adjustment_id = c.effect_id)
    UNION ALL
    SELECT 'no event has arrived yet for command ' || substr(a.command_id, 1, 8)
           || ', from before the database was restored'
    FROM adopted a WHERE a.store = :store AND NOT EXISTS (
        SELECT 1 FROM stock_ledger l
        WHERE l.store = a.store AND l.adjustment_id = a.adjustment_id)
      AND EXISTS (
        SELECT 1 FROM json_each({document("a.evidence")}, '$.moves') m
        WHERE m.value ->> 'product_id' = :product AND m.value ->> 'at' >= :since
          AND coalesce(m.value ->> 'variant_id', :variant) = :variant)
    LIMIT 1
"""  # noqa: S608 - constants
# The level may have been read before such a cancellation landed, or before somebody
# cancelled an order by hand that one of ours waits for. What was settled, or heard of,
# before a study began is in its level, whether or not the platform tells of the cause.
UNREPORTED_RESTOCK = f"""
    SELECT 'nothing was heard yet of the restock of command ' || substr(c.id, 1, 8)
    FROM order_items i JOIN commands c ON c.store = i.store AND c.target = i.order_id
    CROSS JOIN orders o ON o.store = i.store AND o.id = i.order_id
    WHERE i.variant_id = :variant AND i.store = :store AND c.kind = 'cancel'
      AND (c.state = 'applied' OR c.state = 'planned' AND o.cancelled_at IS NOT NULL)
      AND iif(c.state = 'applied', c.settled_at, o.seen_at)
        >= coalesce(:studied_at, :patience)
      AND coalesce({member("c.payload", "$.restock")}, 1)
      AND NOT EXISTS (
        SELECT 1 FROM stock_ledger l WHERE l.store = i.store AND l.cause = i.order_id
        AND l.variant_id = i.variant_id AND l.reason = 'ORDER_CANCELLED')
    LIMIT 1
"""  # noqa: S608 - constants
_MAY_BE = """
    'the move of ' || printf('%+d', l.adjustment) || ' at ' || l.at
    || ' may be that of command ' || substr(c.id, 1, 8) || ', which is ' || c.state
"""
_MAY_BE_ITS_EFFECT = f"""
    EXISTS (SELECT 1 FROM attempts t
      WHERE t.command_id = c.id AND coalesce(t.outcome, 'uncertain') = 'uncertain'
        AND unixepoch(l.at) - unixepoch(t.started_at)
          BETWEEN -{EARLY_SECONDS} AND {LATE_SECONDS})
"""  # noqa: S608 - constants
# What nobody owns may be goods, or a command of ours of which it was never proved
# whether it landed: reckoned as goods, what it moved would be made good once more.
# Where it changes nothing which of the two it is, nothing is in doubt.
_UNCERTAIN = f"""
    SELECT {_MAY_BE} FROM stock_ledger l CROSS JOIN commands c
      ON c.store = l.store AND c.target = l.product_id
    WHERE l.store = :store AND l.variant_id = :variant AND l.at >= :since
      AND (l.adjustment < 0 OR l.at > :as_of)
      AND coalesce(l.cause, '') IN ('', l.adjustment_id)
      AND NOT EXISTS (SELECT 1 FROM commands o
        WHERE o.store = l.store AND o.effect_id = l.adjustment_id)
      AND NOT EXISTS (SELECT 1 FROM adopted a
        WHERE a.store = l.store AND a.adjustment_id = l.adjustment_id)
      AND c.kind = 'adjust' AND c.effect_id IS NULL
      AND {member("c.payload", "$.delta")} = l.adjustment
      AND coalesce({member("c.payload", "$.variant_id")}, :variant) = :variant
      AND ({member("c.payload", "$.target")} IS NOT NULL
        OR coalesce(c.caused_at, c.created_at) <= :as_of)
      AND {_MAY_BE_ITS_EFFECT}
    LIMIT 1
"""  # noqa: S608 - constants
# The same of a cancellation: what came back to its order after the count was on the
# shelf by then, if this was it. Another one that was asked for as early says so too.
_RESTOCK_UNCERTAIN = f"""
    SELECT {_MAY_BE} FROM stock_ledger l CROSS JOIN commands c
      ON c.store = l.store AND c.target = l.cause
    WHERE l.store = :store AND l.variant_id = :variant AND l.at >= :since
      AND l.at > :as_of AND l.adjustment > 0
      AND c.kind = 'cancel' AND c.state IN ('parked', 'rejected', 'superseded')
      AND coalesce({member("c.payload", "$.restock")}, 1)
      AND coalesce(c.caused_at, c.created_at) <= :as_of
      AND NOT EXISTS (SELECT 1 FROM commands o
        WHERE o.store = c.store AND o.target = c.target AND o.kind = 'cancel'
          AND o.state IN ('applied', 'sending', 'uncertain', 'planned')
          AND coalesce(o.caused_at, o.created_at) <= :as_of)
      AND {_MAY_BE_ITS_EFFECT}
    LIMIT 1
"""  # noqa: S608 - constants
# What it puts back was on the shelf when it was counted; its order is not known yet.
# One whose order does not come for so long may have a wrong number.
_WAITING = f"""
    SELECT 'a cancellation that was submitted before it, ' || locator
           || ', waits for its order'
    FROM records WHERE state = 'waiting' AND store = :store
      AND {member("payload", "$.kind")} = 'cancel'
      AND {member("payload", "$.record.restock")}
      AND coalesce(caused_at, received_at) BETWEEN :patience AND :as_of LIMIT 1
"""  # noqa: S608 - constants


def undecided_work(connection: sqlite3.Connection, values: Mapping[str, object]) -> str:
    """Say what is not decided yet of the product, or of an order with the variant."""
    row = connection.execute(_UNDER_WAY, values).fetchone()
    if row is not None:
        return str(row[0])
    for id_, _, _, state in connection.execute(_CANCELS, values):
        if state != "planned":
            return f"cancel command {id_[:8]} is under way"
    row = connection.execute(_WAITING, values).fetchone()
    return str(row[0]) if row is not None else ""


def _earlier_steps(
    connection: sqlite3.Connection, values: Mapping[str, object]
) -> set[str]:
    """Return the adjustments that were steps of its counts in another life."""
    adopted = dict(connection.execute(_ADOPTED, values).fetchall())
    if not adopted:
        return set()
    steps = restore_adoption.possible_adjustments(connection, values)
    return {effect for command, effect in adopted.items() if command in steps}


def _unreported(connection: sqlite3.Connection, values: Mapping[str, object]) -> str:
    """Say which step of ours is not among the movements, or may be one of them."""
    for query in (UNREPORTED, UNREPORTED_RESTOCK, _UNCERTAIN, _RESTOCK_UNCERTAIN):
        row = connection.execute(query, values).fetchone()
        if row is not None:
            return str(row[0])
    command = restore_adoption.unknown_adjustment(connection, values)
    return command and (
        f"command {command[:8]}, from before the database was restored, may be the"
        " adjustment of a newer count"
    )


def snapshot_values(
    target: Target, since: str, studied_at: str | None, now: str
) -> dict[str, object]:
    """Return what the queries ask for."""
    return {
        "patience": to_text(from_text(now) - PATIENCE),
        "store": target.command.store,
        "product": target.command.target,
        "variant": target.variant_id,
        "as_of": target.count.as_of,
        "since": since,
        "studied_at": studied_at,
    }


def load_snapshot(
    connection: sqlite3.Connection, values: Mapping[str, object], level: int
) -> StockSnapshot:
    """Return all that is known of the variant; `level` was read of the platform."""
    mirrored, moved_at = connection.execute(_LEVEL, values).fetchone() or (None, "")
    movements = connection.execute(_MOVEMENTS, values)
    earlier = _earlier_steps(connection, values)
    promised = [*connection.execute(_ADJUSTS, values)]
    promised += [row[:3] for row in connection.execute(_CANCELS, values)]
    return StockSnapshot(
        level=level,
        mirrored=mirrored,
        movements=tuple(
            Movement(at, delta, after, cause, bool(own) or effect in earlier, caused_at)
            for effect, at, delta, after, cause, own, caused_at in movements
        ),
        anchors=frozenset(row[0] for row in connection.execute(_ANCHORS, values)),
        promises=tuple(PendingMove(*row) for row in promised),
        reserved=tuple(Reservation(*r) for r in connection.execute(_RESERVED, values)),
        moved_at=moved_at,
        unheard=_unreported(connection, values),
        untold=tuple(
            Movement(at, delta, None, cause)
            for at, delta, cause in connection.execute(_UNREPORTED_SALES, values)
        ),
    )
