"""Rows of commands: how they are read, and the function that moves them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from backhaul.core.identity import is_intact
from backhaul.core.lifecycle import OPEN, State, next_state
from backhaul.store.matching import Command
from backhaul.store.sql.dialect import document_of, is_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backhaul.core.lifecycle import Cause
    from backhaul.store.sql.family import Connection

_COLUMNS = (
    "{0}.seq, {0}.id, {0}.store, {0}.kind, {0}.target, {0}.lane, {0}.instance,"
    " {0}.state, {0}.payload, {0}.attempts, {0}.failures,"
    " {0}.created_at, {traceparent}, {0}.digest"
)
_ADDED = frozenset({"attempts", "failures"})


def columns(table: str, traceparent: str = "{0}.traceparent") -> str:
    """Return the columns of a row of commands, for a table of this name.

    `traceparent` is the text in place of the column that views do not have.
    """
    return _COLUMNS.format(table, traceparent=traceparent.format(table))


COLUMNS = columns("commands")
WIDTH = len(COLUMNS.split(", "))
"""How many values of a row `to_command` reads."""


def to_command(row: Sequence[Any]) -> Command:
    """Return the command of a row of COLUMNS; a damaged payload becomes empty."""
    seq, id_, store, kind, target, lane, instance, state, payload, *more, _ = row
    return Command(
        seq=seq,
        id=id_,
        store=store,
        kind=kind,
        target=target,
        lane=lane,
        state=State(state),
        payload=document_of(payload),
        attempts=more[0],
        failures=more[1],
        instance=instance,
        created_at=more[2],
        traceparent=more[3],
    )


def intact_command(row: Sequence[Any]) -> Command | None:
    """Return the command of a row of COLUMNS; None if the row is damaged.

    Rows without a digest are intact if all their text is.
    """
    _, id_, store, kind, target, lane, instance, _, payload, *_, digest = row
    digested = (id_, store, kind, target, payload)
    if any(type(text) is not str for text in (*digested, lane, instance)):
        return None
    command = to_command(row)
    is_readable = bool(command.payload) or is_document(payload)
    return command if is_readable and is_intact(digest, digested) else None


def transition(
    connection: Connection,
    seq: int,
    state: State,
    causes: Iterable[Cause],
    now: str,
    **changed: object,
) -> State:
    """Move a command from a state by causes; return its new state.

    Every change of a command's state goes through this function, in the transaction of
    all that follows from the change. `changed` are other columns that change with the
    state; `attempts` and `failures` are added to what they were. Raises ValueError if
    the lifecycle has no such transition.
    """
    state = next_state(state, *causes)
    values = {"state": state, "settled_at": None if state in OPEN else now, **changed}
    connection.execute(_update(tuple(values)), {**values, "seq": seq})
    return state


@cache
def _update(names: tuple[str, ...]) -> str:
    changes = ", ".join(
        f"{name} = {f'{name} + ' if name in _ADDED else ''}:{name}" for name in names
    )
    return f"UPDATE commands SET {changes} WHERE seq = :seq"  # noqa: S608 - constants
