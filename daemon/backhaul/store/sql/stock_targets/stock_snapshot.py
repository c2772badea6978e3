"""Loads what is known about the stock of one variant, for its stock target."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.core.clock import from_text, to_text
from backhaul.core.stock import Movement, PendingMove, Reservation, StockSnapshot
from backhaul.store.sql.commands import restore_adoption
from backhaul.store.sql.dialect import (
    elements,
    epoch,
    flag,
    has,
    hint,
    member,
    number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.core.stock_decision import StockReading, Target
    from backhaul.store.sql.family import Connection

PATIENCE = timedelta(minutes=15)
"""How long a count waits for an order, or for our restock event, that predates it."""
EARLY_SECONDS, LATE_SECONDS = 300, 3_600
"""A movement so long before an uncertain attempt, or after it, may be its effect.

Clocks differ, and checks take less than that. A later movement has another cause.
"""


def _restocks(command: str, otherwise: str = "") -> str:
    """Return SQL that is true if a cancellation restocks.

    A damaged one, or one that does not say, restocks under the condition `otherwise`.
    """
    is_silent = f"NOT {has(f'{command}.payload', '$.restock')}"
    unclear = f"{is_silent} AND {otherwise}" if otherwise else is_silent
    return f"({flag(f'{command}.payload', '$.restock')} OR {unclear})"


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
           {has("c.payload", "$.target")},
           coalesce(c.caused_at, c.created_at, (
             SELECT min(coalesce(x.caused_at, x.created_at)) FROM commands x
             WHERE l.reason = 'ORDER_CANCELLED'
               AND x.store = l.store AND x.target = l.cause AND x.kind = 'cancel'
               AND (x.state IN ('applied', 'sending', 'uncertain')
                 OR x.state = 'planned' AND {flag("x.payload", "$.restock")})))
    FROM stock_ledger l
    LEFT JOIN commands c ON c.store = l.store AND c.effect_id = l.adjustment_id
    WHERE l.store = :store AND l.variant_id = :variant AND l.at >= :since
    ORDER BY l.at, l.id
"""  # noqa: S608 - constants
# Pre-restore effects, and effects of damaged commands, which do not show any more
# whether they were adjustments of a target.
_ADOPTED = f"""
    SELECT a.command_id, a.adjustment_id FROM adopted_effects a
    JOIN stock_ledger l ON l.store = a.store AND l.adjustment_id = a.adjustment_id
    WHERE a.store = :store AND l.variant_id = :variant AND l.at >= :since
    UNION ALL
    SELECT c.id, c.effect_id FROM stock_ledger l
    JOIN commands c ON c.store = l.store AND c.effect_id = l.adjustment_id
    WHERE l.store = :store AND l.variant_id = :variant AND l.at >= :since
      AND NOT {has("c.payload", "$.delta")}
"""  # noqa: S608 - constants
_ANCHORS = """
    SELECT DISTINCT stock_after FROM stock_ledger
    WHERE store = :store AND variant_id = :variant AND at = (
      SELECT max(at) FROM stock_ledger
      WHERE store = :store AND variant_id = :variant AND at < :since)
"""
# Sales that only the order shows, because the event about the stock was lost.
_UNREPORTED_SALES = """
    SELECT o.placed_at, -sum(i.quantity), 'order ' || coalesce(o.name, o.id)
    FROM order_items i JOIN orders o ON o.store = i.store AND o.id = i.order_id
    WHERE i.variant_id = :variant AND i.store = :store AND o.placed_at >= :since
      AND o.cancelled_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM stock_ledger l WHERE l.store = o.store AND l.cause = o.id
        AND l.variant_id = i.variant_id)
    GROUP BY o.id, o.name, o.placed_at
"""
# A damaged command is not sent: the dispatcher parks it.
_ADJUSTS = f"""
    SELECT id, {number("payload", "$.delta")}, coalesce(caused_at, created_at)
    FROM commands WHERE store = :store AND lane = 'product:' || :product
      AND state IN ('planned', 'sending', 'uncertain') AND kind = 'adjust'
      AND {has("payload", "$.delta")} AND NOT {has("payload", "$.target")}
      AND coalesce({member("payload", "$.variant_id")}, :variant) = :variant
"""  # noqa: S608 - constants
# A cancellation that may have been sent is pending until its outcome is known, whatever
# events show: the level may have been read before it took effect.
_CANCELS = f"""
    SELECT c.id, sum(i.quantity), coalesce(c.caused_at, c.created_at), c.state
    FROM order_items i
    JOIN orders o ON o.store = i.store AND o.id = i.order_id
    JOIN commands c ON c.store = i.store AND c.lane = 'order:' || i.order_id
      AND c.state IN ('planned', 'sending', 'uncertain') AND c.kind = 'cancel'
      AND {_restocks("c", "c.state != 'planned'")}
    WHERE i.variant_id = :variant AND i.store = :store
      AND (o.cancelled_at IS NULL OR c.state != 'planned')
      AND NOT EXISTS (
        SELECT 1 FROM stock_ledger l WHERE l.store = i.store AND l.cause = o.id
        AND l.variant_id = i.variant_id AND l.reason = 'ORDER_CANCELLED')
    GROUP BY c.id, c.caused_at, c.created_at, c.state
"""  # noqa: S608 - constants
# Units of a parcel that left after the count were counted. A parcel without content has
# all units that are fulfilled.
_LEFT_SINCE = f"""
    CASE WHEN EXISTS (SELECT 1 FROM shipments s WHERE s.store = o.store
                      AND s.order_id = o.id AND s.shipped_at > :as_of)
    THEN coalesce((
      SELECT sum({number("p.value", "$.quantity")})
      FROM shipments s, {elements("o.document", "$.shipments")} d,
           {elements("d.value", "$.items")} p
      WHERE s.store = o.store AND s.order_id = o.id AND s.shipped_at > :as_of
        AND {member("d.value", "$.id")} = s.id
        AND {member("p.value", "$.lineItemId")} = i.id), i.fulfilled_quantity)
    ELSE 0 END
"""  # noqa: S608 - constants
_RESERVED = f"""
    SELECT name, units FROM (
      SELECT coalesce(o.name, o.id) AS name,
             sum(i.quantity - i.fulfilled_quantity + {_LEFT_SINCE}) AS units
      FROM order_items i JOIN orders o ON o.store = i.store AND o.id = i.order_id
      WHERE i.variant_id = :variant AND i.store = :store AND o.placed_at <= :as_of
        AND (o.cancelled_at IS NULL OR o.cancelled_at > :as_of)
      GROUP BY o.id, o.name) r
    WHERE units > 0
"""  # noqa: S608 - constants
_UNDER_WAY = """
    SELECT kind || ' command ' || substr(id, 1, 8) || ' is under way' FROM commands
    WHERE store = :store AND lane = 'product:' || :product
      AND state IN ('sending', 'uncertain') LIMIT 1
"""
# The time of a late effect is the one in the platform's history. The hint leads SQLite
# to the few commands of the product, past the index of all effects.
UNREPORTED = f"""
    SELECT 'no event has arrived yet for command ' || substr(c.id, 1, 8) FROM commands c
    WHERE c.target = :product AND c.store = :store AND c.kind = 'adjust'
      AND c.state = 'applied' AND {hint("+")}c.effect_id IS NOT NULL
      AND (c.sent_at >= :since OR c.settled_at >= :since
        AND {member("c.evidence", "$.moves[0].at")} >= :since)
      AND coalesce({member("c.payload", "$.variant_id")}, :variant) = :variant
      AND NOT EXISTS (SELECT 1 FROM stock_ledger l
                      WHERE l.store = c.store AND l.adjustment_id = c.effect_id)
    UNION ALL
    SELECT 'no event has arrived yet for command ' || substr(a.command_id, 1, 8)
           || ', from before the database was restored'
    FROM adopted_effects a WHERE a.store = :store AND NOT EXISTS (
        SELECT 1 FROM stock_ledger l
        WHERE l.store = a.store AND l.adjustment_id = a.adjustment_id)
      AND EXISTS (
        SELECT 1 FROM {elements("a.evidence", "$.moves")} m
        WHERE {member("m.value", "$.product_id")} = :product
          AND {member("m.value", "$.at")} >= :since
          AND coalesce({member("m.value", "$.variant_id")}, :variant) = :variant)
    LIMIT 1
"""  # noqa: S608 - constants
# The level may have been read before such a cancellation took effect, or before an
# order was cancelled elsewhere whose cancellation is planned here. A study that began
# later has the restock in its level, whether or not the platform names its cause.
UNREPORTED_RESTOCK = f"""
    SELECT 'no event has arrived yet for the restock of command ' || substr(c.id, 1, 8)
    FROM order_items i JOIN commands c ON c.store = i.store AND c.target = i.order_id
    {hint("CROSS")} JOIN orders o ON o.store = i.store AND o.id = i.order_id
    WHERE i.variant_id = :variant AND i.store = :store AND c.kind = 'cancel'
      AND (c.state = 'applied' AND c.settled_at >= coalesce(:studied_at, :patience)
        OR c.state = 'planned' AND o.cancelled_at IS NOT NULL
          AND o.seen_at >= coalesce(:studied_at, :patience))
      AND {_restocks("c")}
      AND NOT EXISTS (
        SELECT 1 FROM stock_ledger l WHERE l.store = i.store AND l.cause = i.order_id
        AND l.variant_id = i.variant_id AND l.reason = 'ORDER_CANCELLED')
    LIMIT 1
"""  # noqa: S608 - constants
_MAY_BE = """
    'the move of ' || CASE WHEN l.adjustment < 0 THEN '' ELSE '+' END || l.adjustment
    || ' at ' || l.at || ' may be that of command ' || substr(c.id, 1, 8)
    || ', which is ' || c.state
"""


