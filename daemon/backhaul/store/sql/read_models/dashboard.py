"""What the dashboard reads beyond what `backhaul` on the command line shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.read_models import Reader
from backhaul.store.sql.inbox.quarantine_actions import may_correct
from backhaul.store.sql.mirror.rows import NEWEST
from backhaul.store.sql.read_models.lists import SqlLists

if TYPE_CHECKING:
    from backhaul.store.read_models import Row

SCANNED = 5_000
"""So many changes are looked through for a page: some milliseconds."""

# All are answered by an index, whatever the number of orders.
_SET_ASIDE = """
    SELECT q.*, r.payload, r.store FROM quarantine q
    LEFT JOIN records r ON q.source = 'record' AND r.instance = q.name
        AND r.key = q.key
    WHERE q.id = ?
"""
_USERS = "SELECT name, role, last_login_at, created_at FROM users ORDER BY name"
_SAMPLES = "SELECT * FROM samples WHERE at >= ? ORDER BY at"
_SWEEPS = """
    SELECT * FROM sweeps WHERE ?2 IS NULL OR id < ?2 ORDER BY id DESC LIMIT ?1
"""
_AUDIT = """
    SELECT id, at, who, action, detail, command_id, state_before, state_after
    FROM audit WHERE (?1 IS NULL OR who = ?1) AND (?3 IS NULL OR id < ?3)
    ORDER BY id DESC LIMIT ?2
"""
_OPEN = """
    SELECT id, store, kind, target, coalesce(
             (SELECT name FROM orders WHERE store = c.store AND id = c.target),
             (SELECT title FROM products WHERE store = c.store AND id = c.target)
           ) AS about, state, reason, attempts, created_at, due_at
    FROM commands c WHERE state = ? AND state IN ('planned', 'sending', 'uncertain')
    LIMIT ?
"""
_RUNS = """
    SELECT * FROM job_runs WHERE ?2 IS NULL OR id < ?2 ORDER BY id DESC LIMIT ?1
"""
_TARGETS = f"""
    SELECT c.seq, c.id, c.store, c.target, c.state, c.reason, c.created_at, t.quantity,
           t.as_of, t.variant_id, v.sku, l.stock
    FROM commands c JOIN stock_targets t ON t.command_id = c.id
    LEFT JOIN variants v
      ON v.store = c.store AND v.id = t.variant_id AND {NEWEST}
    LEFT JOIN inventory_levels l ON l.store = c.store AND l.variant_id = t.variant_id
    WHERE c.kind = 'target' AND (?1 IS NULL OR c.state = ?1)
      AND (?2 IS NULL OR c.store = ?2) AND (?4 IS NULL OR c.seq < ?4)
    ORDER BY c.seq DESC LIMIT ?3
"""  # noqa: S608 - constants
_LAST_RECORDS = """
    SELECT received_at, key, state, reason, command_id FROM records
    WHERE instance = ? ORDER BY id DESC LIMIT ?
"""
# With an OR, all that is newer would be passed by on the way to an old one.
_BEFORE = "id < coalesce(?1, 9223372036854775807)"
_NEWEST_CHANGES = f"""
    SELECT max(id) AS change, kind, store, object_id AS id FROM (
        SELECT id, kind, store, object_id FROM changes
        WHERE {_BEFORE} ORDER BY id DESC LIMIT {SCANNED})
    WHERE ?2 IS NULL OR kind = ?2
    GROUP BY kind, store, object_id ORDER BY 1 DESC LIMIT ?3
"""  # noqa: S608 - constants
_NOT_SCANNED = f"""
    SELECT id + 1 FROM changes
    WHERE {_BEFORE} ORDER BY id DESC LIMIT 1 OFFSET {SCANNED}
