"""Lists of events and of deliveries that a filter selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.store.bulk import BulkRow
from backhaul.store.filters import Filter, SelectedRows, Sort, Span
from backhaul.store.read_records import (
    DeliveryAttempt,
    DeliveryDetail,
    ListedDelivery,
    ListedEvent,
)
from backhaul.store.sql import selection
from backhaul.store.sql.deliveries.repository import document_now
from backhaul.store.sql.dialect import ascii_text, contains, elements
from backhaul.store.sql.mirror.rows import NEWEST
from backhaul.store.sql.selection import (
    NO_END,
    SCANNED,
    NumberedRows,
    all_words,
    as_list,
    given,
    in_list,
    order_ids,
    span,
    where,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.store.sql.family import Connection

_EVENTS = """
    SELECT id, received_at, store, source, topic, state, kind, object_id, coalesce(
             (SELECT name FROM orders WHERE store = e.store AND id = e.object_id),
             (SELECT title FROM products WHERE store = e.store AND id = e.object_id)
           ) AS about, detail
    FROM events e
"""
_FAILED = "state IN ('quarantined', 'unhandled')"
_EVENT_IDS: Mapping[str, str] = {
    state: f"SELECT id FROM event_outcomes WHERE state = '{state}' AND {_FAILED}"  # noqa: S608 - constants
    for state in ("quarantined", "unhandled")
}
# The body of an event that was folded is found by its id alone.
_EVENT_WORDS = f"""
    e.topic || ' ' || coalesce(e.object_id, '') || ' ' || coalesce(e.event_id, '')
    || ' ' || coalesce(e.detail, '') || CASE WHEN e.state = 'received' OR e.{_FAILED}
       THEN ' ' || {ascii_text("e.body")} ELSE '' END
"""
_OUTCOMES_OF = "SELECT id FROM event_outcomes o WHERE"
_EVENT_CONDITIONS: Mapping[str, str] = {
    "ids": f"""
        e.id IN (SELECT CAST(value AS BIGINT) FROM {elements(":ids", "$")})
    """,  # noqa: S608 - constants
    **{f"is_{state}": f"e.id IN ({ids})" for state, ids in _EVENT_IDS.items()},
    "state": "e.state = :state",
    "topic": "e.topic = :topic",
    "kind": "e.kind = :kind",
    "store": "e.store = :store",
    "orders": f"e.id IN ({_OUTCOMES_OF} {in_list('o.object_id', 'orders')})",
    "object": f"e.id IN ({_OUTCOMES_OF} o.object_id = :object)",
    "since": "e.received_at >= :since",
    "until": "e.received_at < :until",
    "words": all_words(_EVENT_WORDS),
    "first": "e.id >= :first",
    "last": "e.id <= :last",
}
_DELIVERIES = f"""
    SELECT seq, coalesce(settled_at, sent_at, created_at) AS at, instance, topic,
           coalesce(
             (SELECT name FROM orders WHERE store = d.store AND id = d.object_id),
             (SELECT sku FROM variants v
              WHERE store = d.store AND id = d.object_id AND {NEWEST}),
             (SELECT title FROM products WHERE store = d.store AND id = d.object_id),
             object_id) AS about, state, reason, attempts, object_id, id, reference,
           created_at, due_at, sent_at, settled_at, store
    FROM deliveries d
"""  # noqa: S608 - constants
_UNDER_WAY = "state IN ('sending', 'uncertain')"
_STOPPED = "state IN ('parked', 'rejected')"
_DELIVERY_SEQS: Mapping[str, str] = {
    "planned": "SELECT seq FROM deliveries WHERE state = 'planned'",
    **{
        state: f"SELECT seq FROM deliveries WHERE state = '{state}' AND {few}"  # noqa: S608 - constants
        for few, states in (
            (_UNDER_WAY, ("sending", "uncertain")),
            (_STOPPED, ("parked", "rejected")),
        )
        for state in states
    },
}
_DELIVERIES_OF = "SELECT seq FROM deliveries o WHERE"
_DELIVERY_CONDITIONS: Mapping[str, str] = {
    "ids": f"""
        d.seq IN (SELECT CAST(value AS BIGINT) FROM {elements(":ids", "$")})
    """,  # noqa: S608 - constants
    **{f"is_{state}": f"d.seq IN ({seqs})" for state, seqs in _DELIVERY_SEQS.items()},
    "state": "d.state = :state",
    "topic": "d.topic = :topic",
    "kind": "substr(d.topic, 1, length(:kind) + 1) = :kind || '.'",
    "store": "d.store = :store",
    "connector": "d.instance = :connector",
    "orders": f"d.seq IN ({_DELIVERIES_OF} {in_list('o.object_id', 'orders')})",
    "object": f"d.seq IN ({_DELIVERIES_OF} o.object_id = :object)",
    "reason": contains("lower(d.reason)", "lower(:reason)"),
    "since": "d.created_at >= :since",
    "until": "d.created_at < :until",
    "words": all_words(
        "d.topic || ' ' || d.object_id || ' ' || d.instance || ' ' || d.reason"
        " || ' ' || coalesce(d.reference, '')"
    ),
    "first": "d.seq >= :first",
    "last": "d.seq <= :last",
}
_ATTEMPTS = f"""
    SELECT {", ".join(DeliveryAttempt.__struct_fields__)} FROM delivery_attempts
    WHERE delivery = :delivery ORDER BY id
