"""Objects by name or key, and the history of each: what happened, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.sql.dialect import epoch, member, same_letters
from backhaul.store.sql.mirror.payment_states import NOT_REPORTED
from backhaul.store.sql.mirror.rows import NEWEST

if TYPE_CHECKING:
    from collections.abc import Mapping

ORDER_NAME = "coalesce(name, CAST(number AS TEXT), id)"
_VARIANT_NAME = "coalesce(p.title || ' / ' || v.title, v.title)"
_CUSTOMER_ID = member("o.document", "$.customer.id")
_CUSTOMER_NAME = member("o.document", "$.customer.name")
_CUSTOMER_EMAIL = member("o.document", "$.customer.email")
FACTS: Mapping[str, tuple[str, ...]] = {
    "order": (
        *("status", "financial_status", "fulfillment_status"),
        *("awaiting_confirmation", "updated_at"),
    ),
    "product": ("status", "handle", "updated_at", "deleted_at"),
    "sku": ("sku", "stock", "updated_at", "product_id"),
    "customer": ("email", "orders", "updated_at", "forgotten_at"),
}
"""The facts of each kind of object that FIND returns after its name, store and id."""
FIND: Mapping[str, str] = {
    "order": f"""
        SELECT {ORDER_NAME} AS name, store, id, status, financial_status,
               fulfillment_status, awaiting_confirmation, updated_at
        FROM orders WHERE number = :number OR id = :name OR external_id = :name
           OR name IN (:name, :bare, '#' || :bare)
    """,  # noqa: S608 - constants
    "product": """
        SELECT title AS name, store, id, status, handle, updated_at, deleted_at
        FROM products WHERE id = :name OR handle = :name OR external_id = :name
    """,
    "sku": f"""
        SELECT {_VARIANT_NAME} AS name, v.store, v.id, v.sku, l.stock, l.updated_at,
               v.product_id
        FROM variants v
        LEFT JOIN products p ON p.store = v.store AND p.id = v.product_id
        LEFT JOIN inventory_levels l ON l.store = v.store AND l.variant_id = v.id
        WHERE (v.sku = :name OR v.id = :name) AND {NEWEST}
    """,  # noqa: S608 - constants
    "customer": f"""
        SELECT coalesce(c.name, c.email, c.id) AS name, c.store, c.id, c.email,
               (SELECT count(*) AS orders FROM orders o WHERE o.customer_id = c.id
                AND o.store = c.store) AS orders, c.updated_at, f.at AS forgotten_at
        FROM customers c
        LEFT JOIN erased_customers f ON f.store = c.store AND f.customer_id = c.id
        WHERE c.id = :name OR {same_letters("c.email", ":name")}
        UNION ALL
        SELECT coalesce(max({_CUSTOMER_NAME}), o.customer_id) AS name, o.store,
               o.customer_id, max({_CUSTOMER_EMAIL}) AS email, count(*) AS orders,
               max(o.updated_at) AS updated_at, max(f.at) AS forgotten_at
        FROM orders o
        LEFT JOIN erased_customers f
          ON f.store = o.store AND f.customer_id = o.customer_id
        WHERE o.customer_id IN (:name, :guest)
          AND NOT EXISTS (SELECT 1 FROM customers c WHERE c.store = o.store
                          AND c.id = o.customer_id)
        GROUP BY o.store, o.customer_id
    """,  # noqa: S608 - constants
}
GUEST = f"""
    SELECT {_CUSTOMER_ID} AS id FROM orders o
    WHERE o.store = :store AND o.id = :id AND {same_letters(_CUSTOMER_EMAIL, ":email")}
