"""What the platform's history tells of commands, by the tags they were sent with."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.core.clock import to_text
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
from backhaul.store.sql.commands.repository import (
    COLUMNS,
    is_usable,
    move_on,
    to_command,
)
from backhaul.store.sql.dialect import document, member
from backhaul.store.sql.documents import document_of
from backhaul.store.sql.stock_targets import late_adjustments

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.commands import TaggedAdjustment
    from backhaul.store.sqlite.writer import Writer

RESTORED = "the database was restored; the command may have been sent before that"
_LATE = "the platform's stock history shows our reference tag: the command took effect"
_OPEN = f"""
    SELECT {COLUMNS} FROM commands
    WHERE store = ? AND state = 'planned' AND kind != 'target'
"""  # noqa: S608 - constants
# A look at what is in doubt since before the restore tells of that life only.
_ANEW = """
    UPDATE commands SET looks = 0, due_at = :now,
           sent_at = iif(request IS NULL, :now, coalesce(sent_at, :now))
    WHERE store = :store AND state = 'uncertain'
"""
# What may have been written since the clock went back stays: a look that is taken too
# early would believe an absence too early, one that is taken too late does no harm. A
# retry does none when it is early. Gates let out what was planned by now.
_SHIFT = """
    UPDATE commands SET
      created_at = min(created_at, :now),
      due_at = CASE WHEN state = 'uncertain'
          AND due_at <= strftime(:form, :now, :longest) THEN due_at
        ELSE max(:now, strftime(:form, due_at, :back)) END,
      sent_at = CASE WHEN sent_at BETWEEN strftime(:form, :now, :noticed) AND :now
        THEN sent_at ELSE strftime(:form, sent_at, :back) END
    WHERE store = :store AND state IN ('planned', 'sending', 'uncertain')
"""
# The same where nobody saw by how much: no wait is longer than the longest there is.
# `sent_at` stays: a key that seems to come from the future is not used again, and one
# of today might be, though the platform has forgotten it.
_CATCH_UP = """
    UPDATE commands SET
      created_at = min(created_at, :now),
      due_at = CASE WHEN state = 'planned' THEN :now
        ELSE min(due_at, strftime(:form, :now, :longest)) END
    WHERE store = :store AND state IN ('planned', 'sending', 'uncertain')
      AND (created_at > :now OR due_at > strftime(:form, :now, :longest))
"""
# A count that was made true while the clock was ahead would be newer than all that come
# until then, and contain all that is asked for until then. Among many counts it takes
# long to find them: at a start, the newest commands tell whether there can be any. They
# are dated just before now, so that a count of this very millisecond is a newer one.
_IS_AHEAD = """
    SELECT EXISTS (SELECT 1 FROM (
        SELECT created_at FROM commands ORDER BY seq DESC LIMIT 1000)
      WHERE created_at > :now)
"""
_COUNTED_AHEAD = """
    UPDATE stock_targets SET as_of = strftime(:form, :now, '-0.001 seconds')
    WHERE store = :store AND as_of > :now AND command_id IN (
        SELECT id FROM commands WHERE state = 'applied')
"""
# No history tells of parcels: the mirror shows the one that landed late. What never
# arrived twice is not doubled; what another of the order is in doubt of may be its own.
_TWICE = f"""
    SELECT c.id, s.id, CAST(c.payload AS BLOB), (
      SELECT CAST(d.value AS BLOB)
      FROM orders r, json_each({document("r.document")}, '$.shipments') d
      WHERE r.store = s.store AND r.id = s.order_id AND d.value ->> 'id' = s.id)
    FROM commands c
    JOIN shipments s ON s.store = c.store AND s.order_id = c.target
    WHERE c.store = ? AND c.kind = 'fulfill' AND c.attempts > 1 AND c.sent_at >= ?
      AND c.state = 'applied' AND s.id != c.effect_id
      AND s.tracking_number = {member("c.payload", "$.tracking_number")}
      AND s.tracking_company IS {member("c.payload", "$.tracking_company")}
      AND (SELECT count(*) FROM attempts a WHERE a.command_id = c.id
        AND coalesce(a.outcome, 'uncertain') IN ('uncertain', 'confirmed')) > 1
      AND NOT EXISTS (
        SELECT 1 FROM commands o INDEXED BY commands_flying
        WHERE o.store = c.store AND o.lane = c.lane
          AND o.state IN ('sending', 'uncertain'))
      AND NOT EXISTS (
        SELECT 1 FROM commands o WHERE o.store = s.store AND o.effect_id = s.id)
      AND NOT EXISTS (
        SELECT 1 FROM json_each({document("c.evidence")}, '$.doubled') d
        WHERE d.value = s.id)
