"""The quarantine: its rows, the events in it, and what operators do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict

from backhaul.core import strict_json
from backhaul.core.identity import command_id
from backhaul.errors import BackhaulError, Busy, Fatal, Unusable
from backhaul.store.matching import NewCommand
from backhaul.store.operations import AuditEntry
from backhaul.store.records import ChangedRow, QuarantinedRow, RowVerb
from backhaul.store.sql.commands.planning import plan
from backhaul.store.sql.dialect import document_of
from backhaul.store.sql.family import Family, write
from backhaul.store.sql.inbox import unreadable_orders
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.operations.operators import add_entry
from backhaul.store.sql.records.acceptance import KEPT_BY_CONNECTOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul.store.mirror import OrderSummary
    from backhaul.store.records import ReasonClass, RowChange
    from backhaul.store.sql.family import Connection


Row: TypeAlias = dict[str, Any]

MOST = 10_000
"""The events of each state that one question scans, the newest first."""
_ADD = """
    INSERT INTO quarantine (source, name, key, raw, reason, reason_class, subject,
                            locator, at)
    VALUES (:source, :name, :key, :raw, :reason, :reason_class, :subject, :locator,
            :now)
    ON CONFLICT (source, name, key) DO UPDATE SET
        state = 'open', raw = excluded.raw, reason = excluded.reason,
        reason_class = excluded.reason_class, subject = excluded.subject,
        locator = excluded.locator, at = excluded.at, reported = 0
    WHERE quarantine.state = 'retried'
"""
# Only the key of an event is a number.
EVENT_ID = "CASE WHEN q.source = 'event' THEN CAST(q.key AS BIGINT) END"
_QUARANTINED = f"""
    SELECT q.id AS row, q.name AS store, q.raw, o.id AS event, o.kind, o.object_id,
           o.topic, o.detail
    FROM quarantine q JOIN event_outcomes o ON o.id = {EVENT_ID}
    WHERE q.source = 'event' AND o.state = 'quarantined'
    ORDER BY q.id DESC LIMIT :most
"""  # noqa: S608 - constants
_UNHANDLED = """
    SELECT NULL AS row, i.store, i.body AS raw, o.id AS event, o.kind, o.object_id,
           o.topic, o.detail
    FROM event_outcomes o JOIN inbox i ON i.id = o.id
    WHERE o.state = 'unhandled' ORDER BY o.id DESC LIMIT :most
"""
_NAMES = ("name", "number", "externalId", "handle", "title", "email")
_KINDS: Mapping[str, str] = {"product": "product", "level": "product"}
"""The kind of object by which people search for a kind of event."""
_FAMILIES: Mapping[str, str] = {
    "orders": "order",
    "products": "product",
    "inventory": "product",
    "customers": "customer",
}
"""The kind of object by the first part of a topic, if no object could be read."""


class NewRow(Struct, frozen=True):
    """A row to add to the quarantine; `raw` is text for a record, bytes for an event.

    `subject` is the order, SKU or parcel number that the reason is about, if any.
    """

    source: str
    name: str
    key: str
    raw: str | bytes
    locator: str
    reason: str
    reason_class: ReasonClass
    subject: str = ""


def add(connection: Connection, row: NewRow, now: str) -> None:
    """Quarantine a row; reopen a row that was retried."""
    connection.execute(_ADD, {**asdict(row), "now": now})


def text_of(raw: str | bytes) -> str:
    """Return the text of a record's row; SQLite has it as text, and others as bytes."""
    return raw.decode() if isinstance(raw, bytes) else raw


def objects_named(connection: Connection, kind: str, name: str) -> list[Row]:
    """Return the objects of that name that only unusable events name.

    `mirrored` says which event that is. An event whose object could not be read has the
    name as its `id`.
    """
    wanted = {name.casefold(), name.removeprefix("#").casefold()}
    found: dict[tuple[str, str], Row] = {}
    for event in _events(connection):
        texts = {text.casefold() for text in event.texts}
        # An event without a kind may be about any kind of object.
        if event.kind in {kind, None} and wanted & texts:
            id_ = event.object_id or event.own_id or name
            shown = {
                "name": name_in(event.data, id_),
                "store": event.store,
                "id": id_,
                "mirrored": f"no: {event.reason}",
            }
            found.setdefault((event.store, id_), shown)
    return list(found.values())