"""  # noqa: S608 - constants
"""The customer of an order, if the order has this e-mail."""
OBJECT_FACTS: Mapping[str, tuple[str, ...]] = {
    "order": (
        *("external_id", "status", "financial_status", "fulfillment_status"),
        *("awaiting_confirmation", "placed_at", "cancelled_at", "total_minor"),
        *("currency", "customer_id", "updated_at", "document"),
    ),
    "product": (
        *("handle", "external_id", "status", "updated_at", "deleted_at", "document"),
    ),
    "sku": ("product_id", "sku", "barcode", "stock", "updated_at"),
    "customer": ("email", "phone", "updated_at", "document"),
}
OBJECT: Mapping[str, str] = {
    "order": f"""
        SELECT {ORDER_NAME} AS name, store, id, {", ".join(OBJECT_FACTS["order"])}
        FROM orders WHERE store = :store AND id = :id
    """,  # noqa: S608 - constants
    "product": f"""
        SELECT title AS name, store, id, {", ".join(OBJECT_FACTS["product"])}
        FROM products WHERE store = :store AND id = :id
    """,  # noqa: S608 - constants
    "sku": f"""
        SELECT {_VARIANT_NAME} AS name, v.store, v.id, v.product_id, v.sku, v.barcode,
               l.stock, l.updated_at
        FROM variants v
        LEFT JOIN products p ON p.store = v.store AND p.id = v.product_id
        LEFT JOIN inventory_levels l ON l.store = v.store AND l.variant_id = v.id
        WHERE v.store = :store AND v.id = :id AND {NEWEST}
    """,  # noqa: S608 - constants
    "customer": f"""
        SELECT coalesce(name, email, id) AS name, store, id,
               {", ".join(OBJECT_FACTS["customer"])}
        FROM customers WHERE store = :store AND id = :id
    """,  # noqa: S608 - constants
}
SEARCHED: Mapping[str, str] = {
    "order": "number, name, external id and id of {orders} orders",
    "product": "handle, external id and id of {products} products",
    "sku": "SKU and id of {variants} variants",
    "customer": "id and e-mail of {customers} customers and of {orders} orders",
}
"""What `find_objects` searches, with a place for each number of rows."""
# The columns of all that follow are those of TimelineEntry.
_EVENTS = """
    SELECT o.folded_at AS at,
           CASE i.kind WHEN 'read' THEN 'read ' ELSE 'event ' END || o.id AS what,
           o.topic AS name, o.state AS state,
           coalesce(o.detail, CASE i.erased_by
             WHEN 'retention' THEN 'body pruned on ' || substr(i.erased_at, 1, 10)
             WHEN 'forget' THEN 'a customer was erased on ' ||
                                substr(i.erased_at, 1, 10)
             END, '') || coalesce((
               SELECT '; see: backhaul quarantine show ' || q.id FROM quarantine q
               WHERE o.state = 'quarantined' AND q.source = 'event'
               AND q.name = i.store AND q.key = CAST(o.id AS TEXT)), '') AS detail,
           i.body AS body, 0 AS turn
    FROM event_outcomes o JOIN inbox i ON i.id = o.id
    WHERE o.object_id = :object AND i.store = :store
"""
# A command of a product may be about another variant of it.
_COMMAND = f"""
    c.target = :object AND c.store = :store AND (:variant IS NULL
    OR coalesce({member("c.payload", "$.variant_id")}, :variant) = :variant)
"""
_UNDER_WAY = "c.state = 'sending' AND a.number = c.attempts"
_HUNDREDTHS = f"CAST(round(({epoch('e.at')} - {epoch('c.sent_at')}) * 100) AS INTEGER)"
_LENGTH = f"abs({_HUNDREDTHS})"
# A clock that was set back makes the time negative.
_SECONDS = f"""
    CASE WHEN {_HUNDREDTHS} < 0 THEN '-' ELSE '' END || ({_LENGTH} / 100) || '.'
      || substr(CAST(100 + {_LENGTH} - {_LENGTH} / 100 * 100 AS TEXT), 2)
"""
_WORK = f"""
    SELECT r.received_at, 'record', r.instance || ' ' || coalesce(
           nullif(r.locator, ''), r.key), r.state, r.reason, NULL, 1
    FROM records r JOIN commands_and_targets c ON c.id = r.command_id WHERE {_COMMAND}
    UNION ALL
    SELECT c.created_at, c.kind, substr(c.id, 1, 8), 'planned', 'by ' || c.cause,
           NULL, 2
    FROM commands_and_targets c WHERE {_COMMAND}
    UNION ALL
    SELECT coalesce(a.finished_at, a.started_at), 'attempt ' || a.number,
           'of ' || substr(a.command_id, 1, 8),
           coalesce(a.outcome, CASE WHEN {_UNDER_WAY} THEN 'sending'
             ELSE 'no answer' END),
           coalesce(a.reason, CASE WHEN {_UNDER_WAY} THEN 'no answer has come yet'
             ELSE 'the daemon stopped while it was sending this command' END), NULL, 3
    FROM attempts a JOIN commands c ON c.id = a.command_id WHERE {_COMMAND}
    UNION ALL
    SELECT e.at, 'echo', 'of ' || substr(c.id, 1, 8), 'confirmed',
           'by event ' || e.event_id || CASE WHEN c.sent_at IS NULL THEN ''
             ELSE ', ' || {_SECONDS} || ' s after it was sent' END, NULL, 4
    FROM echoes e JOIN commands c ON c.id = e.command_id WHERE {_COMMAND}
    UNION ALL
    SELECT l.at, 'check ' || l.number, 'for ' || substr(l.command_id, 1, 8), l.found,
           l.reason, NULL, 3
    FROM resolution_checks l JOIN commands c ON c.id = l.command_id WHERE {_COMMAND}
    UNION ALL
    SELECT u.at, u.action, substr(c.id, 1, 8), u.state_after,
           'was ' || u.state_before || ', by ' || u.who || coalesce(
             ': ' || nullif(u.detail, ''), ''), NULL, 3
    FROM audit u JOIN commands_and_targets c ON c.id = u.command_id WHERE {_COMMAND}
    UNION ALL
    SELECT p.at, 'parcel', p.tracking_number, p.status, 'reported by ' || p.instance,
           NULL, 4
    FROM parcels p WHERE p.store = :store AND p.order_id = :object
    UNION ALL
    SELECT coalesce(d.settled_at, d.sent_at, d.created_at), 'delivery ' || d.topic,
           'to ' || d.instance, d.state, d.reason || coalesce(
             ' (' || d.reference || ')', ''), NULL, 4
    FROM deliveries d WHERE d.store = :store
      AND d.object_id = coalesce(:variant, :object)
    UNION ALL
    SELECT c.settled_at, c.kind, substr(c.id, 1, 8), c.state, c.reason, NULL, 4
    FROM commands_and_targets c WHERE c.settled_at IS NOT NULL AND {_COMMAND}
