"""Applies transitions of commands, with everything that follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger

from backhaul.core.lifecycle import Cause, State, next_state
from backhaul.store.sql.commands import command_evidence, echoes, incidents, planning
from backhaul.store.sql.commands.rows import intact_command, to_command, transition
from backhaul.store.sql.stock_targets import adjustments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from backhaul.store.commands import Transition
    from backhaul.store.matching import Command
    from backhaul.store.sql.family import Connection

DAMAGED = (
    "the stored command is damaged, so the disk or the database file has an error."
    " Compare the command with its record, and restore a backup"
)
_IN_FLIGHT = frozenset({State.SENDING, State.UNCERTAIN})
# Two records may report one parcel; the platform answers both with it.
_LINK = """
    UPDATE commands SET effect_id = :effect WHERE seq = :seq AND NOT EXISTS
      (SELECT 1 FROM commands o WHERE o.store = :store AND o.effect_id = :effect)
"""
_ORDER_CHANGED = """
    SELECT 1 FROM event_outcomes e
    JOIN attempts a ON e.id > coalesce(a.after_event, 0)
    WHERE e.object_id = :order AND e.state = 'folded'
      AND a.command_id = :id AND a.number = :number
"""


def apply_transition(
    connection: Connection, command: Command, change: Transition, now: str
) -> State:
    """Move a command, with its effect, echoes, target and incidents.

    Returns the new state.
    """
    state = next_state(command.state, *change.causes)
    evidence = command_evidence.merged_evidence(connection, command, change)
    held = change.held and not _order_changed(connection, command)
    transition(
        connection,
        command.seq,
        command.state,
        change.causes,
        now,
        reason=adjustments.name_affected_count(
            connection, command, state, change.reason
        ),
        hold_reason="order" if held else None,
        failures=int(change.counts_as_failure),
        **({} if change.due_at is None else {"due_at": change.due_at}),
        **({} if evidence is None else {"evidence": evidence}),
    )
    if change.effect_id is not None:
        values = {"effect": change.effect_id, "store": command.store}
        connection.execute(_LINK, {**values, "seq": command.seq})
        echoes.claim_effect(connection, command, change.effect_id)
    if command.state in _IN_FLIGHT and state not in _IN_FLIGHT:
        echoes.drop_unclaimed(connection, command)
    if command.kind == "adjust":
        adjustments.follow(connection, command.id, state, change.reason, now)
    if state is State.APPLIED:
        incidents.add_of_command(connection, command, change, now)
        if command.kind == "cancel":
            planning.restock_unshipped(connection, command, change, now)
    return state


def _order_changed(connection: Connection, command: Command) -> bool:
    """Return True if an event of the order was folded since the attempt began.

    The change that a command on hold waits for may come before the platform's refusal
    is recorded; the command would then wait forever.
    """
    values = {"order": command.target, "id": command.id, "number": command.attempts + 1}
    return connection.execute(_ORDER_CHANGED, values).fetchone() is not None


def usable(connection: Connection, row: Sequence[Any], now: str) -> Command | None:
    """Return the command of a row of COLUMNS; park it and return None if damaged."""
    command = intact_command(row)
    if command is None:
        park_damaged(connection, to_command(row), now)
    return command


def park_damaged(connection: Connection, command: Command, now: str) -> None:
    """Leave a damaged command to an operator; nothing of it is sent."""
    causes = (Cause.UNDECIDABLE,)
    state = transition(
        connection, command.seq, command.state, causes, now, reason=DAMAGED
    )
    adjustments.follow(connection, command.id, state, DAMAGED, now)
    logger.bind(action="command.damaged", number=command.seq).error(
        "command {}: {}", command.seq, DAMAGED
    )