def _whole_seconds(column: str) -> str:
    return epoch(f"substr({column}, 1, 19)")


# The half second is for rounding: an epoch is a fraction.
_MAY_BE_ITS_EFFECT = f"""
    EXISTS (SELECT 1 FROM attempts t
      WHERE t.command_id = c.id AND coalesce(t.outcome, 'uncertain') = 'uncertain'
        AND {_whole_seconds("l.at")} - {_whole_seconds("t.started_at")}
          BETWEEN -{EARLY_SECONDS}.5 AND {LATE_SECONDS}.5)
"""  # noqa: S608 - constants
# A movement without an owner may be goods, or the effect of a command whose outcome was
# never proved. Taken for goods, the movement would be applied once more. Skipped where
# the owner makes no difference.
_UNCERTAIN = f"""
    SELECT {_MAY_BE} FROM stock_ledger l JOIN commands c
      ON c.store = l.store AND c.target = l.product_id
    WHERE l.store = :store AND l.variant_id = :variant AND l.at >= :since
      AND (l.adjustment < 0 OR l.at > :as_of)
      AND coalesce(l.cause, '') IN ('', l.adjustment_id)
      AND NOT EXISTS (SELECT 1 FROM commands o
        WHERE o.store = l.store AND o.effect_id = l.adjustment_id)
      AND NOT EXISTS (SELECT 1 FROM adopted_effects a
        WHERE a.store = l.store AND a.adjustment_id = l.adjustment_id)
      AND c.kind = 'adjust' AND c.effect_id IS NULL
      AND {number("c.payload", "$.delta")} = l.adjustment
      AND coalesce({member("c.payload", "$.variant_id")}, :variant) = :variant
      AND ({has("c.payload", "$.target")}
        OR coalesce(c.caused_at, c.created_at) <= :as_of)
      AND {_MAY_BE_ITS_EFFECT}
    LIMIT 1
"""  # noqa: S608 - constants
# The same for a cancellation: if the movement was its effect, the count contains the
# units already. Another cancellation that was requested as early says the same.
_RESTOCK_UNCERTAIN = f"""
    SELECT {_MAY_BE} FROM stock_ledger l JOIN commands c
      ON c.store = l.store AND c.target = l.cause
    WHERE l.store = :store AND l.variant_id = :variant AND l.at >= :since
      AND l.at > :as_of AND l.adjustment > 0
      AND c.kind = 'cancel' AND c.state IN ('parked', 'rejected', 'superseded')
      AND {_restocks("c")}
      AND coalesce(c.caused_at, c.created_at) <= :as_of
      AND NOT EXISTS (SELECT 1 FROM commands o
        WHERE o.store = c.store AND o.target = c.target AND o.kind = 'cancel'
          AND o.state IN ('applied', 'sending', 'uncertain', 'planned')
          AND coalesce(o.caused_at, o.created_at) <= :as_of)
      AND {_MAY_BE_ITS_EFFECT}
    LIMIT 1
"""  # noqa: S608 - constants
# The units that the cancellation restocks were counted, and its order is not known yet.
# If the order does not arrive within PATIENCE, its number may be wrong.
_WAITING = f"""
    SELECT 'a cancellation that was submitted before it, ' || locator
           || ', waits for its order'
    FROM records WHERE state = 'waiting' AND store = :store
      AND {member("payload", "$.kind")} = 'cancel'
      AND {flag("payload", "$.record.restock")}
      AND coalesce(caused_at, received_at) BETWEEN :patience AND :as_of LIMIT 1
"""  # noqa: S608 - constants


