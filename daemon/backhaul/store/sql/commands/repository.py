"""The outbox: commands, their attempts, and the lanes they queue in."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import msgspec
from loguru import logger
from msgspec.structs import replace

from backhaul.core.clock import to_text
from backhaul.core.identity import digest_of, is_intact
from backhaul.core.lifecycle import KINDS, OPEN, Cause, State, next_state
from backhaul.errors import AlreadyRunning
from backhaul.store.commands import Sendable, Transition
from backhaul.store.matching import Command
from backhaul.store.sql.commands import (
    command_evidence,
    dry_run,
    echoes,
    incidents,
    planning,
)
from backhaul.store.sql.commands.command_evidence import baseline
from backhaul.store.sql.documents import document_of, is_document
from backhaul.store.sql.inbox.unreadable_orders import HOLDS
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.stock_targets import adjustments
from backhaul.store.sqlite.connections import concerns_the_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.commands import Attempt, Prepare
    from backhaul.store.sqlite.writer import Writer

# As bytes: what is damaged may be no text any more.
_COLUMNS = (
    "{0}.seq, CAST({0}.id AS BLOB), CAST({0}.store AS BLOB), CAST({0}.kind AS BLOB),"
    " CAST({0}.target AS BLOB), CAST({0}.lane AS BLOB), CAST({0}.instance AS BLOB),"
    " {0}.state, CAST({0}.payload AS BLOB), {0}.attempts, {0}.failures"
)


def columns(table: str) -> str:
    """Return what `to_command` reads of a row of commands that is called so."""
    return _COLUMNS.format(table)


COLUMNS = columns("commands")
_TO_CHECK = (
    "seq, CAST(lane AS BLOB), CAST(instance AS BLOB), CAST(id AS BLOB),"
    " CAST(store AS BLOB), CAST(kind AS BLOB), CAST(target AS BLOB),"
    " CAST(payload AS BLOB), digest"
)
_REHEARSED = "EXISTS (SELECT 1 FROM json_each(:rehearsed) WHERE c.instance GLOB value)"
_OPEN_TO = """
    state = 'planned' AND store = :store AND kind = :kind
    AND due_at <= :now AND created_at <= :planned_by AND held = 0
"""
# A command is free when no earlier one of its lane is open. One that is held waits for
# the order to change, not for its turn, and lets the others pass; so does one that a
# dry run has set aside, and a stock target, which reckons with whatever leaves before
# its adjustment does. `behind` is kept by triggers and says the same, so that those who
# wait their turn are not even looked at. An order that must be fetched holds its own.
_DUE = f"""
    SELECT {_TO_CHECK} FROM commands c INDEXED BY commands_free
    WHERE {_OPEN_TO} AND behind = 0 AND NOT EXISTS (
        SELECT 1 FROM commands o INDEXED BY commands_flying
        WHERE o.store = c.store AND o.lane = c.lane
          AND o.state IN ('sending', 'uncertain')
    ) AND NOT EXISTS (
        SELECT 1 FROM commands o INDEXED BY commands_lane
        WHERE o.store = c.store AND o.lane = c.lane AND o.seq < c.seq
          AND o.state IN ('planned', 'sending', 'uncertain')
          AND o.kind != 'target' AND o.held = 0)
    AND NOT {HOLDS}
    ORDER BY due_at, seq LIMIT :limit
"""  # noqa: S608 - constants
# Of the first that are due, those that a dry run holds back, or does not.
_IN_A_DRY_RUN = f"""
    SELECT d.* FROM ({_DUE}) d CROSS JOIN commands c ON c.seq = d.seq
    WHERE {{}} {_REHEARSED}
"""  # noqa: S608 - constants
_DUE_IN_A_DRY_RUN = _IN_A_DRY_RUN.format("NOT")
_TO_REHEARSE = _IN_A_DRY_RUN.format("")
DAMAGED = (
    "the stored command is damaged, so the disk or the database file has an error."
    " Compare the command with its record, and restore a backup"
)
# What is met where values of a damaged row are read; anything else is a bug.
_DAMAGE = (LookupError, TypeError, ValueError, sqlite3.OperationalError)
_EPOCH = "epoch"
_NEXT_EPOCH = """
    INSERT INTO marks (name, value) VALUES (?, '1')
    ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value
