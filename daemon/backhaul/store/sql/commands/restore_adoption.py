"""How a command begins: planned, or, after a restore, applied or in doubt."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core.clock import from_text, to_text
from backhaul.core.identity import step_id
from backhaul.core.lifecycle import State
from backhaul.core.stock import ADJUSTMENT_REASON
from backhaul.store.commands import restored_mark
from backhaul.store.sql.dialect import document
from backhaul.store.sql.documents import document_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.core.effect_proof import Move
    from backhaul.store.matching import NewCommand
    from backhaul.store.sql.family import Connection

REMEMBERED = timedelta(days=30)
"""How long after a restore a record may come in again that was worked off before."""
MOST_EARLIER_ROUNDS = 20
"""How often, at most, a count was reckoned anew in a life that is not remembered."""
ADOPTED = (
    "the platform's stock history showed our reference tag before this record arrived"
    " again"
)
# What was told another reason was no step of a count; what is not in the ledger yet may
# have been one.
_FORGOTTEN = f"""
    SELECT a.command_id FROM stock_ledger l
    JOIN adopted a ON a.store = l.store AND a.adjustment_id = l.adjustment_id
    WHERE l.store = :store AND l.variant_id = :variant
      AND l.at >= substr(:as_of, 1, 19) AND l.reason IN ('', :reason)
      AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = a.command_id)
    UNION ALL
    SELECT a.command_id FROM adopted a WHERE a.store = :store
      AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = a.command_id)
      AND NOT EXISTS (SELECT 1 FROM stock_ledger l
        WHERE l.store = a.store AND l.adjustment_id = a.adjustment_id)
      AND EXISTS (SELECT 1 FROM json_each({document("a.evidence")}, '$.moves') m
        WHERE m.value ->> 'product_id' = :product
          AND m.value ->> 'at' >= substr(:as_of, 1, 19)
          AND coalesce(m.value ->> 'variant_id', :variant) = :variant)
"""  # noqa: S608 - constants
_COUNTS = """
    SELECT c.store, c.instance, c.id, t.round
    FROM stock_targets t JOIN commands c ON c.id = t.command_id
    WHERE t.store = :store AND t.variant_id = :variant
"""
LOOKED_AT = (
    "the database was restored; Backhaul reads the order before it sends anything"
)


class InitialState(msgspec.Struct, frozen=True):
    """The columns of a new command that are not its own to say.

    `sent_at` is the last moment at which it may have been sent in a life that this
    database does not remember.
    """

    state: State = State.PLANNED
    reason: str = ""
    settled_at: str | None = None
    sent_at: str | None = None
    effect_id: str | None = None
    evidence: str | None = None


def initial_state(
    connection: Connection, store: str, command: NewCommand, now: str
) -> InitialState:
    """Return how a command begins that is planned now."""
    if (evidence := adopted(connection, store, command.id)) is not None:
        return InitialState(
            State.APPLIED,
            ADOPTED,
            settled_at=now,
            effect_id=_unless_taken(connection, store, evidence["adjustment_id"]),
            evidence=msgspec.json.encode(evidence).decode(),
        )
    restored_at = _restored_at(connection, store, now)
    # Only a parcel can be made twice and bears no tag.
    if restored_at is not None and command.kind == "fulfill":
        return InitialState(State.UNCERTAIN, LOOKED_AT, sent_at=restored_at)
    return InitialState()


def adopted(connection: Connection, store: str, command: str) -> dict[str, Any] | None:
    """Return the evidence of an effect that was adopted, with what is too much."""
    rows = connection.execute(
        "SELECT CAST(evidence AS BLOB), adjustment_id FROM adopted"
        " WHERE command_id = ? AND store = ? ORDER BY at, adjustment_id",
        (command, store),
    ).fetchall()
    if not rows:
        return None
    found = ({**document_of(text), "adjustment_id": id_} for text, id_ in rows)
    first, *more = found
    doubled = [each["adjustment_id"] for each in more]
    return {**first, **({"doubled": doubled} if doubled else {})}


def possible_adjustments(
    connection: Connection, values: Mapping[str, object]
) -> set[str]:
    """Return the ids of all steps that known counts of a `variant` may have made."""
    return {
        step_id(store, instance, target, number)
        for store, instance, target, rounds in connection.execute(_COUNTS, values)
        for number in range(rounds + MOST_EARLIER_ROUNDS)
    }


def unknown_adjustment(connection: Connection, values: Mapping[str, object]) -> str:
    """Name a command of ours of which only its effect since a count is known.

    It may have been the step of a newer count, which that one must not make good again:
    once its record comes in again, it is known. `values` are `store`, `product`,
    `variant` and `as_of`.
    """
    about = {**values, "reason": ADJUSTMENT_REASON}
    found = [row[0] for row in connection.execute(_FORGOTTEN, about)]
    known = possible_adjustments(connection, values) if found else set()
    return next((command for command in found if command not in known), "")


def last_round(
    connection: Connection, store: str, instance: str, target: str, since: int
) -> int | None:
    """Return the last round, from `since` on, whose step of a count was adopted."""
    steps = {
        step_id(store, instance, target, number): number
        for number in range(since, since + MOST_EARLIER_ROUNDS)
    }
    found = connection.execute(
        "SELECT command_id FROM adopted WHERE store = ?"
        " AND command_id IN (SELECT value FROM json_each(?))",
        (store, msgspec.json.encode(list(steps)).decode()),
    )
    return max((steps[row[0]] for row in found), default=None)


def adopt(
    connection: Connection,
    store: str,
    command: str,
    evidence: dict[str, Any],
    now: str,
) -> None:
    """Keep an effect of a command that is not known here."""
    connection.execute(
        "INSERT OR IGNORE INTO adopted (store, adjustment_id, command_id, evidence, at)"
        " VALUES (?, ?, ?, ?, ?)",
        (
            store,
            evidence["adjustment_id"],
            command,
            msgspec.json.encode(evidence).decode(),
            now,
        ),
    )


def effect_evidence(adjustment_id: str, moves: Sequence[Move]) -> dict[str, Any]:
    """Return what proves an effect, as evidence."""
    return {"adjustment_id": adjustment_id, "moves": msgspec.to_builtins(list(moves))}


def remember_restore(connection: Connection, store: str, now: str) -> None:
    """Keep when it was found that the database is older than what was sent."""
    connection.execute(
        "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)",
        (restored_mark(store), now),
    )


def _unless_taken(connection: Connection, store: str, effect_id: str) -> str | None:
    """Return the effect, None where it is proved to be another command's."""
    taken = connection.execute(
        "SELECT 1 FROM commands WHERE store = ? AND effect_id = ?", (store, effect_id)
    ).fetchone()
    return None if taken else effect_id


def _restored_at(connection: Connection, store: str, now: str) -> str | None:
    row = connection.execute(
        "SELECT value FROM marks WHERE name = ? AND value > ?",
        (restored_mark(store), to_text(from_text(now) - REMEMBERED)),
    ).fetchone()
    return None if row is None else str(row[0])
