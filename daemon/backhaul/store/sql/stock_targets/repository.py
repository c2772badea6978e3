"""Stock targets: counts of the back office, each with the adjustment behind it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from loguru import logger
from msgspec.structs import asdict

from backhaul.core.clock import from_text, to_text
from backhaul.core.identity import step_id
from backhaul.core.lifecycle import Cause, State
from backhaul.core.stock import ADJUSTMENT_REASON, Count
from backhaul.store.commands import Transition
from backhaul.store.matching import NewCommand
from backhaul.store.sql.commands import restore_adoption
from backhaul.store.sql.commands.planning import plan
from backhaul.store.sql.commands.rows import WIDTH, columns, to_command
from backhaul.store.sql.commands.transitions import apply_transition, usable
from backhaul.store.sql.documents import document_of
from backhaul.store.sql.operations.audit_log import add_entry
from backhaul.store.sql.stock_targets import adjustments, stock_snapshot
from backhaul.store.sql.stock_targets.adjustments import NEWER, OUTDATED
from backhaul.store.stock_targets import Adjust, OtherVariants, Reading, Target, Wait

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from backhaul.core.clock import Clock
    from backhaul.store.matching import Command
    from backhaul.store.operations import AuditEntry
    from backhaul.store.sqlite.writer import Writer
    from backhaul.store.stock_targets import Decide

BUSY = timedelta(seconds=1)
"""Rest of a target whose variant a command under way may move; its end wakes it."""
_C = columns("c")
_DUE = f"""
    SELECT {_C}, t.tries, EXISTS (
      SELECT 1 FROM audit a WHERE a.command_id = c.id AND a.action = 'commands resend')
    FROM commands c JOIN stock_targets t ON t.command_id = c.id
    WHERE c.store = ? AND c.kind = 'target' AND c.state = 'planned' AND c.held = 0
      AND c.due_at <= ? AND NOT EXISTS (
        SELECT 1 FROM stock_targets u WHERE u.store = t.store
        AND u.product_id = t.product_id AND u.unread = 1)
      AND NOT EXISTS (
        SELECT 1 FROM commands o WHERE o.store = c.store AND o.lane = c.lane
        AND o.state IN ('sending', 'uncertain'))
    ORDER BY c.due_at, c.seq LIMIT ?
"""  # noqa: S608 - constants
_NEXT_DUE = """
    SELECT min(due_at) FROM (
      SELECT min(due_at) AS due_at FROM commands WHERE store = :store
        AND kind = 'target' AND state = 'planned' AND held = 0 AND due_at > :after
      UNION ALL SELECT min(read_at) FROM stock_targets WHERE store = :store
        AND unread = 1 AND read_at > :after)
"""
_READINGS = f"""
    SELECT {_C}, t.variant_id, t.delta, t.tries, t.as_of
    FROM stock_targets t JOIN commands c ON c.id = t.command_id
    WHERE t.store = ? AND t.unread = 1 AND coalesce(t.read_at, '') <= ?
    ORDER BY t.read_at LIMIT ?
"""  # noqa: S608 - constants
_OUTDATED = f"""
    SELECT t.command_id
    FROM stock_targets t JOIN commands c ON c.id = t.command_id
    WHERE t.store = ? AND t.variant_id = ? AND c.state = 'planned' AND {OUTDATED}
"""  # noqa: S608 - constants
# What became known after the levels were read may have moved before, where its news
# were lost. What moved after the step, by the platform's clock, moved after that too.
_MOVED_SINCE = """
    SELECT variant_id, sum(adjustment), sum(iif(at >= (
             SELECT min(s.at) FROM stock_ledger s
             WHERE s.store = :store AND s.adjustment_id = :step), adjustment, 0))
    FROM stock_ledger
    WHERE store = :store AND product_id = :product AND id > :known
      AND adjustment_id != :step
    GROUP BY variant_id
