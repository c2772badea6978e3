"""Records from connectors, stored, matched and planned; documents that they keep."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from backhaul.core.clock import from_text, to_text
from backhaul.store.matching import WaitingRecord
from backhaul.store.records import RejectedRow
from backhaul.store.sql.dialect import as_bytes, elements, is_damaged
from backhaul.store.sql.family import Family, background, write
from backhaul.store.sql.inbox.quarantine import text_of
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.records import submission
from backhaul.store.sql.records.acceptance import Acceptance
from backhaul.store.sql.records.matching import Matching
from backhaul.store.sql.stock_targets import held_targets
from backhaul.store.sql.stock_targets.full_lists import note_listed
from backhaul_sdk.database import MOST_LISTED, end_of_prefix, require_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from backhaul.store.records import MatchOne, NewRecord, RecordOutcome, Submitted
    from backhaul.store.sql.family import Connection
    from backhaul_sdk import Documents, NameInStore

T = TypeVar("T")
SHORTEST_WAIT = timedelta(milliseconds=50)
LONGEST_WAIT = timedelta(seconds=1)
"""A record waits for its next try as long as it has waited: its order is a moment
behind, or far away."""
_PUT_CURSOR = """
    INSERT INTO cursors (instance, value) VALUES (:instance, :cursor)
    ON CONFLICT (instance) DO UPDATE SET value = excluded.value
"""
# A time beyond the longest wait was written before the clock was set back.
_IS_OURS = f"""
    (:stores IS NULL OR store IN (SELECT value FROM {elements(":stores", "$")}))
"""  # noqa: S608 - a fragment
_WAITING = f"""
    SELECT id, instance, store, key, payload, locator, received_at, traceparent
    FROM records
    WHERE state = 'waiting' AND (retry_at <= :now OR retry_at > :longest) AND {_IS_OURS}
    ORDER BY retry_at LIMIT :limit
"""  # noqa: S608 - constants
_ANY_WAITING = f"""
    SELECT 1 FROM records WHERE state = 'waiting' AND {_IS_OURS} LIMIT 1
"""  # noqa: S608 - constants
APPROVED = """
    SELECT id, key, raw, reason, locator FROM records
    WHERE instance = :instance AND state = 'approved' ORDER BY id
"""
UNREPORTED = """
    SELECT id, key, raw, reason, locator FROM quarantine
    WHERE source = 'record' AND name = :instance AND reported = 0
    ORDER BY id LIMIT :limit
"""
_MARK_APPLIED = """
    UPDATE records SET state = 'accepted', reason = 'applied by decision'
    WHERE id = :id AND state = 'approved'
