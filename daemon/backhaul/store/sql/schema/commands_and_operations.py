"""Tables of records, commands and stock targets, and of users, jobs and alerts."""

from __future__ import annotations

from backhaul.store.sql.dialect import member

# The W3C header of the span from which the work goes on, also after a restart. As the
# last column it costs a row without a trace one byte.
TRACEPARENTS: tuple[str, ...] = tuple(
    f"ALTER TABLE {table} ADD COLUMN traceparent TEXT"
    for table in ("inbox", "records", "commands", "stock_targets")
)
COMMANDS: tuple[str, ...] = (
    """
    CREATE TABLE records (
        id INTEGER PRIMARY KEY, instance TEXT NOT NULL, store TEXT NOT NULL,
        key TEXT NOT NULL, payload TEXT NOT NULL, raw TEXT NOT NULL,
        locator TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
        command_id TEXT, received_at TEXT NOT NULL, retry_at TEXT NOT NULL,
        caused_at TEXT, decided INTEGER NOT NULL DEFAULT 0, UNIQUE (instance, key)
    )
    """,
    "CREATE INDEX records_waiting ON records(retry_at) WHERE state = 'waiting'",
    """
    CREATE INDEX records_command ON records(command_id) WHERE command_id IS NOT NULL
    """,
    "CREATE INDEX records_newest ON records(instance, id)",
    "CREATE INDEX records_approved ON records(id) WHERE state = 'approved'",
    f"""
    CREATE INDEX records_unmatched
        ON records(instance, ({member("payload", "$.record.sku")}))
        WHERE state IN ('waiting', 'quarantined')
    """,
    # The single keys of records that were submitted as one.
    """
    CREATE TABLE record_parts (
        instance TEXT NOT NULL, key TEXT NOT NULL, record INTEGER NOT NULL,
        PRIMARY KEY (instance, key)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE "cursors" (
        instance TEXT PRIMARY KEY, value TEXT
    )
    """,
    """
    CREATE TABLE listed_articles (
        store TEXT NOT NULL, instance TEXT NOT NULL, variant_id TEXT NOT NULL,
        product_id TEXT NOT NULL, sku TEXT NOT NULL, listed_at TEXT NOT NULL,
        PRIMARY KEY (store, instance, variant_id)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE commands (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, store TEXT NOT NULL,
        kind TEXT NOT NULL, target TEXT NOT NULL, lane TEXT NOT NULL,
        state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', payload TEXT NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
        evidence TEXT, cause TEXT NOT NULL, instance TEXT NOT NULL,
        hold_reason TEXT, created_at TEXT NOT NULL,
        due_at TEXT NOT NULL, settled_at TEXT, request BLOB, key_fingerprint TEXT,
        baseline TEXT, sent_at TEXT, looks INTEGER NOT NULL DEFAULT 0, effect_id TEXT,
        digest BLOB, request_digest BLOB, caused_at TEXT,
        behind INTEGER NOT NULL DEFAULT 0, accepted TEXT
    )
    """,
    """
    CREATE INDEX commands_due ON commands(store, kind, due_at)
        WHERE state = 'planned' AND hold_reason IS NULL
    """,
    """
    CREATE INDEX commands_held ON commands(store, lane)
        WHERE state = 'planned' AND hold_reason = 'order'
    """,
    "CREATE INDEX commands_target ON commands(target)",
    """
    CREATE UNIQUE INDEX commands_effect ON commands(store, effect_id)
        WHERE effect_id IS NOT NULL
    """,
    """
    CREATE INDEX commands_uncertain ON commands(store, due_at) WHERE state = 'uncertain'
    """,
    "CREATE INDEX commands_parked ON commands(seq) WHERE state = 'parked'",
    """
    CREATE INDEX commands_doubled ON commands(seq)
        WHERE instr(evidence, '"doubled"') > 0
    """,
    """
    CREATE INDEX commands_sent_again ON commands(store, sent_at)
        WHERE kind = 'fulfill' AND attempts > 1
    """,
    """
    CREATE INDEX commands_in_flight ON commands(store, lane)
        WHERE state IN ('sending', 'uncertain')
    """,
    """
    CREATE INDEX commands_free ON commands(store, kind, due_at)
        WHERE state = 'planned' AND hold_reason IS NULL AND behind = 0
    """,
    # With `hold_reason`, a claim skips commands that wait for something else.
    """
    CREATE INDEX commands_lane ON commands(store, lane, hold_reason, seq)
        WHERE state IN ('planned', 'sending', 'uncertain')
    """,
    """
    CREATE INDEX commands_dry_run ON commands(store, instance)
        WHERE state = 'planned' AND hold_reason = 'dry_run'
    """,
    """
    CREATE TABLE attempts (
        id INTEGER PRIMARY KEY, command_id TEXT NOT NULL, number INTEGER NOT NULL,
        started_at TEXT NOT NULL, after_event INTEGER, finished_at TEXT, outcome TEXT,
        status INTEGER, reason TEXT, response BLOB
    )
    """,
    "CREATE INDEX attempts_command ON attempts(command_id)",
    """
    CREATE TABLE resolution_checks (
        id INTEGER PRIMARY KEY, command_id TEXT NOT NULL, number INTEGER NOT NULL,
        at TEXT NOT NULL, found TEXT NOT NULL, reason TEXT NOT NULL, read TEXT
    )
    """,
    "CREATE INDEX resolution_checks_command ON resolution_checks(command_id)",
    """
    CREATE TABLE adopted_effects (
        store TEXT NOT NULL, adjustment_id TEXT NOT NULL, command_id TEXT NOT NULL,
        evidence TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (store, adjustment_id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX adopted_effects_command ON adopted_effects(command_id)",
    """
    CREATE TABLE echoes (
        store TEXT NOT NULL, effect TEXT NOT NULL, lane TEXT NOT NULL,
        event_id INTEGER NOT NULL, at TEXT NOT NULL, change_id INTEGER,
        command_id TEXT, PRIMARY KEY (store, effect)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX echoes_at ON echoes(at) WHERE command_id IS NOT NULL",
    "CREATE INDEX echoes_command ON echoes(command_id)",
    "CREATE INDEX echoes_unclaimed ON echoes(store, lane) WHERE command_id IS NULL",
    """
    CREATE TABLE incidents (
        id INTEGER PRIMARY KEY, store TEXT NOT NULL, kind TEXT NOT NULL,
        order_id TEXT NOT NULL, command_id TEXT NOT NULL, at TEXT NOT NULL,
        says TEXT NOT NULL, resolved_at TEXT, resolved_by TEXT, resolution TEXT,
        UNIQUE (order_id, store, kind, command_id)
    )
    """,
    "CREATE INDEX incidents_open ON incidents(id) WHERE resolved_at IS NULL",
    """
    CREATE TABLE stock_targets (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, store TEXT NOT NULL,
        product_id TEXT NOT NULL, variant_id TEXT NOT NULL, quantity INTEGER NOT NULL,
        as_of TEXT NOT NULL, listed_at TEXT NOT NULL DEFAULT '', state TEXT NOT NULL,
        reason TEXT NOT NULL DEFAULT '', payload TEXT NOT NULL, digest BLOB,
        evidence TEXT, cause TEXT NOT NULL, instance TEXT NOT NULL,
        created_at TEXT NOT NULL, due_at TEXT NOT NULL, settled_at TEXT, caused_at TEXT,
        round INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,
        correction TEXT, computation TEXT, words TEXT, delta INTEGER, levels TEXT,
        ledger INTEGER, unread INTEGER NOT NULL DEFAULT 0, read_at TEXT
    )
    """,
    "CREATE INDEX targets_variant ON stock_targets(variant_id, as_of, store)",
    "CREATE INDEX targets_product ON stock_targets(product_id, store)",
    """
    CREATE INDEX targets_correction ON stock_targets(correction)
        WHERE correction IS NOT NULL
    """,
    "CREATE INDEX targets_unread ON stock_targets(store, read_at) WHERE unread = 1",
    """
    CREATE INDEX targets_waiting ON stock_targets(store, due_at)
        WHERE state = 'waiting'
    """,
    """
    CREATE INDEX targets_open ON stock_targets(store)
        WHERE state IN ('waiting', 'adjusting', 'held')
    """,
    "CREATE INDEX targets_held ON stock_targets(seq) WHERE state = 'held'",
    "CREATE INDEX targets_parked ON stock_targets(seq) WHERE state = 'parked'",
    """
    CREATE TABLE parcels (
        store TEXT NOT NULL, shipment_id TEXT NOT NULL, order_id TEXT NOT NULL,
        tracking_number TEXT NOT NULL, status TEXT NOT NULL, "rank" INTEGER NOT NULL,
        at TEXT NOT NULL, instance TEXT NOT NULL, PRIMARY KEY (store, shipment_id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX parcels_order ON parcels(order_id)",
    """
    CREATE TABLE change_subscribers (
        instance TEXT NOT NULL PRIMARY KEY, store TEXT NOT NULL, since TEXT NOT NULL,
        begun INTEGER NOT NULL, "cursor" INTEGER NOT NULL, release_when TEXT,
        old_before TEXT
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE deliveries (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, instance TEXT NOT NULL,
        store TEXT NOT NULL, topic TEXT NOT NULL, object_id TEXT NOT NULL,
        change_id INTEGER NOT NULL, state TEXT NOT NULL,
        reason TEXT NOT NULL DEFAULT '', attempts INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0, looks INTEGER NOT NULL DEFAULT 0,
        reference TEXT, created_at TEXT NOT NULL, due_at TEXT NOT NULL, sent_at TEXT,
        settled_at TEXT
    )
    """,
    "CREATE INDEX deliveries_object ON deliveries(object_id)",
    """
    CREATE INDEX deliveries_open ON deliveries(instance, object_id, seq)
        WHERE state IN ('planned', 'sending', 'uncertain', 'parked')
    """,
    """
    CREATE INDEX deliveries_planned ON deliveries(instance, seq) WHERE state = 'planned'
    """,
    """
    CREATE INDEX deliveries_uncertain ON deliveries(instance, due_at)
        WHERE state IN ('sending', 'uncertain')
    """,
    """
    CREATE TABLE delivered_levels (
        instance TEXT NOT NULL, store TEXT NOT NULL, variant_id TEXT NOT NULL,
        stock INTEGER NOT NULL, PRIMARY KEY (instance, store, variant_id)
    ) WITHOUT ROWID
    """,
)
SIGN_IN: tuple[str, ...] = (
    "ALTER TABLE users ADD COLUMN identity TEXT",
    "ALTER TABLE users ADD COLUMN disabled_at TEXT",
    "ALTER TABLE users ADD COLUMN totp TEXT",
    "ALTER TABLE users ADD COLUMN totp_step INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE users ADD COLUMN recovery_codes TEXT NOT NULL DEFAULT '[]'",
)
OPERATIONS: tuple[str, ...] = (
    """
    CREATE TABLE kv (
        name TEXT PRIMARY KEY, value TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE users (
        name TEXT PRIMARY KEY, role TEXT NOT NULL, secret TEXT NOT NULL,
        epoch INTEGER NOT NULL, created_at TEXT NOT NULL, last_login_at TEXT
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL,
        action TEXT NOT NULL, detail TEXT NOT NULL, command_id TEXT,
        state_before TEXT, state_after TEXT
    )
    """,
    "CREATE INDEX audit_command ON audit(command_id) WHERE command_id IS NOT NULL",
    """
    CREATE TABLE webhook_secrets (
        store TEXT, fingerprint TEXT, source TEXT NOT NULL, known_since TEXT NOT NULL,
        last_used_at TEXT, dropped_at TEXT, PRIMARY KEY (store, fingerprint)
    )
    """,
    """
    CREATE TABLE job_state (
        job TEXT NOT NULL, store TEXT NOT NULL, plan TEXT NOT NULL,
        since TEXT NOT NULL, paused_at TEXT, trigger TEXT, due_at TEXT,
        started_at TEXT, ended_at TEXT, outcome TEXT, detail TEXT,
        seen INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (job, store)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE job_runs (
        id INTEGER PRIMARY KEY, job TEXT NOT NULL, store TEXT NOT NULL,
        trigger TEXT NOT NULL, due_at TEXT NOT NULL, started_at TEXT NOT NULL,
        ended_at TEXT, outcome TEXT NOT NULL, detail TEXT NOT NULL
    )
    """,
    "CREATE INDEX job_runs_started ON job_runs(started_at)",
    "CREATE INDEX job_runs_open ON job_runs(job, store) WHERE ended_at IS NULL",
    "CREATE INDEX job_runs_backup ON job_runs(started_at) WHERE job = 'backup'",
    """
    CREATE TABLE alerts (
        key TEXT PRIMARY KEY, says TEXT NOT NULL, "mend" TEXT NOT NULL,
        began_at TEXT NOT NULL, told_at TEXT, gone_at TEXT
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE alert_notifications (
        way TEXT NOT NULL, key TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (way, key)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE metric_samples (
        at TEXT PRIMARY KEY, webhooks INTEGER NOT NULL, folded INTEGER NOT NULL,
        applied INTEGER NOT NULL, platform_seconds REAL, heartbeat_seconds REAL,
        events_waiting INTEGER NOT NULL, commands_open INTEGER NOT NULL,
        parked INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
)
API_TOKENS: tuple[str, ...] = (
    """
    CREATE TABLE api_tokens (
        name TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, scope TEXT NOT NULL,
        created_at TEXT NOT NULL, created_by TEXT NOT NULL, expires_at TEXT,
        last_used_at TEXT, revoked_at TEXT
    ) WITHOUT ROWID
    """,
)
# An attempt of a delivery, or a check whether an uncertain one arrived.
DELIVERY_ATTEMPTS: tuple[str, ...] = (
    """
    CREATE TABLE delivery_attempts (
        id INTEGER PRIMARY KEY, delivery INTEGER NOT NULL, kind TEXT NOT NULL,
        number INTEGER NOT NULL, started_at TEXT, finished_at TEXT NOT NULL,
        state TEXT NOT NULL, reason TEXT NOT NULL
    )
    """,
    "CREATE INDEX delivery_attempts_delivery ON delivery_attempts(delivery)",
    "CREATE INDEX delivery_attempts_finished ON delivery_attempts(finished_at)",
)
SAVED_VIEWS: tuple[str, ...] = (
    """
    CREATE TABLE saved_views (
        id INTEGER PRIMARY KEY, who TEXT NOT NULL, list TEXT NOT NULL,
        name TEXT NOT NULL, filter TEXT NOT NULL, sort TEXT NOT NULL,
        created_at TEXT NOT NULL, UNIQUE (who, list, name)
    )
    """,
)
CONNECTOR_DOCUMENTS: tuple[str, ...] = (
    """
    CREATE TABLE connector_documents (
        instance TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (instance, key)
    ) WITHOUT ROWID
    """,
)
# `folded` is the alias as it is compared. A mapping of all connections has no instance.
MAPPINGS: tuple[str, ...] = (
    """
    CREATE TABLE mappings (
        id INTEGER PRIMARY KEY, store TEXT NOT NULL, kind TEXT NOT NULL,
        alias TEXT NOT NULL, folded TEXT NOT NULL, name TEXT NOT NULL,
        instance TEXT NOT NULL DEFAULT '', created_at TEXT NOT NULL,
        created_by TEXT NOT NULL, UNIQUE (store, kind, folded, instance)
    )
    """,
)
# Replaces metric_samples, which older versions on the same server still write.
METRIC_MINUTES: tuple[str, ...] = (
    """
    CREATE TABLE metric_minutes (
        at TEXT NOT NULL, member TEXT NOT NULL,
        webhooks INTEGER NOT NULL, events INTEGER NOT NULL, commands INTEGER NOT NULL,
        records INTEGER NOT NULL, deliveries INTEGER NOT NULL,
        requests INTEGER NOT NULL, failed_events INTEGER NOT NULL,
        failed_commands INTEGER NOT NULL, failed_deliveries INTEGER NOT NULL,
        failed_requests INTEGER NOT NULL, applied_times TEXT NOT NULL,
        sent_times TEXT NOT NULL, platform_times TEXT NOT NULL,
        events_waiting INTEGER, commands_open INTEGER, commands_parked INTEGER,
        deliveries_open INTEGER, quarantined INTEGER, PRIMARY KEY (at, member)
    ) WITHOUT ROWID
    """,
)
