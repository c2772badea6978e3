"""Erasing a person: from mirror, inbox, records, quarantine, answers and search."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import to_text
from backhaul.core.identity import address_digest
from backhaul.store.customer_erasure import CustomerTrace, ScannedRows
from backhaul.store.operations import AuditEntry
from backhaul.store.sql.customer_erasure.customer_lookup import orders_of, told_of
from backhaul.store.sql.dialect import member
from backhaul.store.sql.operations.audit_log import add_entry
from backhaul.store.sqlite import connections
from backhaul.store.sqlite.full_text import index

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.store.customer_erasure import Eraser
    from backhaul.store.read_models import Describe
    from backhaul.store.sqlite.writer import Writer

FORGET = "forget"
"""Stands in `erased_by` and in the audit."""
BATCH = 64
CHUNK_BYTES = 1 << 20
MERGE_PAGES = 64
_TABLES = {"order": "orders", "customer": "customers"}
_CUSTOMER = """
    SELECT id, document FROM customers
    WHERE store = ?1 AND (id = ?2 OR email = ?2 COLLATE NOCASE)
"""
_ORDERS = "SELECT id, document FROM orders WHERE customer_id = ? AND store = ?"
_FORGET_SIGHTING = (
    "DELETE FROM sightings WHERE kind = 'customers' AND store = ? AND object_id = ?"
)
_ANSWERS = """
    SELECT a.id, a.response FROM attempts a JOIN commands c ON c.id = a.command_id
    WHERE c.target = ? AND c.store = ? AND a.response IS NOT NULL
"""
# Earlier versions kept the answer of what a look sent again under its key.
_LOOKS = f"""
    SELECT l.id, {member("l.read", "$.body")} AS body
    FROM looks l JOIN commands c ON c.id = l.command_id
    WHERE c.target = ? AND c.store = ? AND body IS NOT NULL
"""  # noqa: S608 - constants


class SqlErasure:
    """Every verb is one transaction, as short as the writer's other work."""

    def __init__(self, path: Path, writer: Writer, clock: Clock) -> None:
        self._path = path
        self._writer = writer
        self._clock = clock

    async def find_customer(
        self, store: str, name: str, emails: Collection[str]
    ) -> CustomerTrace | None:
        """Return what is held of the customer, and of guests with these e-mails."""
        return await find_customer(self._path, store, name, emails)

    async def register(
        self, store: str, trace: CustomerTrace, digests: Sequence[bytes]
    ) -> None:
        """From now on the fold redacts this person; addresses are known by digest."""

        def unit(connection: sqlite3.Connection) -> None:
            now = to_text(self._clock.now())
            connection.execute(
                "INSERT OR IGNORE INTO forgotten VALUES (?, ?, ?)",
                (store, trace.customer_id, now),
            )
            connection.execute(_FORGET_SIGHTING, (store, trace.customer_id))
            connection.executemany(
                "INSERT OR IGNORE INTO forgotten_addresses VALUES (?, ?, ?)",
                [(digest, store, trace.customer_id) for digest in digests],
            )

        await self._writer.urgent(unit)

    async def begin(self, store: str, customer_id: str) -> bool:
        """Note that erasing is under way; tell whether it was so already."""

        def unit(connection: sqlite3.Connection) -> bool:
            mark = (_mark(store, customer_id), to_text(self._clock.now()))
            query = "INSERT OR IGNORE INTO marks (name, value) VALUES (?, ?)"
            return connection.execute(query, mark).rowcount == 0

        return await self._writer.urgent(unit)

    async def finish(self, store: str, customer_id: str) -> None:
        """Note that nothing is left to do."""

        def unit(connection: sqlite3.Connection) -> None:
            mark = _mark(store, customer_id)
            connection.execute("DELETE FROM marks WHERE name = ?", (mark,))

        await self._writer.urgent(unit)

    async def redact(
        self, store: str, kind: str, ids: Sequence[str], eraser: Eraser, say: Describe
    ) -> int:
        """Redact customers or orders, their answers, and what they are found by."""

        def unit(connection: sqlite3.Connection) -> int:
            return sum(_redact(connection, store, kind, i, eraser, say) for i in ids)

        return await self._writer.background(unit)

    async def redact_rows(
        self, store: str, table: str, after: int, eraser: Eraser, slice_seconds: float
    ) -> ScannedRows:
        """Redact what `inbox`, `records` or `quarantine` hold beyond a row."""

        def unit(connection: sqlite3.Connection) -> ScannedRows:
            until = self._clock.monotonic() + slice_seconds
            query, erase = _SCANS[table]
            rows = connection.execute(query, (after, BATCH)).fetchall()
            now, changed, last = to_text(self._clock.now()), 0, None
            for last, whose, *values in rows:
                if whose == store:
                    changed += erase(connection, eraser, last, values, now)
                if self._clock.monotonic() >= until:
                    break
            return ScannedRows(last, changed)

        return await self._writer.background(unit)

    async def compact_search(self, *, begin: bool) -> bool:
        """Drop what the index has only marked as gone; True while more is to do."""

        def unit(connection: sqlite3.Connection) -> bool:
            # A negative number first puts all segments on one level, to be merged.
            before = connection.total_changes
            connection.execute(
                "INSERT INTO searchable_fts(searchable_fts, rank) VALUES ('merge', ?)",
                (-MERGE_PAGES if begin else MERGE_PAGES,),
            )
            return connection.total_changes - before >= 2

        return await self._writer.background(unit)

    async def empty_log(self) -> bool:
        """Take the old bytes out of the log file; False where a reader holds it."""
        return await self._writer.checkpoint()

    async def holds(self, texts: Sequence[str]) -> bool:
        """Tell whether the file still holds one of these."""
        return await asyncio.to_thread(holds, self._path, needles_of(texts))

    async def file_bytes(self) -> int:
        """Return how large the file is."""
        return self._path.stat().st_size

    async def rewrite(self) -> None:
        """Write the file anew, without what is in no table any more."""
        await self._writer.vacuum()

    async def audit(self, who: str, action: str, detail: str) -> None:
        """Write down who did what."""
        now, deed = to_text(self._clock.now()), AuditEntry(who, action, detail)
        await self._writer.urgent(lambda connection: add_entry(connection, now, deed))


