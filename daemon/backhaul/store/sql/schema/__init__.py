"""The schema: the statements that make all tables, indexes and views, in their order.

The text is common to all engines, as docs/decisions/0023-one-sql-text.md describes. An
engine adds what only it has, such as full text, and maps the names of the types.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from backhaul.store.sql.mirror.payment_states import NOT_REFUNDED
from backhaul.store.sql.schema import commands_and_operations, inbox_and_mirror

if TYPE_CHECKING:
    from collections.abc import Mapping

# A variant that moved to another product may be in the mirror twice: the newer counts.
_NEWEST_VARIANT = """
    LEFT JOIN variants v ON v.store = l.store AND v.id = l.variant_id
      AND NOT EXISTS (
        SELECT 1 FROM variants n WHERE n.store = v.store AND n.id = v.id
        AND (n.updated_at, n.product_id) > (v.updated_at, v.product_id))
"""
TARGETS_AS_COMMANDS = """
    SELECT seq, id, store, 'target' AS kind, product_id AS target,
           'product:' || product_id AS lane,
           CASE state WHEN 'waiting' THEN 'planned' WHEN 'adjusting' THEN 'planned'
             WHEN 'held' THEN 'planned' WHEN 'discarded' THEN 'rejected'
             ELSE state END AS state,
           reason, payload, 0 AS attempts, 0 AS failures, evidence, cause, instance,
           CASE state WHEN 'adjusting' THEN 'adjustment' WHEN 'held' THEN 'restore' END
             AS hold_reason,
           created_at, due_at, settled_at, NULL AS request, NULL AS key_fingerprint,
           NULL AS baseline, NULL AS sent_at, 0 AS looks, NULL AS effect_id, digest,
           NULL AS request_digest, caused_at, 0 AS behind, NULL AS accepted
    FROM stock_targets