"""
_NEXT_DUE = """
    SELECT min(due_at) FROM commands
    WHERE state = 'planned' AND held = 0 AND store = ? AND kind = ? AND due_at > ?
"""


class SqlCommands:
    """Moves commands through `core.lifecycle`, one durable step at a time."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._epoch: int | None = None

    async def begin_epoch(self) -> None:
        """Make this the one that may send from the database; who came before may not.

        The lock file keeps two from one machine apart, but not where two machines see
        the folder and not each other's locks.
        """

        def unit(connection: sqlite3.Connection) -> int:
            (epoch,) = connection.execute(_NEXT_EPOCH, (_EPOCH,)).fetchone()
            return int(epoch)

        self._epoch = await self._writer.urgent(unit)

    async def claim(
        self,
        store: str,
        windows: Mapping[str, str],
        limit: int,
        prepare: Prepare,
        named: Sequence[str] = (),
    ) -> list[tuple[Command, Sendable]]:
        """Move due commands with a free lane to `sending`, durably, and return them.

        `windows` says, in order of priority, which kinds may leave and up to which time
        of planning. `prepare` gives the exact bytes to be sent, or settles the command
        unsent. What the connectors in `named` ask for stays; `*` stands for all of
        them. Raises AlreadyRunning once another daemon has begun an epoch.
        """

        def unit(connection: sqlite3.Connection) -> list[tuple[Command, Sendable]]:
            self._require_epoch(connection)
            now = to_text(self._clock.now())
            mirror = MirrorReader(connection)
            claimed = []
            query = _DUE_IN_A_DRY_RUN if named else _DUE
            due = _due(connection, query, store, windows, now, limit, named)
            for command in due:
                step = _begun(connection, command, prepare, mirror, now)
                if isinstance(step, Sendable):
                    payload = step.payload or command.payload
                    claimed.append((replace(command, payload=payload), step))
                else:
                    move_on(connection, command, State.PLANNED, step, now)
            return claimed

        return await self._writer.urgent(unit)

    def _require_epoch(self, connection: sqlite3.Connection) -> None:
        if self._epoch is None:
            return
        row = connection.execute(
            "SELECT value + 0 FROM marks WHERE name = ?", (_EPOCH,)
        ).fetchone()
        if row is None or row[0] != self._epoch:
            raise AlreadyRunning(
                "another Backhaul has started to use this database, on a machine"
                " that does not see the lock of this daemon. Keep state_dir on a"
                " local disk, and run only one daemon"
            )

    async def hold_for_dry_run(
        self, store: str, windows: Mapping[str, str], limit: int, named: Sequence[str]
    ) -> list[Command]:
        """Set aside what would leave now but for a dry run, and return it.

        The arguments are those of `claim`; `resume` takes it back.
        """

        def unit(connection: sqlite3.Connection) -> list[Command]:
            now = to_text(self._clock.now())
            due = _due(connection, _TO_REHEARSE, store, windows, now, limit, named)
            dry_run.set_aside(connection, due)
            return due

        return await self._writer.urgent(unit)

    async def release_dry_run(self, store: str, named: Sequence[str]) -> int:
        """Take back some of which the dry run is over; return how many these were."""
        return await self._writer.urgent(
            lambda connection: dry_run.resume(connection, store, named)
        )

    async def record_attempt(
        self, command: Command, attempt: Attempt, transition: Transition
    ) -> State:
        """Record an attempt and move its command. Returns where it stands now."""

        def unit(connection: sqlite3.Connection) -> State:
            now = to_text(self._clock.now())
            _finish_attempt(connection, command, attempt)
            return move_on(connection, command, State.SENDING, transition, now)

        return await self._writer.urgent(unit)

    async def next_due(self, store: str, after: str) -> str | None:
        """Return when, after that moment, the next command comes due that may leave.

        `after` is the moment of the last claim: what came due since must not be missed.
        """

        def unit(connection: sqlite3.Connection) -> str | None:
            rows = [
                connection.execute(_NEXT_DUE, (store, kind, after)).fetchone()
                for kind in KINDS
            ]
            return min((row[0] for row in rows if row[0]), default=None)

        return await self._writer.urgent(unit)

    async def mark_interrupted_uncertain(self, transition: Transition) -> list[str]:
        """After a start, move every `sending` command on. Returns their ids."""

        def unit(connection: sqlite3.Connection) -> list[str]:
            now = to_text(self._clock.now())
            sending = connection.execute(
                "SELECT seq FROM commands WHERE state = 'sending'"
            ).fetchall()
            usable = [
                _command(connection, seq)
                for (seq,) in sending
                if is_usable(connection, seq, State.SENDING, now)
            ]
            for command in usable:
                move_on(connection, command, State.SENDING, transition, now)
            return [command.id for command in usable]

        return await self._writer.urgent(unit)


