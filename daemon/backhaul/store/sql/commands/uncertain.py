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
from backhaul.store.sql.commands import command_evidence
from backhaul.store.sql.commands.rows import (
    COLUMNS,
    WIDTH,
    columns,
    to_command,
)
from backhaul.store.sql.commands.transitions import (
    apply_transition,
    park_damaged,
    usable,
)
from backhaul.store.sql.dialect import (
    document_of,
    elements,
    hint,
    is_document,
    later,
    member,
    number,
)
from backhaul.store.sql.family import Family, write
from backhaul.store.sql.stock_targets.adjustments import has_later_adjustment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.store.commands import Check, Transition
    from backhaul.store.matching import Command
    from backhaul.store.sql.family import Connection

# An effect that a check finds may belong to any command of the ordering key. So there
# is one check at a time, and none beside a request in flight. An ordering key has
# several uncertain commands after a restore, or if an operator resolves parked ones.
_ALONE = """
    NOT EXISTS (
      SELECT 1 FROM commands o
      WHERE o.store = c.store AND o.lane = c.lane
        AND o.state IN ('sending', 'uncertain')
        AND (o.state = 'sending' OR o.due_at <= :now AND o.seq < c.seq))
"""
# Commands that an early version sent have no time; they were not sent before they were
# planned.
_DUE = f"""
    SELECT {columns("c")}, c.request, c.request_digest, c.key_fingerprint, c.baseline,
           c.created_at, coalesce(c.sent_at, c.created_at), c.due_at, c.looks,
           (SELECT min(a.started_at) FROM attempts a
            WHERE a.command_id = c.id AND coalesce(a.outcome, '') != 'never_sent'),
           (SELECT max(a.started_at) FROM attempts a WHERE a.command_id = c.id),
           (SELECT coalesce(a.reason, '') FROM attempts a WHERE a.command_id = c.id
            ORDER BY a.number DESC LIMIT 1)
    FROM commands c
    WHERE state = 'uncertain' AND store = :store AND due_at <= :now AND {_ALONE}
    ORDER BY due_at LIMIT :limit
"""  # noqa: S608 - constants
_NEXT_DUE = f"""
    SELECT min(due_at) FROM commands c
    WHERE state = 'uncertain' AND store = :store AND {_ALONE}
"""  # noqa: S608 - constants
# Other commands have no parcel, or a known one.
SIBLINGS = f"""
    SELECT {COLUMNS} FROM commands
    WHERE store = :store AND target = :target AND kind = 'fulfill' AND seq != :seq
      AND effect_id IS NULL AND (state = 'uncertain' OR state != 'sending' AND EXISTS (
        SELECT 1 FROM attempts a WHERE a.command_id = commands.id
        AND coalesce(a.outcome, 'uncertain') = 'uncertain'))
"""  # noqa: S608 - constants
# Effects from before a restore are counted from `sent_at`.
_POSTPONE = f"""
    UPDATE commands SET due_at = {later("due_at", ":seconds")},
      sent_at = CASE WHEN request IS NULL THEN {later("sent_at", ":seconds")}
        ELSE sent_at END
    WHERE state = 'uncertain' AND store = :store AND due_at <= :longest
"""  # noqa: S608 - constants
STILL_ON_ITS_WAY = timedelta(days=7)
"""How long after it was given up a request may take effect, also if clocks differ."""
# In any state: an operator may have confirmed or discarded it, or it is sent again. The
# stock history shows neither the reason nor the count of an adjustment. Without a
# variant, or damaged, an adjustment may concern any variant of the product.
_COMPETING = f"""
    SELECT count(*) FROM commands
    WHERE store = :store AND target = :target AND kind = 'adjust' AND seq != :seq
      AND attempts > 0 AND effect_id IS NULL
      AND ({number("payload", "$.delta")} IS NULL
           OR {number("payload", "$.delta")} = :delta)
      AND (:variant IS NULL
           OR coalesce({member("payload", "$.variant_id")}, :variant) = :variant)
      AND (settled_at IS NULL OR settled_at >= :since)
"""  # noqa: S608 - constants
_OWNERS = f"""
    SELECT effect_id, id, request, key_fingerprint FROM commands
    WHERE store = :store
      AND effect_id IN (SELECT value FROM {elements(":effects", "$")})
"""  # noqa: S608 - constants
# Along the newest commands, not along all effects: few come before the first hit.
LAST_ADJUSTED = f"""
    SELECT target FROM commands
    WHERE store = :store AND kind = 'adjust' AND {hint("+")}effect_id IS NOT NULL
    ORDER BY seq DESC LIMIT 1
"""  # noqa: S608 - constants
_STATE = "SELECT state, attempts FROM commands WHERE seq = :seq"
_COUNT_CHECKS = "UPDATE commands SET looks = :checks WHERE seq = :seq"
_ADD_CHECK = """
    INSERT INTO resolution_checks (command_id, number, at, found, reason, read)
    VALUES (:id, :number, :at, :found, :reason, :read)
"""


