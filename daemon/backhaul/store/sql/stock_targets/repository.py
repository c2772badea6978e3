"""Stock targets: stock counts of the back office, each applied by an adjustment."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from loguru import logger
from msgspec.structs import asdict

from backhaul.core.clock import from_text, to_text
from backhaul.core.identity import step_id
from backhaul.core.lifecycle import Cause, State
from backhaul.core.stock import ADJUSTMENT_REASON, Count
from backhaul.store.commands import Transition
from backhaul.store.matching import NewCommand
from backhaul.store.sql.commands import restore_adoption
from backhaul.store.sql.commands.planning import plan
from backhaul.store.sql.commands.rows import WIDTH, columns, to_command
from backhaul.store.sql.commands.transitions import apply_transition, usable
from backhaul.store.sql.dialect import document_of
from backhaul.store.sql.family import Family, write
from backhaul.store.sql.operations import kv
from backhaul.store.sql.operations.audit_log import add_entry
from backhaul.store.sql.stock_targets import adjustments, stock_snapshot
from backhaul.store.sql.stock_targets.adjustments import NEWER, OUTDATED, STOPPED
from backhaul.store.stock_targets import Adjust, OtherVariants, Reading, Target, Wait

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.store.matching import Command
    from backhaul.store.operations import AuditEntry
    from backhaul.store.sql.family import Connection
    from backhaul.store.stock_targets import Decide

BUSY = timedelta(seconds=1)
"""How long a target waits for a command under way; the end of the command wakes it."""
_C = columns("c")
_ADD = """
    INSERT INTO stock_targets (command_id, store, product_id, variant_id, quantity,
                               as_of, listed_at)
    VALUES (:id, :store, :product, :variant, :quantity, :as_of, :listed_at)
    ON CONFLICT (command_id) DO NOTHING
"""
_DUE = f"""
    SELECT {_C}, t.tries, EXISTS (
      SELECT 1 FROM audit a WHERE a.command_id = c.id AND a.action = 'commands resend')
    FROM commands c JOIN stock_targets t ON t.command_id = c.id
    WHERE c.store = :store AND c.kind = 'target' AND c.state = 'planned' AND c.held = 0
      AND c.due_at <= :now AND NOT EXISTS (
        SELECT 1 FROM stock_targets u WHERE u.store = t.store
        AND u.product_id = t.product_id AND u.unread = 1)
      AND NOT EXISTS (
        SELECT 1 FROM commands o WHERE o.store = c.store AND o.lane = c.lane
        AND o.state IN ('sending', 'uncertain'))
    ORDER BY c.due_at, c.seq LIMIT :limit
"""  # noqa: S608 - constants
_NEXT_DUE = """
    SELECT min(due_at) FROM (
      SELECT min(due_at) AS due_at FROM commands WHERE store = :store
        AND kind = 'target' AND state = 'planned' AND held = 0 AND due_at > :after
      UNION ALL SELECT min(read_at) FROM stock_targets WHERE store = :store
        AND unread = 1 AND read_at > :after) d
"""
_READINGS = f"""
    SELECT {_C}, t.variant_id, t.delta, t.tries, t.as_of
    FROM stock_targets t JOIN commands c ON c.id = t.command_id
    WHERE t.store = :store AND t.unread = 1 AND coalesce(t.read_at, '') <= :now
    ORDER BY t.read_at NULLS FIRST LIMIT :limit
"""  # noqa: S608 - constants
_READ_BACK = """
    UPDATE stock_targets SET unread = :unread, read_at = :due_at, tries = tries + 1
    WHERE command_id = :target
"""
_OUTDATED = f"""
    SELECT t.command_id FROM stock_targets t JOIN commands c ON c.id = t.command_id
    WHERE t.store = :store AND t.variant_id = :variant AND c.state = 'planned'
      AND {OUTDATED}
"""  # noqa: S608 - constants
_IS_OUTDATED = f"""
    SELECT 1 FROM stock_targets t JOIN commands c ON c.id = t.command_id
    WHERE t.command_id = :target AND {OUTDATED}
"""  # noqa: S608 - constants
_CALCULATED = """
    UPDATE stock_targets SET computation = :computation, words = :words, delta = :delta,
      levels = :levels, tries = 0,
      ledger = (SELECT coalesce(max(id), 0) FROM stock_ledger)
    WHERE command_id = :target