"""


def plan_target(
    connection: sqlite3.Connection, store: str, command: NewCommand, now: str
) -> None:
    """Write the target of a new command; of a variant only the newest stays.

    Newer is what was counted later, or of one time what was listed later, whenever it
    came.
    """
    payload = command.payload
    added = connection.execute(
        "INSERT OR IGNORE INTO stock_targets (command_id, store, product_id,"
        " variant_id, quantity, as_of, listed_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            command.id,
            store,
            command.target,
            payload["variant_id"],
            payload["quantity"],
            payload["as_of"],
            payload.get("listed_at", ""),
        ),
    )
    if added.rowcount == 0:
        return
    variant = (store, payload["variant_id"])
    outdated = connection.execute(_OUTDATED, variant).fetchall()
    for (target,) in outdated:
        adjustments.supersede(connection, target, NEWER, now)


class SqlTargets:
    """Every verb is one transaction."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    def _now(self) -> str:
        return to_text(self._clock.now())

    async def due(self, store: str, limit: int) -> list[Target]:
        """Return targets to be worked on now: nothing of their product is under way."""

        def unit(connection: sqlite3.Connection) -> list[Target]:
            now = self._now()
            rows = connection.execute(_DUE, (store, now, limit)).fetchall()
            return [
                _target(row) for row in rows if usable(connection, row[:WIDTH], now)
            ]

        return await self._writer.urgent(unit)

    async def next_due(self, store: str, after: str) -> str | None:
        """Return when, after that moment, the next target or reading comes due."""

        def unit(connection: sqlite3.Connection) -> str | None:
            values = {"store": store, "after": after}
            (due,) = connection.execute(_NEXT_DUE, values).fetchone()
            return None if due is None else str(due)

        return await self._writer.urgent(unit)

    async def decide(
        self,
        target: Target,
        level: int,
        since: str,
        studied_at: str | None,
        decide: Decide,
    ) -> tuple[State, str]:
        """Gather what is known of the variant, and do what `decide` says, in one step.

        `level` was read of the platform, by a study that began at `studied_at` or, with
        None, by a look; movements from `since` on matter. Returns where the target
        stands now, and why.
        """

        def unit(connection: sqlite3.Connection) -> tuple[State, str]:
            if _is_waiting(connection, target.command.id):
                values = stock_snapshot.snapshot_values(
                    target, since, studied_at, self._now()
                )
                _decide(connection, target, level, values, decide, self._now())
            return _stands(connection, target.command.id)

        return await self._writer.urgent(unit)

    async def wait(self, target: Target, rest: Wait) -> None:
        """Let a target wait that cannot be worked on."""

        def unit(connection: sqlite3.Connection) -> None:
            _wait(connection, target.command.id, rest)

        await self._writer.urgent(unit)

    async def readings(self, store: str, limit: int) -> list[Reading]:
        """Return the steps whose product is to be read back now."""

        def unit(connection: sqlite3.Connection) -> list[Reading]:
            rows = connection.execute(_READINGS, (store, self._now(), limit)).fetchall()
            return [Reading(to_command(row[:WIDTH]), *row[WIDTH:]) for row in rows]

        return await self._writer.urgent(unit)

    async def other_variants(self, reading: Reading) -> OtherVariants:
        """Return what is known of the other variants of the product."""

        def unit(connection: sqlite3.Connection) -> OtherVariants:
            return _other_variants(connection, reading)

        return await self._writer.urgent(unit)

    async def read_back(self, reading: Reading, due_at: str | None) -> None:
        """Note that a product was read back; `due_at` where it is to be again."""

        def unit(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE stock_targets SET unread = ?, read_at = ?, tries = tries + 1"
                " WHERE command_id = ?",
                (due_at is not None, due_at, reading.target.id),
            )

        await self._writer.urgent(unit)

    async def stopped(self, store: str) -> str | None:
        """Return why the store's targets are stopped."""

        def unit(connection: sqlite3.Connection) -> str | None:
            row = connection.execute(
                "SELECT value FROM marks WHERE name = ?", (_stop_mark(store),)
            ).fetchone()
            return None if row is None else str(row[0])

        return await self._writer.urgent(unit)

    async def stop(
        self, store: str, reason: str | None, entry: AuditEntry | None = None
    ) -> None:
        """Stop the store's targets until a person resumes them (None)."""
        now = self._now()

        def unit(connection: sqlite3.Connection) -> None:
            if entry is not None:
                add_entry(connection, now, entry)
            if reason is None:
                connection.execute(
                    "DELETE FROM marks WHERE name = ?", (_stop_mark(store),)
                )
            else:
                connection.execute(
                    "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)",
                    (_stop_mark(store), reason),
                )

        await self._writer.urgent(unit)


