"""Counts that found no article: a newer one of the same article takes their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import normalize
from backhaul.store.sqlite.members import document_of

if TYPE_CHECKING:
    import sqlite3

    from backhaul.store.contract import WaitingRecord

# The article is written as the index `records_unmatched` has it.
OTHERS = """
    SELECT id, key, CAST(payload AS BLOB), received_at FROM records
    WHERE instance = ? AND state IN ('waiting', 'quarantined')
      AND iif(json_valid(payload), json_extract(payload, '$.record.sku'), NULL) = ?
      AND store = ? AND id != ?
"""


def take_over(connection: sqlite3.Connection, record: WaitingRecord) -> WaitingRecord:
    """Put a count in the place of older ones, which goes for their rows in quarantine.

    It has waited as long as they have: what is counted often would wait for ever.
    """
    own = _count(record.payload)
    if own is None:
        return record
    sku, counted_at = own
    values = (record.instance, sku, record.store, record.id)
    others = connection.execute(OTHERS, values)
    since = record.received_at
    for id_, key, payload, received_at in others.fetchall():
        other = _count(payload)
        if other is not None and other[1] <= counted_at:
            _replace(connection, record, id_, key)
            since = min(since, received_at)
    return record if since == record.received_at else _waits(connection, record, since)


def _count(payload: bytes | str) -> tuple[str, str] | None:
    """Return the article of a count and when it was counted; None of all else."""
    document = document_of(payload)
    if document.get("kind") != "level":
        return None
    try:
        return document["record"]["sku"], normalize(document["record"]["as_of"])
    except ValueError:
        return None


def _replace(
    connection: sqlite3.Connection, record: WaitingRecord, id_: int, key: str
) -> None:
    connection.execute("UPDATE records SET state = 'replaced' WHERE id = ?", (id_,))
    connection.execute(
        "UPDATE OR REPLACE quarantine SET key = ?, state = 'retried'"
        " WHERE source = 'record' AND name = ? AND key = ?",
        (record.key, record.instance, key),
    )


def _waits(
    connection: sqlite3.Connection, record: WaitingRecord, since: str
) -> WaitingRecord:
    connection.execute(
        "UPDATE records SET received_at = ? WHERE id = ?", (since, record.id)
    )
    return record._replace(received_at=since)