"""
_HOLD = """
    UPDATE commands SET held = 1, reason = :words, evidence = :evidence
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
    connection: Connection, store: str, command: NewCommand, now: str
) -> None:
    """Add the target of a new command, and supersede older targets of its variant.

    Of two stock counts the newer is the one that was counted later, or, if they were
    counted at the same time, listed later. The order of arrival does not matter.
    """
    payload = command.payload
    values = {
        "id": command.id,
        "store": store,
        "product": command.target,
        "variant": payload["variant_id"],
        "quantity": payload["quantity"],
        "as_of": payload["as_of"],
        "listed_at": payload.get("listed_at", ""),
    }
    if connection.execute(_ADD, values).rowcount == 0:
        return
    variant = {"store": store, "variant": payload["variant_id"]}
    for (target,) in connection.execute(_OUTDATED, variant).fetchall():
        adjustments.supersede(connection, target, NEWER, now)


class SqlTargets(Family):
    """Targets in a table beside their commands."""

    @write
    def due(self, connection: Connection, store: str, limit: int) -> list[Target]:
        now = self._now()
        values = {"store": store, "now": now, "limit": limit}
        rows = connection.execute(_DUE, values).fetchall()
        found = [(usable(connection, row[:WIDTH], now), row) for row in rows]
        return [_target(command, row) for command, row in found if command]

    @write
    def next_due(self, connection: Connection, store: str, after: str) -> str | None:
        values = {"store": store, "after": after}
        (due,) = connection.execute(_NEXT_DUE, values).fetchone()
        return None if due is None else str(due)

    @write
    def decide(
        self,
        connection: Connection,
        target: Target,
        level: int,
        since: str,
        studied_at: str | None,
        decide: Decide,
    ) -> tuple[State, str]:
        now, id_ = self._now(), target.command.id
        if _is_waiting(connection, id_):
            values = stock_snapshot.snapshot_values(target, since, studied_at, now)
            _decide(connection, target, level, values, decide, now)
        state, reason = connection.execute(
            "SELECT state, reason FROM commands WHERE id = :id", {"id": id_}
        ).fetchone()
        return State(state), reason

    @write
    def wait(self, connection: Connection, target: Target, wait: Wait) -> None:
        _wait(connection, target.command.id, wait)

    @write
    def readings(self, connection: Connection, store: str, limit: int) -> list[Reading]:
        values = {"store": store, "now": self._now(), "limit": limit}
        rows = connection.execute(_READINGS, values).fetchall()
        return [Reading(to_command(row[:WIDTH]), *row[WIDTH:]) for row in rows]

    @write
    def other_variants(self, connection: Connection, reading: Reading) -> OtherVariants:
        return _other_variants(connection, reading)

    @write
    def read_back(
        self, connection: Connection, reading: Reading, due_at: str | None
    ) -> None:
        unread = int(due_at is not None)
        values = {"unread": unread, "due_at": due_at, "target": reading.target.id}
        connection.execute(_READ_BACK, values)

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
            connection.execute("DELETE FROM marks WHERE name = :name", name)
        else:
            kv.put(connection, f"{STOPPED}{store}", reason)


def _target(command: Command, row: Sequence[Any]) -> Target:
    tries, is_allowed = row[WIDTH:]
    # The digest of the command covers its payload, and not the row of the target.
    payload = command.payload
    count = Count(payload["quantity"], payload["as_of"])
    return Target(command, payload["variant_id"], count, tries, bool(is_allowed))


def _is_waiting(connection: Connection, id_: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM commands WHERE id = :id AND state = 'planned' AND held = 0",
        {"id": id_},
    ).fetchone()
    return row is not None


def _decide(
    connection: Connection,
    target: Target,
    level: int,
    values: Mapping[str, object],
    decide: Decide,
    now: str,
) -> None:
    id_ = target.command.id
    if connection.execute(_IS_OUTDATED, {"target": id_}).fetchone():
        adjustments.supersede(connection, id_, NEWER, now)
        return
    busy = stock_snapshot.undecided_work(connection, values)
    if busy:
        soon = to_text(from_text(now) + BUSY)
        _wait(connection, id_, Wait(busy, soon, counts=False))
        return
    step = decide(stock_snapshot.load_snapshot(connection, values, level))
    if isinstance(step, Transition):
        apply_transition(connection, target.command, step, now)
    elif isinstance(step, Wait):
        _wait(connection, id_, step)
    else:
        _adjust(connection, target, step, now)


