"""Stock targets that came from one list: two of one article contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.lifecycle import State
from backhaul.core.stock import ListedLevel
from backhaul.store.sqlite import corrections

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from backhaul.store.contract import WaitingRecord

CONTRADICTED = "another row of the same list counts this article as well"
LISTED = """
    SELECT t.command_id, t.quantity, coalesce(r.locator, ''), c.state, c.reason
    FROM stock_targets t JOIN commands c ON c.id = t.command_id
    LEFT JOIN records r ON r.command_id = t.command_id
    WHERE t.variant_id = :variant AND t.as_of = :as_of AND t.store = :store
      AND t.listed_at = :listed_at AND c.instance = :instance
      AND (r.id IS NULL OR r.id != :own) AND c.state != 'rejected'
"""


def levels_listed(
    connection: sqlite3.Connection,
    record: WaitingRecord,
    variant: str,
    as_of: str,
    listed_at: str,
) -> list[ListedLevel]:
    """Return the other targets of a variant from the list that a record is part of.

    Returns none for a record that an operator retried: that one counts.
    """
    if is_decided(connection, record):
        return []
    values = {
        "variant": variant,
        "as_of": as_of,
        "store": record.store,
        "listed_at": listed_at,
        "instance": record.instance,
        "own": record.id,
    }
    found = [_listed(connection, *row) for row in connection.execute(LISTED, values)]
    return [each for each in found if each is not None]


def is_decided(connection: sqlite3.Connection, record: WaitingRecord) -> bool:
    """Return True for a record that an operator had tried again as it is."""
    own = connection.execute("SELECT decided FROM records WHERE id = ?", (record.id,))
    row = own.fetchone()
    return row is not None and bool(row[0])


def _listed(
    connection: sqlite3.Connection,
    target: str,
    quantity: int,
    locator: str,
    state: str,
    reason: str,
) -> ListedLevel | None:
    """Return what a list said; None where a newer list took its place."""
    withdrawn = state == State.SUPERSEDED and reason == CONTRADICTED
    if state == State.SUPERSEDED and not withdrawn:
        return None
    can_withdraw = state == State.PLANNED and not _is_under_way(connection, target)
    return ListedLevel(target, quantity, locator, can_withdraw, withdrawn)


def _is_under_way(connection: sqlite3.Connection, target: str) -> bool:
    step = corrections.step_of(connection, target)
    return step is not None and step[1] in {State.SENDING, State.UNCERTAIN}


def withdraw(connection: sqlite3.Connection, targets: Iterable[str], now: str) -> None:
    """Withdraw targets that another row of their list contradicts."""
    for target in targets:
        corrections.supersede(connection, target, CONTRADICTED, now)
