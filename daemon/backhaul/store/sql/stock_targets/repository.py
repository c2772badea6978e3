"""Stock targets: stock counts of the back office, each applied by an adjustment."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from loguru import logger
from msgspec.structs import asdict

from backhaul.core.clock import from_text, to_text
from backhaul.core.identity import step_id
from backhaul.core.lifecycle import TargetCause, TargetState
from backhaul.core.stock import ADJUSTMENT_REASON
from backhaul.core.stock_decision import Adjust, Hold, Park, Wait
from backhaul.core.stock_decision import decide as decide_target
from backhaul.store.matching import NewCommand
from backhaul.store.sql.commands import restore_adoption
from backhaul.store.sql.commands.planning import plan
from backhaul.store.sql.dialect import document_of
from backhaul.store.sql.family import Family, write
from backhaul.store.sql.operations import kv
from backhaul.store.sql.operations.operators import add_entry
from backhaul.store.sql.stock_targets import (
    adjustments,
    held_targets,
    rows,
    stock_snapshot,
)
from backhaul.store.sql.stock_targets.adjustments import NEWER, OUTDATED, STOPPED
from backhaul.store.stock_targets import OtherVariants, Reading

if TYPE_CHECKING:
    from backhaul.core.stock_decision import StockReading, Target
    from backhaul.store.matching import NewTarget
    from backhaul.store.operations import AuditEntry
    from backhaul.store.sql.family import Connection
    from backhaul.store.stock_targets import HeldFilter

BUSY = timedelta(seconds=1)
"""How long a target waits for a command under way; the end of the command wakes it."""
_DUE = f"""
    SELECT {rows.COLUMNS}, EXISTS (
      SELECT 1 FROM audit a WHERE a.command_id = t.id AND a.action = 'commands resend')
    FROM stock_targets t
    WHERE t.store = :store AND t.state = 'waiting' AND t.due_at <= :now
      AND NOT EXISTS (
        SELECT 1 FROM stock_targets u WHERE u.store = t.store
        AND u.product_id = t.product_id AND u.unread = 1)
      AND NOT EXISTS (
        SELECT 1 FROM commands o
        WHERE o.store = t.store AND o.lane = 'product:' || t.product_id
        AND o.state IN ('sending', 'uncertain'))
    ORDER BY t.due_at, t.seq LIMIT :limit
"""  # noqa: S608 - constants
_NEXT_DUE = """
    SELECT min(due_at) FROM (
      SELECT min(due_at) AS due_at FROM stock_targets
      WHERE store = :store AND state = 'waiting' AND due_at > :after
      UNION ALL SELECT min(read_at) FROM stock_targets WHERE store = :store
        AND unread = 1 AND read_at > :after) d
"""
_READINGS = """
    SELECT id, store, product_id, variant_id, delta, tries, as_of FROM stock_targets
    WHERE store = :store AND unread = 1 AND coalesce(read_at, '') <= :now
    ORDER BY read_at NULLS FIRST LIMIT :limit
"""
_READ_BACK = """
    UPDATE stock_targets SET unread = :unread, read_at = :due_at, tries = tries + 1
    WHERE id = :target
"""
_OUTDATED = f"""
    SELECT t.id FROM stock_targets t
    WHERE t.store = :store AND t.variant_id = :variant
      AND t.state IN ('waiting', 'adjusting', 'held') AND {OUTDATED}
"""  # noqa: S608 - constants
_IS_OUTDATED = f"SELECT 1 FROM stock_targets t WHERE t.id = :target AND {OUTDATED}"  # noqa: S608 - constants
_WAIT = """
    UPDATE stock_targets SET due_at = :due_at, reason = :reason, tries = tries + :more
    WHERE id = :target AND state = 'waiting'
"""
_CALCULATED = """
    UPDATE stock_targets SET computation = :computation, words = :words, delta = :delta,
      levels = :levels, tries = 0,
      ledger = (SELECT coalesce(max(id), 0) FROM stock_ledger)
    WHERE id = :target
"""
# A movement whose event was lost may have become known after the levels were read, and
# have happened before. A movement after the adjustment, by the platform's clock, also
# happened after the read.
_MOVED_SINCE = """
    SELECT variant_id, sum(adjustment), sum(CASE WHEN at >= (
             SELECT min(s.at) FROM stock_ledger s
             WHERE s.store = :store AND s.adjustment_id = :step)
           THEN adjustment ELSE 0 END)
    FROM stock_ledger
    WHERE store = :store AND product_id = :product AND id > :known
      AND adjustment_id != :step
    GROUP BY variant_id
