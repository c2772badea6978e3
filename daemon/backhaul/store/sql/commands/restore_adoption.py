"""How a command starts: planned, or, after a restore, applied or uncertain."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from backhaul.core.clock import from_text, to_text
from backhaul.core.identity import step_id
from backhaul.core.lifecycle import State
from backhaul.core.stock import ADJUSTMENT_REASON
from backhaul.store.commands import restored_mark
from backhaul.store.sql.dialect import document_of, elements, member

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.store.commands import TaggedAdjustment
    from backhaul.store.matching import NewCommand
    from backhaul.store.sql.family import Connection

REMEMBERED = timedelta(days=30)
"""How long after a restore a record may come again that was handled before."""
MOST_EARLIER_ROUNDS = 20
"""How often, at most, a count was calculated again before the restore."""
ADOPTED = (
    "the platform's stock history showed our reference tag before this record arrived"
    " again"
)
CHECKED_FIRST = (
    "the database was restored; Backhaul reads the order before it sends anything"
)
# An adjustment with another reason belonged to no count; an adjustment that is not in
# the ledger yet may have.
_UNKNOWN_ADJUSTMENTS = f"""
    SELECT a.command_id FROM stock_ledger l
    JOIN adopted_effects a ON a.store = l.store AND a.adjustment_id = l.adjustment_id
    WHERE l.store = :store AND l.variant_id = :variant
      AND l.at >= substr(:as_of, 1, 19) AND l.reason IN ('', :reason)
      AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = a.command_id)
    UNION ALL
    SELECT a.command_id FROM adopted_effects a WHERE a.store = :store
      AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = a.command_id)
      AND NOT EXISTS (SELECT 1 FROM stock_ledger l
        WHERE l.store = a.store AND l.adjustment_id = a.adjustment_id)
      AND EXISTS (SELECT 1 FROM {elements("a.evidence", "$.moves")} m
        WHERE {member("m.value", "$.product_id")} = :product
          AND {member("m.value", "$.at")} >= substr(:as_of, 1, 19)
          AND coalesce({member("m.value", "$.variant_id")}, :variant) = :variant)
"""  # noqa: S608 - constants
_COUNTS = """
    SELECT store, instance, id, round FROM stock_targets
    WHERE store = :store AND variant_id = :variant
"""
_ADOPTED = """
    SELECT evidence, adjustment_id FROM adopted_effects
    WHERE command_id = :command AND store = :store ORDER BY at, adjustment_id
"""
_ADOPTED_AMONG = f"""
    SELECT command_id FROM adopted_effects WHERE store = :store
      AND command_id IN (SELECT value FROM {elements(":commands", "$")})
"""  # noqa: S608 - constants
_ADOPT = """
    INSERT INTO adopted_effects (store, adjustment_id, command_id, evidence, at)
    VALUES (:store, :effect, :command, :evidence, :now)
    ON CONFLICT (store, adjustment_id) DO NOTHING
"""
_OWNER = "SELECT 1 FROM commands WHERE store = :store AND effect_id = :effect"
_REMEMBER_RESTORE = """
    INSERT INTO kv (name, value) VALUES (:name, :now)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_RESTORED_AT = "SELECT value FROM kv WHERE name = :name AND value > :since"
# Only a decision since the restore is about the effects that the restore adopted.
_RELEASED = """
    SELECT 1 FROM audit
    WHERE command_id = :target AND action IN ('commands resend', 'stock release')
      AND at >= coalesce((SELECT value FROM kv WHERE name = :name), '')
"""


