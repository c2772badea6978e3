"""Reads the inbox back, page by page: the exact bytes that arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from backhaul.store.export_and_query import InboxExport
from backhaul.store.inbox import Arrival
from backhaul.store.sql.operations import kv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store.export_and_query import EventFilter
    from backhaul.store.sql.family import Connection

WINDOW = 2_000
"""The most events that one read scans, however few of them are selected."""
# Ids have gaps: after a live move, one of a billion.
_WINDOW_END = """
    SELECT max(id) AS last FROM (
        SELECT id FROM inbox WHERE id > :after ORDER BY id LIMIT :most) n
"""
_SELECTED = """
    SELECT i.id, o.object_id FROM inbox i LEFT JOIN event_outcomes o ON o.id = i.id
    WHERE i.id > :after AND i.id <= :end
      AND (:store IS NULL OR i.store = :store)
      AND (:kind IS NULL OR i.kind = :kind)
      AND (:topic IS NULL OR coalesce(o.topic, i.topic) = :topic)
      AND (:since IS NULL OR i.received_at >= :since)
      AND (:until IS NULL OR i.received_at < :until)
    ORDER BY i.id
"""
_EVENT = """
    SELECT store, kind, topic, received_at, headers, body FROM inbox WHERE id = :id
"""
_OBJECTS = """
    SELECT id FROM orders WHERE :object IN (id, name, external_id)
      OR CAST(number AS TEXT) = :object
    UNION SELECT id FROM products WHERE :object IN (id, handle, external_id)
    UNION SELECT product_id FROM variants WHERE :object IN (id, sku, barcode)
    UNION SELECT id FROM customers WHERE :object IN (id, email)
"""


class SqlInboxExport(InboxExport):
    """Reads on a connection of its own, beside a running daemon."""

    pruned = 0

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def facts(self) -> dict[str, str]:
        return kv.with_prefix(self._connection, "facts:")

    def outcomes(self) -> dict[str, int]:
        rows = self._connection.execute(
            "SELECT state, count(*) AS events FROM event_outcomes"
            " GROUP BY state ORDER BY state"
        )
        return {row[0]: row[1] for row in rows}

    def arrivals(self, wanted: EventFilter) -> Iterator[Arrival]:
        filters = asdict(wanted)
        objects = self._objects(wanted)
        query = "SELECT coalesce(max(id), 0) AS newest FROM inbox"
        (newest,) = self._connection.execute(query).fetchone()
        end = 0
        while end < newest:
            after, end = end, min(window_end(self._connection, end, WINDOW), newest)
            window = {"after": after, "end": end}
            found = self._connection.execute(_SELECTED, filters | window).fetchall()
            for event, object_id in found:
                if objects is None or object_id in objects:
                    yield from self._arrival(event)

    def _arrival(self, event: int) -> Iterator[Arrival]:
        row = self._connection.execute(_EVENT, {"id": event}).fetchone()
        arrival = Arrival(*row)
        # Headers are a JSON object; empty headers mean that retention erased the event.
        if arrival.headers:
            yield arrival
        else:
            self.pruned += 1

    def _objects(self, wanted: EventFilter) -> set[str] | None:
        """Return the ids that the name may mean; None if no object is selected."""
        if wanted.object is None:
            return None
        rows = self._connection.execute(_OBJECTS, {"object": wanted.object})
        return {wanted.object, *(row[0] for row in rows)}


def window_end(connection: Connection, after: int, most: int) -> int:
    """Return the id up to which there are so many events after an id.

    Returns `after + most` if there is none.
    """
    values = {"after": after, "most": most}
    (last,) = connection.execute(_WINDOW_END, values).fetchone()
    return after + most if last is None else int(last)
