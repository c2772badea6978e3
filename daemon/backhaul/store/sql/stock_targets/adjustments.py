"""The adjustment behind a stock target: the target stands where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.lifecycle import Cause, State, next_state
from backhaul.core.stock import AHEAD_SECONDS
from backhaul.errors import BackhaulError
from backhaul.store.sql.commands import restore_adoption
from backhaul.store.sql.dialect import member
from backhaul.store.sql.documents import Damaged

if TYPE_CHECKING:
    import sqlite3

    from backhaul.store.matching import Command

KIND = "target"
"""The kind of a command that says how much there is, and is never sent itself."""
_PENDING_KINDS = frozenset({"adjust", "cancel"})
"""Kinds of commands that a count may reckon with."""
NEWER = "a newer count has come"
SUPERSEDED_BEFORE_RESTORE = (
    "before the database was restored, its count was calculated again or a newer count"
    " was applied"
)
STOPPED = "targets:stopped:"
"""Under this and its name a store's targets are marked as stopped, with the reason."""
ROUNDS_AT_ONCE, MOST_ROUNDS = 2, 10
"""How often a step is reckoned anew without a rest, and when a person is asked.

A shop that sells fast overtakes one step or another; one that refuses them all shows
another stock than it compares with.
"""
BASE_SECONDS, LONGEST_SECONDS = 1, 300
_FOLLOWS: dict[State, dict[State, Cause]] = {
    State.APPLIED: dict.fromkeys(
        (State.PLANNED, State.PARKED, State.REJECTED), Cause.PROVED_APPLIED
    ),
    State.PARKED: {State.PLANNED: Cause.UNDECIDABLE},
    State.REJECTED: {State.PLANNED: Cause.REFUSED, State.PARKED: Cause.PERSON_DROPS},
    State.PLANNED: dict.fromkeys((State.PARKED, State.REJECTED), Cause.PERSON_RESENDS),
}
"""Where its adjustment goes, how a target follows from where it is."""


def _counted_at(target: str, command: str) -> str:
    """Return SQL for when something was counted: at last when we heard of it.

    A count that is of a day to come would be newer than all that come until then.
    """
    heard, later = f"{command}.created_at", f"'{AHEAD_SECONDS:+} seconds'"
    soon = f"strftime('%Y-%m-%dT%H:%M:%fZ', {heard}, {later})"
    return f"iif({target}.as_of > {soon}, {heard}, {target}.as_of)"


# The first condition is what an index can tell, the second one what is meant.
_NEWER = f"""
    SELECT 1 FROM stock_targets n JOIN commands o ON o.id = n.command_id
    WHERE n.store = t.store AND n.variant_id = t.variant_id
      AND n.as_of >= {_counted_at("t", "c")}
      AND ({_counted_at("n", "o")}, n.listed_at, o.seq)
          > ({_counted_at("t", "c")}, t.listed_at, c.seq)
      AND o.state NOT IN ('rejected', 'superseded')
"""  # noqa: S608 - constants
OUTDATED = f"EXISTS ({_NEWER})"
"""Whether the target (c, t) is not the newest of its variant."""
UNDECIDED = ("planned", "sending", "uncertain", "parked")
"""Where an adjustment stands that is to be decided in place of its target."""
# What a step was reckoned from is kept twice: one of the two may be damaged.
_PROMISES = f"""
    coalesce({member("t.computation", "$.promises")},
             {member("c.evidence", "$.computation.promises")})
"""
# A target that counted after the goods had moved, and did not know of the command.
_COUNTED = f"""
    SELECT c.state, t.correction, t.quantity, t.as_of, t.command_id,
           {_PROMISES} IS NOT NULL, EXISTS (
             SELECT 1 FROM audit a
             WHERE a.command_id = :id AND a.action = 'commands resend')
    FROM stock_targets t JOIN commands c ON c.id = t.command_id
    WHERE t.store = :store AND t.product_id = :product
      AND (:variant IS NULL OR t.variant_id = :variant) AND t.as_of >= (
        SELECT coalesce(caused_at, created_at) FROM commands WHERE id = :id)
      AND t.computation IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM json_each({_PROMISES}) p
        WHERE p.value ->> 'command' = :id)
      AND (c.state = 'applied' OR c.state = 'planned' AND t.correction IS NOT NULL)
      AND NOT {OUTDATED}
"""  # noqa: S608 - constants
# A command that it reckoned with, and that will not move the stock after all.
_BROKEN = f"""
    SELECT 'command ' || substr(k.id, 1, 8) || ', which its calculation includes, is '
           || k.state
    FROM json_each({_PROMISES}) p
    JOIN commands k ON k.id = {member("p.value", "$.command")}
    WHERE k.state IN ('parked', 'rejected', 'superseded') LIMIT 1
"""  # noqa: S608 - constants
# A step that has not left is reckoned anew; what was made true, or may be, stays. Whole
# ids stand nowhere in a reckoning but in its promises, and damaged it may be no JSON.
_RECKONS = f"""
    SELECT t.quantity, t.as_of, t.command_id
    FROM stock_targets t JOIN commands c ON c.id = t.command_id
    LEFT JOIN commands s ON s.id = t.correction
    WHERE t.store = :store AND (t.product_id = :object OR t.variant_id IN (
        SELECT i.variant_id FROM order_items i
        WHERE i.store = :store AND i.order_id = :object))
      AND (c.state = 'applied' OR s.state IN ('sending', 'uncertain', 'parked'))
      AND (instr(t.computation, :id) OR instr(c.evidence, :id))
      AND NOT {OUTDATED} LIMIT 1
"""  # noqa: S608 - constants