def _stop_mark(store: str) -> str:
    return f"{adjustments.STOPPED}{store}"


def _target(row: tuple[Any, ...]) -> Target:
    command, (tries, is_allowed) = to_command(row[:WIDTH]), row[WIDTH:]
    # Of the command, whose digest was looked at.
    said = command.payload
    count = Count(said["quantity"], said["as_of"])
    return Target(command, said["variant_id"], count, tries, bool(is_allowed))


def _is_waiting(connection: sqlite3.Connection, id_: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM commands WHERE id = ? AND state = 'planned' AND held = 0", (id_,)
    ).fetchone()
    return row is not None


def _stands(connection: sqlite3.Connection, id_: str) -> tuple[State, str]:
    state, reason = connection.execute(
        "SELECT state, reason FROM commands WHERE id = ?", (id_,)
    ).fetchone()
    return State(state), reason


def _decide(
    connection: sqlite3.Connection,
    target: Target,
    level: int,
    values: Mapping[str, object],
    decide: Decide,
    now: str,
) -> None:
    if _is_outdated(connection, target.command.id):
        adjustments.supersede(connection, target.command.id, NEWER, now)
        return
    busy = stock_snapshot.undecided_work(connection, values)
    if busy:
        soon = to_text(from_text(now) + BUSY)
        _wait(connection, target.command.id, Wait(busy, soon, counts=False))
        return
    step = decide(stock_snapshot.load_snapshot(connection, values, level))
    if isinstance(step, Transition):
        apply_transition(connection, target.command, step, now)
    elif isinstance(step, Wait):
        _wait(connection, target.command.id, step)
    else:
        _correct(connection, target, step, now)


def _is_outdated(connection: sqlite3.Connection, id_: str) -> bool:
    (outdated,) = connection.execute(
        f"SELECT {OUTDATED} FROM stock_targets t"  # noqa: S608 - constants
        " JOIN commands c ON c.id = t.command_id WHERE t.command_id = ?",
        (id_,),
    ).fetchone()
    return bool(outdated)


def _wait(connection: sqlite3.Connection, id_: str, rest: Wait) -> None:
    connection.execute(
        "UPDATE commands SET due_at = ?, reason = ? WHERE id = ? AND state = 'planned'",
        (rest.due_at, rest.reason, id_),
    )
    connection.execute(
        "UPDATE stock_targets SET tries = tries + ? WHERE command_id = ?",
        (rest.counts, id_),
    )


def _correct(
    connection: sqlite3.Connection, target: Target, step: Adjust, now: str
) -> None:
    """Keep how the count became a step, and plan that step if there is one to make."""
    computation = asdict(step.computation)
    evidence: dict[str, Any] = {"computation": computation}
    words = step.computation.in_words()
    connection.execute(
        "UPDATE stock_targets SET computation = ?, words = ?, delta = ?, levels = ?,"
        " ledger = (SELECT coalesce(max(id), 0) FROM stock_ledger), tries = 0"
        " WHERE command_id = ?",
        (
            msgspec.json.encode(computation).decode(),
            words,
            step.computation.delta,
            msgspec.json.encode(dict(step.levels)).decode(),
            target.command.id,
        ),
    )
    if step.computation.delta == 0:
        done = Transition((Cause.PROVED_APPLIED,), words, evidence=evidence)
        apply_transition(connection, target.command, done, now)
        return
    connection.execute(
        "UPDATE commands SET held = 1, reason = ?, evidence = ? WHERE id = ?",
        (words, msgspec.json.encode(evidence).decode(), target.command.id),
    )
    _plan_step(connection, target, step, now)


