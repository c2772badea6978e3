"""A record that a program submits with a key of its own, and where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.records import RecordDetail, Submitted
from backhaul.store.sql.dialect import member
from backhaul.store.sql.stock_targets.rows import STATE_AS_COMMAND

if TYPE_CHECKING:
    from backhaul.store.records import NewRecord
    from backhaul.store.sql.family import Connection
    from backhaul.store.sql.records.acceptance import Acceptance

DETAIL = f"""
    SELECT r.id, r.received_at, r.store, r.instance, r.key,
           {member("r.payload", "$.kind")} AS kind, r.locator, r.state, r.reason,
           r.command_id, coalesce(c.state, {STATE_AS_COMMAND}),
           coalesce(c.reason, t.reason),
           (SELECT id FROM quarantine q WHERE q.source = 'record'
            AND q.name = r.instance AND q.key = r.key)
    FROM records r LEFT JOIN commands c ON c.id = r.command_id
    LEFT JOIN stock_targets t ON t.id = r.command_id
    WHERE r.id = :id
"""  # noqa: S608 - constants
_KNOWN = """
    SELECT id, store, raw FROM records
    WHERE instance = :instance AND key = :key
"""


def detail(connection: Connection, id_: int) -> RecordDetail | None:
    """Return one record, and where it stands."""
    row = connection.execute(DETAIL, {"id": id_}).fetchone()
    return RecordDetail(*row) if row else None


def submit(
    connection: Connection,
    instance: str,
    store: str,
    new: NewRecord,
    acceptance: Acceptance,
) -> Submitted:
    """Accept a record, unless its key is known: then only compare the two.

    A record stays as it was first submitted, whatever an operator changed since.
    """
    values = {"instance": instance, "key": new.key}
    known = connection.execute(_KNOWN, values).fetchone()
    if known is not None:
        id_, at, raw = known
        is_same = (at, raw) == (store, new.raw)
        return Submitted(_found(connection, id_), None, is_same)
    outcome = acceptance.accept(new)
    return Submitted(_found(connection, outcome.record.id), outcome, is_same=True)


def _found(connection: Connection, id_: int) -> RecordDetail:
    found = detail(connection, id_)
    if found is None:
        raise LookupError(id_)
    return found
