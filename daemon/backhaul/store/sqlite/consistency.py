"""Since when the mirror is known to be as the platform."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

_LISTS = 4
_WALKED = """
    SELECT s.store, s.kind, s.note,
           (SELECT began_at FROM sweeps c WHERE c.store = s.store
            AND c.kind = s.kind AND c.job = 'full' AND c.ended_at IS NOT NULL
            AND c.unrepaired = 0 AND c.note = '' ORDER BY c.id DESC LIMIT 1) AS as_of,
           EXISTS (SELECT 1 FROM sweeps r WHERE r.store = s.store
            AND r.kind = s.kind AND r.job IN ('backfill', 'full')
            AND r.ended_at IS NOT NULL AND (r.note = '' OR r.read > 0)) AS was_read
    FROM sweeps s WHERE s.id IN (SELECT max(id) FROM sweeps
        WHERE job = 'full' AND ended_at IS NOT NULL GROUP BY store, kind)
"""


def consistency(connection: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Return since when each store's mirror is known to be equal, and what not.

    The start of the last full walk over each list that left nothing unrepaired. A
    list that was never read has no say; one that can be read no longer has: the mirror
    still holds what it showed. `unread` names both.
    """
    found: dict[str, dict[str, Any]] = {}
    bounds: defaultdict[str, list[str]] = defaultdict(list)
    for row in connection.execute(_WALKED):
        blank: dict[str, Any] = {"as_of": None, "kinds": {}, "unread": []}
        store = found.setdefault(row["store"], blank)
        store["kinds"][row["kind"]] = row["note"] or row["as_of"]
        if row["note"]:
            store["unread"].append(row["kind"])
        if row["was_read"]:
            bounds[row["store"]].append(row["as_of"] or "")
    for name, store in found.items():
        if len(store["kinds"]) == _LISTS and all(bounds[name]):
            store["as_of"] = min(bounds[name], default=None)
    return found
