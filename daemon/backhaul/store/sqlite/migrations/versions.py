"""The schema, as forward-only migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlite_utils import Migrations

from backhaul.store.sqlite.migrations import commands, mirror, operations, row_rewrites

if TYPE_CHECKING:
    from sqlite_utils import Database

migrations = Migrations("backhaul")


@migrations()
def m001_events(db: Database) -> None:
    """Inbox, what became of each event, and the digests already seen."""
    db.execute(
        # Append-only, no secondary index and no updates: an accept is one page write.
        """
        CREATE TABLE inbox (
            id INTEGER PRIMARY KEY, store TEXT NOT NULL, kind TEXT NOT NULL,
            topic TEXT NOT NULL, received_at TEXT NOT NULL, headers BLOB NOT NULL,
            body BLOB NOT NULL)
        """
    )
    db.execute(
        """
        CREATE TABLE event_outcomes (
            id INTEGER PRIMARY KEY REFERENCES inbox(id), state TEXT NOT NULL,
            topic TEXT NOT NULL, event_id TEXT, kind TEXT, object_id TEXT,
            detail TEXT, folded_at TEXT NOT NULL)
        """
    )
    db.table("event_outcomes").create_index(["object_id"])
    db.execute(
        "CREATE TABLE seen (digest BLOB PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID"
    )
    db.table("marks").create({"name": str, "value": str}, pk="name", not_null={"value"})
    db.table("changes").create(
        {
            "id": int,
            "store": str,
            "kind": str,
            "object_id": str,
            "change": str,
            "at": str,
            "event": int,
        },
        pk="id",
        not_null={"store", "kind", "object_id", "change", "at", "event"},
    )
    db.create_view(
        "events",
        """
        SELECT i.id, i.store, coalesce(o.topic, i.topic) AS topic, o.event_id,
               i.received_at, coalesce(o.state, 'received') AS state, i.body,
               i.headers, i.kind AS source, o.kind, o.object_id, o.detail, o.folded_at
        FROM inbox i LEFT JOIN event_outcomes o ON o.id = i.id
        """,
    )


# Each mirrored object carries the version it was folded from, in the order of
# precedence: updated_at, then these.
_VERSION = {
    "sequence": int,
    "delivered": int,
    "read_at": str,
    "digest": bytes,
}


@migrations()
def m002_products(db: Database) -> None:
    """Products and their variants."""
    db.table("products").create(
        {
            "store": str,
            "id": str,
            "handle": str,
            "title": str,
            "status": str,
            "external_id": str,
            "updated_at": str,
            "deleted_at": str,
            "document": str,
            **_VERSION,
        },
        pk=("store", "id"),
        not_null={"title", "status", "updated_at"},
    )
    db.table("variants").create(
        {
            "store": str,
            "id": str,
            "product_id": str,
            "sku": str,
            "barcode": str,
            "title": str,
            "price_minor": int,
            "currency": str,
            "updated_at": str,
        },
        pk=("store", "id"),
        not_null={"product_id", "updated_at"},
    )
    db.table("variants").create_index(["store", "sku"])
    db.table("variants").create_index(["store", "product_id"])


@migrations()
def m003_stock(db: Database) -> None:
    """Stock levels and their ledger."""
    db.table("inventory_levels").create(
        {
            "store": str,
            "product_id": str,
            "variant_id": str,
            "stock": int,
            "updated_at": str,
            **_VERSION,
        },
        pk=("store", "variant_id"),
        not_null={"product_id", "stock", "updated_at"},
    )
    db.table("inventory_levels").create_index(["store", "product_id"])
    db.table("stock_ledger").create(
        {
            "id": int,
            "store": str,
            "product_id": str,
            "variant_id": str,
            "adjustment": int,
            "stock_after": int,
            "reason": str,
            "cause": str,
            "adjustment_id": str,
            "at": str,
        },
        pk="id",
        not_null={"store", "product_id", "variant_id", "adjustment", "stock_after"},
    )
    db.table("stock_ledger").create_index(
        ["store", "adjustment_id", "variant_id"], unique=True
    )
    db.table("stock_ledger").create_index(["store", "variant_id", "at"])


@migrations()
def m004_orders(db: Database) -> None:
    """Orders."""
    db.table("orders").create(
        {
            "store": str,
            "id": str,
            "number": int,
            "name": str,
            "external_id": str,
            "awaiting_confirmation": int,
            "status": str,
            "financial_status": str,
            "fulfillment_status": str,
            "placed_at": str,
            "cancelled_at": str,
            "total_minor": int,
            "currency": str,
            "customer_id": str,
            "updated_at": str,
            "document": str,
            **_VERSION,
        },
        pk=("store", "id"),
        not_null={"status", "updated_at", "document"},
    )
    db.table("orders").create_index(["store", "number"])
    db.table("orders").create_index(["store", "external_id"])


@migrations()
def m005_order_parts(db: Database) -> None:
    """What hangs on an order: lines and parcels."""
    db.table("order_items").create(
        {
            "store": str,
            "id": str,
            "order_id": str,
            "product_id": str,
            "variant_id": str,
            "sku": str,
            "title": str,
            "quantity": int,
            "fulfilled_quantity": int,
            "unit_price_minor": int,
        },
        pk=("store", "id"),
        not_null={"order_id", "quantity"},
    )
    db.table("order_items").create_index(["store", "order_id"])
    db.table("shipments").create(
        {
            "store": str,
            "id": str,
            "order_id": str,
            "tracking_company": str,
            "tracking_number": str,
            "shipped_at": str,
        },
        pk=("store", "id"),
        not_null={"order_id"},
    )
    db.table("shipments").create_index(["store", "order_id"])


@migrations()
def m006_customers(db: Database) -> None:
    """The people who order."""
    db.table("customers").create(
        {
            "store": str,
            "id": str,
            "name": str,
            "email": str,
            "phone": str,
            "updated_at": str,
            "document": str,
            **_VERSION,
        },
        pk=("store", "id"),
        not_null={"updated_at", "document"},
    )


@migrations()
def m007_records(db: Database) -> None:
    """Records from connectors, how far each was read, and quarantine."""
    db.execute(
        """
        CREATE TABLE records (
            id INTEGER PRIMARY KEY, instance TEXT NOT NULL, store TEXT NOT NULL,
            key TEXT NOT NULL, payload TEXT NOT NULL, raw TEXT NOT NULL,
            locator TEXT NOT NULL,
            state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', command_id TEXT,
            received_at TEXT NOT NULL, retry_at TEXT NOT NULL,
            UNIQUE (instance, key))
        """
    )
    db.execute(
        "CREATE INDEX records_waiting ON records(retry_at) WHERE state = 'waiting'"
    )
    db.table("cursors").create({"instance": str, "value": str}, pk="instance")
    db.execute(
        """
        CREATE TABLE quarantine (
            id INTEGER PRIMARY KEY, source TEXT NOT NULL, name TEXT NOT NULL,
            key TEXT NOT NULL, raw BLOB NOT NULL, reason TEXT NOT NULL,
            locator TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open',
            at TEXT NOT NULL, reported INTEGER NOT NULL DEFAULT 0,
            UNIQUE (source, name, key))
        """
    )


@migrations()
def m008_commands(db: Database) -> None:
    """What is asked of the platform, and every attempt at it."""
    db.execute(
        """
        CREATE TABLE commands (
            seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, store TEXT NOT NULL,
            kind TEXT NOT NULL, target TEXT NOT NULL, lane TEXT NOT NULL,
            state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
            payload TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
            failures INTEGER NOT NULL DEFAULT 0, evidence TEXT, cause TEXT NOT NULL,
            instance TEXT NOT NULL, held INTEGER NOT NULL DEFAULT 0,
            created_at TEXT NOT NULL, due_at TEXT NOT NULL, settled_at TEXT,
            request BLOB, key_fingerprint TEXT)
        """
    )
    # Partial indices: settled commands, the great majority, are in none of them.
    db.execute(
        "CREATE INDEX commands_due ON commands(store, kind, due_at)"
        " WHERE state = 'planned' AND held = 0"
    )
    db.execute(
        "CREATE INDEX commands_held ON commands(store, lane)"
        " WHERE state = 'planned' AND held = 1"
    )
    db.execute(
        "CREATE INDEX commands_lane ON commands(store, lane, seq)"
        " WHERE state IN ('planned', 'sending', 'uncertain')"
    )
    db.table("commands").create_index(["target"])
    db.table("attempts").create(
        {
            "id": int,
            "command_id": str,
            "number": int,
            "started_at": str,
            "after_event": int,
            "finished_at": str,
            "outcome": str,
            "status": int,
            "reason": str,
            "response": bytes,
        },
        pk="id",
        not_null={"command_id", "number", "started_at"},
    )
    db.table("attempts").create_index(["command_id"])


@migrations(name="m009_rereads")
def m009_refetches(db: Database) -> None:
    """Objects with a conflict, each once, to be refetched."""
    db.execute(
        # `asks` counts doubts: an answer removes only the one it settles.
        """
        CREATE TABLE rereads (
            store TEXT NOT NULL, kind TEXT NOT NULL, object_id TEXT NOT NULL,
            reason TEXT NOT NULL, event INTEGER, asked_at TEXT NOT NULL,
            asks INTEGER NOT NULL DEFAULT 1, due_at TEXT NOT NULL,
            failures INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (store, kind, object_id)) WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX rereads_due ON rereads(store, due_at)")


