"""What becomes of records that a connector submits: new ones, and known keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from backhaul.store.matching import WaitingRecord
from backhaul.store.records import ReasonClass, RecordOutcome, Unmatched
from backhaul.store.sql.commands.shipment_parts import (
    MERGED,
    record_parts,
    split_shipment,
)
from backhaul.store.sql.dialect import as_bytes, new_id
from backhaul.store.sql.records.content import (
    content_of,
    difference,
    digest_of,
    is_spelled_otherwise,
)
from backhaul.store.sql.records.matching import quarantine_record

if TYPE_CHECKING:
    from backhaul.store.records import NewRecord
    from backhaul.store.sql.family import Connection
    from backhaul.store.sql.records.matching import Matching

OTHER = "an earlier record with the same key has other content; the earlier counts"
GIVEN_UP = "an operator discarded an earlier record with the same key and other content"
KEPT_BY_CONNECTOR = b'{"kind":"kept","record":{}}'
"""The payload of a bad row that its connector can apply as it is."""
_ADD = f"""
    INSERT INTO records (instance, store, key, payload, raw, locator, state, reason,
                         received_at, retry_at, caused_at, traceparent)
    VALUES (:instance, :store, :key, :payload, :raw, :locator, :state, :reason,
            :now, :now, :now, :traceparent)
    ON CONFLICT (instance, key) DO NOTHING {new_id("id")}
"""  # noqa: S608 - constants
_KNOWN = """
    SELECT id, payload, raw, state, EXISTS (
        SELECT 1 FROM quarantine q WHERE q.source = 'record' AND q.name = r.instance
        AND q.key = r.key AND q.state = 'retried')
    FROM records r WHERE instance = :instance AND key = :key
"""
_RENEW = """
    UPDATE records SET state = 'waiting', reason = '', payload = :payload, raw = :raw,
      decided = 0, locator = :locator, received_at = :now, retry_at = :now
    WHERE id = :id
"""
_RELEASE = """
    UPDATE quarantine SET state = 'retried'
    WHERE source = 'record' AND name = :instance AND key = :key
