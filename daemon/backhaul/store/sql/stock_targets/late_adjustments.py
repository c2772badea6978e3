"""Adjustments that landed behind a count: it was reckoned when nothing told of them.

The step of an older count, or what the count contains already, was given up, and the
newest count of the variant was made true without it. What it moves is too much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.core.effect_proof import TagMeaning
from backhaul.core.lifecycle import State
from backhaul.store.sql.dialect import document, member
from backhaul.store.sql.stock_targets import adjustments
from backhaul.store.sql.stock_targets.adjustments import OUTDATED

if TYPE_CHECKING:
    import sqlite3

    from backhaul.store.commands import TaggedAdjustment

MAY_BE_LATE = frozenset({TagMeaning.LATE, TagMeaning.LINKED, TagMeaning.OWN})
"""What may have landed behind a count: also what a look found before the audit did."""
# What an answer told as done was waited for by the count; only what the history proved,
# which is kept as `moves`, may have landed behind it. A count that was reckoned later
# has its movement in the ledger, unless it took it for goods that came.
_COUNT = f"""
    SELECT t.quantity, t.as_of, t.command_id, t.correction, n.state
    FROM commands s
    CROSS JOIN stock_targets t ON t.store = s.store AND t.variant_id = :variant
    JOIN commands c ON c.id = t.command_id
    LEFT JOIN commands n ON n.id = t.correction
    LEFT JOIN stock_ledger l ON l.store = s.store AND l.adjustment_id = :adjustment
      AND l.variant_id = t.variant_id
    WHERE s.id = :command AND s.store = :store AND s.kind = 'adjust'
      AND (s.effect_id IS NULL OR instr(s.evidence, '"moves"'))
      AND NOT EXISTS (SELECT 1 FROM json_each({document("s.evidence")}, '$.doubled') d
        WHERE d.value = :adjustment)
      AND t.correction IS NOT s.id AND t.computation IS NOT NULL
      AND c.state IN ('planned', 'parked', 'applied')
      AND ({member("s.payload", "$.target")} IS NOT NULL
        OR coalesce(s.caused_at, s.created_at) <= t.as_of
          AND NOT instr(t.computation, s.id))
      AND (:at >= substr(min(t.as_of, c.created_at), 1, 19)
          AND coalesce(l.id > t.ledger, 1)
        OR EXISTS (
          SELECT 1 FROM json_each({document("t.computation")}, '$.movements') m
          WHERE m.value ->> 'at' = l.at AND m.value ->> 'delta' = l.adjustment
            AND m.value ->> 'after' = l.stock_after
            AND m.value ->> 'caused_at' IS NULL))
      AND NOT {OUTDATED}
    LIMIT 1
"""  # noqa: S608 - constants


class AffectedCount(Struct, frozen=True):
    """The newest count of a variant, reckoned without what has landed; and its step."""

    quantity: int
    as_of: str
    target: str
    step: str | None
    step_state: str | None

    @property
    def is_open(self) -> bool:
        """Whether its step may still be refused, as the stock is another one."""
        return self.step_state in {State.SENDING, State.UNCERTAIN}

    def in_words(self) -> str:
        """Return what a person is to know of what landed behind it."""
        return (
            f"behind the count of {self.quantity} as of {self.as_of} (target"
            f" {self.target[:8]}), which was calculated without it: correct the stock"
        )


def affected_count(
    connection: sqlite3.Connection, store: str, tagged: TaggedAdjustment
) -> AffectedCount | None:
    """Return the count that an adjustment has landed behind."""
    for move in tagged.moves:
        values = {
            "store": store,
            "command": tagged.command,
            "adjustment": tagged.adjustment_id,
            "variant": move.variant_id,
            "at": move.at,
        }
        row = connection.execute(_COUNT, values).fetchone()
        if row is not None:
            return AffectedCount(*row)
    return None


def recalculate(
    connection: sqlite3.Connection, count: AffectedCount, command: str
) -> bool:
    """Let a count be reckoned with what landed, where its step has not left."""
    if count.step is None or count.step_state != State.PLANNED:
        return False
    reason = f"command {command[:8]} landed late, behind it"
    adjustments.supersede_adjustment(connection, count.step, reason)
    return True