def follow(
    connection: sqlite3.Connection,
    correction: str,
    state: State,
    reason: str,
    now: str,
) -> None:
    """Let the target follow its adjustment; one that was overtaken is counted anew.

    Nothing happens where no target stands behind the command.
    """
    row = connection.execute(
        "SELECT t.command_id, c.state FROM stock_targets t"
        " JOIN commands c ON c.id = t.command_id WHERE t.correction = ?",
        (correction,),
    ).fetchone()
    if row is None:
        return
    target, stands = row[0], State(row[1])
    if state is State.SUPERSEDED:
        _recalculate_later(connection, target, reason, now)
    elif (cause := _FOLLOWS.get(state, {}).get(stands)) is not None:
        told = _target_reason(connection, target, state, reason)
        _move(connection, target, next_state(stands, cause), told, now)
        _read_back(connection, target, needed=state is State.APPLIED)


def _target_reason(
    connection: sqlite3.Connection, target: str, state: State, reason: str
) -> str:
    """Say of a target that is done how it came to its number, else what is wrong."""
    if state is not State.APPLIED:
        return f"its adjustment is {state}: {reason}"
    (words,) = connection.execute(
        "SELECT CAST(words AS BLOB) FROM stock_targets WHERE command_id = ?", (target,)
    ).fetchone()
    return words.decode(errors="replace") if words else reason


def _move(
    connection: sqlite3.Connection, target: str, state: State, reason: str, now: str
) -> None:
    settled = None if state is State.PLANNED else now
    connection.execute(
        "UPDATE commands SET state = ?, reason = ?, settled_at = ? WHERE id = ?",
        (state, reason, settled, target),
    )


def _read_back(connection: sqlite3.Connection, target: str, *, needed: bool) -> None:
    connection.execute(
        "UPDATE stock_targets SET unread = ?, tries = 0 WHERE command_id = ?",
        (needed, target),
    )


def _recalculate_later(
    connection: sqlite3.Connection, target: str, reason: str, now: str
) -> None:
    """Count anew where the stock was another one; what never fits goes to a person."""
    _recalculate(connection, target, reason, now)
    (rounds,) = connection.execute(
        "SELECT round FROM stock_targets WHERE command_id = ?", (target,)
    ).fetchone()
    if rounds >= MOST_ROUNDS:
        parked = next_state(State.PLANNED, Cause.UNDECIDABLE)
        told = f"the store refused its step {rounds} times, the last time: {reason}"
        _move(connection, target, parked, told, now)
        return
    wait = BASE_SECONDS * 2**rounds if rounds > ROUNDS_AT_ONCE else 0
    connection.execute(
        "UPDATE commands SET due_at = strftime('%Y-%m-%dT%H:%M:%fZ', ?, ?)"
        " WHERE id = ? AND state = 'planned'",
        (now, f"+{min(wait, LONGEST_SECONDS)} seconds", target),
    )


def _recalculate(
    connection: sqlite3.Connection, target: str, reason: str, now: str
) -> None:
    connection.execute(
        "UPDATE stock_targets SET correction = NULL, round = round + 1,"
        " computation = NULL, words = NULL WHERE command_id = ?",
        (target,),
    )
    connection.execute(
        "UPDATE commands SET due_at = ?, reason = ?, held = 0"
        " WHERE id = ? AND state = 'planned'",
        (now, f"calculated again: {reason}", target),
    )


def recalculate_resent(
    connection: sqlite3.Connection, target: str, reason: str, now: str
) -> None:
    """Count a target anew that a person lets go on; a step that it had is done with."""
    if adjustment_of(connection, target) is not None:
        _recalculate(connection, target, reason, now)


def adjustment_of(
    connection: sqlite3.Connection, target: str
) -> tuple[str, State] | None:
    """Return the adjustment that a target stands behind, and where that stands."""
    row = connection.execute(
        "SELECT c.id, c.state FROM stock_targets t"
        " JOIN commands c ON c.id = t.correction WHERE t.command_id = ?",
        (target,),
    ).fetchone()
    return None if row is None else (row[0], State(row[1]))


def require_no_open_adjustment(
    connection: sqlite3.Connection, command: Command
) -> None:
    """Raise BackhaulError where not the target but its adjustment is to be decided."""
    if command.kind != KIND:
        return
    step = adjustment_of(connection, command.id)
    if step is not None and step[1] in UNDECIDED:
        raise BackhaulError(
            f"target {command.id[:8]} stands behind its adjustment {step[0][:8]}, which"
            f" is {step[1]}: decide that one"
        )