@migrations()
def m010_versions(db: Database) -> None:
    """When a version was seen, how far it stands, and what is gone."""
    for table in ("products", "inventory_levels", "orders", "customers"):
        db.execute(f"ALTER TABLE {table} RENAME COLUMN read_at TO seen_at")
        db.execute(
            f"ALTER TABLE {table} ADD COLUMN standing INTEGER NOT NULL DEFAULT 0"
        )
        db.execute(f"ALTER TABLE {table} ADD COLUMN confirmed_at TEXT DEFAULT ''")
    db.execute("UPDATE products SET standing = 64 WHERE deleted_at IS NOT NULL")
    db.table("tombstones").create(
        {
            "kind": str,
            "store": str,
            "id": str,
            "updated_at": str,
            "sequence": int,
            "delivered": int,
            "seen_at": str,
            "digest": bytes,
            "standing": int,
            "confirmed_at": str,
        },
        pk=("kind", "store", "id"),
        not_null={"updated_at"},
    )


@migrations(name="m011_sweeps")
def m011_passes(db: Database) -> None:
    """Passes over the platform's lists, and which rows they saw."""
    db.execute(
        """
        CREATE TABLE sweeps (
            id INTEGER PRIMARY KEY, store TEXT NOT NULL, job TEXT NOT NULL,
            kind TEXT NOT NULL, began_at TEXT NOT NULL, ended_at TEXT,
            page INTEGER NOT NULL DEFAULT 0, total INTEGER,
            read INTEGER NOT NULL DEFAULT 0, missed INTEGER NOT NULL DEFAULT 0,
            stale INTEGER NOT NULL DEFAULT 0, deleted INTEGER NOT NULL DEFAULT 0,
            "foreign" INTEGER NOT NULL DEFAULT 0,
            unrepaired INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT '')
        """
    )
    db.execute(
        "CREATE UNIQUE INDEX sweeps_open ON sweeps(store, job, kind)"
        " WHERE ended_at IS NULL"
    )
    db.execute("CREATE INDEX sweeps_ended ON sweeps(store, job, kind, ended_at)")
    # The last full walk that saw a row: what no walk saw is asked for by its id.
    db.execute(
        """
        CREATE TABLE sightings (
            store TEXT NOT NULL, kind TEXT NOT NULL, object_id TEXT NOT NULL,
            sweep INTEGER NOT NULL, PRIMARY KEY (store, kind, object_id)) WITHOUT ROWID
        """
    )


