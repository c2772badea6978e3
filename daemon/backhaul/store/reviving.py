"""What people took away or decided since a backup, and its restore brings back."""

from __future__ import annotations

import sqlite3
from itertools import chain
from typing import TYPE_CHECKING

from backhaul.core.lifecycle import OPEN, State
from backhaul.store.sqlite import copies, corrections

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_USERS = "SELECT name, role, secret FROM users"
_DROPPED = "SELECT store, fingerprint FROM webhook_secrets WHERE dropped_at IS NOT NULL"
_FORGOTTEN = "SELECT store, customer_id FROM forgotten"
_PAUSED = "SELECT job, store FROM job_state WHERE paused_at IS NOT NULL"
# The last word of a person on each command, where the command still stands by it.
_DECIDED = """
    SELECT c.id, a.action FROM audit a
    JOIN commands c ON c.id = a.command_id AND c.state = a.state_after
    WHERE a.id IN (SELECT max(id) FROM audit WHERE command_id IS NOT NULL
                   GROUP BY command_id)
    ORDER BY c.seq
"""
_SAYS = "backhaul commands {} --reason 'before the restore'"
_PARK = _SAYS.format("park {0}")
_AGAIN = {
    "commands park": ("parked", ""),
    "commands drop": ("dropped", _SAYS.format("discard {0}")),
    "commands settle --applied": (
        "settled as applied",
        _SAYS.format("resolve {0} --applied"),
    ),
}
"""What each decision was, and what makes it again of a command that is parked."""


def revived(before: Path, restored: Path) -> tuple[str, ...] | None:
    """Return what is back, each with the command that takes it away again.

    None where the database of before cannot tell.
    """
    try:
        with copies.open_to_look(before) as old, copies.open_to_look(restored) as new:
            kinds = (_users, _secrets, _persons, _commands, _jobs)
            return (*chain.from_iterable(kind(old, new) for kind in kinds),)
    except sqlite3.Error:  # it is damaged, or older than these tables
        return None


def _users(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    before = {name: rest for name, *rest in old.execute(_USERS)}
    for name, role, secret in sorted(new.execute(_USERS)):
        was_role, was_secret = before.get(name, (None, secret))
        if was_role is None:
            yield f"dashboard user {name} is {role} again: backhaul users remove {name}"
        elif role != was_role:
            fix = f"backhaul users role {name} {was_role}"
            yield f"dashboard user {name} is {role} again: {fix}"
        if secret != was_secret:
            fix = f"backhaul users password {name}"
            yield f"dashboard user {name} has the password of then again: {fix}"


def _secrets(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    for store, fingerprint in _missing(_DROPPED, old, new):
        yield (
            f"webhooks of {store} may be signed with a dropped secret again:"
            f" backhaul secrets revoke {fingerprint}"
        )


def _persons(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    for store, customer in _missing(_FORGOTTEN, old, new):
        yield (
            f"a person who was erased is back:"
            f" backhaul customers erase {customer} --store {store}"
        )


def _commands(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    """Tell of what would be sent again, or waits again for what was said already."""
    told: set[str] = set()
    for decided, action in old.execute(_DECIDED):
        command, state = _to_decide(new, decided)
        if action not in _AGAIN or command in told:
            continue
        told.add(command)  # a count is before its adjustment, and was decided after it
        was, again = _AGAIN[action]
        if state in OPEN:
            fix = " && ".join(filter(None, (_PARK, again)))
            # What was on its way can be decided once the start has put it in doubt.
            when = " (after the start)" if state == State.SENDING else ""
            yield f"a command that was {was} is open again{when}: {fix.format(command)}"
        elif state == State.PARKED and again:
            yield f"a command that was {was} is parked again: {again.format(command)}"


def _to_decide(new: sqlite3.Connection, command: str) -> tuple[str, str]:
    """Return the command that a person decides there, and where it stands.

    A count stands where its adjustment stands, and only that can be decided.
    """
    step = corrections.step_of(new, command)
    if step is not None and step[1] in corrections.UNDECIDED:
        return step
    query = "SELECT state FROM commands WHERE id = ?"
    (state,) = new.execute(query, (command,)).fetchone() or ("",)
    return command, state


def _jobs(old: sqlite3.Connection, new: sqlite3.Connection) -> Iterator[str]:
    for job, store in _missing(_PAUSED, old, new):
        name, only = (f"{job} of {store}", f" --store {store}") if store else (job, "")
        yield f"job {name} was paused and runs again: backhaul jobs pause {job}{only}"


def _missing(
    query: str, there: sqlite3.Connection, here: sqlite3.Connection
) -> list[tuple[str, ...]]:
    """Return the rows of `there` that `here` lacks."""
    return sorted({*there.execute(query)} - {*here.execute(query)})