def _mark(store: str, customer_id: str) -> str:
    """Return the mark of what is not finished; it holds nothing of the person."""
    return f"forgetting {store} {customer_id}"


def needles_of(texts: Iterable[str]) -> list[bytes]:
    """Return how a file may hold these: as they are, in JSON, in JSON within JSON."""
    return sorted({each.encode().lower() for text in texts for each in _spelled(text)})


def _spelled(text: str) -> Iterator[str]:
    for is_ascii in (False, True):
        once = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        yield from (text, once, json.dumps(once, ensure_ascii=is_ascii)[1:-1])


def holds(path: Path, needles: Sequence[bytes]) -> bool:
    """Tell whether a file holds one of these, given in lower case."""
    if not needles or not path.exists():
        return False
    overlap = max(map(len, needles))
    tail = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            window = tail + chunk.lower()
            if any(needle in window for needle in needles):
                return True
            tail = window[-overlap:]
    return False


async def find_customer(
    path: Path, store: str, name: str, emails: Collection[str]
) -> CustomerTrace | None:
    """Return what is held of a customer and of guests with these e-mails.

    It only reads, beside the writer: whatever was committed before is seen.
    """

    def look() -> CustomerTrace | None:
        orders: dict[str, str] = {}
        told: list[str] = []
        for email in emails:
            orders |= orders_of(path, store, email)
            told += told_of(path, store, email)
        with closing(connections.open_reader(path)) as connection:
            return _trace(connection, store, name, orders, told)

    return await asyncio.to_thread(look)


def _trace(
    connection: sqlite3.Connection,
    store: str,
    name: str,
    guest: Mapping[str, str],
    told: Sequence[str],
) -> CustomerTrace | None:
    """Put together what is held; `guest` and `told` were found by an e-mail."""
    found = connection.execute(_CUSTOMER, (store, name)).fetchone()
    ids = (_customer_id(text) for text in (*guest.values(), *told) if "@" in name)
    id_ = found[0] if found else next(filter(None, ids), None)
    id_ = id_ or _known_id(connection, store, name)
    orders = connection.execute(_ORDERS, (id_, store)).fetchall()
    forgotten = connection.execute(
        "SELECT at FROM forgotten WHERE store = ? AND customer_id = ?", (store, id_)
    ).fetchone()
    if not (found or orders or guest or told or forgotten):
        return None
    known = {**dict(orders), **guest}
    documents = (*known.values(), *told, *([found[1]] if found else []))
    return CustomerTrace(
        id_, documents, tuple(known), forgotten[0] if forgotten else ""
    )


