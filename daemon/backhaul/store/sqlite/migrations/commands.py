"""Migrations from 40: evidence of commands, and what explains their outcome.

They are frozen like the others; `migrations` registers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database


def add_proofs(db: Database) -> None:
    """The evidence of a command's outcome, each check of it, and its effect."""
    # `baseline`: the state of the object before the first byte was sent, as JSON.
    db.execute("ALTER TABLE commands ADD COLUMN baseline TEXT")
    db.execute("ALTER TABLE commands ADD COLUMN sent_at TEXT")
    db.execute("ALTER TABLE commands ADD COLUMN looks INTEGER NOT NULL DEFAULT 0")
    # `effect_id`: the adjustment or parcel on the platform that is this command's own.
    db.execute("ALTER TABLE commands ADD COLUMN effect_id TEXT")
    db.execute(
        "UPDATE commands SET effect_id = json_extract(evidence, '$.adjustment_id')"
        " WHERE kind = 'adjust' AND state = 'applied' AND NOT EXISTS"
        " (SELECT 1 FROM commands o WHERE o.store = commands.store"
        "  AND o.seq < commands.seq AND o.state = 'applied' AND o.kind = 'adjust'"
        "  AND json_extract(o.evidence, '$.adjustment_id')"
        "   = json_extract(commands.evidence, '$.adjustment_id'))"
    )
    db.execute(
        "CREATE UNIQUE INDEX commands_effect ON commands(store, effect_id)"
        " WHERE effect_id IS NOT NULL"
    )
    db.execute(
        "CREATE INDEX commands_doubt ON commands(store, due_at)"
        " WHERE state = 'uncertain'"
    )
    db.execute(
        """
        CREATE TABLE looks (
            id INTEGER PRIMARY KEY, command_id TEXT NOT NULL, number INTEGER NOT NULL,
            at TEXT NOT NULL, found TEXT NOT NULL, reason TEXT NOT NULL, read TEXT)
        """
    )
    db.table("looks").create_index(["command_id"])


def add_decisions(db: Database) -> None:
    """Which command a person moved, and from where to where."""
    db.execute("ALTER TABLE audit ADD COLUMN command_id TEXT")
    db.execute("ALTER TABLE audit ADD COLUMN state_before TEXT")
    db.execute("ALTER TABLE audit ADD COLUMN state_after TEXT")
    db.execute(
        "CREATE INDEX audit_command ON audit(command_id) WHERE command_id IS NOT NULL"
    )
    db.execute("CREATE INDEX commands_parked ON commands(seq) WHERE state = 'parked'")


def add_job_runs(db: Database) -> None:
    """Where each scheduled job stands, and the runs that are worth a row."""
    # `plan` is when it runs, in words; missed runs count from `since` on. `seen` is the
    # newest command at the last run.
    db.execute(
        """
        CREATE TABLE job_state (
            job TEXT NOT NULL, store TEXT NOT NULL, plan TEXT NOT NULL,
            since TEXT NOT NULL, paused_at TEXT, trigger TEXT, due_at TEXT,
            started_at TEXT, ended_at TEXT, outcome TEXT, detail TEXT,
            seen INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (job, store)) WITHOUT ROWID
        """
    )
    db.execute(
        """
        CREATE TABLE job_runs (
            id INTEGER PRIMARY KEY, job TEXT NOT NULL, store TEXT NOT NULL,
            trigger TEXT NOT NULL, due_at TEXT NOT NULL, started_at TEXT NOT NULL,
            ended_at TEXT, outcome TEXT NOT NULL, detail TEXT NOT NULL)
        """
    )
    db.execute("CREATE INDEX job_runs_started ON job_runs(started_at)")
    db.execute(
        "CREATE INDEX job_runs_open ON job_runs(job, store) WHERE ended_at IS NULL"
    )


def add_adopted(db: Database) -> None:
    """Adjustments with our tag that this database knows no command of."""
    # After a restore: the command is born applied when its record comes in again.
    db.execute(
        """
        CREATE TABLE adopted (
            store TEXT NOT NULL, adjustment_id TEXT NOT NULL, command_id TEXT NOT NULL,
            evidence TEXT NOT NULL, at TEXT NOT NULL,
            PRIMARY KEY (store, adjustment_id)) WITHOUT ROWID
        """
    )
    db.table("adopted").create_index(["command_id"])


