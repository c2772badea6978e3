"""A person's move of a command and its line in the audit, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
from backhaul.core.lifecycle import Cause
from backhaul.errors import BackhaulError
from backhaul.store.commands import (
    RESTOCK_UNSHIPPED,
    Transition,
    cause_of,
    require_possible,
)
from backhaul.store.sql.commands import planning
from backhaul.store.sql.commands.repository import COLUMNS, move_on, to_command
from backhaul.store.sql.stock_targets import adjustments

if TYPE_CHECKING:
    import sqlite3

    from backhaul.core.clock import Clock
    from backhaul.core.lifecycle import State
    from backhaul.store.commands import Decision
    from backhaul.store.matching import Command
    from backhaul.store.sqlite.writer import Writer

_BEGIN_ANEW = frozenset({Cause.PERSON_ASKS, Cause.PERSON_RESENDS})


class SqlDecisions:
    """Moves commands by hand; the state at that moment decides what is possible."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def find(self, command: str) -> Command:
        """Return the command with this whole id. Raises BackhaulError."""
        return await self._writer.urgent(lambda connection: _find(connection, command))

    async def decide(self, decision: Decision, shown: State | None = None) -> Command:
        """Move a command and write down who did it, in one step; return it as moved.

        `shown` is where it stood when the person looked. Raises BackhaulError where it
        stands elsewhere by now, or where the lifecycle has no such move.
        """

        def unit(connection: sqlite3.Connection) -> Command:
            now = to_text(self._clock.now())
            command = _find(connection, decision.command)
            require_possible(command, decision.verb)
            _require_still(command, shown)
            adjustments.require_no_open_adjustment(connection, command)
            _move(connection, command, decision, now)
            moved = _find(connection, decision.command)
            _write_down(connection, decision, command, moved, now)
            return moved

        return await self._writer.urgent(unit)


def _find(connection: sqlite3.Connection, id_: str) -> Command:
    query = f"SELECT {COLUMNS} FROM commands WHERE id = ?"  # noqa: S608 - constants
    row = connection.execute(query, (id_,)).fetchone()
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
    connection: sqlite3.Connection, command: Command, decision: Decision, now: str
) -> None:
    cause = cause_of(decision.verb)
    if cause is Cause.PERSON_ASKS:
        _require_sent(connection, command)
    if cause is Cause.PERSON_RESENDS:
        _accept(connection, command)
    if decision.verb == RESTOCK_UNSHIPPED:
        payload = {**command.payload, "restock": False, "restock_unshipped": True}
        planning.rewrite_payload(connection, command, payload)
    said = f": {decision.reason}" if decision.reason else ""
    reason = f"{decision.verb} by {decision.who}{said}"
    move_on(connection, command, command.state, Transition((cause,), reason, now), now)
    if cause is Cause.PERSON_RESENDS and command.kind == adjustments.KIND:
        adjustments.recalculate_resent(connection, command.id, reason, now)
    if cause in _BEGIN_ANEW:
        # All looks are ahead again: asking often must not bring the last one, which
        # alone may say that there was no effect, any nearer.
        connection.execute(
            "UPDATE commands SET looks = 0, failures = 0 WHERE seq = ?", (command.seq,)
        )


def _accept(connection: sqlite3.Connection, command: Command) -> None:
    """Keep the reason that the operator saw: for it alone it is not parked again."""
    connection.execute(
        "UPDATE commands SET accepted = reason WHERE seq = ? AND state = 'parked'",
        (command.seq,),
    )


def _require_sent(connection: sqlite3.Connection, command: Command) -> None:
    query = "SELECT sent_at FROM commands WHERE seq = ?"
    if connection.execute(query, (command.seq,)).fetchone()[0] is None:
        raise BackhaulError(
            f"command {command.id[:8]} was not sent, or an old version sent it"
            " without the data that a check needs. A check would find nothing;"
            " resend or discard the command"
        )


def _write_down(
    connection: sqlite3.Connection,
    decision: Decision,
    before: Command,
    after: Command,
    now: str,
) -> None:
    connection.execute(
        "INSERT INTO audit (at, who, action, detail, command_id, state_before,"
        " state_after) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            now,
            decision.who,
            f"commands {decision.verb}",
            decision.reason,
            before.id,
            before.state,
            after.state,
        ),
    )
