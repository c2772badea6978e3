"""The inbox read back, page by page: what came in, exactly as it came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from backhaul.errors import Unusable
from backhaul.store.contract import Arrival
from backhaul.store.sqlite import connections

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE_ROWS = 500
_FACTS = "facts:"
# A page is one short read: the daemon's checkpoints never wait for a long one.
_PAGE = """
    SELECT i.id, i.store, i.kind, i.topic, i.received_at, i.headers, i.body
    FROM inbox i LEFT JOIN event_outcomes o ON o.id = i.id
    WHERE i.id > :after
      AND (:store IS NULL OR i.store = :store)
      AND (:kind IS NULL OR i.kind = :kind)
      AND (:topic IS NULL OR coalesce(o.topic, i.topic) = :topic)
      AND (:since IS NULL OR i.received_at >= :since)
      AND (:until IS NULL OR i.received_at < :until)
      AND (:object IS NULL OR o.object_id IN (
        SELECT id FROM orders WHERE :object IN (id, name, external_id)
          OR CAST(number AS TEXT) = :object
        UNION SELECT id FROM products WHERE :object IN (id, handle, external_id)
        UNION SELECT product_id FROM variants WHERE :object IN (id, sku, barcode)
        UNION SELECT id FROM customers WHERE :object IN (id, email)
        UNION SELECT :object))
    ORDER BY i.id LIMIT :rows
"""


@dataclass(frozen=True, slots=True)
class Wanted:
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
    """Reads on a connection of its own, beside a running daemon."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise Unusable(f"{path}: no database yet; start the daemon once")
        self._connection = connections.open_reader(path)

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
        """Yield what came in, in order of arrival."""
        after = 0
        while True:
            rows = self._connection.execute(
                _PAGE,
                {
                    "after": after,
                    "rows": PAGE_ROWS,
                    "store": wanted.store,
                    "kind": wanted.kind,
                    "topic": wanted.topic,
                    "since": wanted.since,
                    "until": wanted.until,
                    "object": wanted.object,
                },
            ).fetchall()
            for row in rows:
                yield Arrival(*tuple(row)[1:])
            if len(rows) < PAGE_ROWS:
                return
            after = rows[-1][0]