def search(connection: Connection, text: str, kind: str | None) -> list[Row]:
    """Return the objects with all these words that unusable events name."""
    words = [word.removeprefix("#").casefold() for word in text.split()]
    rows: dict[tuple[str | None, str, str], Row] = {}
    for event in _events(connection):
        id_ = event.object_id
        texts = " ".join(event.texts).casefold().replace("#", "").split()
        if (
            words
            and id_
            and (kind is None or event.kind == kind)
            and all(word in texts for word in words)
        ):
            shown = {
                "kind": event.kind,
                "store": event.store,
                "id": id_,
                "title": name_in(event.data, id_),
                "found": event.reason,
            }
            rows.setdefault((event.kind, event.store, id_), shown)
    return list(rows.values())


class _Event(NamedTuple):
    """An unusable event; `row` is its row of the quarantine, if it has one."""

    row: int | None
    store: str
    data: Mapping[str, Any]
    id: int
    kind: str | None
    object_id: str | None
    detail: str | None

    @property
    def reason(self) -> str:
        if self.row is None:
            return (
                f"event {self.id}: {self.detail}; see: backhaul events show {self.id}"
            )
        return (
            f"event {self.id} could not be read; see: backhaul quarantine show"
            f" {self.row}"
        )

    @property
    def own_id(self) -> str | None:
        id_ = self.data.get("id")
        return id_ if isinstance(id_, str) and id_ else None

    @property
    def texts(self) -> list[str]:
        """All texts by which a person may search for the object."""
        named = [self.data.get(member) for member in _NAMES]
        texts = [str(text) for text in named if isinstance(text, str | int)]
        own = [id_ for id_ in (self.object_id, self.own_id) if id_]
        return [*own, *texts, *(text.removeprefix("#") for text in texts)]


def _events(connection: Connection) -> Iterator[_Event]:
    for query in (_QUARANTINED, _UNHANDLED):
        for found in connection.execute(query, {"most": MOST}):
            row, store, raw, id_, kind, object_id, topic, detail = found
            kind = kind or _FAMILIES.get(topic.partition("/")[0])
            kind = _KINDS.get(kind or "", kind)
            yield _Event(row, store, data_of(raw), id_, kind, object_id, detail)


def name_in(data: Mapping[str, Any], id_: str) -> str:
    """Return the name that an object has in its own data; an order's is its number."""
    number = data.get("number")
    name = data.get("name") or (f"#{number}" if number else data.get("title"))
    return str(name) if isinstance(name, str | int) and name else id_


def data_of(raw: bytes | str) -> Mapping[str, Any]:
    """Return the object inside a webhook; it is empty if the body is not JSON."""
    try:
        document = strict_json.decode_object(
            raw.encode() if isinstance(raw, str) else raw
        )
    except Unusable:
        return {}
    inner = document.get("data")
    return inner if isinstance(inner, dict) else document


_ROW = """
    SELECT q.id, q.source, q.name, q.key, q.locator, q.state, q.reason,
           coalesce(r.payload, 'null') AS payload, r.command_id,
           coalesce(r.store, '') AS store, q.subject
    FROM quarantine q
    LEFT JOIN records r ON r.instance = q.name AND r.key = q.key
    WHERE q.id = :id
"""
_RETRY = """
    UPDATE records SET state = :state, reason = '',
           payload = coalesce(:payload, payload), decided = 1, received_at = :now,
           retry_at = :now
    WHERE instance = :name AND key = :key
"""
_TRACEPARENT = """
    SELECT (SELECT traceparent FROM records WHERE instance = :name AND key = :key)
"""
_CORRECT = """
    UPDATE records SET state = 'accepted', reason = :reason, command_id = :command
    WHERE instance = :name AND key = :key
"""
_DROP = "UPDATE records SET state = 'dropped' WHERE instance = :name AND key = :key"
_CLOSE = "UPDATE quarantine SET state = :state WHERE id = :id"
_EVENT = "event"
_MAY_RETRY = frozenset({"open", "dropped"})
_MAY_DROP = frozenset({"open"})
"""The states in which a row may be retried or dropped."""