"""  # noqa: S608 - constants
_PRODUCT_TITLE = "SELECT title FROM products WHERE store = ? AND id = ?"
_TITLES = {
    "level": _PRODUCT_TITLE,  # a change of stock is told of its product
    "order": "SELECT coalesce(name, number, id) FROM orders WHERE store = ? AND id = ?",
    "product": _PRODUCT_TITLE,
    "customer": "SELECT coalesce(name, email, id) FROM customers"
    " WHERE store = ? AND id = ?",
}
_THINGS = {
    "order": """
        SELECT coalesce(name, number, id) AS name, store, id, external_id, status,
               financial_status, fulfillment_status, awaiting_confirmation, placed_at,
               cancelled_at, total_minor, currency, customer_id, updated_at, document
        FROM orders WHERE store = ? AND id = ?
    """,
    "product": """
        SELECT title AS name, store, id, handle, external_id, status, updated_at,
               deleted_at, document
        FROM products WHERE store = ? AND id = ?
    """,
    "sku": f"""
        SELECT coalesce(p.title || ' / ' || v.title, v.title) AS name, v.store, v.id,
               v.product_id, v.sku, v.barcode, l.stock, l.updated_at
        FROM variants v
        LEFT JOIN products p ON p.store = v.store AND p.id = v.product_id
        LEFT JOIN inventory_levels l ON l.store = v.store AND l.variant_id = v.id
        WHERE v.store = ? AND v.id = ? AND {NEWEST}
    """,  # noqa: S608 - constants
    "customer": """
        SELECT coalesce(name, email, id) AS name, store, id, email, phone, updated_at,
               document
        FROM customers WHERE store = ? AND id = ?
    """,
}
_PARTS = {
    "order": """
        SELECT sku, title, quantity, fulfilled_quantity, product_id, variant_id
        FROM order_items WHERE store = ? AND order_id = ? ORDER BY id
    """,
    "product": """
        SELECT v.id, v.sku, v.title, v.barcode, l.stock FROM variants v
        LEFT JOIN inventory_levels l ON l.store = v.store AND l.variant_id = v.id
        WHERE v.store = ? AND v.product_id = ? ORDER BY v.id
    """,
}


class SqlReader(SqlLists, Reader):
    """The whole Reader, with what only the dashboard uses."""

    def users(self) -> list[Row]:
        """Return everybody who may log in, without what is kept of passwords."""
        return self._rows(_USERS, ())

    def quarantined(self, id_: int) -> Row | None:
        """Return one row of the quarantine, with the record that it became."""
        rows = self._rows(_SET_ASIDE, (id_,))
        return rows[0] if rows else None

    def can_correct(self, id_: int) -> bool:
        """Return whether the number of a quarantined shipment can be sent alone."""
        return may_correct(self._connection, id_)

    def samples(self, since: str) -> list[Row]:
        """Return the minutes since then, in order."""
        return self._rows(_SAMPLES, (since,))

    def passes(self, limit: int, before: int | None = None) -> list[Row]:
        """Return the newest walks and looks first, from before that number."""
        return self._rows(_SWEEPS, (limit, before))

    def audit_entries(
        self, who: str | None, limit: int, before: int | None = None
    ) -> list[Row]:
        """Return who did what, the newest first, from before that number."""
        return self._rows(_AUDIT, (who, limit, before))

    def stock_targets(
        self,
        state: str | None,
        store: str | None,
        limit: int,
        before: int | None = None,
    ) -> list[Row]:
        """Return counts of the back office, the newest first, from before `seq`."""
        return self._rows(_TARGETS, (state, store, limit, before))

    def open_commands(self, state: str, limit: int) -> list[Row]:
        """Return some commands that are planned, sending or uncertain."""
        return self._rows(_OPEN, (state, limit))

    def job_runs(self, limit: int, before: int | None = None) -> list[Row]:
        """Return the runs that were written down, the newest first."""
        return self._rows(_RUNS, (limit, before))

    def last_records(self, instance: str, limit: int) -> list[Row]:
        """Return what an instance brought, the newest first."""
        return self._rows(_LAST_RECORDS, (instance, limit))

    def latest_changes(
        self, kind: str | None, limit: int, before: int | None = None
    ) -> list[Row]:
        """Return what changed last in the mirror, before the change with that number.

        What changed again since stands on an earlier page too. Where that is less than
        `limit`, there may be more among those that were not looked through.
        """
        found = self._rows(_NEWEST_CHANGES, (before, kind, limit))
        return [row | {"title": self._title(row)} for row in found]

    def not_searched(self, before: int | None) -> int | None:
        """Return before which change `newest` did not look, if there are any."""
        found = self._connection.execute(_NOT_SCANNED, (before,)).fetchone()
        return int(found[0]) if found else None

    def _title(self, row: Row) -> str:
        query = _TITLES.get(row["kind"])
        if query is None:
            return str(row["id"])
        found = self._connection.execute(query, (row["store"], row["id"])).fetchone()
        return str(found[0]) if found else str(row["id"])

    def object(self, kind: str, store: str, id_: str) -> Row | None:
        """Return an order, product, variant or customer by its key."""
        rows = self._rows(_THINGS[kind], (store, id_))
        return rows[0] if rows else None

    def parts(self, kind: str, store: str, id_: str) -> list[Row]:
        """Return the lines of an order, or the variants of a product."""
        query = _PARTS.get(kind)
        return self._rows(query, (store, id_)) if query else []