"""


def plan_target(
    connection: Connection,
    store: str,
    instance: str,
    new: NewTarget,
    cause: str,
    now: str,
    traceparent: str | None = None,
) -> None:
    """Add a target, and supersede older targets of its variant.

    Of two stock counts the newer is the one that was counted later, or, if they were
    counted at the same time, listed later. The order of arrival does not matter.
    """
    if not rows.add(connection, store, instance, new, cause, now, traceparent):
        return
    variant = {"store": store, "variant": new.variant_id}
    for (target,) in connection.execute(_OUTDATED, variant).fetchall():
        adjustments.supersede(connection, target, NEWER, now)


class SqlTargets(Family):
    """Targets in a table of their own."""

    @write
    def due(self, connection: Connection, store: str, limit: int) -> list[Target]:
        now = self._now()
        values = {"store": store, "now": now, "limit": limit}
        found = [
            rows.usable(connection, row, bool(is_allowed), now)
            for *row, is_allowed in connection.execute(_DUE, values).fetchall()
        ]
        return [target for target in found if target is not None]

    @write
    def next_due(self, connection: Connection, store: str, after: str) -> str | None:
        values = {"store": store, "after": after}
        (due,) = connection.execute(_NEXT_DUE, values).fetchone()
        return None if due is None else str(due)

    @write
    def decide(
        self, connection: Connection, target: Target, reading: StockReading
    ) -> tuple[TargetState, str]:
        if rows.state_of(connection, target.id) is TargetState.WAITING:
            _decide(connection, target, reading, self._now())
        state, reason = connection.execute(
            "SELECT state, reason FROM stock_targets WHERE id = :id", {"id": target.id}
        ).fetchone()
        return TargetState(state), reason

    @write
    def wait(self, connection: Connection, target: Target, wait: Wait) -> None:
        _wait(connection, target.id, wait)

    @write
    def readings(self, connection: Connection, store: str, limit: int) -> list[Reading]:
        values = {"store": store, "now": self._now(), "limit": limit}
        return [Reading(*row) for row in connection.execute(_READINGS, values)]

    @write
    def other_variants(self, connection: Connection, reading: Reading) -> OtherVariants:
        return _other_variants(connection, reading)

    @write
    def read_back(
        self, connection: Connection, reading: Reading, due_at: str | None
    ) -> None:
        unread = int(due_at is not None)
        values = {"unread": unread, "due_at": due_at, "target": reading.id}
        connection.execute(_READ_BACK, values)

    @write
    def release(
        self, connection: Connection, wanted: HeldFilter, entry: AuditEntry
    ) -> int:
        return held_targets.release(connection, wanted, entry, self._now())

    @write
    def stopped(self, connection: Connection, store: str) -> str | None:
        return adjustments.stop_reasons(connection).get(store)

    @write
    def stop(
        self,
        connection: Connection,
        store: str,
        reason: str | None,
        entry: AuditEntry | None = None,
    ) -> None:
        if entry is not None:
            add_entry(connection, self._now(), entry)
        if reason is None:
            name = {"name": f"{STOPPED}{store}"}
            connection.execute("DELETE FROM kv WHERE name = :name", name)
        else:
            kv.put(connection, f"{STOPPED}{store}", reason)


def _decide(
    connection: Connection, target: Target, reading: StockReading, now: str
) -> None:
    if connection.execute(_IS_OUTDATED, {"target": target.id}).fetchone():
        adjustments.supersede(connection, target.id, NEWER, now)
        return
    values = stock_snapshot.snapshot_values(target, reading, now)
    busy = stock_snapshot.undecided_work(connection, values)
    if busy:
        soon = to_text(from_text(now) + BUSY)
        _wait(connection, target.id, Wait(busy, soon, counts=False))
        return
    level = reading.product.levels.get(target.variant_id, 0)
    stock = stock_snapshot.load_snapshot(connection, values, level)
    step = decide_target(target, reading, stock, from_text(now))
    if isinstance(step, Wait):
        _wait(connection, target.id, step)
    elif isinstance(step, Park):
        cause = TargetCause.UNDECIDABLE
        rows.transition(connection, target.id, cause, now, reason=step.reason)
    elif isinstance(step, Hold):
        held_targets.hold(connection, target, step.reason, now)
    else:
        _adjust(connection, target, step, now)


def _wait(connection: Connection, target: str, wait: Wait) -> None:
    values = {"due_at": wait.due_at, "reason": wait.reason, "more": int(wait.counts)}
    connection.execute(_WAIT, values | {"target": target})


def _adjust(connection: Connection, target: Target, step: Adjust, now: str) -> None:
    """Store the calculation, and plan the adjustment if there is anything to adjust."""
    computation = asdict(step.computation)
    words, delta = step.computation.in_words(), step.computation.delta
    values = {
        "computation": msgspec.json.encode(computation).decode(),
        "words": words,
        "delta": delta,
        "levels": msgspec.json.encode(dict(step.levels)).decode(),
        "target": target.id,
    }
    connection.execute(_CALCULATED, values)
    evidence = msgspec.json.encode({"computation": computation}).decode()
    cause = TargetCause.ADJUSTED if delta else TargetCause.REACHED
    changed = {"reason": words, "evidence": evidence}
    rows.transition(connection, target.id, cause, now, **changed)
    if delta:
        _plan_adjustment(connection, target, step, now)


def _plan_adjustment(
    connection: Connection, target: Target, step: Adjust, now: str
) -> None:
    count, product = target.count, target.product_id
    payload = {
        "variant_id": target.variant_id,
        "delta": step.computation.delta,
        "reason": ADJUSTMENT_REASON,
        "target": target.id,
        "expected_stock": step.expects,
    }
    source, traceparent = connection.execute(
        "SELECT cause, traceparent FROM stock_targets WHERE id = :id", {"id": target.id}
    ).fetchone()
    identity = _next_id(connection, target)
    cause = f"count of {count.quantity} as of {count.as_of}, {source}"
    new = NewCommand(identity, "adjust", product, f"product:{product}", payload)
    place = (target.store, target.instance)
    plan(connection, *place, new, cause, now, traceparent)
    # The send window that was open for the count is open for its adjustment.
    ids = {"target": target.id, "step": identity}
    connection.execute(
        "UPDATE commands SET created_at = (SELECT t.created_at FROM stock_targets t"
        " WHERE t.id = :target) WHERE id = :step",
        ids,
    )
    connection.execute(
        "UPDATE stock_targets SET correction = :step WHERE id = :target", ids
    )


def _next_id(connection: Connection, target: Target) -> str:
    """Return the id of the next adjustment, which no pre-restore effect has.

    After a restore the platform may show adjustments of this very target.
    """
    (number,) = connection.execute(
        "SELECT round FROM stock_targets WHERE id = :id", {"id": target.id}
    ).fetchone()
    store, instance = target.store, target.instance
    last = restore_adoption.last_round(connection, store, instance, target.id, number)
    number = number if last is None else last + 1
    connection.execute(
        "UPDATE stock_targets SET round = :round WHERE id = :id",
        {"round": number, "id": target.id},
    )
    return step_id(store, instance, target.id, number)


def _other_variants(connection: Connection, reading: Reading) -> OtherVariants:
    adjustment, known, ledger = connection.execute(
        "SELECT correction, levels, ledger FROM stock_targets WHERE id = :id",
        {"id": reading.id},
    ).fetchone()
    effect, evidence = connection.execute(
        "SELECT effect_id, evidence FROM commands WHERE id = :id", {"id": adjustment}
    ).fetchone()
    values = {
        "store": reading.store,
        "product": reading.product_id,
        "known": ledger,
        "step": effect or "",
    }
    moved = {
        variant: {at_most, surely}
        for variant, at_most, surely in connection.execute(_MOVED_SINCE, values)
    }
    expected = {
        variant: frozenset(stock + move for move in moved.get(variant, {0}))
        for variant, stock in document_of(known).items()
        if isinstance(stock, int)
    }
    if known and not expected:
        _log_damaged(reading)
    named = connection.execute(
        "SELECT variant_id FROM stock_ledger"
        " WHERE store = :store AND adjustment_id = :step",
        values | {"step": effect},
    )
    shown = {row[0] for row in named} | _moved_variants(document_of(evidence))
    return OtherVariants(expected, sorted(shown - {reading.variant_id}))


def _log_damaged(reading: Reading) -> None:
    target = reading.id
    logger.bind(action="target.damaged", store=reading.store, command=target).error(
        "target {}: the levels from before its adjustment are damaged in the"
        " database, so Backhaul cannot determine whether the adjustment moved other"
        " variants of product {}",
        target[:8],
        reading.product_id,
    )


def _moved_variants(evidence: dict[str, Any]) -> set[str]:
    """Return the variants that the platform's response names as moved."""
    return {
        level["variantId"]
        for level in evidence.get("levels", ())
        if isinstance(level, dict)
        and isinstance(level.get("variantId"), str)
        and level.get("adjustment") != 0
    }