def _due(
    connection: sqlite3.Connection,
    query: str,
    store: str,
    windows: Mapping[str, str],
    now: str,
    limit: int,
    named: Sequence[str],
) -> list[Command]:
    due: list[Command] = []
    values = {"store": store, "now": now}
    values["rehearsed"] = msgspec.json.encode(named).decode()
    for kind, planned_by in windows.items():
        gate = {"kind": kind, "planned_by": planned_by, "limit": limit - len(due)}
        for seq, *parts, digest in connection.execute(query, values | gate).fetchall():
            if _is_whole(digest, parts):
                due.append(_command(connection, seq))
            else:
                park_damaged(connection, seq, State.PLANNED, now)
    return due


def _command(connection: sqlite3.Connection, seq: int) -> Command:
    query = f"SELECT {COLUMNS} FROM commands WHERE seq = ?"  # noqa: S608 - constants
    return to_command(connection.execute(query, (seq,)).fetchone())


def _is_whole(digest: bytes | None, parts: Sequence[bytes]) -> bool:
    """Tell whether a row is as it was written; what has no digest is text at least."""
    _lane, _instance, *digested = parts
    intact = is_intact(digest, digested) and is_document(parts[-1])
    told = b" ".join(parts)
    return intact and told == told.decode(errors="ignore").encode()


def _begun(
    connection: sqlite3.Connection,
    command: Command,
    prepare: Prepare,
    mirror: MirrorReader,
    now: str,
) -> Sendable | Transition:
    """Begin a command; one that cannot be is a person's, and in nobody's way."""
    connection.execute("SAVEPOINT prepare")
    try:
        step = prepare(command, mirror)
        if isinstance(step, Sendable):
            if step.payload is not None:
                planning.rewrite_payload(connection, command, step.payload)
            _begin(connection, command, step, now)
    except _DAMAGE as error:
        if concerns_the_file(error):
            raise
        connection.execute("ROLLBACK TO prepare")
        reason = f"cannot be made ready to be sent: {type(error).__name__}: {error}"
        logger.bind(action="command.unprepared", command=command.id).opt(
            exception=error
        ).error("command {} {}", command.id, reason)
        step = Transition((Cause.UNDECIDABLE,), reason)
    connection.execute("RELEASE prepare")
    return step


def is_usable(connection: sqlite3.Connection, seq: int, state: State, now: str) -> bool:
    """Tell whether a command is as it was written; one that is not is parked."""
    query = f"SELECT {_TO_CHECK} FROM commands WHERE seq = ?"  # noqa: S608 - constants
    _, *parts, digest = connection.execute(query, (seq,)).fetchone()
    usable = _is_whole(digest, parts)
    if not usable:
        park_damaged(connection, seq, state, now)
    return usable


def park_damaged(
    connection: sqlite3.Connection, seq: int, state: State, now: str
) -> None:
    """Leave a row to a person that is not as it was written; nothing of it is sent."""
    parked = next_state(state, Cause.UNDECIDABLE)
    (id_,) = connection.execute(
        "UPDATE commands SET state = ?, reason = ?, settled_at = ? WHERE seq = ?"
        " RETURNING CAST(id AS BLOB)",
        (parked, DAMAGED, now, seq),
    ).fetchone()
    adjustments.follow(connection, id_.decode(errors="replace"), parked, DAMAGED, now)
    logger.bind(action="command.damaged", number=seq).error(
        "command {}: {}", seq, DAMAGED
    )


