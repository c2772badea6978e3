"""What is kept of an answer: nothing of a person who was forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.sqlite.mirror import FORGETS

if TYPE_CHECKING:
    import sqlite3

    from backhaul.store.outbox import Attempt


def kept(connection: sqlite3.Connection, store: str, attempt: Attempt) -> bytes | None:
    """Return the answer, without its person if that one was forgotten.

    Whoever forgets somebody goes through the answers once; this one came after.
    """
    told = attempt.told
    if told is None:
        return attempt.response
    row = connection.execute(FORGETS, (store, told.customer_id, told.address))
    (forgets,) = row.fetchone()
    return told.without() if forgets else attempt.response
