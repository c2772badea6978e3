"""The inbox read back, page by page: what came in, exactly as it came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from backhaul.store.inbox import Arrival
from backhaul.store.sqlite import file_backup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WINDOW = 2_000
"""Ids that one read looks through at most, however few of them are wanted."""
_FACTS = "facts:"
_NEWEST = "SELECT coalesce(max(id), 0) FROM inbox"
_WANTED = """
    SELECT i.id FROM inbox i LEFT JOIN event_outcomes o ON o.id = i.id
    WHERE i.id > :after AND i.id <= :end
      AND (:store IS NULL OR i.store = :store)
      AND (:kind IS NULL OR i.kind = :kind)
      AND (:topic IS NULL OR coalesce(o.topic, i.topic) = :topic)
      AND (:since IS NULL OR i.received_at >= :since)
      AND (:until IS NULL OR i.received_at < :until)
      AND (:object IS NULL OR o.object_id IN (SELECT value FROM json_each(:objects)))
    ORDER BY i.id
"""
_EVENT = "SELECT store, kind, topic, received_at, headers, body FROM inbox WHERE id = ?"
_OBJECTS = """
    SELECT json_group_array(id) FROM (
        SELECT id FROM orders WHERE :object IN (id, name, external_id)
          OR CAST(number AS TEXT) = :object
        UNION SELECT id FROM products WHERE :object IN (id, handle, external_id)
        UNION SELECT product_id FROM variants WHERE :object IN (id, sku, barcode)
        UNION SELECT id FROM customers WHERE :object IN (id, email)
        UNION SELECT :object)
"""


class Wanted(Struct, frozen=True):
    """Which events; None leaves a filter out. Times are text in UTC, `until` not in.

    `object` is an order by id, name, number or external id, a product by id or handle,
    a variant by SKU, or a customer by id or address.
    """

    store: str | None = None
    kind: str | None = None
    topic: str | None = None
    since: str | None = None
    until: str | None = None
    object: str | None = None


class History:
    """Reads on a connection of its own, beside a running daemon.

    `pruned` counts the events that `arrivals` left out because their bytes are gone.
    """

    def __init__(self, path: Path) -> None:
        self._connection = file_backup.open_beside(path)
        self.pruned = 0

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def facts(self) -> dict[str, str]:
        """Return what is known of each store, as the JSON it is kept as."""
        rows = self._connection.execute(
            "SELECT name, value FROM marks WHERE substr(name, 1, ?) = ?",
            (len(_FACTS), _FACTS),
        )
        return {name.removeprefix(_FACTS): value for name, value in rows}

    def outcomes(self) -> dict[str, int]:
        """Return how many events became what."""
        rows = self._connection.execute(
            "SELECT state, count(*) FROM event_outcomes GROUP BY state ORDER BY state"
        )
        return {row[0]: row[1] for row in rows}

    def arrivals(self, wanted: Wanted) -> Iterator[Arrival]:
        """Yield what had come in by now, in order of arrival.

        Ids are read in short reads, then each event by itself: the daemon's checkpoints
        wait neither for a long read nor for whoever takes his time with an event.
        """
        filters = asdict(wanted) | {"objects": self._objects(wanted)}
        (newest,) = self._connection.execute(_NEWEST).fetchone()
        for after in range(0, newest, WINDOW):
            window = {"after": after, "end": min(after + WINDOW, newest)}
            ids = self._connection.execute(_WANTED, filters | window).fetchall()
            for (event,) in ids:
                yield from self._arrival(event)

    def _arrival(self, event: int) -> Iterator[Arrival]:
        arrival = Arrival(*self._connection.execute(_EVENT, (event,)).fetchone())
        # Headers are a JSON object, so none at all means that retention took them.
        if arrival.headers:
            yield arrival
        else:
            self.pruned += 1

    def _objects(self, wanted: Wanted) -> str:
        """Return the ids that the wanted name may stand for, as JSON."""
        if wanted.object is None:
            return "[]"
        (ids,) = self._connection.execute(_OBJECTS, asdict(wanted)).fetchone()
        return str(ids)
