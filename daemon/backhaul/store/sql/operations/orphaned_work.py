"""What is open for stores that the configuration does not name: nobody works on it."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import msgspec

from backhaul.store.operations import OrphanedWork
from backhaul.store.sqlite import file_backup

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_OPEN = "state IN ('planned', 'sending', 'uncertain')"
# From one name to the next in the index, past all that is open for each.
_NAMES = f"""
    WITH RECURSIVE named(store) AS (
      SELECT min(store) FROM commands WHERE {_OPEN}
      UNION ALL
      SELECT (SELECT min(c.store) FROM commands c
              WHERE c.{_OPEN} AND c.store > named.store)
      FROM named WHERE store IS NOT NULL)
    SELECT store FROM named WHERE store IS NOT NULL
"""  # noqa: S608 - constants
_COUNTED = f"""
    SELECT store, count(*) FILTER (WHERE kind != 'target') AS commands,
           count(*) FILTER (WHERE kind = 'target') AS counts, 0 AS events
    FROM commands WHERE {_OPEN} AND store NOT IN (SELECT value FROM json_each(:stores))
    GROUP BY store
    UNION ALL
    SELECT store, 0, 0, count(*) FROM inbox
    WHERE id > (SELECT coalesce(max(id), 0) FROM event_outcomes)
      AND store NOT IN (SELECT value FROM json_each(:stores))
    GROUP BY store
"""  # noqa: S608 - constants
_SUMMED = f"""
    SELECT store, sum(commands), sum(counts), sum(events) FROM ({_COUNTED})
    GROUP BY store ORDER BY store
"""  # noqa: S608 - constants


def names(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the stores for which a command or a count is open."""
    return frozenset(row[0] for row in connection.execute(_NAMES))


def counted(
    connection: sqlite3.Connection, stores: Iterable[str]
) -> tuple[OrphanedWork, ...]:
    """Return what is open for stores other than these."""
    values = {"stores": msgspec.json.encode(list(stores)).decode()}
    return tuple(OrphanedWork(*row) for row in connection.execute(_SUMMED, values))


def found(path: Path, stores: Iterable[str]) -> tuple[OrphanedWork, ...]:
    """Return the same of a database that is only looked at, nothing where none is.

    One that cannot be read tells nothing: others say what is wrong with it.
    """
    try:
        if not path.is_file():
            return ()
        with file_backup.open_to_look(path) as connection:
            return counted(connection, stores)
    except (OSError, sqlite3.Error):
        return ()
