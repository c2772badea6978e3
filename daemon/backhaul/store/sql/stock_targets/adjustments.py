"""Keeps the state of a stock target in step with the adjustment that applies it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.core.clock import from_text, to_text
from backhaul.core.lifecycle import (
    TARGET_TRANSITIONS,
    Cause,
    State,
    TargetCause,
    TargetState,
)
from backhaul.core.stock import AHEAD_SECONDS
from backhaul.errors import BackhaulError
from backhaul.store.sql.commands import restore_adoption
from backhaul.store.sql.commands.rows import transition
from backhaul.store.sql.dialect import Damaged, contains, elements, has, later, member
from backhaul.store.sql.operations import kv
from backhaul.store.sql.stock_targets import rows

if TYPE_CHECKING:
    from backhaul.store.matching import Command
    from backhaul.store.sql.family import Connection

_PENDING_KINDS = frozenset({"adjust", "cancel"})
"""Kinds of commands that the calculation of a stock target includes."""
NEWER = "a newer count arrived"
SUPERSEDED_BEFORE_RESTORE = (
    "before the database was restored, its count was calculated again or a newer count"
    " was applied"
)
STOPPED = "targets:stopped:"
"""Prefix of the key, before the store, under which the reason of a stop is kept."""
ROUNDS_AT_ONCE, MOST_ROUNDS = 2, 10
"""How often a refused adjustment is calculated again at once, and how often at all.

A store that sells fast refuses one adjustment or another. A store that refuses all of
them shows another stock than it compares with.
"""
BASE_SECONDS, LONGEST_SECONDS = 1, 300
_FOLLOWS: dict[State, TargetCause] = {
    State.APPLIED: TargetCause.REACHED,
    State.PARKED: TargetCause.ADJUSTMENT_PARKED,
    State.REJECTED: TargetCause.ADJUSTMENT_REJECTED,
    State.PLANNED: TargetCause.ADJUSTMENT_RESUMED,
}
"""From the state of the adjustment to the cause by which its target moves."""


def _counted_at(target: str) -> str:
    """Return SQL for when a stock count was made, at the latest when it was submitted.

    A stock count dated a day ahead would be newer than all counts until then.
    """
    submitted = f"{target}.created_at"
    return (
        f"CASE WHEN {target}.as_of > {later(submitted, AHEAD_SECONDS)}"
        f" THEN {submitted} ELSE {target}.as_of END"
    )


# The first comparison of times can use an index, the second one is exact.
_NEWER = f"""
    SELECT 1 FROM stock_targets n
    WHERE n.store = t.store AND n.variant_id = t.variant_id
      AND n.as_of >= {_counted_at("t")}
      AND ({_counted_at("n")}, n.listed_at, n.seq)
          > ({_counted_at("t")}, t.listed_at, t.seq)
      AND n.state NOT IN ('discarded', 'superseded')
"""  # noqa: S608 - constants
OUTDATED = f"EXISTS ({_NEWER})"
"""Whether the target `t` is not the newest of its variant."""
IN_FLIGHT = frozenset({State.SENDING, State.UNCERTAIN})
"""States of an adjustment that was sent and has no outcome yet."""
UNDECIDED = ("planned", "sending", "uncertain", "parked")
"""States in which an adjustment is to be decided, and not its target."""
# The calculation is stored twice, because one of the two may be damaged.
_INCLUDED = f"""
    SELECT {member("p.value", "$.command")} AS id
    FROM {elements("t.computation", "$.promises")} p
    UNION ALL SELECT {member("p.value", "$.command")} AS id
    FROM {elements("t.evidence", "$.computation.promises")} p
"""  # noqa: S608 - constants
_IS_READABLE = f"""
    ({has("t.computation", "$.promises")}
      OR {has("t.evidence", "$.computation.promises")})
"""
# Targets whose count was made after a command moved the stock, and that do not include
# the command.
_COUNTED = f"""
    SELECT t.state, t.correction, t.quantity, t.as_of, t.id,
           {_IS_READABLE}, EXISTS (
             SELECT 1 FROM audit a
             WHERE a.command_id = :id AND a.action = 'commands resend')
    FROM stock_targets t
    WHERE t.store = :store AND t.product_id = :product
      AND (:variant IS NULL OR t.variant_id = :variant) AND t.as_of >= (
        SELECT coalesce(caused_at, created_at) FROM commands WHERE id = :id)
      AND t.computation IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM ({_INCLUDED}) i WHERE i.id = :id)
      AND t.state IN ('applied', 'adjusting')
      AND NOT {OUTDATED}
"""  # noqa: S608 - constants
# A command that its calculation includes, and that will not move the stock.
_BROKEN = f"""
    SELECT 'command ' || substr(k.id, 1, 8) || ', which its calculation includes, is '
           || k.state
    FROM commands k
    WHERE k.id IN ({_INCLUDED}) AND k.state IN ('parked', 'rejected', 'superseded')
    LIMIT 1