"""  # noqa: S608 - constants
_STOCK = f"""
    SELECT l.at, 'stock',
           coalesce((SELECT sku FROM variants v WHERE v.store = l.store
                     AND v.id = l.variant_id AND {NEWEST}), l.variant_id),
           CASE WHEN l.adjustment >= 0 THEN '+' ELSE '' END || l.adjustment,
           'now ' || l.stock_after || ', ' || l.reason || coalesce(' by ' || coalesce(
             (SELECT 'order ' || o.name FROM orders o WHERE o.store = l.store
              AND o.id = l.cause),
             (SELECT 'command ' || substr(c.id, 1, 8) || ' (' || c.cause || ')'
              FROM commands c WHERE c.target = l.product_id
              AND {member("c.evidence", "$.adjustment_id")} = l.adjustment_id LIMIT 1),
             l.cause), '')
             || CASE WHEN l.adjustment_id IS NOT NULL THEN '' WHEN EXISTS (
                 SELECT 1 FROM stock_ledger t WHERE t.store = l.store
                 AND t.variant_id = l.variant_id AND t.at = l.at AND t.id != l.id
                 AND t.stock_after = l.stock_after AND t.adjustment = l.adjustment)
               THEN ', reported without an id: it may be another movement of the same'
                 || ' time, reported twice'
               ELSE ', reported without an id' END, NULL, 5
    FROM stock_ledger l WHERE l.store = :store AND
"""  # noqa: S608 - constants
_HOLD = """
    SELECT coalesce((SELECT folded_at FROM event_outcomes WHERE id = u.event), u.since),
           'hold', 'order', 'waiting', 'nothing is sent for this order until'
           || ' a later read shows it: event ' || u.event || ' could not be read',
           NULL, 4
    FROM unreadable_orders u WHERE u.store = :store AND u.order_id = :id
"""
_INCIDENTS = """
    SELECT at, 'incident', CAST(id AS TEXT), CASE WHEN resolved_at IS NULL THEN 'open'
           ELSE 'resolved' END, says || coalesce('; resolved by ' || resolved_by || ': '
           || resolution, ''), NULL, 4
    FROM incidents WHERE store = :store AND order_id = :id
"""
_OBJECT = f"{_EVENTS} UNION ALL {_WORK} UNION ALL {_STOCK}"
_ORDERS_OF = "FROM orders o WHERE o.customer_id = :id AND o.store = :store"
TIMELINE: Mapping[str, str] = {
    "order": f"{_OBJECT} l.cause = :id UNION ALL {_HOLD} UNION ALL {_INCIDENTS}"
    f" UNION ALL {NOT_REPORTED}",
    "product": f"{_OBJECT} l.product_id = :id",
    "sku": f"{_OBJECT} l.variant_id = :id",
    "customer": f"""
        {_EVENTS}
        UNION ALL
        SELECT o.placed_at, 'order', coalesce(o.name, o.id), 'placed',
               'now ' || o.status || ', ' || o.financial_status || ', '
               || o.fulfillment_status, NULL, 1 {_ORDERS_OF} AND placed_at IS NOT NULL
        UNION ALL
        SELECT o.cancelled_at, 'order', coalesce(o.name, o.id), 'cancelled', '', NULL, 3
        {_ORDERS_OF} AND o.cancelled_at IS NOT NULL
        UNION ALL
        SELECT s.shipped_at, 'order', coalesce(o.name, o.id), 'shipped',
               coalesce(s.tracking_company || ' ', '') || coalesce(s.tracking_number,
               ''), NULL, 2
        FROM orders o JOIN shipments s ON s.store = o.store AND s.order_id = o.id
        WHERE o.customer_id = :id AND o.store = :store AND s.shipped_at IS NOT NULL
        UNION ALL
        SELECT at, 'forgotten', customer_id, 'erased',
               'personal data is erased, also from later events', NULL, 4
        FROM erased_customers WHERE customer_id = :id AND store = :store
    """,  # noqa: S608 - constants
}