def _wait(connection: Connection, id_: str, wait: Wait) -> None:
    connection.execute(
        "UPDATE commands SET due_at = :due_at, reason = :reason"
        " WHERE id = :id AND state = 'planned'",
        {"due_at": wait.due_at, "reason": wait.reason, "id": id_},
    )
    connection.execute(
        "UPDATE stock_targets SET tries = tries + :more WHERE command_id = :id",
        {"more": int(wait.counts), "id": id_},
    )


def _adjust(connection: Connection, target: Target, step: Adjust, now: str) -> None:
    """Store the calculation, and plan the adjustment if there is anything to adjust."""
    computation = asdict(step.computation)
    evidence: dict[str, Any] = {"computation": computation}
    words = step.computation.in_words()
    values = {
        "computation": msgspec.json.encode(computation).decode(),
        "words": words,
        "delta": step.computation.delta,
        "levels": msgspec.json.encode(dict(step.levels)).decode(),
        "target": target.command.id,
    }
    connection.execute(_CALCULATED, values)
    if step.computation.delta == 0:
        done = Transition((Cause.PROVED_APPLIED,), words, evidence=evidence)
        apply_transition(connection, target.command, done, now)
        return
    text = msgspec.json.encode(evidence).decode()
    held = {"words": words, "evidence": text, "target": target.command.id}
    connection.execute(_HOLD, held)
    _plan_adjustment(connection, target, step, now)


def _plan_adjustment(
    connection: Connection, target: Target, step: Adjust, now: str
) -> None:
    command, count = target.command, target.count
    payload = {
        "variant_id": target.variant_id,
        "delta": step.computation.delta,
        "reason": ADJUSTMENT_REASON,
        "target": command.id,
        "expected_stock": step.expects,
    }
    (source,) = connection.execute(
        "SELECT cause FROM commands WHERE id = :id", {"id": command.id}
    ).fetchone()
    identity = _next_id(connection, command)
    cause = f"count of {count.quantity} as of {count.as_of}, {source}"
    new = NewCommand(identity, "adjust", command.target, command.lane, payload)
    plan(connection, command.store, command.instance, new, cause, now)
    # The send window that was open for the count is open for its adjustment.
    ids = {"target": command.id, "step": identity}
    connection.execute(
        "UPDATE commands SET created_at = (SELECT o.created_at FROM commands o"
        " WHERE o.id = :target) WHERE id = :step",
        ids,
    )
    connection.execute(
        "UPDATE stock_targets SET correction = :step WHERE command_id = :target", ids
    )


def _next_id(connection: Connection, target: Command) -> str:
    """Return the id of the next adjustment, which no pre-restore effect has.

    After a restore the platform may show adjustments of this very target.
    """
    (number,) = connection.execute(
        "SELECT round FROM stock_targets WHERE command_id = :id", {"id": target.id}
    ).fetchone()
    store, instance = target.store, target.instance
    last = restore_adoption.last_round(connection, store, instance, target.id, number)
    number = number if last is None else last + 1
    connection.execute(
        "UPDATE stock_targets SET round = :round WHERE command_id = :id",
        {"round": number, "id": target.id},
    )
    return step_id(store, instance, target.id, number)


def _other_variants(connection: Connection, reading: Reading) -> OtherVariants:
    target = reading.target
    adjustment, known, ledger = connection.execute(
        "SELECT correction, levels, ledger FROM stock_targets WHERE command_id = :id",
        {"id": target.id},
    ).fetchone()
    effect, evidence = connection.execute(
        "SELECT effect_id, evidence FROM commands WHERE id = :id", {"id": adjustment}
    ).fetchone()
    values = {
        "store": target.store,
        "product": target.target,
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
        _log_damaged(target)
    named = connection.execute(
        "SELECT variant_id FROM stock_ledger"
        " WHERE store = :store AND adjustment_id = :step",
        values | {"step": effect},
    )
    shown = {row[0] for row in named} | _moved_variants(document_of(evidence))
    return OtherVariants(expected, sorted(shown - {reading.variant_id}))


def _log_damaged(target: Command) -> None:
    logger.bind(action="target.damaged", store=target.store, command=target.id).error(
        "target {}: the levels from before its adjustment are damaged in the"
        " database, so Backhaul cannot determine whether the adjustment moved other"
        " variants of product {}",
        target.id[:8],
        target.target,
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
