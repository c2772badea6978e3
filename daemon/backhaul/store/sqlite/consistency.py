"""Since when the mirror is known to be as the platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

_LISTS = 4
_WALKED = """
    SELECT s.store, s.kind, s.note,
           (SELECT began_at FROM sweeps c WHERE c.store = s.store
            AND c.kind = s.kind AND c.job = 'full' AND c.ended_at IS NOT NULL
            AND c.unrepaired = 0 AND c.note = '' ORDER BY c.id DESC LIMIT 1) AS as_of
    FROM sweeps s WHERE s.id IN (SELECT max(id) FROM sweeps
        WHERE job = 'full' AND ended_at IS NOT NULL GROUP BY store, kind)
"""


def consistency(connection: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Return since when each store's mirror is known to be equal, and what not.

    The start of the last full walk over each list that left nothing unrepaired; a
    list that cannot be read has no say.
    """
    found: dict[str, dict[str, Any]] = {}
    for row in connection.execute(_WALKED):
        store = found.setdefault(row["store"], {"as_of": None, "kinds": {}})
        store["kinds"][row["kind"]] = row["note"] or row["as_of"]
    for store in found.values():
        kinds = store["kinds"].values()
        if len(kinds) == _LISTS and None not in kinds:
            read = [as_of for as_of in kinds if as_of[:1].isdigit()]
            store["as_of"] = min(read, default=None)
    return found
