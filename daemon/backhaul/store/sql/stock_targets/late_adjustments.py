"""Finds adjustments that took effect after a stock count was applied without them.

The adjustment of an older count, or one that the count contains already, was given up,
and the newest count of the variant was applied. The effect of the adjustment is then
too much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.core.effect_proof import TagMeaning
from backhaul.core.lifecycle import State
from backhaul.store.sql.dialect import (
    contains,
    elements,
    has,
    least,
    member,
    number,
    same,
)
from backhaul.store.sql.stock_targets import adjustments
from backhaul.store.sql.stock_targets.adjustments import IN_FLIGHT, OUTDATED

if TYPE_CHECKING:
    from backhaul.store.commands import TaggedAdjustment
    from backhaul.store.sql.family import Connection

MAY_BE_LATE = frozenset({TagMeaning.LATE, TagMeaning.LINKED, TagMeaning.OWN})
"""Meanings of a tag that may be a late effect, also if a check found it before."""
_HAS_MOVES = contains("s.evidence", "'\"moves\"'")
# A count waits for an effect that a response reported. Only an effect that the history
# proved, which is stored as `moves`, may have come after it. A later count has the
# movement in the ledger, unless it took the movement for goods.
_AFFECTED = f"""
    SELECT t.quantity, t.as_of, t.id, t.correction, n.state
    FROM commands s
    JOIN stock_targets t ON t.store = s.store AND t.variant_id = :variant
    LEFT JOIN commands n ON n.id = t.correction
    LEFT JOIN stock_ledger l ON l.store = s.store AND l.adjustment_id = :adjustment
      AND l.variant_id = t.variant_id
    WHERE s.id = :command AND s.store = :store AND s.kind = 'adjust'
      AND (s.effect_id IS NULL OR {_HAS_MOVES})
      AND NOT EXISTS (SELECT 1 FROM {elements("s.evidence", "$.doubled")} d
        WHERE d.value = :adjustment)
      AND NOT {same("t.correction", "s.id")} AND t.computation IS NOT NULL
      AND t.state IN ('waiting', 'adjusting', 'parked', 'applied')
      AND ({has("s.payload", "$.target")}
        OR coalesce(s.caused_at, s.created_at) <= t.as_of
          AND NOT {contains("t.computation", "s.id")})
      AND (:at >= substr({least("t.as_of", "t.created_at")}, 1, 19)
          AND (l.id IS NULL OR t.ledger IS NULL OR l.id > t.ledger)
        OR EXISTS (
          SELECT 1 FROM {elements("t.computation", "$.movements")} m
          WHERE {member("m.value", "$.at")} = l.at
            AND {number("m.value", "$.delta")} = l.adjustment
            AND {number("m.value", "$.after")} = l.stock_after
            AND NOT {has("m.value", "$.caused_at")}))
      AND NOT {OUTDATED}
    LIMIT 1
"""  # noqa: S608 - constants


class AffectedCount(Struct, frozen=True):
    """The newest count of a variant, calculated without a late effect.

    `step` is its own adjustment, if it has one.
    """

    quantity: int
    as_of: str
    target: str
    step: str | None
    step_state: str | None

    @property
    def is_open(self) -> bool:
        """Whether the platform may still refuse its adjustment for another stock."""
        return self.step_state in IN_FLIGHT

    def in_words(self) -> str:
        """Return the end of a sentence about the late effect, for an operator."""
        return (
            f"after the count of {self.quantity} as of {self.as_of} (target"
            f" {self.target[:8]}), which did not include it: correct the stock"
        )


def affected_count(
    connection: Connection, store: str, tagged: TaggedAdjustment
) -> AffectedCount | None:
    """Return the stock count that was calculated without an adjustment's effect."""
    for move in tagged.moves:
        values = {
            "store": store,
            "command": tagged.command,
            "adjustment": tagged.adjustment_id,
            "variant": move.variant_id,
            "at": move.at,
        }
        row = connection.execute(_AFFECTED, values).fetchone()
        if row is not None:
            return AffectedCount(*row)
    return None


def recalculate(connection: Connection, count: AffectedCount, command: str) -> bool:
    """Calculate a count again with a late effect; False if its adjustment was sent."""
    if count.step is None or count.step_state != State.PLANNED:
        return False
    reason = f"command {command[:8]} took effect late"
    adjustments.supersede_adjustment(connection, count.step, reason)
    return True
