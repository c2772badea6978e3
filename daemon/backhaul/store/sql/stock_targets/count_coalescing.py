"""Stock counts of one article: a newer one replaces it, two of one list contradict."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backhaul.core.clock import normalize
from backhaul.core.lifecycle import State
from backhaul.core.stock import ListedLevel
from backhaul.store.sql.documents import document_of
from backhaul.store.sql.stock_targets import adjustments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.store.matching import WaitingRecord
    from backhaul.store.sql.family import Connection


# The article is written as the index `records_unmatched` has it.
OTHERS = """
    SELECT id, key, CAST(payload AS BLOB), received_at FROM records
    WHERE instance = ? AND state IN ('waiting', 'quarantined')
      AND iif(json_valid(payload), json_extract(payload, '$.record.sku'), NULL) = ?
      AND store = ? AND id != ?
"""


def replace_older_counts(
    connection: Connection, record: WaitingRecord
) -> WaitingRecord:
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


def _replace(connection: Connection, record: WaitingRecord, id_: int, key: str) -> None:
    connection.execute("UPDATE records SET state = 'replaced' WHERE id = ?", (id_,))
    connection.execute(
        "UPDATE OR REPLACE quarantine SET key = ?, state = 'retried'"
        " WHERE source = 'record' AND name = ? AND key = ?",
        (record.key, record.instance, key),
    )


def _waits(connection: Connection, record: WaitingRecord, since: str) -> WaitingRecord:
    connection.execute(
        "UPDATE records SET received_at = ? WHERE id = ?", (since, record.id)
    )
    return record._replace(received_at=since)


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
    connection: Connection,
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


def is_decided(connection: Connection, record: WaitingRecord) -> bool:
    """Return True for a record that an operator had tried again as it is."""
    own = connection.execute("SELECT decided FROM records WHERE id = ?", (record.id,))
    row = own.fetchone()
    return row is not None and bool(row[0])


def _listed(
    connection: Connection,
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


def _is_under_way(connection: Connection, target: str) -> bool:
    step = adjustments.adjustment_of(connection, target)
    return step is not None and step[1] in {State.SENDING, State.UNCERTAIN}


def withdraw(connection: Connection, targets: Iterable[str], now: str) -> None:
    """Withdraw targets that another row of their list contradicts."""
    for target in targets:
        adjustments.supersede(connection, target, CONTRADICTED, now)
