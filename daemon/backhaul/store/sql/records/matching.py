"""What becomes of a record that is matched with the mirror.

It plans a command or a stock target, or sets the tracking status of parcels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backhaul.core.lifecycle import Cause, State
from backhaul.core.stock import ListEnd
from backhaul.store.mappings import MappingKind
from backhaul.store.matching import NewTarget
from backhaul.store.records import (
    Known,
    Matched,
    ReasonClass,
    RecordOutcome,
    Tracked,
    Unmatched,
)
from backhaul.store.sql.commands.planning import plan
from backhaul.store.sql.commands.rows import transition
from backhaul.store.sql.dialect import document_of, is_damaged
from backhaul.store.sql.inbox import quarantine
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.stock_targets.count_coalescing import (
    replace_older_counts,
    withdraw,
)
from backhaul.store.sql.stock_targets.full_lists import conclude_list
from backhaul.store.sql.stock_targets.repository import plan_target
from backhaul.store.sql.stock_targets.rows import KIND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.store.mappings import UsedMapping
    from backhaul.store.matching import WaitingRecord
    from backhaul.store.records import MatchOne
    from backhaul.store.sql.family import Connection, Engine

_CONCLUDE = """
    UPDATE records SET state = :state, reason = :reason, command_id = :command
    WHERE id = :id
"""
_DATE = "UPDATE commands SET caused_at = :at WHERE id = :id"
_DATE_COUNT = "UPDATE stock_targets SET caused_at = :at WHERE id = :id"
# An update of the state, even to the same, writes every index over states.
_KEEP_WAITING = """
    UPDATE records SET reason = :reason WHERE id = :id AND reason != :reason
"""
# A command made from a damaged key would be a second one for the same row.
_DAMAGED = (
    "the record is damaged in the database and cannot be carried out; submit its row"
    " again"
)

# A status only moves forward: a late or lower one changes nothing.
_ADVANCE = """
    INSERT INTO parcels (store, shipment_id, order_id, tracking_number, status, "rank",
                         at, instance)
    VALUES (:store, :parcel, :order, :number, :status, :rank, :at, :instance)
    ON CONFLICT (store, shipment_id) DO UPDATE SET
        status = excluded.status, "rank" = excluded."rank", at = excluded.at,
        instance = excluded.instance
    WHERE excluded."rank" > parcels."rank"
"""
_NOT_RETURNED = """
    SELECT count(*) AS parcels FROM shipments s
    WHERE s.store = :store AND s.order_id = :order
    AND NOT EXISTS (SELECT 1 FROM parcels p WHERE p.store = s.store
                    AND p.shipment_id = s.id AND p.status = 'returned')