"""  # noqa: S608 - constants
# An adjustment that was not sent is calculated again. An applied one, or one that may
# be applied, stays. A whole id is in a calculation only as that of a pending move, and
# a damaged calculation may not be JSON.
_INCLUDING = f"""
    SELECT t.quantity, t.as_of, t.id
    FROM stock_targets t LEFT JOIN commands s ON s.id = t.correction
    WHERE t.store = :store AND (t.product_id = :object OR t.variant_id IN (
        SELECT i.variant_id FROM order_items i
        WHERE i.store = :store AND i.order_id = :object))
      AND (t.state = 'applied' OR s.state IN ('sending', 'uncertain', 'parked'))
      AND ({contains("t.computation", ":id")} OR {contains("t.evidence", ":id")})
      AND NOT {OUTDATED} LIMIT 1
"""  # noqa: S608 - constants
_OUTDATED = f"""
    SELECT {OUTDATED}, m.value, ({_BROKEN})
    FROM stock_targets t LEFT JOIN kv m ON m.name = '{STOPPED}' || t.store
    WHERE t.correction = :id
"""  # noqa: S608 - constants
_PLANNED_ADJUSTMENT = """
    SELECT c.seq, c.due_at, t.id
    FROM commands c JOIN stock_targets t ON t.correction = c.id
    WHERE c.id = :id AND c.state = 'planned'
"""
_FORGET_CALCULATION = """
    UPDATE stock_targets SET correction = NULL, round = round + 1, computation = NULL,
      words = NULL
    WHERE id = :target
"""
_RECALCULATE_AT = """
    UPDATE stock_targets SET due_at = :due_at, reason = :reason
    WHERE id = :target AND state = 'waiting'
"""


def follow(
    connection: Connection, adjustment: str, state: State, reason: str, now: str
) -> None:
    """Move the target of an adjustment that has moved to a state.

    A target is calculated again if its adjustment was superseded. Does nothing if the
    command is not the adjustment of a target.
    """
    row = connection.execute(
        "SELECT id, state FROM stock_targets WHERE correction = :adjustment",
        {"adjustment": adjustment},
    ).fetchone()
    if row is None:
        return
    target = row[0]
    if state is State.SUPERSEDED:
        _recalculate_later(connection, target, reason, now)
        return
    cause = _FOLLOWS.get(state)
    if cause is not None and (TargetState(row[1]), cause) in TARGET_TRANSITIONS:
        rows.transition(
            connection,
            target,
            cause,
            now,
            reason=_target_reason(connection, target, state, reason),
            unread=int(state is State.APPLIED),
            tries=0,
        )


def _target_reason(
    connection: Connection, target: str, state: State, reason: str
) -> str:
    """Return the calculation of an applied target in words, else what went wrong."""
    if state is not State.APPLIED:
        return f"its adjustment is {state}: {reason}"
    (words,) = connection.execute(
        "SELECT words FROM stock_targets WHERE id = :target", {"target": target}
    ).fetchone()
    return str(words) if words else reason


def _recalculate_later(
    connection: Connection, target: str, reason: str, now: str
) -> None:
    """Calculate a target again, or park it after too many refusals."""
    _recalculate(connection, target, reason, now)
    rounds, state = connection.execute(
        "SELECT round, state FROM stock_targets WHERE id = :target", {"target": target}
    ).fetchone()
    if state != TargetState.WAITING:
        return
    if rounds >= MOST_ROUNDS:
        reason = f"the store refused its adjustment {rounds} times, at last: {reason}"
        rows.transition(connection, target, TargetCause.UNDECIDABLE, now, reason=reason)
        return
    seconds = BASE_SECONDS * 2**rounds if rounds > ROUNDS_AT_ONCE else 0
    wait = timedelta(seconds=min(seconds, LONGEST_SECONDS))
    connection.execute(
        "UPDATE stock_targets SET due_at = :due_at WHERE id = :target",
        {"due_at": to_text(from_text(now) + wait), "target": target},
    )


def _recalculate(connection: Connection, target: str, reason: str, now: str) -> None:
    values = {"target": target}
    connection.execute(_FORGET_CALCULATION, values)
    if rows.state_of(connection, target) is TargetState.ADJUSTING:
        rows.transition(connection, target, TargetCause.RECALCULATED, now)
    again = {"due_at": now, "reason": f"calculated again: {reason}"}
    connection.execute(_RECALCULATE_AT, values | again)


def recalculate_resent(
    connection: Connection, target: str, reason: str, now: str
) -> None:
    """Calculate a target again that an operator resends, if it had an adjustment."""
    if adjustment_of(connection, target) is not None:
        _recalculate(connection, target, reason, now)


def adjustment_of(connection: Connection, target: str) -> tuple[str, State] | None:
    """Return the id and the state of a target's adjustment, None without one."""
    row = connection.execute(
        "SELECT c.id, c.state FROM stock_targets t"
        " JOIN commands c ON c.id = t.correction WHERE t.id = :target",
        {"target": target},
    ).fetchone()
    return None if row is None else (row[0], State(row[1]))


