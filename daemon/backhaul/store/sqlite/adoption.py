"""How a command begins: planned, or, after a restore, applied or in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.core.clock import from_text, to_text
from backhaul.core.identity import step_id
from backhaul.core.lifecycle import State
from backhaul.store.tagging import restored_mark

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from backhaul.core.proof import Move
    from backhaul.store.contract import NewCommand

REMEMBERED = timedelta(days=30)
"""How long after a restore a record may come in again that was worked off before."""
EARLIER_ROUNDS = 20
"""How often, at most, a count was reckoned anew in a life that is not remembered."""
ADOPTED = "the platform's history showed our tag before this record came in again"
LOOKED_AT = "the database was restored: the order is read before anything is sent"


@dataclass(frozen=True, slots=True)
class Beginning:
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


def beginning(
    connection: sqlite3.Connection, store: str, command: NewCommand, now: str
) -> Beginning:
    """Return how a command begins that is planned now."""
    if (evidence := adopted(connection, store, command.id)) is not None:
        return Beginning(
            State.APPLIED,
            ADOPTED,
            settled_at=now,
            effect_id=_unless_taken(connection, store, evidence["adjustment_id"]),
            evidence=msgspec.json.encode(evidence).decode(),
        )
    restored_at = _restored_at(connection, store, now)
    # Only a parcel can be made twice and bears no tag.
    if restored_at is not None and command.kind == "fulfill":
        return Beginning(State.UNCERTAIN, LOOKED_AT, sent_at=restored_at)
    return Beginning()


def adopted(
    connection: sqlite3.Connection, store: str, command: str
) -> dict[str, Any] | None:
    """Return the evidence of an effect that was adopted, with what is too much."""
    rows = connection.execute(
        "SELECT evidence FROM adopted WHERE command_id = ? AND store = ?"
        " ORDER BY at, adjustment_id",
        (command, store),
    ).fetchall()
    if not rows:
        return None
    first, *more = (msgspec.json.decode(row[0]) for row in rows)
    doubled = [each["adjustment_id"] for each in more]
    return {**first, **({"doubled": doubled} if doubled else {})}


def last_round(
    connection: sqlite3.Connection, store: str, instance: str, target: str, since: int
) -> int | None:
    """Return the last round, from `since` on, whose step of a count was adopted."""
    steps = {
        step_id(store, instance, target, number): number
        for number in range(since, since + EARLIER_ROUNDS)
    }
    found = connection.execute(
        "SELECT command_id FROM adopted WHERE store = ?"
        " AND command_id IN (SELECT value FROM json_each(?))",
        (store, msgspec.json.encode(list(steps)).decode()),
    )
    return max((steps[row[0]] for row in found), default=None)


def adopt(
    connection: sqlite3.Connection,
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


def landed(adjustment_id: str, moves: Sequence[Move]) -> dict[str, Any]:
    """Return what proves an effect, as evidence."""
    return {"adjustment_id": adjustment_id, "moves": msgspec.to_builtins(list(moves))}


def remember_restore(connection: sqlite3.Connection, store: str, now: str) -> None:
    """Keep when it was found that the database is older than what was sent."""
    connection.execute(
        "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)",
        (restored_mark(store), now),
    )


def _unless_taken(
    connection: sqlite3.Connection, store: str, effect_id: str
) -> str | None:
    """Return the effect, None where it is proved to be another command's."""
    taken = connection.execute(
        "SELECT 1 FROM commands WHERE store = ? AND effect_id = ?", (store, effect_id)
    ).fetchone()
    return None if taken else effect_id


def _restored_at(connection: sqlite3.Connection, store: str, now: str) -> str | None:
    row = connection.execute(
        "SELECT value FROM marks WHERE name = ? AND value > ?",
        (restored_mark(store), to_text(from_text(now) - REMEMBERED)),
    ).fetchone()
    return None if row is None else str(row[0])
