"""What the platform's history shows of commands, and what a restore or clock changes.

The stock history shows our adjustments by their reference tags. It does not show
parcels: the mirror does.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from backhaul.core.clock import from_text, to_text
from backhaul.core.effect_proof import (
    BECOMES_EFFECT,
    FOREIGN,
    KnownCommand,
    TagMeaning,
    tag_meaning,
)
from backhaul.core.lifecycle import Cause, State
from backhaul.core.parcels import fits_lines
from backhaul.store.commands import Transition
from backhaul.store.sql.commands import restore_adoption
from backhaul.store.sql.commands.rows import COLUMNS, to_command
from backhaul.store.sql.commands.transitions import apply_transition, usable
from backhaul.store.sql.dialect import (
    document_of,
    elements,
    greatest,
    later,
    least,
    member,
    same,
)
from backhaul.store.sql.family import Family, write
from backhaul.store.sql.stock_targets import late_adjustments, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.commands import TaggedAdjustment
    from backhaul.store.sql.family import Connection

RESTORED = "the database was restored; the command may have been sent before that"
_LATE = "the platform's stock history shows our reference tag: the command took effect"
_OPEN = f"""
    SELECT {COLUMNS} FROM commands
    WHERE store = :store AND state = 'planned'
"""  # noqa: S608 - constants
_FIND = f"SELECT {COLUMNS} FROM commands WHERE id = :command AND store = :store"  # noqa: S608 - constants
_KNOWN = """
    SELECT kind, state, attempts, effect_id, evidence FROM commands
    WHERE id = :command AND store = :store
"""
# Checks from before the restore say nothing about what was sent since.
_RESTART_CHECKS = """
    UPDATE commands SET looks = 0, due_at = :now,
           sent_at = CASE WHEN request IS NULL THEN :now
             ELSE coalesce(sent_at, :now) END
    WHERE store = :store AND state = 'uncertain'
"""
# A time stays if it may have been written since the clock went back: a check that is
# too early would accept an absence too early, a late one does no harm. An early retry
# does none either. Send windows let out what was planned by now.
_SHIFT = f"""
    UPDATE commands SET
      created_at = {least("created_at", ":now")},
      due_at = CASE WHEN state = 'uncertain' AND due_at <= :longest THEN due_at
        ELSE {greatest(":now", later("due_at", ":seconds"))} END,
      sent_at = CASE WHEN sent_at BETWEEN :noticed AND :now THEN sent_at
        ELSE {later("sent_at", ":seconds")} END
    WHERE store = :store AND state IN ('planned', 'sending', 'uncertain')
"""  # noqa: S608 - constants
# The same if nobody saw by how much the clock went back. `sent_at` stays: a key with a
# time in the future is not used again, but one of today might be, although the platform
# has forgotten it.
_CATCH_UP = f"""
    UPDATE commands SET
      created_at = {least("created_at", ":now")},
      due_at = CASE WHEN state = 'planned' THEN :now
        ELSE {least("due_at", ":longest")} END
    WHERE store = :store AND state IN ('planned', 'sending', 'uncertain')
      AND (created_at > :now OR due_at > :longest)
"""  # noqa: S608 - constants
# A command whose request never arrived twice has no double parcel. A parcel may belong
# to an uncertain command of the order.
_TWICE = f"""
    SELECT c.id, s.id, c.payload, (
      SELECT d.value FROM orders r, {elements("r.document", "$.shipments")} d
      WHERE r.store = s.store AND r.id = s.order_id
        AND {member("d.value", "$.id")} = s.id)
    FROM commands c
    JOIN shipments s ON s.store = c.store AND s.order_id = c.target
    WHERE c.store = :store AND c.kind = 'fulfill' AND c.attempts > 1
      AND c.sent_at >= :since AND c.state = 'applied' AND s.id != c.effect_id
      AND s.tracking_number = {member("c.payload", "$.tracking_number")}
      AND {same("s.tracking_company", member("c.payload", "$.tracking_company"))}
      AND (SELECT count(*) FROM attempts a WHERE a.command_id = c.id
        AND coalesce(a.outcome, 'uncertain') IN ('uncertain', 'confirmed')) > 1
      AND NOT EXISTS (
        SELECT 1 FROM commands o
        WHERE o.store = c.store AND o.lane = c.lane
          AND o.state IN ('sending', 'uncertain'))
      AND NOT EXISTS (
        SELECT 1 FROM commands o WHERE o.store = s.store AND o.effect_id = s.id)
      AND NOT EXISTS (
        SELECT 1 FROM {elements("c.evidence", "$.doubled")} d WHERE d.value = s.id)
"""  # noqa: S608 - constants
_EVIDENCE = "SELECT evidence FROM commands WHERE id = :command AND store = :store"
_PUT_EVIDENCE = """
    UPDATE commands SET evidence = :evidence WHERE id = :command AND store = :store