"""
_PLANNED = "SELECT seq FROM commands WHERE id = :id AND state = 'planned'"


class Matching:
    """Matches records in one transaction and plans their commands."""

    def __init__(
        self, connection: Connection, engine: Engine, match_one: MatchOne, now: str
    ) -> None:
        self._connection = connection
        self._engine = engine
        self._match_one = match_one
        self.now = now

    def match(self, record: WaitingRecord) -> RecordOutcome:
        """Match one record; quarantine it if that fails, so that others go on."""
        self._connection.execute("SAVEPOINT record")
        try:
            outcome = self._match(record)
        except Exception as error:
            if self._engine.concerns_the_file(error):
                raise
            self._connection.execute("ROLLBACK TO record")
            reason = f"cannot be matched: {type(error).__name__}: {error}"
            outcome = self._keep(record, Unmatched(reason, final=True))
        self._connection.execute("RELEASE record")
        return outcome

    def _match(self, record: WaitingRecord) -> RecordOutcome:
        connection, now = self._connection, self.now
        place = (record.store, record.instance, record.key, record.received_at)
        if any(map(is_damaged, place)):
            return self._keep(
                record, Unmatched(_DAMAGED, final=True, reason_class=ReasonClass.VALUE)
            )
        record = replace_older_counts(connection, record)
        found = self._match_one(record, MirrorReader(connection, record))
        if isinstance(found, Matched):
            return self._plan(record, found)
        if isinstance(found, Known):
            self._conclude(record, "accepted", found.reason, found.command_id)
            return RecordOutcome(record, "duplicate", found.reason)
        if isinstance(found, Tracked):
            said = _track(connection, record, found, now)
            self._conclude(record, "accepted", said)
            return RecordOutcome(record, "accepted", said)
        if isinstance(found, ListEnd):
            done = conclude_list(connection, record, found, now)
            if isinstance(done, str):
                self._conclude(record, "accepted", done)
                return RecordOutcome(record, "accepted", done)
            found = done
        return self._keep(record, found)

    def _plan(self, record: WaitingRecord, found: Matched) -> RecordOutcome:
        new, store, instance = found.new, record.store, record.instance
        cause = f"record {instance} {record.locator or record.key}"
        if found.mappings:
            said = "; ".join(each.in_words() for each in found.mappings)
            cause += f" ({said})"
            self._note_mappings(record, found.mappings)
        where = (self._connection, store, instance)
        if isinstance(new, NewTarget):
            plan_target(*where, new, cause, self.now, record.traceparent)
            what, date = f"{KIND} {new.product_id}", _DATE_COUNT
        else:
            plan(*where, new, cause, self.now, record.traceparent)
            what, date = f"{new.kind} {new.target}", _DATE
        self._date_back(record, new.id, date)
        self._conclude(record, "accepted", found.note, new.id)
        said = "; ".join(filter(None, (what, found.note)))
        return RecordOutcome(record, "accepted", said)

    def _date_back(self, record: WaitingRecord, command: str, date: str) -> None:
        """Record when a record that waited was submitted: later counts include it."""
        (caused_at,) = self._connection.execute(
            "SELECT coalesce(caused_at, received_at) FROM records WHERE id = :id",
            {"id": record.id},
        ).fetchone()
        if caused_at != self.now:
            self._connection.execute(date, {"at": caused_at, "id": command})

    def _keep(self, record: WaitingRecord, found: Unmatched) -> RecordOutcome:
        connection, reason = self._connection, found.reason
        if not found.final:
            connection.execute(_KEEP_WAITING, {"reason": reason, "id": record.id})
            return RecordOutcome(record, "waiting", reason)
        withdraw(connection, found.withdraw, self.now)
        self._conclude(record, "quarantined", reason)
        if found.asks:
            self._note_question(record)
        (raw,) = connection.execute(
            "SELECT raw FROM records WHERE id = :id", {"id": record.id}
        ).fetchone()
        quarantine_record(connection, record, raw, found, self.now)
        return RecordOutcome(record, "quarantined", reason)

    def _note_question(self, record: WaitingRecord) -> None:
        """Record that an operator was asked: a retry of the record is the answer."""
        self._note(record, "asked", True)

    def _note_mappings(
        self, record: WaitingRecord, mappings: Iterable[UsedMapping]
    ) -> None:
        """Record how SKUs were read: a mapping may be changed or removed later."""
        skus = {m.alias: m.name for m in mappings if m.kind is MappingKind.SKU}
        if skus:
            self._note(record, "read_as", skus)

    def _note(self, record: WaitingRecord, name: str, value: object) -> None:
        document = document_of(record.payload)
        if document:
            payload = msgspec.json.encode(document | {name: value}).decode()
            self._connection.execute(
                "UPDATE records SET payload = :payload WHERE id = :id",
                {"payload": payload, "id": record.id},
            )

    def _conclude(
        self,
        record: WaitingRecord,
        state: str,
        reason: str,
        command_id: str | None = None,
    ) -> None:
        values = {"state": state, "reason": reason, "command": command_id}
        self._connection.execute(_CONCLUDE, {**values, "id": record.id})


def quarantine_record(
    connection: Connection, record: WaitingRecord, raw: str, why: Unmatched, now: str
) -> None:
    """Put a record into the quarantine."""
    row = quarantine.NewRow(
        "record",
        record.instance,
        record.key,
        raw,
        record.locator,
        why.reason,
        why.reason_class,
        why.subject,
    )
    quarantine.add(connection, row, now)


def _track(
    connection: Connection, record: WaitingRecord, found: Tracked, now: str
) -> str:
    """Save the status of the parcels; return the result in words for an operator."""
    advanced = 0
    for parcel in found.parcels:
        values = {
            "store": record.store,
            "parcel": parcel.id,
            "order": parcel.order_id,
            "number": found.tracking_number,
            "status": found.status,
            "rank": found.rank,
            "at": found.at,
            "instance": record.instance,
        }
        advanced += connection.execute(_ADVANCE, values).rowcount
    name = found.parcels[0].order_name
    if not advanced:
        return f"a parcel of order {name} already had this status or a later one"
    result = f"a parcel of order {name} is {found.status}"
    return f"{result}{_cancel_returned(connection, record, found, now)}"


def _cancel_returned(
    connection: Connection, record: WaitingRecord, found: Tracked, now: str
) -> str:
    cancel = found.cancel
    if cancel is None:
        return ""
    place = {"store": record.store, "order": cancel.target}
    (others,) = connection.execute(_NOT_RETURNED, place).fetchone()
    if others and not found.propose:
        return f"; {others} of its parcels did not come back"
    # An operator's later decision, or a command under way, must stay.
    known = "SELECT 1 FROM commands WHERE id = :id"
    if connection.execute(known, {"id": cancel.id}).fetchone():
        return "; the cancellation was already requested"
    cause = f"parcel {found.tracking_number} came back ({record.instance})"
    where = (record.store, record.instance)
    plan(connection, *where, cancel, cause, now, record.traceparent)
    if not found.propose:
        return "; Backhaul cancels the order"
    reason = (
        f"Backhaul proposes to cancel the order: {cause}. To cancel, resend the"
        " command. Otherwise discard it"
    )
    planned = connection.execute(_PLANNED, {"id": cancel.id}).fetchone()
    if planned is not None:
        causes = (Cause.PERSON_PARKS,)
        transition(connection, planned[0], State.PLANNED, causes, now, reason=reason)
    return "; Backhaul proposes to cancel the order"
