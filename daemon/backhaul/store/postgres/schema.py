"""The schema in PostgreSQL: the common statements, triggers and the search's index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.errors import CorruptData
from backhaul.store.postgres import dialect
from backhaul.store.sql.schema import BASELINE, STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.postgres.connection import Connection

_LOCK = 0x6261636B  # "back": two daemons that start at once create the schema in turn
_TABLES = """
    SELECT table_name FROM information_schema.tables
    WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'
    ORDER BY table_name
"""
# `behind` marks the commands that wait for another of their ordering key, so that a
# claim skips them. After a change only the changed row and the first two of its
# ordering key can have another value.
_ORDERING_KEYS = """
    CREATE FUNCTION align_ordering_key() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        changed commands%ROWTYPE := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
        busy boolean;
        first bigint;
        second bigint;
    BEGIN
        SELECT EXISTS (
            SELECT 1 FROM commands o
            WHERE o.store = changed.store AND o.lane = changed.lane
              AND o.state IN ('sending', 'uncertain')) INTO busy;
        SELECT min(seq), max(seq) INTO first, second FROM (
            SELECT o.seq FROM commands o
            WHERE o.store = changed.store AND o.lane = changed.lane
              AND o.state = 'planned' AND o.hold_reason IS NULL
            ORDER BY o.seq LIMIT 2) two;
        UPDATE commands c SET behind = waits.behind FROM (
            SELECT o.seq, CASE WHEN o.state = 'planned' AND o.hold_reason IS NULL
                AND (busy OR o.seq > first) THEN 1 ELSE 0 END AS behind
            FROM commands o WHERE o.seq IN (changed.seq, first, second)) waits
        WHERE c.seq = waits.seq AND c.behind != waits.behind;
        RETURN NULL;
    END $$
    """
_TRIGGERS = (
    """
    CREATE TRIGGER commands_planned AFTER INSERT ON commands
    FOR EACH ROW EXECUTE FUNCTION align_ordering_key()
    """,
    """
    CREATE TRIGGER commands_moved AFTER UPDATE OF state, hold_reason ON commands
    FOR EACH ROW WHEN (new.state != old.state
        OR new.hold_reason IS DISTINCT FROM old.hold_reason)
    EXECUTE FUNCTION align_ordering_key()
    """,
    """
    CREATE TRIGGER commands_removed AFTER DELETE ON commands
    FOR EACH ROW WHEN (old.state IN ('planned', 'sending', 'uncertain'))
    EXECUTE FUNCTION align_ordering_key()
    """,
)


def create(connection: Connection) -> None:
    """Create what is missing, in one transaction.

    Raises CorruptData if a newer version of Backhaul made the schema.
    """
    connection.execute("BEGIN")
    try:
        create_within(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def create_within(connection: Connection) -> None:
    """Create what is missing, in the transaction of the caller."""
    lock(connection)
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_steps (name text PRIMARY KEY,"
        " applied_at timestamptz NOT NULL DEFAULT now())"
    )
    for step in pending(connection):
        _apply(connection, step)


def lock(connection: Connection) -> None:
    """Wait for another program that creates the schema, until the transaction ends."""
    connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")


def exists(connection: Connection) -> bool:
    """Return True if Backhaul has created its tables in the schema."""
    found = connection.execute("SELECT to_regclass('schema_steps') IS NOT NULL")
    return found.fetchall() == [(1,)]


def pending(connection: Connection) -> list[str]:
    """Return the migrations that a database lacks.

    Raises CorruptData if a newer version of Backhaul made the schema.
    """
    if not exists(connection):
        return list(STEPS)
    names = connection.execute("SELECT name FROM schema_steps")
    applied = {row[0] for row in names}
    if unknown := sorted(applied - set(STEPS)):
        raise CorruptData(
            f"a newer version of Backhaul made this database: {unknown[-1]} is unknown;"
            " install that version"
        )
    return [step for step in STEPS if step not in applied]


def _require_own(connection: Connection) -> None:
    """Raise CorruptData if there are tables of another program."""
    found = [row[0] for row in connection.execute(_TABLES) if row[0] != "schema_steps"]
    if found:
        raise CorruptData(
            f"the database holds tables of another program, such as {found[0]}; give"
            " Backhaul a database of its own, or a schema:"
            " ?options=-csearch_path%3Dbackhaul"
        )


def drop(connection: Connection, tables: Sequence[str]) -> None:
    """Drop these tables, with everything else that `create` has made."""
    own = ("members", "owners", "streams", "schema_steps")
    connection.execute(f"DROP TABLE {', '.join((*tables, *own))} CASCADE")
    connection.execute("DROP FUNCTION align_ordering_key()")


def _apply(connection: Connection, step: str) -> None:
    if step == BASELINE:
        _require_own(connection)
    for statement in dialect.schema(STEPS[step]):
        connection.execute(statement)
    if step == BASELINE:
        _add_what_only_postgres_has(connection)
    connection.execute("INSERT INTO schema_steps (name) VALUES (?)", (step,))


def _add_what_only_postgres_has(connection: Connection) -> None:
    from backhaul.store.postgres import full_text, ownership, streams

    full_text.create_index(connection)
    more = (_ORDERING_KEYS, *_TRIGGERS, *ownership.SCHEMA, *streams.SCHEMA)
    for statement in more:
        connection.execute(statement)