def require_no_open_adjustment(connection: Connection, target: str) -> None:
    """Raise BackhaulError if the adjustment of a target is to be decided instead."""
    step = adjustment_of(connection, target)
    if step is not None and step[1] in UNDECIDED:
        raise BackhaulError(
            f"adjustment {step[0][:8]} of stock target {target[:8]} is {step[1]};"
            " decide about this adjustment first: backhaul commands show"
            f" {step[0][:8]}"
        )


def name_affected_count(
    connection: Connection, command: Command, state: State, reason: str
) -> str:
    """Return the reason, with the stock count that included a command without effect.

    An applied count is not taken back: the next count or an operator corrects it.
    """
    if (
        state not in {State.PARKED, State.REJECTED}
        or command.kind not in _PENDING_KINDS
    ):
        return reason
    values = {
        "store": command.store,
        "object": command.target,
        "id": command.id,
    }
    row = connection.execute(_INCLUDING, values).fetchone()
    if row is None:
        return reason
    quantity, as_of, target = row
    return (
        f"{reason}; the count of {quantity} as of {as_of} (target {target[:8]})"
        " includes it: without it the stock is wrong until the next count"
    )


def supersede_reason(connection: Connection, command: Command) -> str | None:
    """Return why an adjustment must not be sent because of a count, or None.

    Recalculates a planned count that was made after the command moved the stock and
    that does not include the command. Raises Damaged if an applied one is unreadable.
    """
    if command.kind != "adjust":
        return None
    if "target" in command.payload:
        return _outdated_reason(connection, command)
    return _counted_reason(connection, command)


def _outdated_reason(connection: Connection, command: Command) -> str | None:
    row = connection.execute(_OUTDATED, {"id": command.id}).fetchone()
    if row is None:
        return "its target was calculated again"
    outdated, stopped, broken = row
    if outdated:
        return NEWER
    if has_later_adjustment(connection, command):
        return SUPERSEDED_BEFORE_RESTORE
    if broken:
        return str(broken)
    return f"the store's targets are stopped: {stopped}" if stopped else None


def has_later_adjustment(connection: Connection, command: Command) -> bool:
    """Return True if a pre-restore effect may replace this adjustment.

    The platform's history has the adjustment of a later round of the same target, or
    one that may belong to a newer count. That one was planned because this one had no
    effect, and from a level that this database does not have.
    """
    row = connection.execute(
        "SELECT id, round + 1, product_id, variant_id, as_of FROM stock_targets"
        " WHERE correction = :id",
        {"id": command.id},
    ).fetchone()
    if row is None:
        return False
    target, since, product, variant, as_of = row
    store, instance = command.store, command.instance
    last = restore_adoption.last_round(connection, store, instance, target, since)
    if last is not None:
        return True
    values = {
        "store": store,
        "target": target,
        "product": product,
        "variant": variant,
        "as_of": as_of,
    }
    return bool(restore_adoption.unknown_adjustment(connection, values))


def _counted_reason(connection: Connection, command: Command) -> str | None:
    """Return the count that contains what a command would move, or None.

    Such a command waited for its product or for an operator, while the back office
    counted the stock that the command was about.
    """
    values = {
        "store": command.store,
        "product": command.target,
        "variant": command.payload["variant_id"],
        "id": command.id,
    }
    found = connection.execute(_COUNTED, values).fetchall()
    for state, adjustment, quantity, as_of, target, is_readable, is_resent in found:
        if state != "applied":
            missed = "the count did not include an earlier command"
            supersede_adjustment(connection, adjustment, missed)
        elif is_readable:
            return f"the count of {quantity} as of {as_of} already includes this change"
        elif not is_resent:
            said = f"the count of {quantity} as of {as_of} (target {target[:8]})"
            raise Damaged(
                f"{said} may include this change, but the count is damaged in the"
                " database. If the count does not include the change, resend the"
                " command. Otherwise discard it"
            )
    return None


def supersede_adjustment(connection: Connection, adjustment: str, reason: str) -> None:
    """Supersede an adjustment that was not sent, and calculate its target again."""
    values = {"id": adjustment}
    row = connection.execute(_PLANNED_ADJUSTMENT, values).fetchone()
    if row is None:
        return
    seq, due_at, target = row
    causes = (Cause.REPLACED,)
    transition(connection, seq, State.PLANNED, causes, due_at, reason=reason)
    _recalculate(connection, target, reason, due_at)


def supersede(connection: Connection, target: str, reason: str, now: str) -> None:
    """Supersede an open target whose adjustment was not sent yet."""
    adjustment = adjustment_of(connection, target)
    if adjustment is not None and adjustment[1] in IN_FLIGHT:
        return
    if adjustment is not None and adjustment[1] is State.PLANNED:
        supersede_adjustment(connection, adjustment[0], reason)
    rows.transition(connection, target, TargetCause.REPLACED, now, reason=reason)


def stop_reasons(connection: Connection) -> dict[str, str]:
    """Return, for each store whose targets are stopped, the reason."""
    return kv.with_prefix(connection, STOPPED)