"""
"""Stock targets with the columns of commands."""
VIEWS: tuple[str, ...] = (
    """
    CREATE VIEW events AS
    SELECT i.id, i.store, coalesce(o.topic, i.topic) AS topic, o.event_id,
           i.received_at, coalesce(o.state, 'received') AS state, i.body,
           i.headers, i.kind AS source, o.kind, o.object_id, o.detail, o.folded_at,
           i.erased_at, i.erased_by
    FROM inbox i LEFT JOIN event_outcomes o ON o.id = i.id
    """,
    # A row waits while a command of its ordering key has no known outcome.
    """
    CREATE VIEW feed AS
    SELECT c.id, c.store, c.kind, c.object_id, c.change, c.at, c.event, c.instance,
           EXISTS (SELECT 1 FROM commands o WHERE o.store = c.store
                   AND o.lane = CASE c.kind WHEN 'order' THEN 'order:'
                                ELSE 'product:' END || c.object_id
                   AND o.state IN ('sending', 'uncertain')) AS waits
    FROM changes c
    """,
    # A stock target as people see it beside commands, by the same numbers and ids.
    f"""
    CREATE VIEW commands_and_targets AS
    SELECT seq, id, store, kind, target, lane, state, reason, payload, attempts,
           failures, evidence, cause, instance, hold_reason, created_at, due_at,
           settled_at, request, key_fingerprint, baseline, sent_at, looks, effect_id,
           digest, request_digest, caused_at, behind, accepted
    FROM commands
    UNION ALL {TARGETS_AS_COMMANDS}
    """,  # noqa: S608 - constants
    f"""
    CREATE VIEW open_orders AS
    SELECT store, id, number, name, placed_at, status, financial_status,
           fulfillment_status, awaiting_confirmation,
           (SELECT sum(quantity - fulfilled_quantity) FROM order_items i
            WHERE i.store = o.store AND i.order_id = o.id) AS units_to_ship,
           total_minor, currency, customer_id
    FROM orders o WHERE cancelled_at IS NULL AND fulfillment_status != 'FULFILLED'
      AND {NOT_REFUNDED}
    """,  # noqa: S608 - constants
    f"""
    CREATE VIEW order_lines AS
    SELECT i.store, i.id, i.order_id, o.number AS order_number, o.name AS order_name,
           o.placed_at, o.status AS order_status, i.sku, i.title, i.quantity,
           i.fulfilled_quantity,
           CASE WHEN o.cancelled_at IS NULL AND {NOT_REFUNDED}
                THEN i.quantity - i.fulfilled_quantity ELSE 0 END AS units_to_ship,
           i.unit_price_minor, o.currency, i.product_id, i.variant_id
    FROM order_items i JOIN orders o ON o.store = i.store AND o.id = i.order_id
    """,  # noqa: S608 - constants
    """
    CREATE VIEW revenue_by_day AS
    SELECT store, substr(placed_at, 1, 10) AS day, currency, count(*) AS orders,
           sum(total_minor) AS revenue_minor
    FROM orders WHERE cancelled_at IS NULL AND placed_at IS NOT NULL
    GROUP BY store, substr(placed_at, 1, 10), currency
    """,
    f"""
    CREATE VIEW stock AS
    SELECT l.store, v.sku, p.title AS product, v.title AS variant, l.stock,
           l.updated_at AS since, v.barcode, l.product_id, l.variant_id
    FROM inventory_levels l {_NEWEST_VARIANT}
    LEFT JOIN products p ON p.store = l.store AND p.id = l.product_id
    """,  # noqa: S608 - constants
    f"""
    CREATE VIEW stock_moves AS
    SELECT l.id, l.store, l.at, v.sku, p.title AS product, v.title AS variant,
           l.adjustment, l.stock_after, l.reason, o.name AS order_name, l.cause,
           l.product_id, l.variant_id
    FROM stock_ledger l {_NEWEST_VARIANT}
    LEFT JOIN products p ON p.store = l.store AND p.id = l.product_id
    LEFT JOIN orders o ON o.store = l.store AND o.id = l.cause
    """,  # noqa: S608 - constants
)
BASELINE = "m001_baseline"
CONNECTOR_DOCUMENTS = "m002_connector_documents"
QUARANTINE_REASONS = "m003_quarantine_reasons"
QUARANTINE_STATES = "m004_quarantine_states"
ORDER_LISTS = "m005_order_lists"
MAPPINGS = "m006_mappings"
LIST_INDEXES = "m007_list_indexes"
API_TOKENS = "m008_api_tokens"
SIGN_IN = "m009_sign_in"
DELIVERY_ATTEMPTS = "m010_delivery_attempts"
SAVED_VIEWS = "m011_saved_views"
METRIC_MINUTES = "m013_metric_minutes"
STOCK_LISTS = "m014_stock_lists"
TRACEPARENTS = "m015_traceparents"
STEPS: Mapping[str, tuple[str, ...]] = {
    BASELINE: (
        *inbox_and_mirror.INBOX,
        *inbox_and_mirror.MIRROR,
        *commands_and_operations.COMMANDS,
        *commands_and_operations.OPERATIONS,
        *VIEWS,
    ),
    CONNECTOR_DOCUMENTS: commands_and_operations.CONNECTOR_DOCUMENTS,
    QUARANTINE_REASONS: inbox_and_mirror.QUARANTINE_REASONS,
    QUARANTINE_STATES: inbox_and_mirror.QUARANTINE_STATES,
    ORDER_LISTS: inbox_and_mirror.ORDER_LISTS,
    MAPPINGS: commands_and_operations.MAPPINGS,
    LIST_INDEXES: inbox_and_mirror.LIST_INDEXES,
    API_TOKENS: commands_and_operations.API_TOKENS,
    SIGN_IN: commands_and_operations.SIGN_IN,
    DELIVERY_ATTEMPTS: commands_and_operations.DELIVERY_ATTEMPTS,
    SAVED_VIEWS: commands_and_operations.SAVED_VIEWS,
    METRIC_MINUTES: commands_and_operations.METRIC_MINUTES,
    STOCK_LISTS: inbox_and_mirror.STOCK_LISTS,
    TRACEPARENTS: commands_and_operations.TRACEPARENTS,
}
"""The statements of each migration, the oldest first. Those of a released migration
never change."""
CONTRACTS: Mapping[str, str] = {}
"""The steps that take away what an older version needs, each with the step that a
version must know to run without it. All other steps only add something.

On a server daemons of both versions run for a while. There, a step that consists of
indexes is applied while others write; any other step may index only its own tables.
"""
STATEMENTS: tuple[str, ...] = tuple(chain.from_iterable(STEPS.values()))


def number_of(step: str) -> int:
    """Return the number of a migration, which is in its name: 2 of `m002_words`."""
    return int(step[1:4])


def newest_step() -> int:
    """Return the number of the last migration that this version knows."""
    return max(map(number_of, STEPS))
