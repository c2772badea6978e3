"""Erases a customer: mirror, inbox, records, quarantine, responses and search."""

from __future__ import annotations

import json
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from backhaul.store.customer_erasure import CustomerTrace, ScannedRows
from backhaul.store.operations import AuditEntry
from backhaul.store.sql.customer_erasure import customer_lookup
from backhaul.store.sql.dialect import document_of, has
from backhaul.store.sql.family import Family, background, read, write
from backhaul.store.sql.mirror.rows import document_text
from backhaul.store.sql.mirror.search_index import index_objects
from backhaul.store.sql.operations.operators import add_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from backhaul.core.clock import Clock
    from backhaul.store.customer_erasure import Eraser
    from backhaul.store.read_models import Describe
    from backhaul.store.sql.family import Connection, Engine

ERASED_BY = "forget"
"""The value of `erased_by` for an event that was erased for a customer."""
BATCH = 64
_ADD_CUSTOMER = """
    INSERT INTO erased_customers (store, customer_id, at)
    VALUES (:store, :customer, :now)
    ON CONFLICT (store, customer_id) DO NOTHING
"""
_ADD_EMAIL = """
    INSERT INTO erased_emails (digest, store, customer_id)
    VALUES (:digest, :store, :customer) ON CONFLICT (digest) DO NOTHING
"""
_UNSEE = """
    DELETE FROM pass_seen
    WHERE kind = 'customers' AND store = :store AND object_id = :customer
"""
_BEGIN = """
    INSERT INTO kv (name, value) VALUES (:name, :now) ON CONFLICT (name) DO NOTHING
"""
_UPDATES = {
    "order": """
        UPDATE orders SET document = :document, digest = :digest
        WHERE store = :store AND id = :id
    """,
    "customer": """
        UPDATE customers SET document = :document, digest = :digest, name = NULL,
            email = NULL, phone = NULL
        WHERE store = :store AND id = :id
    """,
}
_RESPONSES = """
    SELECT a.id, a.response FROM attempts a JOIN commands c ON c.id = a.command_id
    WHERE c.target = :id AND c.store = :store AND a.response IS NOT NULL
"""
# Earlier versions kept the response to a check that sent the command again.
_CHECKS = f"""
    SELECT l.id, l.read FROM resolution_checks l JOIN commands c ON c.id = l.command_id
    WHERE c.target = :id AND c.store = :store AND {has("l.read", "$.body")}
"""  # noqa: S608 - a fragment


