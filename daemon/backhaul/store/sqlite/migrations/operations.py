"""Migrations from 60: what operators need in the long run.

They are frozen like the others; `migrations` registers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database


def add_newest_records(db: Database) -> None:
    """When each connection last submitted a record, without reading all records."""
    db.execute("CREATE INDEX records_newest ON records(instance, id)")


def add_alerts(db: Database) -> None:
    """Alerts, from their begin until their end was reported."""
    db.execute(
        """
        CREATE TABLE alerts (
            key TEXT PRIMARY KEY, says TEXT NOT NULL, "mend" TEXT NOT NULL,
            began_at TEXT NOT NULL, told_at TEXT) WITHOUT ROWID
        """
    )


def add_alert_conditions(db: Database) -> None:
    """What is read each minute to raise alerts, without reading all rows."""
    db.execute(
        "CREATE INDEX commands_doubled ON commands(seq)"
        " WHERE instr(evidence, '\"doubled\"') > 0"
    )
    db.execute(
        "CREATE INDEX job_runs_backup ON job_runs(started_at) WHERE job = 'backup'"
    )


def add_users(db: Database) -> None:
    """Users of the dashboard; `secret` is an Argon2id hash."""
    db.execute(
        """
        CREATE TABLE users (
            name TEXT PRIMARY KEY, role TEXT NOT NULL, secret TEXT NOT NULL,
            epoch INTEGER NOT NULL, created_at TEXT NOT NULL, last_login_at TEXT)
        WITHOUT ROWID
        """
    )


def add_samples(db: Database) -> None:
    """Samples of each minute of the last day, for the dashboard's charts."""
    db.execute(
        """
        CREATE TABLE samples (
            at TEXT PRIMARY KEY, webhooks INTEGER NOT NULL, folded INTEGER NOT NULL,
            applied INTEGER NOT NULL, platform_seconds REAL, heartbeat_seconds REAL,
            events_waiting INTEGER NOT NULL, commands_open INTEGER NOT NULL,
            parked INTEGER NOT NULL) WITHOUT ROWID
        """
    )


def add_intake_repairs(db: Database) -> None:
    """What an open pass repaired: read at its end, however often it was interrupted."""
    db.execute(
        """
        CREATE TABLE handed_in (
            sweep INTEGER NOT NULL, event INTEGER NOT NULL,
            PRIMARY KEY (sweep, event)) WITHOUT ROWID
        """
    )


def add_unreported(db: Database) -> None:
    """The rows that were not reported to a connector, found without the others."""
    db.execute(
        "CREATE INDEX quarantine_unreported ON quarantine (name, id)"
        " WHERE source = 'record' AND reported = 0"
    )


def add_approved(db: Database) -> None:
    """The rows that a connector must apply, found without all other records."""
    db.execute("CREATE INDEX records_approved ON records (id) WHERE state = 'approved'")


def add_alert_ways(db: Database) -> None:
    """What each channel has reported; `gone_at` is set until all reported the end."""
    db.execute("ALTER TABLE alerts ADD COLUMN gone_at TEXT")
    db.execute(
        """
        CREATE TABLE alerts_told (
            way TEXT NOT NULL, key TEXT NOT NULL, at TEXT NOT NULL,
            PRIMARY KEY (way, key)) WITHOUT ROWID
        """
    )
    # It counted many commands, each of which has an alert of its own now.
    db.execute("DELETE FROM alerts WHERE key = 'parked more'")
    # Until now every channel reported an alert or none did; `told_at` is unused since.
    for way in ("mail", "webhook"):
        db.execute(
            "INSERT INTO alerts_told (way, key, at)"
            " SELECT ?, key, told_at FROM alerts WHERE told_at IS NOT NULL",
            [way],
        )


def add_deliveries(db: Database) -> None:
    """The connections with deliveries, their position in the feed, and deliveries."""
    db.execute(
        # `begun` is the newest change when the connection was first seen.
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
        # The stock last delivered to each connection: an equal one is not delivered.
        """
        CREATE TABLE told_levels (
            instance TEXT NOT NULL, store TEXT NOT NULL, variant_id TEXT NOT NULL,
            stock INTEGER NOT NULL,
            PRIMARY KEY (instance, store, variant_id)) WITHOUT ROWID
        """
    )


def add_parcels(db: Database) -> None:
    """The status of each parcel, and variants by their barcode."""
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


def create_listed_articles(db: Database) -> None:
    """Which articles the full lists of an instance named, and when last."""
    db.execute(
        "CREATE TABLE listed_articles (store TEXT NOT NULL, instance TEXT NOT NULL,"
        " variant_id TEXT NOT NULL, product_id TEXT NOT NULL, sku TEXT NOT NULL,"
        " listed_at TEXT NOT NULL, PRIMARY KEY (store, instance, variant_id))"
        " WITHOUT ROWID"
    )


def add_decided(db: Database) -> None:
    """Whether an operator had a record tried again as it is."""
    db.execute("ALTER TABLE records ADD COLUMN decided INTEGER NOT NULL DEFAULT 0")


def add_unreadable_orders(db: Database) -> None:
    """Orders whose commands wait, each with the last event that could not be read."""
    db.execute(
        """
        CREATE TABLE unreadable_orders (
            store TEXT NOT NULL, order_id TEXT NOT NULL, event INTEGER NOT NULL,
            reason TEXT NOT NULL, since TEXT NOT NULL, seen_at TEXT NOT NULL,
            PRIMARY KEY (store, order_id)) WITHOUT ROWID
        """
    )


def add_unhandled(db: Database) -> None:
    """An index that finds unhandled events."""
    db.execute(
        "CREATE INDEX outcomes_unhandled ON event_outcomes(id)"
        " WHERE state = 'unhandled'"
    )