class SqlQuarantine(Family):
    """Every method is one transaction."""

    @write
    def find(self, connection: Connection, id_: int) -> QuarantinedRow:
        return _find(connection, id_, _MAY_RETRY)

    @write
    def retry(
        self,
        connection: Connection,
        id_: int,
        payload: bytes | None,
        who: str,
        reason: str,
    ) -> str:
        row = _find(connection, id_, _MAY_RETRY)
        return _retry(connection, row, payload, who, reason, self._now())

    @write
    def change(
        self, connection: Connection, ids: Sequence[int], change: RowChange
    ) -> list[ChangedRow]:
        now = self._now()
        return [_change(connection, id_, change, now) for id_ in ids]

    @write
    def correct(self, connection: Connection, id_: int, who: str, reason: str) -> str:
        now = self._now()
        row = _find(connection, id_, _MAY_RETRY)
        command = _correction(connection, row)
        cause = f"row {id_} of the quarantine, corrected by {who}"
        (traceparent,) = connection.execute(_TRACEPARENT, _key(row)).fetchone()
        plan(connection, row.store, row.name, command, cause, now, traceparent)
        values = {"reason": "only its number is sent", "command": command.id}
        connection.execute(_CORRECT, _key(row) | values)
        _close(connection, row, "retried")
        _add_entry(connection, row, AuditEntry(who, "correct", reason), now)
        return command.id

    @write
    def discard(self, connection: Connection, id_: int, who: str, reason: str) -> None:
        row = _find(connection, id_, _MAY_DROP, events=True)
        _drop(connection, row, who, reason, self._now())


def _change(
    connection: Connection, id_: int, change: RowChange, now: str
) -> ChangedRow:
    """Change a row; nothing is written about a row that cannot be changed."""
    who, reason = change.who, change.reason
    try:
        if change.verb is RowVerb.DISCARD:
            row = _find(connection, id_, _MAY_DROP, events=True)
            return ChangedRow(id_, _drop(connection, row, who, reason, now))
        is_retry = change.verb is RowVerb.RETRY
        row = _find(connection, id_, _MAY_RETRY, events=is_retry)
        if row.source == _EVENT:
            _add_entry(connection, row, AuditEntry(who, "retry", reason), now)
            return ChangedRow(id_, "reprocess", event=int(row.key))
        payload = change.edit(row) if change.edit else None
        return ChangedRow(id_, _retry(connection, row, payload, who, reason, now))
    except (Busy, Fatal):
        raise  # the whole transaction failed, not this row
    except BackhaulError as error:
        return ChangedRow(id_, problem=str(error))


def _retry(
    connection: Connection,
    row: QuarantinedRow,
    payload: bytes | None,
    who: str,
    reason: str,
    now: str,
) -> str:
    edited = payload.decode() if payload else None
    kept = edited or row.payload
    if kept == "null" or "read" in document_of(kept):
        raise BackhaulError(
            f"Backhaul could not read row {row.id} as a record, so a retry without"
            f" changes fails again. Edit the row: backhaul quarantine edit {row.id}"
            " --kind KIND --set NAME=VALUE"
        )
    by_connector = kept == KEPT_BY_CONNECTOR.decode()
    state = "approved" if by_connector else "waiting"
    values = _key(row) | {"state": state, "payload": edited, "now": now}
    connection.execute(_RETRY, values)
    _close(connection, row, "retried")
    verb = "edit" if payload else "retry"
    _add_entry(connection, row, AuditEntry(who, verb, reason), now)
    return state


def _drop(
    connection: Connection, row: QuarantinedRow, who: str, reason: str, now: str
) -> str:
    if row.source == _EVENT:
        unreadable_orders.discard(connection, int(row.key), now)
    connection.execute(_DROP, _key(row))
    _close(connection, row, "dropped")
    _add_entry(connection, row, AuditEntry(who, "discard", reason), now)
    return "dropped"


