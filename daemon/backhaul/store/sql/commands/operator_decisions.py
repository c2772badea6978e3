"""Operators' decisions about commands, each with its audit entry in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.lifecycle import Cause, TargetCause
from backhaul.errors import BackhaulError
from backhaul.store.commands import (
    RESTOCK_UNSHIPPED,
    Transition,
    cause_of,
    require_possible,
)
from backhaul.store.sql.commands import planning
from backhaul.store.sql.commands.rows import columns, to_command
from backhaul.store.sql.commands.transitions import apply_transition
from backhaul.store.sql.family import Family, write
from backhaul.store.sql.operations.operators import ADD_DECISION
from backhaul.store.sql.stock_targets import adjustments, rows
from backhaul.store.sql.stock_targets.rows import KIND

if TYPE_CHECKING:
    from backhaul.core.lifecycle import State
    from backhaul.store.commands import Decision
    from backhaul.store.matching import Command
    from backhaul.store.sql.family import Connection

_TRACEPARENT = "(SELECT t.traceparent FROM commands t WHERE t.id = c.id)"
_FIND = f"""
    SELECT {columns("c", _TRACEPARENT)} FROM commands_and_targets c WHERE id = :id
"""  # noqa: S608 - constants
_SENT_AT = "SELECT sent_at FROM commands WHERE seq = :seq"
# For the reason that the operator saw, and no other, the command is not parked again.
_ACCEPT = "UPDATE commands SET accepted = reason WHERE seq = :seq AND state = 'parked'"
# All checks start again: asking often must not bring the last check, which alone may
# find that there was no effect, any nearer.
_RESET_CHECKS = "UPDATE commands SET looks = 0, failures = 0 WHERE seq = :seq"
_RESETTING = frozenset({Cause.PERSON_ASKS, Cause.PERSON_RESENDS})


class SqlDecisions(Family):
    """Moves commands as operators decide, if the state at that time permits it."""

    @write
    def find(self, connection: Connection, command: str) -> Command:
        return _find(connection, command)

    @write
    def decide(
        self, connection: Connection, decision: Decision, shown: State | None = None
    ) -> Command:
        now = self._now()
        command = _find(connection, decision.command)
        require_possible(command, decision.verb)
        _require_still(command, shown)
        if command.kind == KIND:
            adjustments.require_no_open_adjustment(connection, command.id)
            _move_target(connection, command, decision, now)
        else:
            _move(connection, command, decision, now)
        moved = _find(connection, decision.command)
        entry = {
            "at": now,
            "who": decision.who,
            "action": f"commands {decision.verb}",
            "detail": decision.reason,
            "command": command.id,
            "before": command.state,
            "after": moved.state,
        }
        connection.execute(ADD_DECISION, entry)
        return moved


def _find(connection: Connection, id_: str) -> Command:
    row = connection.execute(_FIND, {"id": id_}).fetchone()
    if row is None:
        raise BackhaulError(f"there is no command {id_}; see: backhaul commands list")
    return to_command(row)


def _require_still(command: Command, shown: State | None) -> None:
    if shown is not None and command.state is not shown:
        raise BackhaulError(
            f"command {command.id[:8]} was {shown} when you opened it and is"
            f" {command.state} now; check it again: backhaul commands show"
            f" {command.id[:8]}"
        )


def _move(
    connection: Connection, command: Command, decision: Decision, now: str
) -> None:
    cause = cause_of(decision.verb)
    place = {"seq": command.seq}
    if cause is Cause.PERSON_ASKS:
        _require_sent(connection, command)
    if cause is Cause.PERSON_RESENDS:
        connection.execute(_ACCEPT, place)
    if decision.verb == RESTOCK_UNSHIPPED:
        payload = {**command.payload, "restock": False, "restock_unshipped": True}
        planning.rewrite_payload(connection, command, payload)
    reason = decision.in_words()
    apply_transition(connection, command, Transition((cause,), reason, now), now)
    if cause in _RESETTING:
        connection.execute(_RESET_CHECKS, place)


def _move_target(
    connection: Connection, command: Command, decision: Decision, now: str
) -> None:
    cause, reason = cause_of(decision.verb), decision.in_words()
    if cause is Cause.PERSON_ASKS:
        raise BackhaulError(
            f"{command.id[:8]} is a stock target, and Backhaul sends only its"
            " adjustments. So there is no outcome to check. Resend or discard the"
            " stock target"
        )
    moved = TargetCause(cause)
    rows.transition(connection, command.id, moved, now, reason=reason, due_at=now)
    if cause is Cause.PERSON_RESENDS:
        adjustments.recalculate_resent(connection, command.id, reason, now)


def _require_sent(connection: Connection, command: Command) -> None:
    (sent_at,) = connection.execute(_SENT_AT, {"seq": command.seq}).fetchone()
    if sent_at is None:
        raise BackhaulError(
            f"command {command.id[:8]} was not sent, or an old version sent it"
            " without the data that a check needs. A check would find nothing;"
            " resend or discard the command"
        )