"""


class SqlRecords(Family):
    """Records in a table, with their keys."""

    @write
    def cursor(self, connection: Connection, instance: str) -> str | None:
        row = connection.execute(
            "SELECT value FROM cursors WHERE instance = :instance",
            {"instance": instance},
        ).fetchone()
        return row[0] if row else None

    @write
    def accept(
        self,
        connection: Connection,
        instance: str,
        store: str,
        records: Sequence[NewRecord],
        cursor: str | None,
        match_one: MatchOne,
    ) -> list[RecordOutcome]:
        if cursor is not None:
            _put_cursor(connection, instance, cursor)
        matching = Matching(connection, self._engine, match_one, self._now())
        acceptance = Acceptance(connection, instance, store, matching)
        outcomes = []
        for record in records:
            outcomes.append(acceptance.accept(record))
            note_listed(connection, outcomes[-1].record)
        return outcomes

    @write
    def submit(
        self,
        connection: Connection,
        instance: str,
        store: str,
        record: NewRecord,
        match_one: MatchOne,
    ) -> Submitted:
        matching = Matching(connection, self._engine, match_one, self._now())
        acceptance = Acceptance(connection, instance, store, matching)
        return submission.submit(connection, instance, store, record, acceptance)

    @write
    def must_read_stock_list(self, connection: Connection, instance: str) -> bool:
        return held_targets.must_read_list(connection, instance)

    @write
    def begin_stock_list(
        self, connection: Connection, instance: str, cursor: str | None
    ) -> None:
        held_targets.note_list_read(connection, instance)
        if cursor is not None:
            _put_cursor(connection, instance, cursor)

    @background
    def match(
        self, connection: Connection, match_one: MatchOne, limit: int
    ) -> list[RecordOutcome]:
        now = self._now()
        moment = from_text(now)
        longest = to_text(moment + LONGEST_WAIT)
        values = {"now": now, "longest": longest, "limit": limit}
        values |= {"stores": self._owned()}
        waiting = [
            WaitingRecord(id_, instance, store, key, as_bytes(payload), *place)
            for id_, instance, store, key, payload, *place in connection.execute(
                _WAITING, values
            ).fetchall()
        ]
        connection.executemany(
            "UPDATE records SET retry_at = :retry_at WHERE id = :id",
            [{"retry_at": _retry_at(each, moment), "id": each.id} for each in waiting],
        )
        matching = Matching(connection, self._engine, match_one, now)
        outcomes = [matching.match(record) for record in waiting]
        for record in waiting:
            note_listed(connection, record)
        return outcomes

    @write
    def find_names(
        self,
        connection: Connection,
        store: str,
        names: Sequence[str],
        instance: str = "",
    ) -> dict[str, NameInStore]:
        reader = MirrorReader(connection, instance=instance)
        return {name: reader.named(store, name) for name in names}

    @background
    def any_waiting(self, connection: Connection) -> bool:
        found = connection.execute(_ANY_WAITING, {"stores": self._owned()})
        return found.fetchone() is not None

    @write
    def unreported(
        self, connection: Connection, instance: str, limit: int
    ) -> list[RejectedRow]:
        values = {"instance": instance, "limit": limit}
        return [
            RejectedRow(id_, key, text_of(raw), reason, locator)
            for id_, key, raw, reason, locator in connection.execute(UNREPORTED, values)
        ]

    @write
    def mark_reported(self, connection: Connection, ids: Sequence[int]) -> None:
        connection.executemany(
            "UPDATE quarantine SET reported = 1 WHERE id = :id",
            [{"id": id_} for id_ in ids],
        )

    @write
    def approved(self, connection: Connection, instance: str) -> list[RejectedRow]:
        rows = connection.execute(APPROVED, {"instance": instance})
        return [RejectedRow(*row) for row in rows]

    @write
    def mark_applied(self, connection: Connection, id_: int) -> None:
        connection.execute(_MARK_APPLIED, {"id": id_})


def _put_cursor(connection: Connection, instance: str, cursor: str) -> None:
    connection.execute(_PUT_CURSOR, {"instance": instance, "cursor": cursor})


def _retry_at(record: WaitingRecord, now: datetime) -> str:
    """Return when a record is tried again that is tried now."""
    if is_damaged(record.received_at):
        return to_text(now + LONGEST_WAIT)
    waited = now - from_text(record.received_at)
    return to_text(now + min(max(waited, SHORTEST_WAIT), LONGEST_WAIT))


_GET_DOCUMENT = """
    SELECT value FROM connector_documents WHERE instance = :instance AND key = :key
"""
_PUT_DOCUMENT = """
    INSERT INTO connector_documents (instance, key, value)
    VALUES (:instance, :key, :value)
    ON CONFLICT (instance, key) DO UPDATE SET value = excluded.value
"""
_DELETE_DOCUMENT = """
    DELETE FROM connector_documents WHERE instance = :instance AND key = :key
"""
_LIST_DOCUMENTS = """
    SELECT key, value FROM connector_documents
    WHERE instance = :instance AND key >= :prefix AND key > :after AND key < :end
    ORDER BY key LIMIT :limit
"""


class SqlDocuments:
    """The documents of one connection, and the mirror of its store, in a unit."""

    def __init__(
        self, connection: Connection, instance: str, store: str | None
    ) -> None:
        self._connection = connection
        self._instance = instance
        self._store = store

    def get(self, key: str) -> bytes | None:
        values = {"instance": self._instance, "key": key}
        row = self._connection.execute(_GET_DOCUMENT, values).fetchone()
        return None if row is None else bytes(row[0])

    def put(self, key: str, value: bytes) -> None:
        require_key(key)
        values = {"instance": self._instance, "key": key, "value": value}
        self._connection.execute(_PUT_DOCUMENT, values)

    def delete(self, key: str) -> None:
        values = {"instance": self._instance, "key": key}
        self._connection.execute(_DELETE_DOCUMENT, values)

    def list(
        self, prefix: str, *, after: str = "", limit: int = MOST_LISTED
    ) -> Sequence[tuple[str, bytes]]:
        values = {
            "instance": self._instance,
            "prefix": prefix,
            "after": after,
            "end": end_of_prefix(prefix),
            "limit": limit,
        }
        rows = self._connection.execute(_LIST_DOCUMENTS, values).fetchall()
        return [(key, bytes(value)) for key, value in rows]

    def find_in_store(self, names: Sequence[str]) -> Mapping[str, NameInStore] | None:
        if self._store is None:
            return None
        reader = MirrorReader(self._connection, instance=self._instance)
        return {name: reader.named(self._store, name) for name in names}


class SqlConnectorDocuments(Family):
    """Documents of all connections."""

    def transact(
        self, instance: str, store: str | None, work: Callable[[Documents], T]
    ) -> Awaitable[T]:
        return self._engine.write(lambda c: work(SqlDocuments(c, instance, store)))