"""


class _Known(NamedTuple):
    """The record stored under a key; `again` if it was quarantined and then retried."""

    id: int
    payload: bytes
    raw: str
    state: str
    again: bool


class Acceptance:
    """Accepts the records of one connection in one transaction."""

    def __init__(
        self, connection: Connection, instance: str, store: str, matching: Matching
    ) -> None:
        self._connection = connection
        self._instance = instance
        self._store = store
        self._matching = matching
        self._now = matching.now

    def accept(self, new: NewRecord) -> RecordOutcome:
        """Accept a record, or the parts of it that no other record has."""
        found = None
        if new.payload is not None:
            found = split_shipment(self._connection, self._instance, new)
        if found is None:
            return self._accept_one(new)
        outcomes: list[RecordOutcome] = []
        if found.new is not None:
            outcomes.append(self._accept_one(found.new))
        for other, state, known in found.contradicted:
            record = self._record(other.key, other.payload or b"null", new)
            outcomes.append(self._contradict(record, other, state, known))
        if not outcomes:
            record = self._record(new.key, b"null", new)
            return RecordOutcome(record, "duplicate", "known already")
        return msgspec.structs.replace(outcomes[0], also=tuple(outcomes[1:]))

    def _record(self, key: str, payload: bytes, new: NewRecord) -> WaitingRecord:
        return WaitingRecord(
            0,
            self._instance,
            self._store,
            key,
            payload,
            new.locator,
            self._now,
            new.traceparent,
        )

    def _accept_one(self, new: NewRecord) -> RecordOutcome:
        unusable = KEPT_BY_CONNECTOR if new.can_apply else new.read or b"null"
        payload = new.payload or unusable
        record = self._record(new.key, payload, new)
        state = "quarantined" if new.payload is None else "waiting"
        id_ = self._add(record, new, state, new.reason)
        if id_ is None:
            return self._accept_known(record, new)
        record = record._replace(id=id_)
        record_parts(self._connection, self._instance, id_, payload)
        if new.payload is None:
            self._quarantine(record, new, new.reason, _class_of_bad(new))
            return RecordOutcome(record, "quarantined", new.reason)
        return self._matching.match(record)

    def _add(
        self, record: WaitingRecord, new: NewRecord, state: str, reason: str
    ) -> int | None:
        """Store a record; return its id, None if its key is known."""
        values = {
            "instance": record.instance,
            "store": record.store,
            "key": record.key,
            "payload": record.payload.decode(),
            "raw": new.raw,
            "locator": new.locator,
            "state": state,
            "reason": reason,
            "now": record.received_at,
            "traceparent": record.traceparent,
        }
        added = self._connection.execute(_ADD, values)
        return added.lastrowid if added.rowcount else None

    def _accept_known(self, record: WaitingRecord, new: NewRecord) -> RecordOutcome:
        """Accept a known key: again while it has no command, so that none is doubled.

        A quarantined record that is submitted again was edited, or lacked an answer. A
        waiting record is only replaced by other content.
        """
        known = self._known(record)
        same = new.payload is None or _says_the_same(known, new, new.payload)
        if (known.state in {"quarantined", MERGED} and new.payload is not None) or (
            known.state == "waiting" and not same
        ):
            return self._renew(record._replace(id=known.id), new)
        if not same and not is_spelled_otherwise(known.payload, record.payload):
            return self._contradict(record, new, known.state, known.payload)
        dropped = known.state == "dropped"
        reason = "discarded by an operator" if dropped else "known already"
        return RecordOutcome(record, "duplicate", reason)

    def _known(self, record: WaitingRecord) -> _Known:
        values = {"instance": record.instance, "key": record.key}
        row = self._connection.execute(_KNOWN, values).fetchone()
        id_, payload, raw, state, again = row
        return _Known(id_, as_bytes(payload), raw, state, bool(again))

    def _renew(self, record: WaitingRecord, new: NewRecord) -> RecordOutcome:
        values = {
            "payload": record.payload.decode(),
            "raw": new.raw,
            "locator": new.locator,
            "now": record.received_at,
            "id": record.id,
        }
        self._connection.execute(_RENEW, values)
        key = {"instance": record.instance, "key": record.key}
        self._connection.execute(_RELEASE, key)
        return self._matching.match(record)

    def _contradict(
        self, record: WaitingRecord, new: NewRecord, state: str, known: str | bytes
    ) -> RecordOutcome:
        """Quarantine other content under a known key, once, as a record of its own.

        An operator may drop it, or have it carried out beside the first.
        """
        reason = GIVEN_UP if state == "dropped" else OTHER
        reason += difference(known, record.payload)
        other = record._replace(key=f"{record.key}~{digest_of(record.payload)}")
        if self._add(other, new, "quarantined", reason) is None:
            return RecordOutcome(record, "duplicate", reason)
        self._quarantine(other, new, reason, ReasonClass.DUPLICATE)
        return RecordOutcome(record, "conflict", reason)

    def _quarantine(
        self,
        record: WaitingRecord,
        new: NewRecord,
        reason: str,
        reason_class: ReasonClass,
    ) -> None:
        why = Unmatched(reason, final=True, reason_class=reason_class)
        quarantine_record(self._connection, record, new.raw, why, self._now)


def _class_of_bad(new: NewRecord) -> ReasonClass:
    """Return why a bad row is in quarantine: an operator decides, or it is wrong."""
    return ReasonClass.NEEDS_DECISION if new.can_apply else ReasonClass.VALUE


def _says_the_same(known: _Known, new: NewRecord, payload: bytes) -> bool:
    """Return True if a record was submitted again, False if another has its key.

    A record that an operator edited differs from the row that it came from.
    """
    is_same_row = known.again and known.raw == new.raw != ""
    return is_same_row or content_of(known.payload) == content_of(payload)
