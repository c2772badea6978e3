"""Replaces older counts of a SKU, and finds rows of a list that contradict."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backhaul.core.clock import normalize
from backhaul.core.lifecycle import OPEN_TARGETS, TargetState
from backhaul.core.stock import ListedLevel
from backhaul.store.sql.dialect import document_of, member
from backhaul.store.sql.stock_targets import adjustments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.store.matching import WaitingRecord
    from backhaul.store.sql.family import Connection


# SQLite's index `records_unmatched` has the same expression.
OTHERS = f"""
    SELECT id, key, payload, received_at, decided FROM records
    WHERE instance = :instance AND state IN ('waiting', 'quarantined')
      AND {member("payload", "$.record.sku")} = :sku AND store = :store AND id != :own
"""  # noqa: S608 - constants


def replace_older_counts(
    connection: Connection, record: WaitingRecord
) -> WaitingRecord:
    """Let a count replace older counts of its SKU, and their rows in the quarantine.

    The count then has waited as long as they have: otherwise a SKU that is counted
    often would wait forever. Returns the record with its new time.
    """
    own = _count(record.payload)
    if own is None:
        return record
    values = {"instance": record.instance, "sku": own.sku, "store": record.store}
    others = connection.execute(OTHERS, values | {"own": record.id})
    since = record.received_at
    for id_, key, payload, received_at, decided in others.fetchall():
        other = _count(payload)
        if other is not None and other.is_replaced_by(own):
            _replace(connection, record, id_, key, decided)
            since = min(since, received_at)
    if since == record.received_at:
        return record
    connection.execute(
        "UPDATE records SET received_at = :since WHERE id = :id",
        {"since": since, "id": record.id},
    )
    return record._replace(received_at=since)


class _Count(NamedTuple):
    """The stock count of a record; `listed_at` is empty if it is not from a list.

    Counts that arrive `in_order` are entries of a journal, not rows of a list.
    """

    sku: str
    counted_at: str
    listed_at: str
    locator: str
    quantity: int
    in_order: bool

    def is_replaced_by(self, other: _Count) -> bool:
        """Return True unless the other is older, or contradicts this one.

        Rows of one list that disagree are kept until the SKU is known, and are then
        refused together.
        """
        own, new = (each[1:3] for each in (self, other))
        if own != new:
            return own < new
        if other.in_order or (self.locator and self.locator == other.locator):
            return True
        return not self.listed_at and self.quantity == other.quantity


def _count(payload: bytes | str) -> _Count | None:
    """Return the stock count of a payload, None if it is not one."""
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


_HAS_ROW = """
    SELECT 1 FROM quarantine
    WHERE source = 'record' AND name = :instance AND key = :key
"""


def _replace(
    connection: Connection, record: WaitingRecord, id_: int, key: str, decided: int
) -> None:
    connection.execute(
        "UPDATE records SET state = 'replaced' WHERE id = :id", {"id": id_}
    )
    values = {"instance": record.instance, "key": record.key, "other": key}
    own = {"instance": record.instance, "key": record.key}
    if decided and connection.execute(_HAS_ROW, own).fetchone():
        # An operator corrected the other count, and looks for its row.
        connection.execute(
            "UPDATE quarantine SET state = 'retried'"
            " WHERE source = 'record' AND name = :instance AND key = :other",
            {"instance": record.instance, "other": key},
        )
        return
    # The row of the other count takes the place of an earlier row of this one.
    connection.execute(
        """
        DELETE FROM quarantine
        WHERE source = 'record' AND name = :instance AND key = :key AND EXISTS (
          SELECT 1 FROM quarantine q
          WHERE q.source = 'record' AND q.name = :instance AND q.key = :other)
        """,
        values,
    )
    connection.execute(
        "UPDATE quarantine SET key = :key, state = 'retried'"
        " WHERE source = 'record' AND name = :instance AND key = :other",
        values,
    )


CONTRADICTED = "another row of the same list counts this SKU too"
LISTED = """
    SELECT t.id, t.quantity, coalesce(r.locator, ''), t.state, t.reason
    FROM stock_targets t LEFT JOIN records r ON r.command_id = t.id
    WHERE t.variant_id = :variant AND t.as_of = :as_of AND t.store = :store
      AND t.listed_at = :listed_at AND t.instance = :instance
      AND (r.id IS NULL OR r.id != :own) AND t.state != 'discarded'
"""


def levels_listed(
    connection: Connection,
    record: WaitingRecord,
    variant: str,
    as_of: str,
    listed_at: str,
) -> list[ListedLevel]:
    """Return the other targets of a variant from the list of a record.

    Returns none for a record that an operator retried: that record counts.
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
    rows = connection.execute(LISTED, values).fetchall()
    found = [_listed(connection, *row) for row in rows]
    return [each for each in found if each is not None]


def is_decided(connection: Connection, record: WaitingRecord) -> bool:
    """Return True for a record that an operator retried as it is."""
    row = connection.execute(
        "SELECT decided FROM records WHERE id = :id", {"id": record.id}
    ).fetchone()
    return row is not None and row[0] == 1


def _listed(
    connection: Connection,
    target: str,
    quantity: int,
    locator: str,
    state: str,
    reason: str,
) -> ListedLevel | None:
    """Return a target of a list, None if a newer list replaced it."""
    withdrawn = state == TargetState.SUPERSEDED and reason == CONTRADICTED
    if state == TargetState.SUPERSEDED and not withdrawn:
        return None
    can_withdraw = state in OPEN_TARGETS and not _is_in_flight(connection, target)
    return ListedLevel(target, quantity, locator, can_withdraw, withdrawn)


def _is_in_flight(connection: Connection, target: str) -> bool:
    step = adjustments.adjustment_of(connection, target)
    return step is not None and step[1] in adjustments.IN_FLIGHT


def withdraw(connection: Connection, targets: Iterable[str], now: str) -> None:
    """Supersede targets that another row of their list contradicts."""
    for target in targets:
        adjustments.supersede(connection, target, CONTRADICTED, now)