def name_affected_count(
    connection: sqlite3.Connection, command: Command, state: State, reason: str
) -> str:
    """Say with a command that comes to nothing which count reckoned with its effect.

    What was made true is not taken back: the next count, or a person, sets it right.
    """
    if (
        state not in {State.PARKED, State.REJECTED}
        or command.kind not in _PENDING_KINDS
    ):
        return reason
    values = {"store": command.store, "object": command.target, "id": command.id}
    row = connection.execute(_RECKONS, values).fetchone()
    if row is None:
        return reason
    quantity, as_of, target = row
    return (
        f"{reason}; the count of {quantity} as of {as_of} (target {target[:8]})"
        " includes it: without it the stock is wrong until the next count"
    )


def supersede_reason(connection: sqlite3.Connection, command: Command) -> str | None:
    """Say why an adjustment is not to be sent after all: a count has overtaken it."""
    if command.kind != "adjust":
        return None
    if "target" in command.payload:
        return _outdated_reason(connection, command)
    return _counted_reason(connection, command)


def _outdated_reason(connection: sqlite3.Connection, command: Command) -> str | None:
    row = connection.execute(
        f"SELECT {OUTDATED}, m.value, ({_BROKEN})"  # noqa: S608 - constants
        " FROM stock_targets t JOIN commands c ON c.id = t.command_id"
        f" LEFT JOIN marks m ON m.name = '{STOPPED}' || t.store"
        " WHERE t.correction = ?",
        (command.id,),
    ).fetchone()
    if row is None:
        return "its target was calculated again"
    if row[0]:
        return NEWER
    if has_later_adjustment(connection, command):
        return SUPERSEDED_BEFORE_RESTORE
    if row[2]:
        return str(row[2])
    return f"the store's targets are stopped: {row[1]}" if row[1] else None


def has_later_adjustment(connection: sqlite3.Connection, command: Command) -> bool:
    """Tell whether an adjustment's count was made true in a life not remembered here.

    Its step of a later round stands in the platform's history, or what may be that of a
    newer count. That was planned because this one had come to nothing, and from a level
    that nobody has to reckon with now.
    """
    row = connection.execute(
        "SELECT command_id, round + 1, product_id, variant_id, as_of FROM stock_targets"
        " WHERE correction = ?",
        (command.id,),
    ).fetchone()
    if row is None:
        return False
    target, since, product, variant, as_of = row
    store, instance = command.store, command.instance
    if (
        restore_adoption.last_round(connection, store, instance, target, since)
        is not None
    ):
        return True
    at_hand = {"store": store, "product": product, "variant": variant, "as_of": as_of}
    return bool(restore_adoption.unknown_adjustment(connection, at_hand))


def _counted_reason(connection: sqlite3.Connection, command: Command) -> str | None:
    """Hold back what a count contains already; let a count be done anew that did not.

    Such a command waited for its product to be known, or for a person, while the back
    office counted what it had moved.
    """
    values = {
        "store": command.store,
        "product": command.target,
        "variant": command.payload["variant_id"],
        "id": command.id,
    }
    found = connection.execute(_COUNTED, values).fetchall()
    for state, correction, quantity, as_of, target, is_whole, is_resent in found:
        if state != "applied":
            missed = "a command from before the count was missed"
            supersede_adjustment(connection, correction, missed)
        elif is_whole:
            return f"the count of {quantity} as of {as_of} contains it already"
        elif not is_resent:
            said = f"the count of {quantity} as of {as_of} (target {target[:8]})"
            raise Damaged(
                f"{said} may contain it, but is damaged in the database; resend it if"
                " it does not, else drop it"
            )
    return None


def supersede_adjustment(
    connection: sqlite3.Connection, correction: str, reason: str
) -> None:
    """Give up an adjustment that was not sent; its target is to be counted anew."""
    dropped = connection.execute(
        "UPDATE commands SET state = ?, reason = ?, settled_at = due_at"
        " WHERE id = ? AND state = 'planned' RETURNING due_at",
        (next_state(State.PLANNED, Cause.REPLACED), reason, correction),
    ).fetchone()
    if dropped is None:
        return
    (target,) = connection.execute(
        "SELECT command_id FROM stock_targets WHERE correction = ?", (correction,)
    ).fetchone()
    _recalculate(connection, target, reason, dropped[0])


def supersede(
    connection: sqlite3.Connection, target: str, reason: str, now: str
) -> None:
    """Let a newer count take the place of a target whose step is not under way."""
    step = adjustment_of(connection, target)
    if step is not None and step[1] in {State.SENDING, State.UNCERTAIN}:
        return
    if step is not None and step[1] is State.PLANNED:
        supersede_adjustment(connection, step[0], reason)
    _move(connection, target, next_state(State.PLANNED, Cause.REPLACED), reason, now)


def stop_reasons(connection: sqlite3.Connection) -> dict[str, str]:
    """Return by store why its targets are stopped."""
    found = connection.execute(
        "SELECT substr(name, length(?1) + 1), value FROM marks"
        " WHERE name GLOB ?1 || '*' ORDER BY name",
        (STOPPED,),
    )
    return dict(found.fetchall())
