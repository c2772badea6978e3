"""The schema in PostgreSQL: the common statements, triggers and the search's index.

Several daemons use a database, and are upgraded one after another. So a step either
only adds something, and an older daemon runs on (*expand*). Or it takes something away
(*contract*), and waits until no daemon needs it.
"""

from __future__ import annotations

import random
import re
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING, TypeVar

import psycopg

from backhaul.core.clock import pause
from backhaul.errors import CorruptData, DatabaseUnavailable
from backhaul.store.postgres import dialect
from backhaul.store.sql.schema import (
    BASELINE,
    CONTRACTS,
    SIGN_IN,
    STEPS,
    newest_step,
    number_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from backhaul.store.postgres.connection import Connection

T = TypeVar("T")
_CHANCE = random.SystemRandom()
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


# An older program must not join between the check of a contract step and its commit. A
# contract step locks the row of the baseline; each member that joins shares the lock.
_JOINING = (
    """
    CREATE FUNCTION require_known_schema() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE needed int;
    BEGIN
        PERFORM 1 FROM schema_steps WHERE name = 'm001_baseline' FOR SHARE;
        SELECT max(requires) INTO needed FROM schema_steps;
        IF new.schema_known < needed THEN
            RAISE EXCEPTION 'this version of Backhaul is too old for the database'
                USING ERRCODE = 'check_violation';
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER members_joined AFTER INSERT ON members
    FOR EACH ROW EXECUTE FUNCTION require_known_schema()
    """,
)


def create(connection: Connection) -> str:
    """Create what is missing; return why a step waits, or an empty text.

    Raises CorruptData if a newer version made the schema, and DatabaseUnavailable if
    another program locks a table for too long.
    """
    if exists(connection):
        return upgrade(connection)
    with _transaction(connection):
        create_within(connection)
    return ""


def create_within(connection: Connection) -> None:
    """Create what is missing, in the transaction of the caller: nobody uses it yet."""
    lock(connection)
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_steps (name text PRIMARY KEY,"
        " applied_at timestamptz NOT NULL DEFAULT now(),"
        " requires int NOT NULL DEFAULT 0)"
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

    Raises CorruptData if a newer version took away what this version needs.
    """
    applied = _applied(connection)
    for step, requires in applied.items():
        if requires > newest_step():
            raise CorruptData(
                "a newer version of Backhaul made this database, and its step"
                f" {step} took away what this version needs; install the newer"
                " version"
            )
    return [step for step in STEPS if step not in applied]


def newer(connection: Connection) -> list[str]:
    """Return the migrations of a newer version, with which this one can still run."""
    return sorted(set(_applied(connection)) - set(STEPS))


def _applied(connection: Connection) -> dict[str, int]:
    """Return the steps that were applied, and which step each requires one to know."""
    if not exists(connection):
        return {}
    return dict(connection.execute("SELECT name, requires FROM schema_steps"))


def upgrade(connection: Connection) -> str:
    """Apply the steps that a database in use lacks, beside the daemons that use it.

    A step that only adds something is applied at once. A step that takes something
    away waits until every member knows the step in `CONTRACTS`. Returns why such a step
    waits, or an empty text.
    """
    steps = pending(connection)
    connection.limits.silence_seconds = inf  # an index of a large table takes minutes
    for step in sorted(steps, key=lambda each: each in CONTRACTS):
        if step in CONTRACTS:
            if reason := _persistently(step, partial(_contract, connection, step)):
                return reason
        else:
            _persistently(step, partial(_expand, connection, step))
    return ""


LOCK_SECONDS = 2
"""How long a step waits for a table; whoever comes after it waits for as long."""
ATTEMPTS = 30
PAUSE_SECONDS = 0.5
"""The mean pause between two attempts, in which the other programs work."""
_MOVED_ON = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.DuplicateTable,  # another program builds the same index
)


def _persistently(step: str, work: Callable[[], T]) -> T:
    """Repeat a step that met another program."""
    for _ in range(ATTEMPTS):
        try:
            return work()
        except _MOVED_ON as error:
            failure = error
        pause(PAUSE_SECONDS * 2 * _CHANCE.random())
    raise DatabaseUnavailable(
        f"the step {step} of the upgrade cannot lock a table, because another program"
        " uses it, such as pg_dump (pg_stat_activity shows it); the tables are"
        f" unchanged by this step, so try again later: {failure}"
    )


_INDEX = re.compile(r"\s*(CREATE (?:UNIQUE )?INDEX) (\w+)\s+ON (\w+)")
_IS_VALID = """
    SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:index)
"""
_RECORD = """
    INSERT INTO schema_steps (name, requires) VALUES (:name, :requires)
    ON CONFLICT (name) DO NOTHING
"""
# A member that is silent for less may only wait for a server that was away.
_OLDER = """
    SELECT host, version FROM members
    WHERE schema_known < :requires AND fenced_at IS NULL
        AND beat_at > clock_timestamp() - greatest(ttl, interval '1 minute')
    ORDER BY host LIMIT 1
"""
# One of these may stand still, and continue as an owner.
_END_OLDER = (
    """
    UPDATE owners SET member = NULL
    WHERE member IN (SELECT id FROM members WHERE schema_known < :requires)
    """,
    """
    UPDATE members SET fenced_at = clock_timestamp(), stores = 0
    WHERE schema_known < :requires AND fenced_at IS NULL
    """,
)


def _expand(connection: Connection, step: str) -> None:
    """Apply a step that only adds something, while others read and write."""
    statements = list(dialect.schema(STEPS[step]))
    indexes = [found for each in statements if (found := _INDEX.match(each))]
    if len(indexes) == len(statements):
        for index in indexes:
            _index_concurrently(connection, index)
        connection.execute(_RECORD, {"name": step, "requires": 0})
        return
    with _transaction(connection):
        _lock_briefly(connection)
        lock(connection)
        if step in pending(connection):
            _apply(connection, step)


def _index_concurrently(connection: Connection, statement: re.Match[str]) -> None:
    """Build an index while others write.

    Remove first what a program left that ended while it built the index.
    """
    kind, index, table = statement.groups()
    with _transaction(connection):
        _lock_briefly(connection)
        # Whoever builds an index holds this lock to the end.
        connection.execute(f"LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE")
        found = connection.execute(_IS_VALID, {"index": index}).fetchall()
        if found == [(1,)]:
            return
        if found:
            connection.execute(f"DROP INDEX {index}")
    rest = statement.string[statement.end() :]
    connection.execute(f"{kind} CONCURRENTLY {index} ON {table}{rest}")


def _contract(connection: Connection, step: str) -> str:
    """Apply a step that takes something away, once no member needs it.

    Returns why it waits, or an empty text.
    """
    requires = {"requires": number_of(CONTRACTS[step])}
    with _transaction(connection):
        _lock_briefly(connection)
        lock(connection)
        connection.execute(
            "SELECT 1 FROM schema_steps WHERE name = :name FOR UPDATE",
            {"name": BASELINE},
        )
        for host, version in connection.execute(_OLDER, requires).fetchall():
            return (
                f"the step {step} of the upgrade waits for the daemon on {host}, whose"
                f" version {version} still needs what the step takes away; upgrade"
                " that daemon"
            )
        if step in pending(connection):
            for statement in _END_OLDER:
                connection.execute(statement, requires)
            _apply(connection, step)
    return ""


def _lock_briefly(connection: Connection) -> None:
    connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")


@contextmanager
def _transaction(connection: Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.roll_back()
        raise


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
    own = ["members", "owners", "streams", "fold_cursors", "dashboard_sessions"]
    own += ["login_failures", "begun_logins", "requests", "request_lines"]
    own += ["published_states"]
    own += ["schema_steps"]
    connection.execute(f"DROP TABLE {', '.join((*tables, *own))} CASCADE")
    connection.execute("DROP FUNCTION align_ordering_key(), require_known_schema()")


def _apply(connection: Connection, step: str) -> None:
    if step == BASELINE:
        _require_own(connection)
    for statement in dialect.schema(STEPS[step]):
        connection.execute(statement)
    if step == BASELINE:
        _add_what_only_postgres_has(connection)
    if step == SIGN_IN:
        _add_begun_logins(connection)
    requires = number_of(CONTRACTS[step]) if step in CONTRACTS else 0
    connection.execute(_RECORD, {"name": step, "requires": requires})


def _add_what_only_postgres_has(connection: Connection) -> None:
    from backhaul.store.postgres import fence, full_text, operators, streams

    full_text.create_index(connection)
    more = [_ORDERING_KEYS, *_TRIGGERS, *fence.SCHEMA, *streams.SCHEMA]
    more += [*operators.SCHEMA, *_JOINING]
    for statement in more:
        connection.execute(statement)


def _add_begun_logins(connection: Connection) -> None:
    from backhaul.store.postgres.logins import BEGUN_LOGINS

    for statement in BEGUN_LOGINS:
        connection.execute(statement)
