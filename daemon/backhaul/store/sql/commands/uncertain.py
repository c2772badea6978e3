"""Uncertain commands: what their outcome is determined from, and each check."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core.clock import from_text, to_text
from backhaul.core.effect_proof import EffectOwner
from backhaul.core.identity import is_intact, tag
from backhaul.core.lifecycle import Cause, State
from backhaul.store.commands import UncertainCommand
from backhaul.store.sql.commands.command_evidence import known_before
from backhaul.store.sql.commands.repository import (
    COLUMNS,
    is_usable,
    move_on,
    park_damaged,
    to_command,
)
from backhaul.store.sql.dialect import member
from backhaul.store.sql.documents import document_of, is_document
from backhaul.store.sql.stock_targets.adjustments import has_later_adjustment

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.commands import Check, Transition
    from backhaul.store.matching import Command
    from backhaul.store.sqlite.writer import Writer

# What an early version sent bears no time; it was not before it was planned.
_DOUBT = f"""
    SELECT {COLUMNS}, request, key_fingerprint, baseline, created_at,
           coalesce(sent_at, created_at), looks,
           (SELECT json_array(
              min(started_at) FILTER (WHERE outcome IS NOT 'never_sent'),
              max(started_at)) FROM attempts WHERE command_id = commands.id),
           (SELECT coalesce(reason, '') FROM attempts WHERE command_id = commands.id
            ORDER BY number DESC LIMIT 1)
    FROM commands WHERE seq = ?
"""  # noqa: S608 - constants
# What is there may be the effect of any command of its lane: two looks at once would
# both take it for theirs, and so would a check beside a request under way. Several of a
# lane are uncertain after a restore, or where a person asks for what was given up.
_ALONE = """
    NOT EXISTS (
      SELECT 1 FROM commands o INDEXED BY commands_flying
      WHERE o.store = c.store AND o.lane = c.lane
        AND o.state IN ('sending', 'uncertain')
        AND (o.state = 'sending' OR o.due_at <= :now AND o.seq < c.seq))
"""
_DUE = f"""
    SELECT seq, request, request_digest, CAST(baseline AS BLOB) FROM commands c
    WHERE state = 'uncertain' AND store = :store AND due_at <= :now AND {_ALONE}
    ORDER BY due_at LIMIT :limit
"""  # noqa: S608 - constants
_NEXT_DUE = f"""
    SELECT min(due_at) FROM commands c
    WHERE state = 'uncertain' AND store = :store AND {_ALONE}
"""  # noqa: S608 - constants
# What was never uncertain has no parcel, or one that is known.
SIBLINGS = f"""
    SELECT {COLUMNS} FROM commands INDEXED BY idx_commands_target
    WHERE store = ? AND target = ? AND kind = 'fulfill' AND seq != ?
      AND effect_id IS NULL AND (state = 'uncertain' OR state != 'sending' AND EXISTS (
        SELECT 1 FROM attempts a WHERE a.command_id = commands.id
        AND coalesce(a.outcome, 'uncertain') = 'uncertain'))
"""  # noqa: S608 - constants
# What is of a life before a restore is reckoned from `sent_at`.
_POSTPONE = """
    UPDATE commands SET due_at = strftime(:form, due_at, :forward),
      sent_at = iif(request IS NULL, strftime(:form, sent_at, :forward), sent_at)
    WHERE state = 'uncertain' AND store = :store
      AND due_at <= strftime(:form, :now, :back, :longest)
"""
_FORM = "%Y-%m-%dT%H:%M:%fZ"
ON_ITS_WAY = timedelta(days=7)
"""For how long what was given up may still land; clocks may differ within it."""
# Whatever became of it: a person may have called it applied or dropped it, it may be
# under way, or to be sent again. A history says neither why it was asked for nor for
# which count; without a variant, or damaged, any of the product may be meant. What was
# given up long before the change is not in it: no request is on its way for so long.
_RIVALS = f"""
    SELECT count(*) FROM commands
    WHERE store = :store AND target = :target AND kind = 'adjust' AND seq != :seq
      AND attempts > 0 AND effect_id IS NULL
      AND coalesce({member("payload", "$.delta")} = :delta, 1)
      AND coalesce({member("payload", "$.variant_id")} = :variant, 1)
      AND coalesce(settled_at >= strftime(:form, :landed_at, :on_its_way), 1)