def undecided_work(connection: Connection, values: Mapping[str, object]) -> str:
    """Return which work of the product, or of an order with the variant, is open."""
    row = connection.execute(_UNDER_WAY, values).fetchone()
    if row is not None:
        return str(row[0])
    for id_, _, _, state in connection.execute(_CANCELS, values):
        if state != "planned":
            return f"cancel command {id_[:8]} is in progress"
    row = connection.execute(_WAITING, values).fetchone()
    return str(row[0]) if row is not None else ""


def _pre_restore_effects(
    connection: Connection, values: Mapping[str, object]
) -> set[str]:
    """Return the ids of pre-restore effects that were adjustments of known targets."""
    adopted = dict(connection.execute(_ADOPTED, values).fetchall())
    if not adopted:
        return set()
    steps = restore_adoption.possible_adjustments(connection, values)
    return {effect for command, effect in adopted.items() if command in steps}


def _unreported(connection: Connection, values: Mapping[str, object]) -> str:
    """Return which of our effects is not among the movements, or may be one of them."""
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
    target: Target, reading: StockReading, now: str
) -> dict[str, object]:
    """Return the values of the queries of this module."""
    return {
        "now": now,
        "patience": to_text(from_text(now) - PATIENCE),
        "store": target.store,
        "target": target.id,
        "product": target.product_id,
        "variant": target.variant_id,
        "as_of": target.count.as_of,
        "since": reading.since,
        "studied_at": reading.studied_at,
    }


