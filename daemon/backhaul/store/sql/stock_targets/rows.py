"""Rows of stock targets: added, read, moved, and corrected when the clock goes back.

The view `commands_and_targets` shows them beside the commands, by the same numbers and
with the states of commands.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from loguru import logger
from msgspec.structs import asdict

from backhaul.core.identity import digest_of, is_intact
from backhaul.core.lifecycle import (
    OPEN_TARGETS,
    SHOWN_AS,
    TargetCause,
    TargetState,
    next_target_state,
)
from backhaul.core.stock import Count
from backhaul.core.stock_decision import Target
from backhaul.store.sql.dialect import (
    NEXT_NUMBER,
    document_of,
    greatest,
    later,
    least,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.store.matching import NewTarget
    from backhaul.store.sql.family import Connection


KIND = "target"
"""The kind under which lists show a stock target beside commands."""
DAMAGED = (
    "the stored stock count is damaged, so the disk or the database file has an error."
    " Compare the count with its record, and restore a backup"
)
_ADD = f"""
    INSERT INTO stock_targets
      (seq, id, store, product_id, variant_id, quantity, as_of, listed_at, state,
       payload, digest, cause, instance, created_at, due_at, traceparent)
    VALUES ({NEXT_NUMBER}, :id, :store, :product, :variant_id, :quantity, :as_of,
            :listed_at, :state, :payload, :digest, :cause, :instance, :now, :now,
            :traceparent)
    ON CONFLICT (id) DO NOTHING
"""  # noqa: S608 - constants
_SHOWN = {**SHOWN_AS, TargetState.HELD: TargetState.HELD}
_NAMES = " ".join(f"WHEN '{own}' THEN '{shown}'" for own, shown in _SHOWN.items())
SHOWN_STATE = f"CASE t.state {_NAMES} END"
"""The state under which a list of targets shows a target `t`.

It is the state in `commands_and_targets`, or `held`.
"""
_WORDS = " ".join(f"WHEN '{own}' THEN '{shown}'" for own, shown in SHOWN_AS.items())
STATE_AS_COMMAND = f"CASE t.state {_WORDS} END"
"""The state in `commands_and_targets` of a target `t`. An engine may scan the view."""
COLUMNS = (
    "t.seq, t.id, t.store, t.product_id, t.variant_id, t.instance, t.payload, t.digest,"
    " t.tries"
)
"""The columns of a row of stock_targets `t` that `usable` reads."""
_STATE = "SELECT state FROM stock_targets WHERE id = :target"


def add(
    connection: Connection,
    store: str,
    instance: str,
    new: NewTarget,
    cause: str,
    now: str,
    traceparent: str | None = None,
) -> bool:
    """Add a target; return False if its id is known, whose row stays as it is."""
    count = asdict(new)
    id_, product = count.pop("id"), count.pop("product_id")
    payload = msgspec.json.encode(count).decode()
    values = count | {
        "id": id_,
        "store": store,
        "product": product,
        "state": TargetState.WAITING,
        "payload": payload,
        "digest": digest_of((id_, store, KIND, product, payload)),
        "cause": cause,
        "instance": instance,
        "now": now,
        "traceparent": traceparent,
    }
    return connection.execute(_ADD, values).rowcount == 1


def usable(
    connection: Connection, row: Sequence[Any], is_allowed: bool, now: str
) -> Target | None:
    """Return the target of a row of COLUMNS; park it and return None if damaged."""
    seq, id_, store, product, _, instance, payload, digest, tries = row
    digested = (id_, store, KIND, product, payload)
    is_text = all(type(text) is str for text in (*digested, instance))
    count = document_of(payload) if is_text and is_intact(digest, digested) else {}
    if not count:
        _park_damaged(connection, seq, now)
        return None
    # The digest covers the payload, and not the other columns.
    return Target(
        id=id_,
        store=store,
        product_id=product,
        variant_id=count["variant_id"],
        instance=instance,
        count=Count(count["quantity"], count["as_of"]),
        tries=tries,
        is_allowed=is_allowed,
    )


def _park_damaged(connection: Connection, seq: int, now: str) -> None:
    """Leave a damaged target to an operator; nothing of it is sent."""
    (id_,) = connection.execute(
        "SELECT id FROM stock_targets WHERE seq = :seq", {"seq": seq}
    ).fetchone()
    transition(connection, id_, TargetCause.UNDECIDABLE, now, reason=DAMAGED)
    logger.bind(action="target.damaged", number=seq).error(
        "stock target {}: {}", seq, DAMAGED
    )


def state_of(connection: Connection, target: str) -> TargetState:
    """Return the state of a target."""
    (state,) = connection.execute(_STATE, {"target": target}).fetchone()
    return TargetState(state)


def transition(
    connection: Connection,
    target: str,
    cause: TargetCause,
    now: str,
    **changed: object,
) -> TargetState:
    """Move a target by a cause; return its new state.

    Every change of a target's state goes through this function, in the transaction of
    all that follows from the change. `changed` are other columns that change with the
    state. Raises ValueError if the lifecycle has no such transition.
    """
    state = next_target_state(state_of(connection, target), cause)
    values = {
        "state": state,
        "settled_at": None if state in OPEN_TARGETS else now,
        **changed,
    }
    connection.execute(_update(tuple(values)), {**values, "target": target})
    return state


@cache
def _update(names: tuple[str, ...]) -> str:
    changes = ", ".join(f"{name} = :{name}" for name in names)
    return f"UPDATE stock_targets SET {changes} WHERE id = :target"  # noqa: S608 - constants


_SHIFT = f"""
    UPDATE stock_targets SET created_at = {least("created_at", ":now")},
      due_at = {greatest(":now", later("due_at", ":seconds"))}
    WHERE store = :store AND state IN ('waiting', 'adjusting', 'held')
"""  # noqa: S608 - constants
_CATCH_UP = f"""
    UPDATE stock_targets SET created_at = {least("created_at", ":now")}, due_at = :now
    WHERE store = :store AND state IN ('waiting', 'adjusting', 'held')
      AND (created_at > :now OR due_at > :longest)
"""  # noqa: S608 - constants
# Finding such counts among many takes long. At a start, the newest rows show whether
# there can be any.
_IS_AHEAD = """
    SELECT 1 FROM (SELECT created_at FROM stock_targets ORDER BY seq DESC LIMIT 1000) n
    WHERE n.created_at > :now LIMIT 1
"""
# A count applied while the clock was ahead would be newer than every count until then,
# and include every command until then. It is dated just before now, so that a count of
# this very millisecond is newer.
_COUNTED_AHEAD = """
    UPDATE stock_targets SET as_of = :just_before
    WHERE store = :store AND as_of > :now AND state = 'applied'
"""


def shift_times(connection: Connection, values: Mapping[str, object]) -> None:
    """Move the times of open targets by `seconds`, as the clock went back.

    `values` are also `store`, `now`, and `just_before` it.
    """
    connection.execute(_SHIFT, values)
    connection.execute(_COUNTED_AHEAD, values)


def limit_waits(connection: Connection, values: Mapping[str, object]) -> None:
    """Limit the waits of open targets to the time `longest`, as `shift_times`."""
    is_ahead = connection.execute(_IS_AHEAD, values).fetchone()
    connection.execute(_CATCH_UP, values)
    if is_ahead:
        connection.execute(_COUNTED_AHEAD, values)