def _plan_step(
    connection: sqlite3.Connection, target: Target, step: Adjust, now: str
) -> None:
    command, count = target.command, target.count
    payload = {
        "variant_id": target.variant_id,
        "delta": step.computation.delta,
        "reason": ADJUSTMENT_REASON,
        "target": command.id,
        "expected_stock": step.expects,
    }
    (source,) = connection.execute(
        "SELECT cause FROM commands WHERE id = ?", (command.id,)
    ).fetchone()
    identity = _identity(connection, command)
    cause = f"count of {count.quantity} as of {count.as_of}, {source}"
    lane = command.lane
    new = NewCommand(identity, "adjust", command.target, lane, payload)
    plan(connection, command.store, command.instance, new, cause, now)
    # It leaves through the gate that was open to its count.
    connection.execute(
        "UPDATE commands SET created_at = (SELECT o.created_at FROM commands o"
        " WHERE o.id = ?) WHERE id = ?",
        (command.id, identity),
    )
    connection.execute(
        "UPDATE stock_targets SET correction = ? WHERE command_id = ?",
        (identity, command.id),
    )


def _identity(connection: sqlite3.Connection, target: Command) -> str:
    """Return the id of the step to be planned: one that no life of ours has used.

    After a restore the platform may show steps of this very count; they are done.
    """
    (round_,) = connection.execute(
        "SELECT round FROM stock_targets WHERE command_id = ?", (target.id,)
    ).fetchone()
    store, instance = target.store, target.instance
    last = restore_adoption.last_round(connection, store, instance, target.id, round_)
    round_ = round_ if last is None else last + 1
    connection.execute(
        "UPDATE stock_targets SET round = ? WHERE command_id = ?", (round_, target.id)
    )
    return step_id(store, instance, target.id, round_)


def _other_variants(connection: sqlite3.Connection, reading: Reading) -> OtherVariants:
    store, target = reading.target.store, reading.target
    correction, known, ledger = connection.execute(
        "SELECT correction, CAST(levels AS BLOB), ledger FROM stock_targets"
        " WHERE command_id = ?",
        (target.id,),
    ).fetchone()
    effect, evidence = connection.execute(
        "SELECT effect_id, CAST(evidence AS BLOB) FROM commands WHERE id = ?",
        (correction,),
    ).fetchone()
    at_hand = {"store": store, "product": target.target, "known": ledger}
    moved = {
        variant: {news, surely}
        for variant, news, surely in connection.execute(
            _MOVED_SINCE, at_hand | {"step": effect or ""}
        )
    }
    levels = document_of(known)
    expected = {
        variant: frozenset(stock + news for news in moved.get(variant, {0}))
        for variant, stock in levels.items()
        if isinstance(stock, int)
    }
    if known and not expected:
        logger.bind(action="target.damaged", store=store, command=target.id).error(
            "target {}: the levels from before its adjustment are damaged in the"
            " database, so Backhaul cannot determine whether the adjustment moved other"
            " variants of product {}",
            target.id[:8],
            target.target,
        )
    named = connection.execute(
        "SELECT variant_id FROM stock_ledger WHERE store = ? AND adjustment_id = ?",
        (store, effect),
    )
    shown = {row[0] for row in named} | _answered(document_of(evidence))
    return OtherVariants(expected, sorted(shown - {reading.variant_id}))


def _answered(evidence: dict[str, Any]) -> set[str]:
    """Return the variants that the platform's answer says it moved."""
    return {
        level["variantId"]
        for level in evidence.get("levels", ())
        if isinstance(level, dict)
        and isinstance(level.get("variantId"), str)
        and level.get("adjustment") != 0
    }