"""  # noqa: S608 - constants
# The plus leads along the order, past the index of all effects: there are few before.
LAST_ADJUSTED = """
    SELECT target FROM commands
    WHERE store = ? AND kind = 'adjust' AND +effect_id IS NOT NULL
    ORDER BY seq DESC LIMIT 1
"""


class SqlUncertainCommands:
    """Reads and settles commands whose fate is not known."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def due(self, store: str, limit: int) -> list[UncertainCommand]:
        """Return what is to be looked at now, the longest due first, one of a lane."""

        def unit(connection: sqlite3.Connection) -> list[UncertainCommand]:
            now = to_text(self._clock.now())
            values = {"store": store, "now": now, "limit": limit}
            due = connection.execute(_DUE, values).fetchall()
            usable = [
                seq for seq, *sent in due if _is_sound(connection, seq, sent, now)
            ]
            return [
                _doubt(connection, connection.execute(_DOUBT, (seq,)).fetchone())
                for seq in usable
            ]

        return await self._writer.urgent(unit)

    async def next_due(self, store: str) -> str | None:
        """Return when the next check is due (it may be past); None without any."""

        def unit(connection: sqlite3.Connection) -> str | None:
            values = {"store": store, "now": to_text(self._clock.now())}
            due: str | None = connection.execute(_NEXT_DUE, values).fetchone()[0]
            return due

        return await self._writer.urgent(unit)

    async def postpone(
        self, store: str, seconds: float, longest_seconds: float
    ) -> None:
        """Put off looks by as much as the clock was set forward.

        A check that is due later than `longest_seconds`, the longest wait there is,
        after the time by the clock of before stays: it was put off by the new one.
        """
        values = {
            "store": store,
            "form": _FORM,
            "now": to_text(self._clock.now()),
            "forward": f"+{seconds:.3f} seconds",
            "back": f"-{seconds:.3f} seconds",
            "longest": f"+{longest_seconds:.3f} seconds",
        }
        await self._writer.urgent(
            lambda connection: connection.execute(_POSTPONE, values).rowcount
        )

    async def record_check(
        self, uncertain: UncertainCommand, check: Check, transition: Transition
    ) -> State:
        """Keep a check and move its command on. Returns where it stands now.

        A command that a person has moved meanwhile stays where it is, and so does one
        that was even sent again: the check was at its earlier attempt.
        """

        def unit(connection: sqlite3.Connection) -> State:
            state, stands = _stand(connection, uncertain)
            if check.counts:
                _keep(connection, uncertain, check)
            if not stands:
                return state
            now = to_text(self._clock.now())
            _count_look(connection, uncertain, check, transition)
            return move_on(
                connection, uncertain.command, State.UNCERTAIN, transition, now
            )

        return await self._writer.urgent(unit)

    async def is_still_uncertain(self, uncertain: UncertainCommand) -> bool:
        """Tell whether that attempt is uncertain still: an operator may decide."""
        _, stands = await self._writer.urgent(
            lambda connection: _stand(connection, uncertain)
        )
        return stands

    async def sibling_fulfillments(self, command: Command) -> list[Command]:
        """Return the order's other fulfillments that may own a parcel nobody knows of.

        They are uncertain, or were and were given up or called done. A damaged one
        is passed over; where it is uncertain, it is parked.
        """

        def unit(connection: sqlite3.Connection) -> list[Command]:
            now = to_text(self._clock.now())
            values = (command.store, command.target, command.seq)
            found = map(to_command, connection.execute(SIBLINGS, values).fetchall())
            return [
                each
                for each in found
                if (
                    is_usable(connection, each.seq, each.state, now)
                    if each.state is State.UNCERTAIN
                    else each.payload
                )
            ]

        return await self._writer.urgent(unit)

    async def known_before(self, command: Command) -> dict[str, Any] | None:
        """Return what was known before the first attempt that may have taken effect.

        None where none may have.
        """
        return await self._writer.urgent(
            lambda connection: known_before(connection, command)
        )

    async def owners(
        self, store: str, adjustment_ids: Sequence[str]
    ) -> Mapping[str, EffectOwner]:
        """Return the command of each adjustment that is ours, and how it was sent."""

        def unit(connection: sqlite3.Connection) -> Mapping[str, EffectOwner]:
            rows = connection.execute(
                "SELECT effect_id, id, request, key_fingerprint FROM commands"
                " WHERE store = ?"
                " AND effect_id IN (SELECT value FROM json_each(?))",
                (store, msgspec.json.encode(adjustment_ids).decode()),
            )
            return {
                effect: EffectOwner(command, sent_tag(command, request), key)
                for effect, command, request, key in rows
            }

        return await self._writer.urgent(unit)

    async def last_adjusted(self, store: str) -> str | None:
        """Return the product of the newest adjustment that is known to be ours."""

        def unit(connection: sqlite3.Connection) -> str | None:
            row = connection.execute(LAST_ADJUSTED, (store,)).fetchone()
            return None if row is None else str(row[0])

        return await self._writer.urgent(unit)

    async def count_competing_adjustments(
        self, command: Command, effective_at: str
    ) -> int:
        """Count the adjustments that may have made a change that looks like its own.

        Those are without a known effect, were sent at least once, and stood open within
        ON_ITS_WAY before it landed; its time is the platform's, "" where that is not
        known.
        """

        def unit(connection: sqlite3.Connection) -> int:
            values = {
                "store": command.store,
                "target": command.target,
                "seq": command.seq,
                "variant": command.payload["variant_id"],
                "delta": command.payload["delta"],
                "form": _FORM,
                "landed_at": effective_at,
                "on_its_way": f"-{ON_ITS_WAY.days} days",
            }
            (count,) = connection.execute(_RIVALS, values).fetchone()
            return int(count)

        return await self._writer.urgent(unit)


