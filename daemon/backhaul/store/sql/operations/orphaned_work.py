"""The open work of stores that the configuration does not name: nothing works on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from backhaul.store.operations import OrphanedWork
from backhaul.store.sql.dialect import elements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.store.sql.family import Connection

_OPEN = "state IN ('planned', 'sending', 'uncertain')"
# From each name to the next one in the index, past all open commands of one store.
_STORES = f"""
    WITH RECURSIVE named(store) AS (
      SELECT min(store) FROM commands WHERE {_OPEN}
      UNION ALL
      SELECT (SELECT min(c.store) FROM commands c
              WHERE c.{_OPEN} AND c.store > named.store)
      FROM named WHERE store IS NOT NULL)
    SELECT store FROM named WHERE store IS NOT NULL
"""  # noqa: S608 - constants
_OTHERS = f"store NOT IN (SELECT value FROM {elements(':stores', '$')})"  # noqa: S608 - a fragment
_COUNTS = f"""
    SELECT store, sum(commands) AS commands, sum(counts) AS counts,
           sum(events) AS events
    FROM (
      SELECT store, count(*) FILTER (WHERE kind != 'target') AS commands,
             count(*) FILTER (WHERE kind = 'target') AS counts, 0 AS events
      FROM commands WHERE {_OPEN} AND {_OTHERS}
      GROUP BY store
      UNION ALL
      SELECT store, 0, 0, count(*) FROM inbox
      WHERE id > (SELECT coalesce(max(id), 0) FROM event_outcomes) AND {_OTHERS}
      GROUP BY store) AS parts
    GROUP BY store ORDER BY store
"""  # noqa: S608 - constants


def open_stores(connection: Connection) -> frozenset[str]:
    """Return the stores with an open command or an open count."""
    return frozenset(row[0] for row in connection.execute(_STORES))


def of_other_stores(
    connection: Connection, stores: Iterable[str]
) -> tuple[OrphanedWork, ...]:
    """Return the open work of each store that is not one of these."""
    values = {"stores": json.dumps(list(stores))}
    return tuple(
        OrphanedWork(store, int(commands), int(counts), int(events))
        for store, commands, counts, events in connection.execute(_COUNTS, values)
    )
