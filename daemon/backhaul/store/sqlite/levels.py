"""Counts that found no article: a newer one of the same article takes their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
    values = (record.instance, own.sku, record.store, record.id)
    others = connection.execute(OTHERS, values)
    since = record.received_at
    for id_, key, payload, received_at in others.fetchall():
        other = _count(payload)
        if other is not None and other.is_replaced_by(own):
            _replace(connection, record, id_, key)
            since = min(since, received_at)
    return record if since == record.received_at else _waits(connection, record, since)


class _Count(NamedTuple):
    """What a record counts; `listed_at` is empty where no list is known.

    Counts that are handed `in_order` are entries of a journal, not rows of a list.
    """

    sku: str
    counted_at: str
    listed_at: str
    locator: str
    quantity: int
    in_order: bool

    def is_replaced_by(self, other: _Count) -> bool:
        """Return True unless the other is older, or contradicts this one.

        Several rows of one list are kept until the article is known: they are refused
        together then.
        """
        own, new = (each[1:3] for each in (self, other))
        if own != new:
            return own < new
        if other.in_order or (self.locator and self.locator == other.locator):
            return True
        return not self.listed_at and self.quantity == other.quantity


def _count(payload: bytes | str) -> _Count | None:
    """Return what a record counts; None of all that is no count."""
    document = document_of(payload)
    if document.get("kind") != "level":
        return None
    record = document["record"]
    try:
        listed_at = record.get("listed_at")
        return _Count(
            record["sku"],
            normalize(record["as_of"]),
            normalize(listed_at) if listed_at else "",
            record.get("locator", ""),
            record["quantity"],
            record.get("in_order", False),
        )
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