class SqlErasure(Family):
    """Redacts rows in slices; an engine adds what is left in its files."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine)
        self._clock = clock

    def _search(
        self, connection: Connection, text: str
    ) -> Iterable[tuple[str, str, str]]:
        """Return the store, id and name of customers with these words."""
        raise NotImplementedError

    @read
    def find_customer(
        self, connection: Connection, store: str, name: str, emails: Collection[str]
    ) -> CustomerTrace | None:
        return customer_lookup.find_customer(connection, store, name, emails)

    @read
    def nearest(
        self, connection: Connection, store: str, typed: str
    ) -> Mapping[str, str]:
        return customer_lookup.nearest(connection, store, typed, self._search)

    @write
    def register(
        self,
        connection: Connection,
        store: str,
        trace: CustomerTrace,
        digests: Sequence[bytes],
    ) -> None:
        customer = {"store": store, "customer": trace.customer_id}
        connection.execute(_ADD_CUSTOMER, {**customer, "now": self._now()})
        connection.execute(_UNSEE, customer)
        connection.executemany(
            _ADD_EMAIL, [{**customer, "digest": digest} for digest in digests]
        )

    @write
    def begin(self, connection: Connection, store: str, customer_id: str) -> bool:
        values = {"name": _mark(store, customer_id), "now": self._now()}
        return connection.execute(_BEGIN, values).rowcount == 0

    @write
    def finish(self, connection: Connection, store: str, customer_id: str) -> None:
        values = {"name": _mark(store, customer_id)}
        connection.execute("DELETE FROM kv WHERE name = :name", values)

    @background
    def redact(
        self,
        connection: Connection,
        store: str,
        kind: str,
        ids: Sequence[str],
        eraser: Eraser,
        say: Describe,
    ) -> int:
        return sum(_redact(connection, kind, store, id_, eraser, say) for id_ in ids)

    @background
    def redact_rows(
        self,
        connection: Connection,
        store: str,
        table: str,
        after: int,
        eraser: Eraser,
        slice_seconds: float,
    ) -> ScannedRows:
        until = self._clock.monotonic() + slice_seconds
        query, erase = _TABLES[table]
        rows = connection.execute(query, {"after": after, "most": BATCH}).fetchall()
        now, changed, last = self._now(), 0, None
        for last, its_store, *values in rows:
            if its_store in {store, None}:
                changed += erase(connection, eraser, last, values, now)
            if self._clock.monotonic() >= until:
                break
        return ScannedRows(last, changed)

    @write
    def audit(self, connection: Connection, who: str, action: str, detail: str) -> None:
        add_entry(connection, self._now(), AuditEntry(who, action, detail))


def _mark(store: str, customer_id: str) -> str:
    """Return the key of an unfinished erasure; it contains no personal data."""
    return f"forgetting {store} {customer_id}"


def _redact(
    connection: Connection,
    kind: str,
    store: str,
    id_: str,
    eraser: Eraser,
    say: Describe,
) -> int:
    place = {"store": store, "id": id_}
    text = document_text(connection, kind, store, id_)
    if text is None:
        return 0
    document = eraser.document(kind, text)
    # A later read of the redacted object has the same digest.
    digest = sha256(document.encode()).digest()
    values = {**place, "document": document, "digest": digest}
    connection.execute(_UPDATES[kind], values)
    _redact_responses(connection, place, eraser)
    index_objects(connection, [(kind, store, id_)], say)
    return int(document != text)


def _redact_responses(
    connection: Connection, place: dict[str, str], eraser: Eraser
) -> None:
    """Redact the responses to commands about an object."""
    for attempt, response in connection.execute(_RESPONSES, place).fetchall():
        left = eraser.body("", response)
        if left is not None:
            connection.execute(
                "UPDATE attempts SET response = :left WHERE id = :id",
                {"left": left, "id": attempt},
            )
    for check, text in connection.execute(_CHECKS, place).fetchall():
        left_text = _redacted_check(text, eraser)
        if left_text is not None:
            connection.execute(
                "UPDATE resolution_checks SET read = :read WHERE id = :id",
                {"read": left_text, "id": check},
            )


def _redacted_check(text: str, eraser: Eraser) -> str | None:
    """Return a check without the customer; an empty one if it is damaged."""
    found = document_of(text)
    if not found:
        return "{}"
    left = eraser.body("", str(found["body"]).encode())
    if left is None:
        return None
    return json.dumps({**found, "body": left.decode()}, ensure_ascii=False)


def _erase_event(
    connection: Connection,
    eraser: Eraser,
    id_: int,
    values: Sequence[Any],
    now: str,
) -> int:
    topic, body = values
    left = eraser.body(topic, body)
    if left is None:
        return 0
    connection.execute(
        "UPDATE inbox SET body = :left, digest = NULL, erased_at = :now,"
        " erased_by = :reason WHERE id = :id",
        {"left": left, "now": now, "reason": ERASED_BY, "id": id_},
    )
    return 1


def _erase_record(
    connection: Connection,
    eraser: Eraser,
    id_: int,
    values: Sequence[Any],
    _: str,
) -> int:
    texts = [eraser.text(value) for value in values]
    if texts == [None] * len(texts):
        return 0
    raw, payload = texts
    # What does not mention the customer stays as it is, also if it is damaged.
    connection.execute(
        "UPDATE records SET raw = coalesce(:raw, raw),"
        " payload = coalesce(:payload, payload) WHERE id = :id",
        {"raw": raw, "payload": payload, "id": id_},
    )
    return 1


def _erase_quarantined(
    connection: Connection,
    eraser: Eraser,
    id_: int,
    values: Sequence[Any],
    _: str,
) -> int:
    raw, *texts = values
    left = eraser.text(raw) if isinstance(raw, str) else eraser.body("", raw)
    reason, subject = map(eraser.text, texts)
    if left is None and reason is None and subject is None:
        return 0
    connection.execute(
        "UPDATE quarantine SET raw = coalesce(:raw, raw),"
        " reason = coalesce(:reason, reason), subject = coalesce(:subject, subject)"
        " WHERE id = :id",
        {"raw": left, "reason": reason, "subject": subject, "id": id_},
    )
    return 1


def _erase_reason(
    table: str,
    key: str,
    connection: Connection,
    eraser: Eraser,
    id_: int,
    values: Sequence[Any],
    _: str,
) -> int:
    """Redact the answer of the back office in a delivery, or in its attempt."""
    if (left := eraser.text(values[0])) is None:
        return 0
    connection.execute(
        f"UPDATE {table} SET reason = :left WHERE {key} = :id",  # noqa: S608 - constants
        {"left": left, "id": id_},
    )
    return 1


def _delete_view(
    connection: Connection,
    eraser: Eraser,
    id_: int,
    values: Sequence[Any],
    _: str,
) -> int:
    """Delete a saved view that names the customer: without the name it is useless."""
    if all(eraser.text(value) is None for value in values):
        return 0
    connection.execute("DELETE FROM saved_views WHERE id = :id", {"id": id_})
    return 1


# The rows of all stores, so that each slice is short.
_TABLES: Mapping[str, tuple[str, Callable[..., int]]] = {
    "inbox": (
        "SELECT id, store, topic, body FROM inbox WHERE id > :after"
        " ORDER BY id LIMIT :most",
        _erase_event,
    ),
    "records": (
        "SELECT id, store, raw, payload FROM records WHERE id > :after"
        " ORDER BY id LIMIT :most",
        _erase_record,
    ),
    # A record in quarantine has its connection's name, and the record has the store.
    "quarantine": (
        "SELECT q.id, coalesce(r.store, q.name), q.raw, q.reason, q.subject"
        " FROM quarantine q"
        " LEFT JOIN records r"
        " ON q.source = 'record' AND r.instance = q.name AND r.key = q.key"
        " WHERE q.id > :after ORDER BY q.id LIMIT :most",
        _erase_quarantined,
    ),
    "deliveries": (
        "SELECT seq, store, reason FROM deliveries WHERE seq > :after"
        " ORDER BY seq LIMIT :most",
        partial(_erase_reason, "deliveries", "seq"),
    ),
    "delivery_attempts": (
        "SELECT a.id, d.store, a.reason FROM delivery_attempts a"
        " JOIN deliveries d ON d.seq = a.delivery WHERE a.id > :after"
        " ORDER BY a.id LIMIT :most",
        partial(_erase_reason, "delivery_attempts", "id"),
    ),
    "saved_views": (
        "SELECT id, NULL AS store, filter, name FROM saved_views WHERE id > :after"
        " ORDER BY id LIMIT :most",
        _delete_view,
    ),
}