def _customer_id(document: str) -> str | None:
    """Return the id of whom an order, or a customer, is about."""
    told = json.loads(document)
    person = told.get("customer", told)
    id_ = person.get("id") if isinstance(person, dict) else None
    return id_ if isinstance(id_, str) else None


def _known_id(connection: sqlite3.Connection, store: str, name: str) -> str:
    """Return an id for who is known by name only: never the e-mail itself."""
    if "@" not in name:
        return name
    digest = address_digest(store, name)
    row = connection.execute(
        "SELECT customer_id FROM forgotten_addresses WHERE digest = ?", (digest,)
    ).fetchone()
    return str(row[0]) if row else f"guest-{digest.hex()[:12]}"


def _redact(
    connection: sqlite3.Connection,
    store: str,
    kind: str,
    id_: str,
    eraser: Eraser,
    say: Describe,
) -> int:
    table = _TABLES[kind]
    row = connection.execute(
        f"SELECT document FROM {table} WHERE store = ? AND id = ?",  # noqa: S608 - constants
        (store, id_),
    ).fetchone()
    if row is None:
        return 0
    document = eraser.document(kind, row[0])
    # The digest is the one that a later read of the redacted object will have.
    columns = ", name = NULL, email = NULL, phone = NULL" if kind == "customer" else ""
    connection.execute(
        f"UPDATE {table} SET document = ?, digest = ?{columns}"  # noqa: S608 - constants
        " WHERE store = ? AND id = ?",
        (document, sha256(document.encode()).digest(), store, id_),
    )
    _redact_answers(connection, store, id_, eraser)
    index(connection, [(kind, store, id_)], say)
    return int(document != row[0])


def _redact_answers(
    connection: sqlite3.Connection, store: str, id_: str, eraser: Eraser
) -> None:
    """Redact what was answered to commands about an object."""
    for answer, response in connection.execute(_ANSWERS, (id_, store)).fetchall():
        left = eraser.body("", response)
        if left is not None:
            connection.execute(
                "UPDATE attempts SET response = ? WHERE id = ?", (left, answer)
            )
    for look, body in connection.execute(_LOOKS, (id_, store)).fetchall():
        left = eraser.body("", body.encode())
        if left is not None:
            connection.execute(
                "UPDATE looks SET read = json_set(read, '$.body', ?) WHERE id = ?",
                (left.decode(), look),
            )


def _erase_event(
    connection: sqlite3.Connection,
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
        "UPDATE inbox SET body = ?, erased_at = ?, erased_by = ? WHERE id = ?",
        (left, now, FORGET, id_),
    )
    return 1


def _erase_record(
    connection: sqlite3.Connection,
    eraser: Eraser,
    id_: int,
    values: Sequence[Any],
    _: str,
) -> int:
    texts = [eraser.text(value) for value in values]
    if texts == [None] * len(texts):
        return 0
    left = [text or old for text, old in zip(texts, values, strict=True)]
    connection.execute(
        "UPDATE records SET raw = ?, payload = ? WHERE id = ?", (*left, id_)
    )
    return 1


def _erase_quarantined(
    connection: sqlite3.Connection,
    eraser: Eraser,
    id_: int,
    values: Sequence[Any],
    _: str,
) -> int:
    (raw,) = values
    left = eraser.text(raw) if isinstance(raw, str) else eraser.body("", raw)
    if left is None:
        return 0
    connection.execute("UPDATE quarantine SET raw = ? WHERE id = ?", (left, id_))
    return 1


# Every store's rows are gone through, so that a slice is short whoever they belong to.
_SCANS: Mapping[str, tuple[str, Callable[..., int]]] = {
    "inbox": (
        "SELECT id, store, topic, body FROM inbox WHERE id > ? ORDER BY id LIMIT ?",
        _erase_event,
    ),
    "records": (
        "SELECT id, store, raw, payload FROM records WHERE id > ? ORDER BY id LIMIT ?",
        _erase_record,
    ),
    # A record in quarantine bears its connector's name: the record knows the store.
    "quarantine": (
        "SELECT q.id, coalesce(r.store, q.name), q.raw FROM quarantine q"
        " LEFT JOIN records r"
        " ON q.source = 'record' AND r.instance = q.name AND r.key = q.key"
        " WHERE q.id > ? ORDER BY q.id LIMIT ?",
        _erase_quarantined,
    ),
}