class InitialState(NamedTuple):
    """The columns of a new command that are derived, not requested.

    `sent_at` is the last time at which it may have been sent before a restore.
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
    """Return how a command starts that is planned now."""
    if (evidence := adopted(connection, store, command.id)) is not None:
        return InitialState(
            State.APPLIED,
            ADOPTED,
            settled_at=now,
            effect_id=_unless_taken(connection, store, evidence["adjustment_id"]),
            evidence=msgspec.json.encode(evidence).decode(),
        )
    since = restored_at(connection, store, now)
    # Only a parcel has no tag, and could be created twice.
    if since is not None and command.kind == "fulfill":
        return InitialState(State.UNCERTAIN, CHECKED_FIRST, sent_at=since)
    return InitialState()


def adopted(connection: Connection, store: str, command: str) -> dict[str, Any] | None:
    """Return the evidence of an adopted effect, with its duplicates."""
    values = {"command": command, "store": store}
    rows = connection.execute(_ADOPTED, values).fetchall()
    if not rows:
        return None
    found = ({**document_of(text), "adjustment_id": id_} for text, id_ in rows)
    first, *more = found
    doubled = [each["adjustment_id"] for each in more]
    return {**first, **({"doubled": doubled} if doubled else {})}


def possible_adjustments(
    connection: Connection, values: Mapping[str, object]
) -> set[str]:
    """Return the ids of all adjustments that known counts of a `variant` may have."""
    return {
        step_id(store, instance, target, number)
        for store, instance, target, rounds in connection.execute(_COUNTS, values)
        for number in range(rounds + MOST_EARLIER_ROUNDS)
    }


def unknown_adjustment(connection: Connection, values: Mapping[str, object]) -> str:
    """Return our command of which only an effect since a count is known; "" if none.

    It may have been the adjustment of a newer count, which an older count must not
    undo. It becomes known once its record comes in again. An operator who releases the
    count says that it was not. `values` are `store`, `target`, `product`, `variant` and
    `as_of`.
    """
    about = {**values, "reason": ADJUSTMENT_REASON}
    found = [row[0] for row in connection.execute(_UNKNOWN_ADJUSTMENTS, about)]
    if not found or is_released(connection, values):
        return ""
    known = possible_adjustments(connection, values)
    return next((command for command in found if command not in known), "")


def is_released(connection: Connection, values: Mapping[str, object]) -> bool:
    """Return True if an operator released `target` of `store` since the restore."""
    about = {**values, "name": restored_mark(str(values["store"]))}
    return connection.execute(_RELEASED, about).fetchone() is not None


def is_pre_restore(connection: Connection, values: Mapping[str, object]) -> bool:
    """Return True if a count is older than a restore, and was not released since.

    `values` are `store`, `target`, `as_of` and `now`.
    """
    store, now = str(values["store"]), str(values["now"])
    since = restored_at(connection, store, now)
    if since is None or str(values["as_of"]) > since:
        return False
    return not is_released(connection, values)


def last_round(
    connection: Connection, store: str, instance: str, target: str, since: int
) -> int | None:
    """Return the last round of a count, from `since` on, with an adopted adjustment."""
    rounds = {
        step_id(store, instance, target, number): number
        for number in range(since, since + MOST_EARLIER_ROUNDS)
    }
    values = {"store": store, "commands": msgspec.json.encode(list(rounds)).decode()}
    found = connection.execute(_ADOPTED_AMONG, values)
    return max((rounds[command] for (command,) in found), default=None)


def adopt(
    connection: Connection, store: str, tagged: TaggedAdjustment, now: str
) -> None:
    """Keep an effect of a command that this database does not know."""
    values = {
        "store": store,
        "effect": tagged.adjustment_id,
        "command": tagged.command,
        "evidence": msgspec.json.encode(effect_evidence(tagged)).decode(),
        "now": now,
    }
    connection.execute(_ADOPT, values)


def effect_evidence(tagged: TaggedAdjustment) -> dict[str, Any]:
    """Return what proves an effect, as evidence."""
    moves = msgspec.to_builtins(list(tagged.moves))
    return {"adjustment_id": tagged.adjustment_id, "moves": moves}


def remember_restore(connection: Connection, store: str, now: str) -> None:
    """Keep when the database was found to be older than what was sent."""
    values = {"name": restored_mark(store), "now": now}
    connection.execute(_REMEMBER_RESTORE, values)


def _unless_taken(connection: Connection, store: str, effect_id: str) -> str | None:
    """Return an effect; None if it is proved to belong to another command."""
    values = {"store": store, "effect": effect_id}
    return None if connection.execute(_OWNER, values).fetchone() else effect_id


def restored_at(connection: Connection, store: str, now: str) -> str | None:
    """Return when a restore was noticed; None if none was, or long ago."""
    since = to_text(from_text(now) - REMEMBERED)
    values = {"name": restored_mark(store), "since": since}
    row = connection.execute(_RESTORED_AT, values).fetchone()
    return None if row is None else str(row[0])
