"""Commands that wait to be sent: claimed in order, held for dry runs, and recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from loguru import logger
from msgspec.structs import replace

from backhaul.core.identity import digest_of
from backhaul.core.lifecycle import KINDS, Cause, State
from backhaul.errors import AlreadyRunning
from backhaul.store.commands import Sendable, Transition
from backhaul.store.sql.commands import command_evidence, planning
from backhaul.store.sql.commands.rows import COLUMNS, columns, transition
from backhaul.store.sql.commands.transitions import apply_transition, usable
from backhaul.store.sql.family import Family, write
from backhaul.store.sql.inbox.unreadable_orders import HOLDS
from backhaul.store.sql.mirror.lookup import MirrorReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from backhaul.store.commands import Attempt, Prepare
    from backhaul.store.matching import Command
    from backhaul.store.sql.family import Connection, Engine

# A command may leave if no earlier one of its ordering key is open. These do not block
# later ones: a command on hold for its order or a dry run. Triggers keep `behind`,
# which says the same, so that a claim skips the commands that wait for their turn.
DUE = f"""
    SELECT {columns("c")} FROM commands c
    WHERE state = 'planned' AND store = :store AND kind = :kind
      AND due_at <= :now AND created_at <= :planned_by AND hold_reason IS NULL
      AND behind = 0 AND NOT EXISTS (
        SELECT 1 FROM commands o
        WHERE o.store = c.store AND o.lane = c.lane
          AND o.state IN ('sending', 'uncertain')
    ) AND NOT EXISTS (
        SELECT 1 FROM commands o
        WHERE o.store = c.store AND o.lane = c.lane AND o.seq < c.seq
          AND o.state IN ('planned', 'sending', 'uncertain')
          AND o.hold_reason IS NULL)
    AND NOT {HOLDS}
    ORDER BY due_at, seq LIMIT :limit
"""  # noqa: S608 - constants
# The second condition is that of an index; without it SQLite reads every command.
INTERRUPTED = f"""
    SELECT {COLUMNS} FROM commands
    WHERE state = 'sending' AND state IN ('sending', 'uncertain')
      AND (:store IS NULL OR store = :store)
"""  # noqa: S608 - constants
_NEXT_DUE = """
    SELECT min(due_at) FROM commands
    WHERE state = 'planned' AND hold_reason IS NULL AND store = :store AND kind = :kind
      AND due_at > :after
"""
_BEGIN_ATTEMPT = """
    INSERT INTO attempts (command_id, number, started_at, after_event)
    VALUES (:id, :number, :now, (
        SELECT max(id) FROM event_outcomes WHERE object_id = :target))
"""
_FINISH_ATTEMPT = """
    UPDATE attempts SET finished_at = :at, outcome = :outcome, status = :status,
           reason = :reason, response = :response
    WHERE command_id = :id AND number = :number
"""
# What `hold_reason` says: the command's order has to change, or a dry run.
_HOLD = """
    UPDATE commands SET hold_reason = 'dry_run', reason = :reason WHERE seq = :seq
"""
_HOLD_REASON = "dry run: not sent"
_NEXT_INSTANCE = """
    SELECT min(instance) FROM commands
    WHERE store = :store AND state = 'planned' AND hold_reason = 'dry_run'
      AND instance > :after
"""
_RELEASE = """
    UPDATE commands SET hold_reason = NULL WHERE seq IN (
      SELECT seq FROM commands
      WHERE store = :store AND state = 'planned' AND hold_reason = 'dry_run'
        AND instance = :instance
      LIMIT :limit)
"""
RELEASED_AT_ONCE = 200
_EPOCH = {"name": "epoch"}
_NEXT_EPOCH = """
    INSERT INTO kv (name, value) VALUES (:name, '1')
    ON CONFLICT (name) DO UPDATE
    SET value = CAST(CAST(kv.value AS INTEGER) + 1 AS TEXT) RETURNING value