"""  # noqa: S608 - constants
_KEEP_DOUBLE = f"""
    UPDATE commands SET evidence = json_set({document("evidence")}, '$.doubled',
      json_insert(coalesce({member("evidence", "$.doubled")}, '[]'), '$[#]', ?))
    WHERE id = ? AND store = ?
"""  # noqa: S608 - constants
REMEMBERED = timedelta(days=7)
"""For how long a parcel that lands late is looked for."""
_FORM = "%Y-%m-%dT%H:%M:%fZ"
NOTICED_SECONDS = 60.0
"""Within this time a clock that went back is noticed."""


class SqlHistoryTags:
    """Each verb is one transaction."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def record_tags(
        self, store: str, found: Sequence[TaggedAdjustment], *, adopt: bool
    ) -> list[TagMeaning]:
        """Take in, in one transaction, what adjustments with our tags mean.

        What landed is applied, what is too much is kept with its command; so is what
        landed behind a count, once that one's step is under way no more. `adopt`
        takes what is foreign for our own from before a restore: it is kept, and all
        that is open is put in doubt. Otherwise what is foreign changes nothing.
        """

        def unit(connection: sqlite3.Connection) -> list[TagMeaning]:
            now = to_text(self._clock.now())
            meanings = [
                _sight(connection, store, tagged, now, adopt=adopt) for tagged in found
            ]
            if adopt and FOREIGN & set(meanings):
                mark_restored(connection, store, now)
            return meanings

        return await self._writer.urgent(unit)

    async def record_double_parcels(self, store: str) -> list[tuple[str, str]]:
        """Keep which parcels left twice by commands that were sent again.

        Returns each command with the parcel too many, once. A parcel without a tracking
        number cannot be told from one that a person sent.
        """

        def unit(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            since = to_text(self._clock.now() - REMEMBERED)
            found = [
                (command, parcel)
                for command, parcel, payload, shown in connection.execute(
                    _TWICE, (store, since)
                ).fetchall()
                if _is_alike(payload, shown)
            ]
            for command, parcel in found:
                connection.execute(_KEEP_DOUBLE, (parcel, command, store))
            return found

        return await self._writer.urgent(unit)

    async def shift(self, store: str, seconds: float, longest_seconds: float) -> None:
        """Move the times of open commands back by as much as the clock went back.

        A look due within `longest_seconds`, the longest wait there is, stays.
        """

        def unit(connection: sqlite3.Connection) -> None:
            values = {
                "store": store,
                "form": _FORM,
                "now": to_text(self._clock.now()),
                "back": f"-{seconds:.3f} seconds",
                "longest": f"+{longest_seconds:.3f} seconds",
                "noticed": f"-{NOTICED_SECONDS:.3f} seconds",
            }
            connection.execute(_SHIFT, values)
            connection.execute(_COUNTED_AHEAD, values)

        await self._writer.urgent(unit)

    async def catch_up(self, store: str, longest_seconds: float) -> None:
        """Let no open command wait for a clock that was set back while nobody looked.

        No wait is longer than `longest_seconds`. What is in doubt is looked for late
        rather than early.
        """

        def unit(connection: sqlite3.Connection) -> None:
            values = {
                "store": store,
                "form": _FORM,
                "now": to_text(self._clock.now()),
                "longest": f"+{longest_seconds:.3f} seconds",
            }
            (is_ahead,) = connection.execute(_IS_AHEAD, values).fetchone()
            connection.execute(_CATCH_UP, values)
            if is_ahead:
                connection.execute(_COUNTED_AHEAD, values)

        await self._writer.urgent(unit)


def _is_alike(payload: bytes, shown: bytes | None) -> bool:
    """Tell whether a parcel, as it is shown, can be the one that a command asks for."""
    lines = document_of(payload).get("lines", [])
    return fits_lines(document_of(shown).get("items"), lines)


def mark_restored(connection: sqlite3.Connection, store: str, now: str) -> None:
    """Take the database for older than what was sent from it: all may be done."""
    restore_adoption.remember_restore(connection, store, now)
    _doubt_all(connection, store, now)


def _known(
    connection: sqlite3.Connection, store: str, command: str
) -> KnownCommand | None:
    row = connection.execute(
        "SELECT kind, state, attempts, effect_id, CAST(evidence AS BLOB) FROM commands"
        " WHERE id = ? AND store = ?",
        (command, store),
    ).fetchone()
    if row is not None:
        kind, state, attempts, effect_id, text = row
        doubled = tuple(document_of(text).get("doubled", ()))
        return KnownCommand(kind, State(state), attempts, effect_id, doubled)
    evidence = restore_adoption.adopted(connection, store, command)
    if evidence is None:
        return None
    effect, doubled = evidence["adjustment_id"], tuple(evidence.get("doubled", ()))
    return KnownCommand("adjust", State.APPLIED, 1, effect, doubled)


def _sight(
    connection: sqlite3.Connection,
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
        _take_in(connection, store, tagged, meant, now)
    if count is not None and count.is_open:
        return TagMeaning.OPEN
    if count is None or late_adjustments.recalculate(connection, count, tagged.command):
        return meant
    _keep_double(connection, store, tagged, now)
    connection.execute(
        "UPDATE commands SET reason = ? WHERE id = ?",
        (f"{_LATE}, {count.in_words()}", tagged.command),
    )
    return TagMeaning.BEHIND


def _take_in(
    connection: sqlite3.Connection,
    store: str,
    tagged: TaggedAdjustment,
    meant: TagMeaning,
    now: str,
) -> None:
    if meant in BECOMES_EFFECT:
        _land(connection, store, tagged, now)
    elif meant is TagMeaning.DOUBLED:
        _keep_double(connection, store, tagged, now)
    elif meant is TagMeaning.UNKNOWN:
        evidence = restore_adoption.effect_evidence(tagged.adjustment_id, tagged.moves)
        restore_adoption.adopt(connection, store, tagged.command, evidence, now)


def _land(
    connection: sqlite3.Connection, store: str, tagged: TaggedAdjustment, now: str
) -> None:
    row = connection.execute(
        f"SELECT {COLUMNS} FROM commands WHERE id = ? AND store = ?",  # noqa: S608 - constants
        (tagged.command, store),
    ).fetchone()
    command = to_command(row)
    confirmed = command.state is State.APPLIED
    step = Transition(
        causes=() if confirmed else (Cause.PROVED_APPLIED,),
        reason=_LATE,
        evidence=restore_adoption.effect_evidence(tagged.adjustment_id, tagged.moves),
        effect_id=tagged.adjustment_id,
    )
    move_on(connection, command, command.state, step, now)


def _keep_double(
    connection: sqlite3.Connection, store: str, tagged: TaggedAdjustment, now: str
) -> None:
    changed = connection.execute(
        _KEEP_DOUBLE, (tagged.adjustment_id, tagged.command, store)
    )
    if not changed.rowcount:
        evidence = restore_adoption.effect_evidence(tagged.adjustment_id, tagged.moves)
        restore_adoption.adopt(connection, store, tagged.command, evidence, now)


def _doubt_all(connection: sqlite3.Connection, store: str, now: str) -> None:
    """Put all that is open in doubt: it may have been sent meanwhile."""
    step = Transition((Cause.UNKNOWN,), RESTORED, due_at=now)
    for row in connection.execute(_OPEN, (store,)).fetchall():
        if is_usable(connection, row[0], State.PLANNED, now):
            move_on(connection, to_command(row), State.PLANNED, step, now)
    connection.execute(_ANEW, {"store": store, "now": now})
