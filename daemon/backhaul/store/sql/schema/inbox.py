"""Tables of the inbox: events, their outcomes, the change feed, and what to refetch."""

from __future__ import annotations

STATEMENTS: tuple[str, ...] = (
    # Append-only, without a secondary index: to accept an event writes one page.
    """
    CREATE TABLE inbox (
        id INTEGER PRIMARY KEY, store TEXT NOT NULL, kind TEXT NOT NULL,
        topic TEXT NOT NULL, received_at TEXT NOT NULL, headers BLOB NOT NULL,
        body BLOB NOT NULL, erased_at TEXT, erased_by TEXT, digest BLOB
    )
    """,
    """
    CREATE TABLE event_outcomes (
        id INTEGER PRIMARY KEY REFERENCES inbox(id), state TEXT NOT NULL,
        topic TEXT NOT NULL, event_id TEXT, kind TEXT, object_id TEXT, detail TEXT,
        folded_at TEXT NOT NULL
    )
    """,
    "CREATE INDEX outcomes_object ON event_outcomes(object_id)",
    """
    CREATE INDEX outcomes_unhandled ON event_outcomes(id) WHERE state = 'unhandled'
    """,
    # The first event with each body, so that a repeated delivery is recognized.
    """
    CREATE TABLE delivery_digests (
        digest BLOB PRIMARY KEY, id INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE changes (
        id INTEGER PRIMARY KEY, store TEXT NOT NULL, kind TEXT NOT NULL,
        object_id TEXT NOT NULL, change TEXT NOT NULL, at TEXT NOT NULL,
        event INTEGER NOT NULL, instance TEXT
    )
    """,
    """
    CREATE TABLE refetch_queue (
        store TEXT NOT NULL, kind TEXT NOT NULL, object_id TEXT NOT NULL,
        reason TEXT NOT NULL, event INTEGER, asked_at TEXT NOT NULL,
        asks INTEGER NOT NULL DEFAULT 1, due_at TEXT NOT NULL,
        failures INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (store, kind, object_id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX refetch_queue_due ON refetch_queue(store, due_at)",
    """
    CREATE TABLE quarantine (
        id INTEGER PRIMARY KEY, source TEXT NOT NULL, name TEXT NOT NULL,
        key TEXT NOT NULL, raw BLOB NOT NULL, reason TEXT NOT NULL,
        locator TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open', at TEXT NOT NULL,
        reported INTEGER NOT NULL DEFAULT 0, UNIQUE (source, name, key)
    )
    """,
    """
    CREATE INDEX quarantine_unreported ON quarantine(name, id)
        WHERE source = 'record' AND reported = 0
    """,
    """
    CREATE TABLE unreadable_orders (
        store TEXT NOT NULL, order_id TEXT NOT NULL, event INTEGER NOT NULL,
        reason TEXT NOT NULL, since TEXT NOT NULL, seen_at TEXT NOT NULL,
        PRIMARY KEY (store, order_id)
    ) WITHOUT ROWID
    """,
)