"""
_DAMAGE = (LookupError, TypeError, ValueError)
"""What damaged values of a row raise where they are read; the rest are bugs."""


class SqlCommands(Family):
    """Moves commands through `core.lifecycle`, one transaction at a time."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._epoch: int | None = None

    async def begin_epoch(self) -> None:
        self._epoch = await self._next_epoch()

    @write
    def _next_epoch(self, connection: Connection) -> int:
        return int(connection.execute(_NEXT_EPOCH, _EPOCH).fetchone()[0])

    @write
    def claim(
        self,
        connection: Connection,
        store: str,
        windows: Mapping[str, str],
        limit: int,
        prepare: Prepare,
        dry_run: Sequence[str] = (),
    ) -> list[tuple[Command, Sendable]]:
        self._require_epoch(connection)
        now = self._now()
        mirror = MirrorReader(connection)
        claimed = []
        values = {"store": store, "now": now}
        for command in _due(
            connection, values, windows, limit, lambda name: not _names(dry_run, name)
        ):
            begun = _begin(connection, command, prepare, mirror, now)
            if isinstance(begun, Transition):
                apply_transition(connection, command, begun, now)
            else:
                payload = begun.payload or command.payload
                sent = replace(
                    command,
                    state=State.SENDING,
                    payload=payload,
                    traceparent=begun.traceparent or command.traceparent,
                )
                claimed.append((sent, begun))
        return claimed

    def _require_epoch(self, connection: Connection) -> None:
        if self._epoch is None:
            return
        query = "SELECT value FROM kv WHERE name = :name"
        row = connection.execute(query, _EPOCH).fetchone()
        if row is None or int(row[0]) != self._epoch:
            raise AlreadyRunning(
                "another daemon has started to use this database. Stop one of the two"
                " daemons. They do not see each other's lock, for example because"
                " state_dir is on a network disk: put state_dir on a local disk"
            )

    @write
    def hold_for_dry_run(
        self,
        connection: Connection,
        store: str,
        windows: Mapping[str, str],
        limit: int,
        dry_run: Sequence[str],
    ) -> list[Command]:
        values = {"store": store, "now": self._now()}
        held = _due(
            connection, values, windows, limit, lambda name: _names(dry_run, name)
        )
        rows = [{"reason": _HOLD_REASON, "seq": command.seq} for command in held]
        connection.executemany(_HOLD, rows)
        return held

    @write
    def release_dry_run(
        self, connection: Connection, store: str, dry_run: Sequence[str]
    ) -> int:
        for instance in _held_instances(connection, store):
            if not _names(dry_run, instance):
                values = {"store": store, "instance": instance}
                limit = {"limit": RELEASED_AT_ONCE}
                return connection.execute(_RELEASE, values | limit).rowcount
        return 0

    @write
    def record_attempt(
        self,
        connection: Connection,
        command: Command,
        attempt: Attempt,
        transition: Transition,
    ) -> State:
        values = {
            "at": attempt.finished_at,
            "outcome": attempt.outcome,
            "status": attempt.status,
            "reason": attempt.reason,
            "response": command_evidence.redacted(connection, command.store, attempt),
            "id": command.id,
            "number": command.attempts + 1,
        }
        connection.execute(_FINISH_ATTEMPT, values)
        return apply_transition(connection, command, transition, self._now())

    @write
    def next_due(self, connection: Connection, store: str, after: str) -> str | None:
        values = {"store": store, "after": after}
        times = [
            connection.execute(_NEXT_DUE, values | {"kind": kind}).fetchone()[0]
            for kind in KINDS
        ]
        return min(filter(None, times), default=None)

    @write
    def mark_interrupted_uncertain(
        self,
        connection: Connection,
        transition: Transition,
        store: str | None = None,
    ) -> list[str]:
        now = self._now()
        marked = []
        for row in connection.execute(INTERRUPTED, {"store": store}).fetchall():
            if (command := usable(connection, row, now)) is not None:
                apply_transition(connection, command, transition, now)
                marked.append(command.id)
        return marked


def _names(dry_run: Sequence[str], instance: str) -> bool:
    return "*" in dry_run or instance in dry_run


def _due(
    connection: Connection,
    values: Mapping[str, str],
    windows: Mapping[str, str],
    limit: int,
    is_wanted: Callable[[str], bool],
) -> list[Command]:
    """Return due commands of the wanted connections; park those that are damaged.

    `values` are the `store` and the time `now`.
    """
    due: list[Command] = []
    for kind, planned_by in windows.items():
        window = {"kind": kind, "planned_by": planned_by, "limit": limit - len(due)}
        for row in connection.execute(DUE, {**values, **window}).fetchall():
            command = usable(connection, row, values["now"])
            if command is not None and is_wanted(command.instance):
                due.append(command)
    return due


def _held_instances(connection: Connection, store: str) -> Iterator[str]:
    """Yield the connections with commands on hold for a dry run, one query for each."""
    instance = ""
    while instance is not None:
        values = {"store": store, "after": instance}
        (instance,) = connection.execute(_NEXT_INSTANCE, values).fetchone()
        if instance is not None:
            yield instance


def _begin(
    connection: Connection,
    command: Command,
    prepare: Prepare,
    mirror: MirrorReader,
    now: str,
) -> Sendable | Transition:
    """Begin an attempt; a command that cannot be prepared is parked."""
    connection.execute("SAVEPOINT prepare")
    try:
        step = prepare(command, mirror)
        if isinstance(step, Sendable):
            if step.payload is not None:
                planning.rewrite_payload(connection, command, step.payload)
            _begin_attempt(connection, command, step, now)
    except _DAMAGE as error:
        connection.execute("ROLLBACK TO prepare")
        reason = f"cannot be made ready to be sent: {type(error).__name__}: {error}"
        logger.bind(action="command.unprepared", command=command.id).opt(
            exception=error
        ).error("command {} {}", command.id, reason)
        step = Transition((Cause.UNDECIDABLE,), reason)
    connection.execute("RELEASE prepare")
    return step


def _begin_attempt(
    connection: Connection, command: Command, step: Sendable, now: str
) -> None:
    baseline = command_evidence.baseline(connection, command)
    transition(
        connection,
        command.seq,
        command.state,
        (Cause.SEND,),
        now,
        attempts=1,
        request=step.request,
        request_digest=digest_of((step.request,)),
        key_fingerprint=step.key_fingerprint,
        baseline=msgspec.json.encode(baseline).decode(),
        sent_at=now,
        **_trace_of(step),
    )
    number = command.attempts + 1
    values = {"id": command.id, "number": number, "now": now}
    connection.execute(_BEGIN_ATTEMPT, values | {"target": command.target})


def _trace_of(step: Sendable) -> dict[str, str]:
    """Return the column of a command's trace if its first attempt begins the trace."""
    return {} if step.traceparent is None else {"traceparent": step.traceparent}