"""
_PUT_REASON = "UPDATE commands SET reason = :reason WHERE id = :command"
LATE_PARCELS_WITHIN = timedelta(days=7)
"""How long a parcel that takes effect late is searched for."""
NOTICED_SECONDS = 60.0
"""Within this time a clock that went back is noticed."""


class SqlHistoryTags(Family):
    """Each method is one transaction."""

    @write
    def record_tags(
        self,
        connection: Connection,
        store: str,
        found: Sequence[TaggedAdjustment],
        *,
        adopt: bool,
    ) -> list[TagMeaning]:
        now = self._now()
        meanings = [
            _record_tag(connection, store, tagged, now, adopt=adopt) for tagged in found
        ]
        if adopt and FOREIGN & set(meanings):
            mark_restored(connection, store, now)
        return meanings

    @write
    def record_double_parcels(
        self, connection: Connection, store: str
    ) -> list[tuple[str, str]]:
        since = to_text(from_text(self._now()) - LATE_PARCELS_WITHIN)
        rows = connection.execute(_TWICE, {"store": store, "since": since}).fetchall()
        found = [
            (command, parcel)
            for command, parcel, payload, shown in rows
            if fits_lines(
                document_of(shown).get("items"), document_of(payload).get("lines", [])
            )
        ]
        for command, parcel in found:
            _add_double(connection, store, command, parcel)
        return found

    @write
    def shift(
        self, connection: Connection, store: str, seconds: float, longest_seconds: float
    ) -> None:
        values = self._times(store, longest_seconds) | {"seconds": -round(seconds, 3)}
        connection.execute(_SHIFT, values)
        rows.shift_times(connection, values)

    @write
    def catch_up(
        self, connection: Connection, store: str, longest_seconds: float
    ) -> None:
        values = self._times(store, longest_seconds)
        connection.execute(_CATCH_UP, values)
        rows.limit_waits(connection, values)

    def _times(self, store: str, longest_seconds: float) -> dict[str, object]:
        now = from_text(self._now())
        return {
            "store": store,
            "now": to_text(now),
            "longest": to_text(now + timedelta(seconds=longest_seconds)),
            "noticed": to_text(now - timedelta(seconds=NOTICED_SECONDS)),
            "just_before": to_text(now - timedelta(milliseconds=1)),
        }


def mark_restored(connection: Connection, store: str, now: str) -> None:
    """Treat the database as older than what was sent from it.

    Every open command may have taken effect, and becomes uncertain.
    """
    restore_adoption.remember_restore(connection, store, now)
    change = Transition((Cause.UNKNOWN,), RESTORED, due_at=now)
    for row in connection.execute(_OPEN, {"store": store}).fetchall():
        if (command := usable(connection, row, now)) is not None:
            apply_transition(connection, command, change, now)
    connection.execute(_RESTART_CHECKS, {"store": store, "now": now})


def _record_tag(
    connection: Connection,
    store: str,
    tagged: TaggedAdjustment,
    now: str,
    *,
    adopt: bool,
) -> TagMeaning:
    known = _known(connection, store, tagged.command)
    meant = tag_meaning(known, tagged.adjustment_id)
    count = None
    if meant in late_adjustments.MAY_BE_LATE:
        count = late_adjustments.affected_count(connection, store, tagged)
    if adopt or meant not in FOREIGN:
        _apply_meaning(connection, store, tagged, meant, now)
    if count is not None and count.is_open:
        return TagMeaning.OPEN
    if count is None or late_adjustments.recalculate(connection, count, tagged.command):
        return meant
    _keep_double(connection, store, tagged, now)
    reason = {"reason": f"{_LATE}, {count.in_words()}", "command": tagged.command}
    connection.execute(_PUT_REASON, reason)
    return TagMeaning.BEHIND


def _known(connection: Connection, store: str, command: str) -> KnownCommand | None:
    values = {"command": command, "store": store}
    row = connection.execute(_KNOWN, values).fetchone()
    if row is not None:
        kind, state, attempts, effect_id, text = row
        doubled = tuple(document_of(text).get("doubled", ()))
        return KnownCommand(kind, State(state), attempts, effect_id, doubled)
    evidence = restore_adoption.adopted(connection, store, command)
    if evidence is None:
        return None
    effect, doubled = evidence["adjustment_id"], tuple(evidence.get("doubled", ()))
    return KnownCommand("adjust", State.APPLIED, 1, effect, doubled)


def _apply_meaning(
    connection: Connection,
    store: str,
    tagged: TaggedAdjustment,
    meant: TagMeaning,
    now: str,
) -> None:
    if meant in BECOMES_EFFECT:
        _confirm(connection, store, tagged, now)
    elif meant is TagMeaning.DOUBLED:
        _keep_double(connection, store, tagged, now)
    elif meant is TagMeaning.UNKNOWN:
        restore_adoption.adopt(connection, store, tagged, now)


def _confirm(
    connection: Connection, store: str, tagged: TaggedAdjustment, now: str
) -> None:
    values = {"command": tagged.command, "store": store}
    command = to_command(connection.execute(_FIND, values).fetchone())
    is_confirmed = command.state is State.APPLIED
    change = Transition(
        causes=() if is_confirmed else (Cause.PROVED_APPLIED,),
        reason=_LATE,
        evidence=restore_adoption.effect_evidence(tagged),
        effect_id=tagged.adjustment_id,
    )
    apply_transition(connection, command, change, now)


def _keep_double(
    connection: Connection, store: str, tagged: TaggedAdjustment, now: str
) -> None:
    if not _add_double(connection, store, tagged.command, tagged.adjustment_id):
        restore_adoption.adopt(connection, store, tagged, now)


def _add_double(connection: Connection, store: str, command: str, effect: str) -> bool:
    """Add a duplicate effect to a command's evidence; False for an unknown command."""
    values = {"command": command, "store": store}
    row = connection.execute(_EVIDENCE, values).fetchone()
    if row is None:
        return False
    evidence = document_of(row[0])
    evidence["doubled"] = [*evidence.get("doubled", ()), effect]
    text = msgspec.json.encode(evidence).decode()
    connection.execute(_PUT_EVIDENCE, values | {"evidence": text})
    return True