class SqlUncertainCommands(Family):
    """Reads uncertain commands, and records checks of them."""

    @write
    def due(
        self, connection: Connection, store: str, limit: int
    ) -> list[UncertainCommand]:
        now = self._now()
        values = {"store": store, "now": now, "limit": limit}
        rows = connection.execute(_DUE, values).fetchall()
        found = (_uncertain(connection, row, now) for row in rows)
        return [uncertain for uncertain in found if uncertain is not None]

    @write
    def next_due(self, connection: Connection, store: str) -> str | None:
        values = {"store": store, "now": self._now()}
        due: str | None = connection.execute(_NEXT_DUE, values).fetchone()[0]
        return due

    @write
    def postpone(
        self, connection: Connection, store: str, seconds: float, longest_seconds: float
    ) -> None:
        before = from_text(self._now()) - timedelta(seconds=seconds)
        longest = to_text(before + timedelta(seconds=longest_seconds))
        values = {"store": store, "seconds": round(seconds, 3), "longest": longest}
        connection.execute(_POSTPONE, values)

    @write
    def record_check(
        self,
        connection: Connection,
        uncertain: UncertainCommand,
        check: Check,
        transition: Transition,
    ) -> State:
        state, is_uncertain = _state(connection, uncertain)
        if check.counts:
            _add_check(connection, uncertain, check)
        if not is_uncertain:
            return state
        _count_check(connection, uncertain, check, transition)
        return apply_transition(connection, uncertain.command, transition, self._now())

    @write
    def is_still_uncertain(
        self, connection: Connection, uncertain: UncertainCommand
    ) -> bool:
        return _state(connection, uncertain)[1]

    @write
    def sibling_fulfillments(
        self, connection: Connection, command: Command
    ) -> list[Command]:
        values = {"store": command.store, "target": command.target, "seq": command.seq}
        rows = connection.execute(SIBLINGS, values).fetchall()
        found = (_sibling(connection, row, self._now()) for row in rows)
        return [sibling for sibling in found if sibling is not None]

    @write
    def known_before(
        self, connection: Connection, command: Command
    ) -> dict[str, Any] | None:
        return command_evidence.known_before(connection, command)

    @write
    def owners(
        self, connection: Connection, store: str, adjustment_ids: Sequence[str]
    ) -> Mapping[str, EffectOwner]:
        effects = msgspec.json.encode(adjustment_ids).decode()
        rows = connection.execute(_OWNERS, {"store": store, "effects": effects})
        return {
            effect: EffectOwner(command, sent_tag(command, request), key)
            for effect, command, request, key in rows
        }

    @write
    def last_adjusted(self, connection: Connection, store: str) -> str | None:
        row = connection.execute(LAST_ADJUSTED, {"store": store}).fetchone()
        return None if row is None else str(row[0])

    @write
    def count_competing_adjustments(
        self, connection: Connection, command: Command, effective_at: str
    ) -> int:
        values = {
            "store": command.store,
            "target": command.target,
            "seq": command.seq,
            "variant": command.payload["variant_id"],
            "delta": command.payload["delta"],
            "since": _given_up_since(effective_at),
        }
        return int(connection.execute(_COMPETING, values).fetchone()[0])


def _sibling(connection: Connection, row: Sequence[Any], now: str) -> Command | None:
    """Return the command of a row; None if it cannot be compared.

    A command that ended and is damaged is compared as far as it can be read: left out,
    its parcel would be credited to another command.
    """
    command = to_command(row)
    if command.state is State.UNCERTAIN:
        return usable(connection, row, now)
    return command if command.payload else None


def sent_tag(command_id: str, request: bytes | None) -> str | None:
    """Return the reference tag of a request, None if it has none."""
    own = tag(command_id)
    return own if request and own.encode() in request else None


def _given_up_since(effective_at: str) -> str:
    try:
        return to_text(from_text(effective_at) - STILL_ON_ITS_WAY)
    except (OverflowError, ValueError):
        return ""


def _state(connection: Connection, uncertain: UncertainCommand) -> tuple[State, bool]:
    """Return a command's state, and whether that attempt is still uncertain."""
    values = {"seq": uncertain.command.seq}
    state, attempts = connection.execute(_STATE, values).fetchone()
    is_same = attempts == uncertain.command.attempts
    return State(state), is_same and state == State.UNCERTAIN


def _uncertain(
    connection: Connection, row: Sequence[Any], now: str
) -> UncertainCommand | None:
    """Return an uncertain command; park it and return None if anything is damaged."""
    command = usable(connection, row[:WIDTH], now)
    if command is None:
        return None
    request, digest, key, baseline, planned_at, sent_at, *more = row[WIDTH:]
    is_sent_intact = request is None or is_intact(digest, (request,))
    if not (is_sent_intact and (baseline is None or is_document(baseline))):
        park_damaged(connection, command, now)
        return None
    due_at, checks, first_attempt, last_attempt, answer = more
    return UncertainCommand(
        command=command,
        request=request or b"",
        key_fingerprint=key or "",
        baseline=document_of(baseline),
        planned_at=planned_at,
        sent_at=sent_at,
        first_sent_at=_first_sent(sent_at, first_attempt, last_attempt),
        due_at=due_at,
        checks=checks,
        is_superseded=has_later_adjustment(connection, command),
        answer=answer or "",
    )


def _first_sent(sent_at: str, first: str | None, last: str | None) -> str:
    """Return when a command was first sent, by the clock as it goes now.

    If the clock was set back since the last send, `sent_at` was moved with it, but the
    times of the attempts were not.
    """
    if first is None or last is None:
        return sent_at
    between = from_text(last) - from_text(first)
    return to_text(from_text(sent_at) - between)


def _add_check(
    connection: Connection, uncertain: UncertainCommand, check: Check
) -> None:
    values = {
        "id": uncertain.command.id,
        "number": uncertain.checks + 1,
        "at": check.at,
        "found": check.found,
        "reason": check.reason,
        "read": msgspec.json.encode(check.read).decode() if check.read else None,
    }
    connection.execute(_ADD_CHECK, values)


def _count_check(
    connection: Connection,
    uncertain: UncertainCommand,
    check: Check,
    transition: Transition,
) -> None:
    """Count a check that could determine something; a proved absence starts again."""
    is_absent = Cause.PROVED_ABSENT in transition.causes
    checks = 0 if is_absent else uncertain.checks + check.counts
    values = {"checks": checks, "seq": uncertain.command.seq}
    connection.execute(_COUNT_CHECKS, values)
