"""The migrations of what is told to connectors, and of what couriers tell of parcels.

They are frozen like the others; `migrations` registers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database


def add_deliveries(db: Database) -> None:
    """Who is told news, how far each has been told, and what is owed to whom."""
    db.execute(
        # `begun` is the newest change when the instance was first seen.
        """
        CREATE TABLE subscribers (
            instance TEXT NOT NULL PRIMARY KEY, store TEXT NOT NULL,
            since TEXT NOT NULL, begun INTEGER NOT NULL,
            "cursor" INTEGER NOT NULL) WITHOUT ROWID
        """
    )
    db.execute(
        """
        CREATE TABLE deliveries (
            seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, instance TEXT NOT NULL,
            store TEXT NOT NULL, topic TEXT NOT NULL, object_id TEXT NOT NULL,
            change_id INTEGER NOT NULL, state TEXT NOT NULL,
            reason TEXT NOT NULL DEFAULT '', attempts INTEGER NOT NULL DEFAULT 0,
            failures INTEGER NOT NULL DEFAULT 0, looks INTEGER NOT NULL DEFAULT 0,
            reference TEXT, created_at TEXT NOT NULL, due_at TEXT NOT NULL,
            sent_at TEXT, settled_at TEXT)
        """
    )
    db.execute("CREATE INDEX deliveries_object ON deliveries(object_id)")
    db.execute(
        "CREATE INDEX deliveries_open ON deliveries(instance, object_id, seq)"
        " WHERE state IN ('planned', 'sending', 'uncertain', 'parked')"
    )
    db.execute(
        "CREATE INDEX deliveries_planned ON deliveries(instance, seq)"
        " WHERE state = 'planned'"
    )
    db.execute(
        "CREATE INDEX deliveries_doubtful ON deliveries(instance, due_at)"
        " WHERE state IN ('sending', 'uncertain')"
    )
    db.execute(
        # The stock each instance was told last: what is equal is no news.
        """
        CREATE TABLE told_levels (
            instance TEXT NOT NULL, store TEXT NOT NULL, variant_id TEXT NOT NULL,
            stock INTEGER NOT NULL,
            PRIMARY KEY (instance, store, variant_id)) WITHOUT ROWID
        """
    )


def add_parcels(db: Database) -> None:
    """How far each parcel got; and articles found by their barcode."""
    db.execute(
        """
        CREATE TABLE parcels (
            store TEXT NOT NULL, shipment_id TEXT NOT NULL, order_id TEXT NOT NULL,
            tracking_number TEXT NOT NULL, status TEXT NOT NULL,
            "rank" INTEGER NOT NULL, at TEXT NOT NULL, instance TEXT NOT NULL,
            PRIMARY KEY (store, shipment_id)) WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX parcels_order ON parcels(order_id)")
    db.execute(
        "CREATE INDEX variants_barcode ON variants(barcode) WHERE barcode IS NOT NULL"
    )


def add_rules(db: Database) -> None:
    """When each connection is notified of an order; NULL until its next start.

    `release_when` stays NULL for a connection that takes no order.placed. Orders placed
    earlier than `old_before` are not reported.
    """
    db.execute("ALTER TABLE subscribers ADD COLUMN release_when TEXT")
    db.execute("ALTER TABLE subscribers ADD COLUMN old_before TEXT")
