"""Tables of operation: users, audit, jobs, alerts, metric samples, connectors' data."""

from __future__ import annotations

STATEMENTS: tuple[str, ...] = (
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
CONNECTOR_DOCUMENTS: tuple[str, ...] = (
    """
    CREATE TABLE connector_documents (
        instance TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (instance, key)
    ) WITHOUT ROWID
    """,
)