@migrations()
def m030_webhook_secrets(db: Database) -> None:
    """When each webhook secret was last used, by its fingerprint."""
    db.table("webhook_secrets").create(
        {
            "store": str,
            "fingerprint": str,
            "source": str,
            "known_since": str,
            "last_used_at": str,
            "dropped_at": str,
        },
        pk=("store", "fingerprint"),
        not_null={"source", "known_since"},
    )


migrations(name="m020_questions")(mirror.add_questions)
migrations(name="m021_erasure")(mirror.add_erasure)
migrations(name="m022_search")(mirror.add_search)
migrations(name="m023_forgotten")(mirror.add_erased_customers)
migrations(name="m040_proofs")(commands.add_proofs)
migrations(name="m041_decisions")(commands.add_decisions)
migrations(name="m042_job_runs")(commands.add_job_runs)
migrations(name="m043_adopted")(commands.add_adopted)
migrations(name="m044_echoes")(commands.add_echoes)
migrations(name="m060_newest_records")(operations.add_newest_records)
migrations(name="m061_alerts")(operations.add_alerts)
migrations(name="m062_digests")(commands.add_digests)
migrations(name="m070_targets")(commands.add_targets)
migrations(name="m071_deliveries")(operations.add_deliveries)
migrations(name="m072_parcels")(operations.add_parcels)
migrations(name="m080_users")(operations.add_users)
migrations(name="m081_samples")(operations.add_samples)
migrations(name="m082_handed_in")(operations.add_intake_repairs)
migrations(name="m083_alert_ways")(operations.add_alert_ways)
migrations(name="m084_needs")(operations.add_alert_conditions)
migrations(name="m085_unmatched")(commands.add_unmatched)
migrations(name="m086_sent_again")(commands.add_sent_again)
migrations(name="m087_told_by")(mirror.add_reporting_event)
migrations(name="m088_lanes")(commands.add_lanes)
migrations(name="m089_unreported")(operations.add_unreported)
migrations(name="m090_rehearsed")(commands.add_rehearsed)
migrations(name="m091_joined_moves")(mirror.join_doubled_moves)
migrations(name="m092_part_keys")(row_rewrites.add_part_keys)
migrations(name="m093_approved")(operations.add_approved)
migrations(name="m094_unreadable_orders")(operations.add_unreadable_orders)
migrations(name="m095_listed_at")(commands.add_listed_at)
migrations(name="m096_sku_spellings")(mirror.create_spellings)
migrations(name="m097_incidents")(commands.add_incidents)
migrations(name="m098_record_parts")(commands.add_record_parts)
migrations(name="m099_listed_articles")(operations.create_listed_articles)
migrations(name="m100_decided")(operations.add_decided)
migrations(name="m101_payment_states")(mirror.add_payment_states)
migrations(name="m102_alphabets")(mirror.add_alphabets)
migrations(name="m103_unhandled")(operations.add_unhandled)
migrations(name="m104_rules")(operations.add_rules)
migrations(name="m105_unmatched_records")(commands.index_unmatched)
migrations(name="m106_own_targets")(commands.separate_targets)