def sent_tag(command_id: str, request: bytes | None) -> str | None:
    """Return the tag that a request carried, None where it carried none."""
    own = tag(command_id)
    return own if request and own.encode() in request else None


def _stand(
    connection: sqlite3.Connection, uncertain: UncertainCommand
) -> tuple[State, bool]:
    """Return where a command stands, and whether that attempt is uncertain still."""
    query = "SELECT state, attempts FROM commands WHERE seq = ?"
    row = connection.execute(query, (uncertain.command.seq,)).fetchone()
    return State(row[0]), row == (State.UNCERTAIN, uncertain.command.attempts)


def _is_sound(
    connection: sqlite3.Connection, seq: int, sent: Sequence[bytes | None], now: str
) -> bool:
    """Tell whether a command, what was sent and what was known then are as they were.

    One that is not is parked.
    """
    if not is_usable(connection, seq, State.UNCERTAIN, now):
        return False
    request, digest, baseline = sent
    intact = request is None or is_intact(digest, (request,))
    sound = intact and (baseline is None or is_document(baseline))
    if not sound:
        park_damaged(connection, seq, State.UNCERTAIN, now)
    return sound


def _doubt(connection: sqlite3.Connection, row: tuple[Any, ...]) -> UncertainCommand:
    *columns, request, key, baseline, planned_at, sent_at, looks, sends, answer = row
    command = to_command(tuple(columns))
    return UncertainCommand(
        command=command,
        request=request or b"",
        key_fingerprint=key or "",
        baseline=document_of(baseline),
        planned_at=planned_at,
        sent_at=sent_at,
        first_sent_at=_first_sent(sent_at, *msgspec.json.decode(sends)),
        checks=looks,
        is_superseded=has_later_adjustment(connection, command),
        answer=answer or "",
    )


def _first_sent(sent_at: str, first: str | None, last: str | None) -> str:
    """Return when it was sent first, by the clock as it goes now.

    Where that clock was set back since the last send, `sent_at` has followed; what was
    written of the attempts stays as it was.
    """
    if first is None or last is None:
        return sent_at
    between = from_text(last) - from_text(first)
    return to_text(from_text(sent_at) - between)


def _keep(
    connection: sqlite3.Connection, uncertain: UncertainCommand, check: Check
) -> None:
    connection.execute(
        "INSERT INTO looks (command_id, number, at, found, reason, read)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            uncertain.command.id,
            uncertain.checks + 1,
            check.at,
            check.found,
            check.reason,
            msgspec.json.encode(check.read).decode() if check.read else None,
        ),
    )


def _count_look(
    connection: sqlite3.Connection,
    uncertain: UncertainCommand,
    check: Check,
    transition: Transition,
) -> None:
    """Count a check that could tell; a proved absence begins anew."""
    looks = (
        0
        if Cause.PROVED_ABSENT in transition.causes
        else uncertain.checks + check.counts
    )
    connection.execute(
        "UPDATE commands SET looks = ? WHERE seq = ?", (looks, uncertain.command.seq)
    )