def add_digests(db: Database) -> None:
    """Digests that show whether a failing disk has changed a row."""
    db.execute("ALTER TABLE inbox ADD COLUMN digest BLOB")
    # A body that is rewritten on purpose, to erase a customer, keeps no digest.
    db.execute(
        """
        CREATE TRIGGER inbox_rewritten AFTER UPDATE OF body ON inbox
        WHEN new.digest IS NOT NULL
        BEGIN UPDATE inbox SET digest = NULL WHERE id = new.id; END
        """
    )
    db.execute("ALTER TABLE commands ADD COLUMN digest BLOB")
    db.execute("ALTER TABLE commands ADD COLUMN request_digest BLOB")


_FEED = """
    SELECT c.id, c.store, c.kind, c.object_id, c.change, c.at, c.event, c.instance,
           EXISTS (SELECT 1 FROM commands o WHERE o.store = c.store
                   AND o.lane = CASE c.kind WHEN 'order' THEN 'order:'
                                ELSE 'product:' END || c.object_id
                   AND o.state IN ('planned', 'sending', 'uncertain')
                   AND o.state != 'planned') AS waits
    FROM changes c
"""


def add_echoes(db: Database) -> None:
    """The event by which each effect of our own came back, and whose it was."""
    db.execute(
        """
        CREATE TABLE echoes (
            store TEXT NOT NULL, effect TEXT NOT NULL, lane TEXT NOT NULL,
            event_id INTEGER NOT NULL, at TEXT NOT NULL, change_id INTEGER,
            command_id TEXT, PRIMARY KEY (store, effect)) WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX echoes_at ON echoes(at) WHERE command_id IS NOT NULL")
    db.execute("CREATE INDEX echoes_command ON echoes(command_id)")
    db.execute(
        "CREATE INDEX echoes_unclaimed ON echoes(store, lane) WHERE command_id IS NULL"
    )
    db.execute("ALTER TABLE changes ADD COLUMN instance TEXT")
    db.execute(f"CREATE VIEW feed AS {_FEED}")


def add_targets(db: Database) -> None:
    """Counts of the back office, and when what is asked for was asked for first."""
    # A record may wait, or be handed in again: what it tells of was before.
    db.execute("ALTER TABLE records ADD COLUMN caused_at TEXT")
    db.execute("ALTER TABLE commands ADD COLUMN caused_at TEXT")
    # `correction` is the adjustment of the present `round`, `computation` how it came
    # about, in `words` for people. `levels` and `ledger` are what was known of the
    # product then; `unread` as long as it is to be read back.
    db.execute(
        """
        CREATE TABLE stock_targets (
            command_id TEXT PRIMARY KEY, store TEXT NOT NULL, product_id TEXT NOT NULL,
            variant_id TEXT NOT NULL, quantity INTEGER NOT NULL, as_of TEXT NOT NULL,
            round INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,
            correction TEXT, computation TEXT, words TEXT, delta INTEGER, levels TEXT,
            ledger INTEGER, unread INTEGER NOT NULL DEFAULT 0, read_at TEXT
            ) WITHOUT ROWID
        """
    )
    db.execute(
        "CREATE INDEX targets_variant ON stock_targets(variant_id, as_of, store)"
    )
    db.execute("CREATE INDEX targets_product ON stock_targets(product_id, store)")
    db.execute(
        "CREATE INDEX targets_correction ON stock_targets(correction)"
        " WHERE correction IS NOT NULL"
    )
    db.execute(
        "CREATE INDEX targets_unread ON stock_targets(store, read_at) WHERE unread = 1"
    )
    db.execute("CREATE INDEX order_items_variant ON order_items(variant_id)")


def add_unmatched(db: Database) -> None:
    """Records that found nothing yet, by the article that they name."""
    db.execute(
        "CREATE INDEX records_unmatched ON records(instance,"
        " iif(json_valid(payload), json_extract(payload, '$.record.sku'), NULL))"
        " WHERE state IN ('waiting', 'quarantined')"
    )


def index_unmatched(db: Database) -> None:
    """The same index over the expression that the store's queries use now."""
    db.execute("DROP INDEX records_unmatched")
    db.execute(
        "CREATE INDEX records_unmatched ON records(instance, CASE WHEN"
        " json_valid(payload) THEN json_extract(payload, '$.record.sku') END)"
        " WHERE state IN ('waiting', 'quarantined')"
    )


def add_sent_again(db: Database) -> None:
    """Parcels that may have left twice: of commands that were sent more than once."""
    db.execute(
        "CREATE INDEX commands_sent_again ON commands(store, sent_at)"
        " WHERE kind = 'fulfill' AND attempts > 1"
    )


# The first two of a lane, of those that may leave in their turn.
_FIRST = """
    SELECT o.seq FROM commands o
    WHERE o.store = {row}.store AND o.lane = {row}.lane
      AND o.state IN ('planned', 'sending', 'uncertain')
      AND o.state = 'planned' AND o.held = 0 AND o.kind != 'target'
    ORDER BY o.seq LIMIT 2
"""
_BLOCKED = """
    (EXISTS (SELECT 1 FROM commands o
       WHERE o.store = commands.store AND o.lane = commands.lane
         AND o.state IN ('sending', 'uncertain'))
     OR EXISTS (SELECT 1 FROM commands o
       WHERE o.store = commands.store AND o.lane = commands.lane
         AND o.state IN ('planned', 'sending', 'uncertain')
         AND o.state = 'planned' AND o.held = 0 AND o.kind != 'target'
         AND o.seq < commands.seq))
"""
_WAIT = f"""
    UPDATE commands SET behind = 1
    WHERE state = 'planned' AND held = 0 AND kind != 'target' AND {_BLOCKED}
"""  # noqa: S608 - constants
_FEED_OF_LANES = """
    SELECT c.id, c.store, c.kind, c.object_id, c.change, c.at, c.event, c.instance,
           EXISTS (SELECT 1 FROM commands o WHERE o.store = c.store
                   AND o.lane = CASE c.kind WHEN 'order' THEN 'order:'
                                ELSE 'product:' END || c.object_id
                   AND o.state IN ('sending', 'uncertain')) AS waits
    FROM changes c
"""
# After a change only these rows of the lane can have another value.
_ALIGN = f"""
    UPDATE commands SET behind = 1
    WHERE seq IN (SELECT {{row}}.seq UNION ALL SELECT seq FROM ({_FIRST}))
      AND behind = 0 AND state = 'planned' AND held = 0 AND kind != 'target'
      AND {_BLOCKED};
    UPDATE commands SET behind = 0
    WHERE seq IN (SELECT {{row}}.seq UNION ALL SELECT seq FROM ({_FIRST}))
      AND behind = 1 AND NOT (state = 'planned' AND held = 0 AND {_BLOCKED});
"""  # noqa: S608 - constants


def add_lanes(db: Database) -> None:
    """Which commands wait behind another of their lane: a claim passes them over."""
    db.execute("ALTER TABLE commands ADD COLUMN behind INTEGER NOT NULL DEFAULT 0")
    db.execute(
        "CREATE INDEX commands_flying ON commands(store, lane)"
        " WHERE state IN ('sending', 'uncertain')"
    )
    db.execute("DROP VIEW feed")
    db.execute(f"CREATE VIEW feed AS {_FEED_OF_LANES}")
    db.execute(_WAIT)
    db.execute(
        "CREATE INDEX commands_free ON commands(store, kind, due_at)"
        " WHERE state = 'planned' AND held = 0 AND behind = 0"
    )
    for name, row, event in (
        ("planned", "new", "AFTER INSERT ON commands WHEN new.kind != 'target'"),
        (
            "moved",
            "new",
            "AFTER UPDATE OF state, held ON commands WHEN new.kind != 'target'"
            " AND (new.state, new.held) != (old.state, old.held)",
        ),
        (
            "removed",
            "old",
            "AFTER DELETE ON commands WHEN old.kind != 'target'"
            " AND old.state IN ('planned', 'sending', 'uncertain')",
        ),
    ):
        align = _ALIGN.format(row=row)
        db.execute(f"CREATE TRIGGER commands_{name} {event} BEGIN {align} END")


def add_rehearsed(db: Database) -> None:
    """Commands that a dry run holds (`held` is 2), which no claim reads."""
    db.execute("DROP INDEX commands_lane")
    db.execute(
        # With `held`, a claim passes over commands that wait for something else.
        "CREATE INDEX commands_lane ON commands(store, lane, held, seq)"
        " WHERE state IN ('planned', 'sending', 'uncertain')"
    )
    db.execute(
        "CREATE INDEX commands_aside ON commands(store, instance)"
        " WHERE state = 'planned' AND held = 2"
    )
    db.execute(
        "UPDATE commands SET held = 2"
        " WHERE state = 'planned' AND held = 0 AND reason = 'dry run: not sent'"
    )


def add_listed_at(db: Database) -> None:
    """When the list was written that a stock target came from; empty where unknown."""
    db.execute(
        "ALTER TABLE stock_targets ADD COLUMN listed_at TEXT NOT NULL DEFAULT ''"
    )


def add_incidents(db: Database) -> None:
    """What an operator accepted of a command, and what one has to put right."""
    db.execute("ALTER TABLE commands ADD COLUMN accepted TEXT")
    db.execute(
        """
        CREATE TABLE incidents (
            id INTEGER PRIMARY KEY, store TEXT NOT NULL, kind TEXT NOT NULL,
            order_id TEXT NOT NULL, command_id TEXT NOT NULL, at TEXT NOT NULL,
            says TEXT NOT NULL, resolved_at TEXT, resolved_by TEXT, resolution TEXT,
            UNIQUE (order_id, store, kind, command_id))
        """
    )
    db.execute("CREATE INDEX incidents_open ON incidents(id) WHERE resolved_at IS NULL")


def add_record_parts(db: Database) -> None:
    """Add the parts of records that join several causes, by their keys."""
    db.execute(
        "CREATE TABLE record_parts (instance TEXT NOT NULL, key TEXT NOT NULL,"
        " record INTEGER NOT NULL, PRIMARY KEY (instance, key)) WITHOUT ROWID"
    )


_OWN_TARGETS = """
    CREATE TABLE stock_targets (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, store TEXT NOT NULL,
        product_id TEXT NOT NULL, variant_id TEXT NOT NULL, quantity INTEGER NOT NULL,
        as_of TEXT NOT NULL, listed_at TEXT NOT NULL DEFAULT '', state TEXT NOT NULL,
        reason TEXT NOT NULL DEFAULT '', payload TEXT NOT NULL, digest BLOB,
        evidence TEXT, cause TEXT NOT NULL, instance TEXT NOT NULL,
        created_at TEXT NOT NULL, due_at TEXT NOT NULL, settled_at TEXT, caused_at TEXT,
        round INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,
        correction TEXT, computation TEXT, words TEXT, delta INTEGER, levels TEXT,
        ledger INTEGER, unread INTEGER NOT NULL DEFAULT 0, read_at TEXT)
"""
_MOVE_TARGETS = """
    INSERT INTO stock_targets
    SELECT c.seq, c.id, c.store, t.product_id, t.variant_id, t.quantity, t.as_of,
           t.listed_at,
           CASE c.state WHEN 'rejected' THEN 'discarded'
             WHEN 'planned' THEN
               CASE WHEN c.held = 0 THEN 'waiting' ELSE 'adjusting' END
             ELSE c.state END,
           c.reason, c.payload, c.digest, c.evidence, c.cause, c.instance, c.created_at,
           c.due_at, c.settled_at, c.caused_at, t.round, t.tries, t.correction,
           t.computation, t.words, t.delta, t.levels, t.ledger, t.unread, t.read_at
    FROM commands c JOIN targets_of_commands t ON t.command_id = c.id
    WHERE c.kind = 'target'
"""
_COMMANDS_AND_TARGETS = """
    CREATE VIEW commands_and_targets AS
    SELECT seq, id, store, kind, target, lane, state, reason, payload, attempts,
           failures, evidence, cause, instance, held, created_at, due_at, settled_at,
           request, key_fingerprint, baseline, sent_at, looks, effect_id, digest,
           request_digest, caused_at, behind, accepted
    FROM commands
    UNION ALL
    SELECT seq, id, store, 'target', product_id, 'product:' || product_id,
           CASE state WHEN 'waiting' THEN 'planned' WHEN 'adjusting' THEN 'planned'
             WHEN 'discarded' THEN 'rejected' ELSE state END,
           reason, payload, 0, 0, evidence, cause, instance,
           CASE state WHEN 'adjusting' THEN 1 ELSE 0 END, created_at, due_at,
           settled_at, NULL, NULL, NULL, NULL, 0, NULL, digest, NULL, caused_at, 0, NULL
    FROM stock_targets
"""


def separate_targets(db: Database) -> None:
    """Stock targets as rows of their own, which were commands before."""
    db.execute("ALTER TABLE stock_targets RENAME TO targets_of_commands")
    db.execute(_OWN_TARGETS)
    db.execute(_MOVE_TARGETS)
    db.execute("DROP TABLE targets_of_commands")
    db.execute("DELETE FROM commands WHERE kind = 'target'")
    db.execute(
        "CREATE INDEX targets_variant ON stock_targets(variant_id, as_of, store)"
    )
    db.execute("CREATE INDEX targets_product ON stock_targets(product_id, store)")
    db.execute(
        "CREATE INDEX targets_correction ON stock_targets(correction)"
        " WHERE correction IS NOT NULL"
    )
    db.execute(
        "CREATE INDEX targets_unread ON stock_targets(store, read_at) WHERE unread = 1"
    )
    db.execute(
        "CREATE INDEX targets_waiting ON stock_targets(store, due_at)"
        " WHERE state = 'waiting'"
    )
    db.execute(
        "CREATE INDEX targets_open ON stock_targets(store)"
        " WHERE state IN ('waiting', 'adjusting')"
    )
    db.execute(
        "CREATE INDEX targets_parked ON stock_targets(seq) WHERE state = 'parked'"
    )
    db.execute(_COMMANDS_AND_TARGETS)
