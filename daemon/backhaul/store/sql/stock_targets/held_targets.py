"""Stock targets that are on hold after a restore, and how they are released.

The database that was restored may lack a newer count of the same variant. So a target
that cannot be explained is held, until a newer count replaces it or an operator
releases it. The connection that submitted it is asked once for its whole stock list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from backhaul.core.lifecycle import SHOWN_AS, TargetCause, TargetState
from backhaul.store.commands import restored_mark
from backhaul.store.operations import HeldTargets
from backhaul.store.sql.mirror.rows import NEWEST
from backhaul.store.sql.operations import kv
from backhaul.store.sql.operations.operators import ADD_DECISION
from backhaul.store.sql.stock_targets import rows

if TYPE_CHECKING:
    from backhaul.core.stock_decision import Target
    from backhaul.store.operations import AuditEntry
    from backhaul.store.sql.family import Connection
    from backhaul.store.stock_targets import HeldFilter

MATCHES = """
    t.state = 'held' AND (:store IS NULL OR t.store = :store)
    AND (:instance IS NULL OR t.instance = :instance)
    AND (:sku IS NULL OR EXISTS (
      SELECT 1 FROM variants s
      WHERE s.store = t.store AND s.id = t.variant_id AND s.sku = :sku))
"""
"""Whether a target `t` is one of a HeldFilter."""
_HELD = f"SELECT t.id FROM stock_targets t WHERE {MATCHES} ORDER BY t.seq"  # noqa: S608 - constants
_OF_PRODUCT = """
    SELECT id FROM stock_targets
    WHERE store = :store AND product_id = :product AND state = 'held'
"""
RECORD_CAME = "the record of an adjustment from before the restore was submitted again"
_SUMMARY = f"""
    SELECT h.store, h.targets, h.since, coalesce(v.sku, t.variant_id)
    FROM (SELECT store, count(*) AS targets, min(created_at) AS since,
                 min(seq) AS first
          FROM stock_targets WHERE state = 'held' GROUP BY store) h
    JOIN stock_targets t ON t.seq = h.first
    LEFT JOIN variants v
      ON v.store = t.store AND v.id = t.variant_id AND {NEWEST}
    ORDER BY h.store
"""  # noqa: S608 - constants
_ASKED, _READ = "stock_list_asked:", "stock_list_read:"
"""Prefixes of keys, before the connection: the time of the last restore after which the
connection was asked for its whole stock list, and after which it has begun to read."""


def hold(connection: Connection, target: Target, reason: str, now: str) -> None:
    """Hold a target, and ask its connection for the whole stock list.

    The connection is asked once after each restore.
    """
    cause = TargetCause.UNEXPLAINED
    rows.transition(connection, target.id, cause, now, reason=reason)
    restored_at = kv.get(connection, restored_mark(target.store)) or ""
    kv.put(connection, f"{_ASKED}{target.instance}", restored_at)


def release(
    connection: Connection, wanted: HeldFilter, entry: AuditEntry, now: str
) -> int:
    """Let held targets be calculated again; return their number."""
    found = [row[0] for row in connection.execute(_HELD, asdict(wanted)).fetchall()]
    moved = {"before": TargetState.HELD, "after": SHOWN_AS[TargetState.WAITING]}
    for target in found:
        values = {"at": now, "command": target, **asdict(entry), **moved}
        connection.execute(ADD_DECISION, values)
        _release(connection, target, f"released: {entry.detail}", now)
    return len(found)


def reconsider(connection: Connection, store: str, product: str, now: str) -> None:
    """Calculate held targets of a product again, of which one more effect is known."""
    values = {"store": store, "product": product}
    for (target,) in connection.execute(_OF_PRODUCT, values).fetchall():
        _release(connection, target, RECORD_CAME, now)


def _release(connection: Connection, target: str, reason: str, now: str) -> None:
    changed = {"reason": reason, "due_at": now, "tries": 0}
    rows.transition(connection, target, TargetCause.RELEASED, now, **changed)


def summary(connection: Connection) -> list[HeldTargets]:
    """Return the held targets of each store, in short."""
    return [HeldTargets(*row) for row in connection.execute(_SUMMARY)]


def must_read_list(connection: Connection, instance: str) -> bool:
    """Return True if a connection was asked for its stock list and did not begin."""
    asked = kv.get(connection, f"{_ASKED}{instance}")
    return asked is not None and asked != kv.get(connection, f"{_READ}{instance}")


def note_list_read(connection: Connection, instance: str) -> None:
    """Record that a connection begins to read its whole stock list."""
    asked = kv.get(connection, f"{_ASKED}{instance}") or ""
    kv.put(connection, f"{_READ}{instance}", asked)