def load_snapshot(
    connection: Connection, values: Mapping[str, object], level: int
) -> StockSnapshot:
    """Return the snapshot of a variant whose level on the platform was just read."""
    mirrored, moved_at = connection.execute(_LEVEL, values).fetchone() or (None, "")
    movements = connection.execute(_MOVEMENTS, values).fetchall()
    earlier = _pre_restore_effects(connection, values)
    pending = [*connection.execute(_ADJUSTS, values)]
    pending += [row[:3] for row in connection.execute(_CANCELS, values)]
    return StockSnapshot(
        level=level,
        mirrored=mirrored,
        movements=tuple(
            Movement(at, delta, after, cause, bool(own) or effect in earlier, caused_at)
            for effect, at, delta, after, cause, own, caused_at in movements
        ),
        anchors=frozenset(row[0] for row in connection.execute(_ANCHORS, values)),
        promises=tuple(PendingMove(*row) for row in pending),
        reserved=tuple(Reservation(*r) for r in connection.execute(_RESERVED, values)),
        moved_at=moved_at,
        unheard=_unreported(connection, values),
        untold=tuple(
            Movement(at, delta, None, cause)
            for at, delta, cause in connection.execute(_UNREPORTED_SALES, values)
        ),
        is_pre_restore=restore_adoption.is_pre_restore(connection, values),
    )