def may_correct(connection: Connection, id_: int) -> bool:
    """Return True if the number of a quarantined row can be sent to the store."""
    try:
        _correction(connection, _row(connection, id_))
    except BackhaulError:
        return False
    return True


def _correction(connection: Connection, row: QuarantinedRow) -> NewCommand:
    """Return the command that sends the number of a quarantined row to the store.

    Raises BackhaulError unless the row is a shipment with a number, and its order is
    shipped completely.
    """
    document = document_of(row.payload)
    record = document.get("record") or {}
    number = record.get("tracking_number")
    if document.get("kind") != "fulfill" or not number:
        raise BackhaulError(
            f"row {row.id} is not a shipment with a tracking number, so nothing can be"
            " sent"
        )
    order = _order(connection, row, str(record["order"]))
    _require_number_only(connection, row.store, order, number)
    company = record.get("tracking_company")
    mirror = MirrorReader(connection, instance=row.name)
    asked = {
        "tracking_company": company and mirror.carrier_named(row.store, company),
        "tracking_number": number,
        "lines": [],
        "number_only": True,
    }
    identity = command_id(row.store, row.name, f"{row.key}:number", "fulfill")
    return NewCommand(identity, "fulfill", order.id, f"order:{order.id}", asked)


def _order(connection: Connection, row: QuarantinedRow, name: str) -> OrderSummary:
    mirror = MirrorReader(connection)
    orders = mirror.orders_named(row.store, name)
    if len(orders) != 1:
        found = "is not known" if not orders else "could be any of several orders"
        raise BackhaulError(f"order {name!r} of row {row.id} {found}")
    return orders[0]


def _require_number_only(
    connection: Connection, store: str, order: OrderSummary, number: str
) -> None:
    """Raise BackhaulError if more than the number is missing in the store."""
    if order.cancelled:
        raise BackhaulError(
            f"order {order.name} is cancelled; no number is sent for it"
        )
    mirror = MirrorReader(connection)
    parcels = mirror.parcels_of(store, order.id)
    if number in {parcel.number for parcel in parcels}:
        raise BackhaulError(f"order {order.name} already shows the number {number}")
    if open_ := mirror.open_units(store, order.id):
        raise BackhaulError(
            f"order {order.name} still has {open_} open units in the store, and the"
            " number alone would ship all of them. To ship the row's units, retry"
            " the row. To change only the number, use the store's dashboard"
        )


def _row(connection: Connection, id_: int) -> QuarantinedRow:
    found = connection.execute(_ROW, {"id": id_}).fetchone()
    if found is None:
        raise BackhaulError(f"there is no row {id_}; see: backhaul quarantine list")
    return QuarantinedRow(*found)


def _find(
    connection: Connection, id_: int, states: frozenset[str], *, events: bool = False
) -> QuarantinedRow:
    """Return a row that is in one of the states. Raises BackhaulError."""
    row = _row(connection, id_)
    if row.source != "record" and not (events and row.source == _EVENT):
        raise BackhaulError(
            f"row {id_} is an event; correct the cause, then reprocess it: "
            "backhaul events reprocess --state quarantined"
        )
    if row.state not in states or row.command_id is not None:
        raise BackhaulError(f"row {id_} is now {row.state}; nothing was changed")
    return row


def _key(row: QuarantinedRow) -> dict[str, str]:
    """Return the key of the record that the row became."""
    return {"name": row.name, "key": row.key}


def _close(connection: Connection, row: QuarantinedRow, state: str) -> None:
    connection.execute(_CLOSE, {"id": row.id, "state": state})


def _add_entry(
    connection: Connection, row: QuarantinedRow, entry: AuditEntry, now: str
) -> None:
    """Add an audit entry whose action and detail name the row."""
    detail = f"row {row.id} ({row.name} {row.locator or row.key}): {entry.detail}"
    entry = AuditEntry(entry.who, f"quarantine {entry.action}", detail)
    add_entry(connection, now, entry)