"""  # noqa: S608 - constants
_ROWS = {
    "events": [NumberedRows("inbox", "id", "received_at")],
    "deliveries": [NumberedRows("deliveries", "seq", "created_at")],
}
_SELECTED_BY = {
    "events": (_EVENT_CONDITIONS, "e.id"),
    "deliveries": (_DELIVERY_CONDITIONS, "d.seq"),
}
_SELECTED_STATES = {"events": _EVENT_IDS, "deliveries": _DELIVERY_SEQS}
EVERYTHING = Span(0, NO_END)
_FIELDS = (
    *("state", "topic", "kind", "store", "connector", "object", "reason"),
    *("since", "until"),
)


def events(
    connection: Connection,
    wanted: Filter,
    limit: int,
    before: int | None,
    sort: Sort,
    within: Span | None,
) -> list[ListedEvent]:
    """Return events, the newest first unless the order is `oldest`."""
    if within is None:
        within = span(connection, _ROWS["events"], wanted, before, sort, None)
    rows = _rows(connection, "events", _EVENTS, wanted, within, sort, limit)
    return [ListedEvent(*row) for row in rows]


def deliveries(
    connection: Connection,
    wanted: Filter,
    limit: int,
    before: int | None,
    sort: Sort,
    within: Span | None,
) -> list[ListedDelivery]:
    """Return deliveries, the newest first unless the order is `oldest`."""
    if within is None:
        within = span(connection, _ROWS["deliveries"], wanted, before, sort, None)
    rows = _rows(connection, "deliveries", _DELIVERIES, wanted, within, sort, limit)
    return [ListedDelivery(*row) for row in rows]


def delivery(connection: Connection, seq: int) -> DeliveryDetail | None:
    """Return one delivery with its attempts, and the document it would send now."""
    wanted = Filter(ids=(seq,))
    found = deliveries(connection, wanted, 1, None, Sort.USUAL, EVERYTHING)
    if not found:
        return None
    rows = connection.execute(_ATTEMPTS, {"delivery": seq})
    attempts = [DeliveryAttempt(*row) for row in rows]
    return DeliveryDetail(found[0], attempts, document_now(connection, seq))


def searched(
    connection: Connection, rows: str, wanted: Filter, after: int | None, sort: Sort
) -> Span:
    """Return the numbers of the rows that one page of a list searches."""
    indexed = (
        wanted.ids
        or wanted.order
        or wanted.object
        or wanted.state in _SELECTED_STATES[rows]
    )
    scanned = None if indexed else SCANNED
    return span(connection, _ROWS[rows], wanted, after, sort, scanned)


def count_states(connection: Connection, rows: str) -> dict[str, int]:
    """Count the rows of a list in each state that an index finds."""
    return {
        state: selection.count(connection, query)
        for state, query in _SELECTED_STATES[rows].items()
    }


def bulk_selected(connection: Connection, wanted: Filter) -> list[SelectedRows]:
    """Count the deliveries that match by what can be decided about them."""
    values = _values(connection, "deliveries", wanted, EVERYTHING)
    query = f"""
        SELECT d.store, d.state, 'delivery' AS content, count(*) AS found
        FROM deliveries d WHERE {where(_DELIVERY_CONDITIONS, values)}
        GROUP BY 1, 2 ORDER BY 1, 2
    """  # noqa: S608 - constants
    return [SelectedRows(*row) for row in connection.execute(query, given(values))]


def bulk_rows(connection: Connection, wanted: Filter, limit: int) -> list[BulkRow]:
    """Return deliveries to decide about, the oldest first."""
    query = "SELECT d.seq, d.state, 'delivery' AS content FROM deliveries d"
    rows = _rows(
        connection, "deliveries", query, wanted, EVERYTHING, Sort.OLDEST, limit
    )
    return [BulkRow(*row) for row in rows]


def _values(
    connection: Connection, rows: str, wanted: Filter, within: Span
) -> dict[str, Any]:
    """Return the values of the conditions of a filter."""
    values: dict[str, Any] = {name: getattr(wanted, name) for name in _FIELDS}
    values |= {"ids": as_list(wanted.ids), "words": as_list(wanted.words)}
    if wanted.state in _SELECTED_STATES[rows]:
        values[f"is_{wanted.state}"] = True
    if wanted.order:
        values["orders"] = as_list(order_ids(connection, wanted.order))
    return values | {"first": within.first, "last": within.last}


def _rows(
    connection: Connection,
    rows: str,
    query: str,
    wanted: Filter,
    within: Span,
    sort: Sort,
    limit: int,
) -> list[Any]:
    conditions, number = _SELECTED_BY[rows]
    values = _values(connection, rows, wanted, within)
    order = number if sort is Sort.OLDEST else f"{number} DESC"
    text = f"{query} WHERE {where(conditions, values)} ORDER BY {order} LIMIT :limit"
    try:
        return connection.execute(text, given(values) | {"limit": limit}).fetchall()
    except OverflowError:
        return []  # no row has a number that is so large