def _begin(
    connection: sqlite3.Connection, command: Command, step: Sendable, now: str
) -> None:
    connection.execute(
        """
        UPDATE commands SET state = ?, attempts = attempts + 1, request = ?,
               request_digest = ?, key_fingerprint = ?, baseline = ?, sent_at = ?
        WHERE seq = ?
        """,
        (
            next_state(command.state, Cause.SEND),
            step.request,
            digest_of((step.request,)),
            step.key_fingerprint,
            msgspec.json.encode(baseline(connection, command)).decode(),
            now,
            command.seq,
        ),
    )
    connection.execute(
        "INSERT INTO attempts (command_id, number, started_at, after_event)"
        " VALUES (?, ?, ?, (SELECT max(id) FROM event_outcomes))",
        (command.id, command.attempts + 1, now),
    )


def _finish_attempt(
    connection: sqlite3.Connection, command: Command, attempt: Attempt
) -> None:
    connection.execute(
        """
        UPDATE attempts SET finished_at = ?, outcome = ?, status = ?, reason = ?,
               response = ? WHERE command_id = ? AND number = ?
        """,
        (
            attempt.finished_at,
            attempt.outcome,
            attempt.status,
            attempt.reason,
            command_evidence.redacted(connection, command.store, attempt),
            command.id,
            command.attempts + 1,
        ),
    )


def move_on(
    connection: sqlite3.Connection,
    command: Command,
    state: State,
    transition: Transition,
    now: str,
) -> State:
    evidence = command_evidence.merged_evidence(connection, command, state, transition)
    for cause in transition.causes:
        state = next_state(state, cause)
    held = transition.held and not _order_changed(connection, command)
    connection.execute(
        """
        UPDATE commands SET state = ?, reason = ?, settled_at = ?, held = ?,
               due_at = coalesce(?, due_at), failures = failures + ?,
               evidence = coalesce(?, evidence)
        WHERE seq = ?
        """,
        (
            state,
            adjustments.name_affected_count(
                connection, command, state, transition.reason
            ),
            None if state in OPEN else now,
            held,
            transition.due_at,
            transition.counts_as_failure,
            evidence,
            command.seq,
        ),
    )
    if transition.effect_id is not None:
        _link(connection, command, transition.effect_id)
        echoes.claim_effect(connection, command, transition.effect_id)
    if state not in {State.SENDING, State.UNCERTAIN}:
        echoes.drop_unclaimed(connection, command)
    if command.kind == "adjust":
        adjustments.follow(connection, command.id, state, transition.reason, now)
    if state is State.APPLIED:
        incidents.add_of_command(connection, command, transition, now)
        if command.kind == "cancel":
            planning.restock_unshipped(connection, command, transition, now)
    return state


def _link(connection: sqlite3.Connection, command: Command, effect_id: str) -> None:
    """Name the effect as this command's own, unless it is another's already.

    Two records may tell of one parcel; the platform answers both with it.
    """
    connection.execute(
        """
        UPDATE commands SET effect_id = :effect WHERE seq = :seq AND NOT EXISTS
          (SELECT 1 FROM commands o WHERE o.store = :store AND o.effect_id = :effect)
        """,
        {"effect": effect_id, "seq": command.seq, "store": command.store},
    )


def _order_changed(connection: sqlite3.Connection, command: Command) -> bool:
    """Tell whether the order was folded anew since the attempt began.

    What a held command waits for may come before the platform's refusal is written
    down; it would then wait for ever.
    """
    row = connection.execute(
        """
        SELECT 1 FROM event_outcomes e
        JOIN attempts a ON e.id > coalesce(a.after_event, 0)
        WHERE e.object_id = ? AND e.state = 'folded'
          AND a.command_id = ? AND a.number = ?
        """,
        (command.target, command.id, command.attempts + 1),
    ).fetchone()
    return row is not None


def to_command(row: tuple[Any, ...]) -> Command:
    """Return the command of a row of COLUMNS; the payload of a damaged one is empty."""
    seq, *texts, state, payload, attempts, failures = row
    id_, store, kind, target, lane, instance = (
        text.decode(errors="replace") for text in texts
    )
    return Command(
        seq=seq,
        id=id_,
        store=store,
        kind=kind,
        target=target,
        lane=lane,
        state=State(state),
        payload=document_of(payload),
        attempts=attempts,
        failures=failures,
        instance=instance,
    )
