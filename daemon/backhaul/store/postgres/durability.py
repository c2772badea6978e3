"""Checks whether a server keeps what it confirms, even when it is lost itself.

An ordinary role sees every setting. Only a member of `pg_read_all_stats` (`pg_monitor`
includes it) sees in `pg_stat_replication` which replicas replicate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.errors import Finding
from backhaul.store.ownership import IS_REPLICA, PASSING, REPLICAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store.sql.family import Connection

_SERVER = """
    SELECT current_user AS role, current_database() AS database,
           pg_is_in_recovery() AS is_replica,
           pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_replicas,
           coalesce(host(inet_server_addr()), 'local socket') AS host,
           inet_server_port() AS port
"""
_SETTINGS = """
    SELECT name, setting, source FROM pg_settings WHERE name IN (
        'fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names')
"""
# A replica confirms commits only while it streams.
_CONFIRMING = """
    SELECT count(*) FROM pg_stat_replication
    WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum')
"""
_NUMBER = re.compile(r"\s*(?:(?:ANY|FIRST)\s+)?(\d+)\s*\(", re.IGNORECASE)
_WAITS_FOR_REPLICA = {"on", "remote_apply"}


class _Setting(Struct, frozen=True):
    value: str
    source: str


class _Server(Struct, frozen=True):
    """What a role sees of a server. `confirming` is None if it may not see it."""

    role: str
    database: str
    address: str
    is_replica: bool
    settings: dict[str, _Setting]
    confirming: int | None

    def finding(self, key: str, problem: str, hint: str) -> Finding:
        return Finding(f"PostgreSQL at {self.address}", key, problem, hint)

    def value(self, name: str) -> str | None:
        """Return a setting's value, None if this server has no such setting."""
        found = self.settings.get(name)
        return None if found is None else found.value


def findings(connection: Connection, *, quorum: bool) -> tuple[Finding, ...]:
    """Return why confirmed rows may be lost, or why no commit is confirmed.

    Without `quorum` the server itself may be lost, and only its crash is survived. The
    settings are those of this session, which a role, a database, the URL or a program
    behind the same pooler may have changed. Raises psycopg.Error.
    """
    server = _seen(connection)
    if server.is_replica:
        return (_replica(server),)
    every = [*_crash(server), *_commit(server, quorum=quorum)]
    return (*every, *_replicas(server)) if quorum else tuple(every)


def losing(connection: Connection) -> Finding | None:
    """Return why a server may lose what it confirms to a member that needs a quorum."""
    found = findings(connection, quorum=True)
    return next((each for each in found if each.key not in PASSING), None)


def _seen(connection: Connection) -> _Server:
    (row,) = connection.execute(_SERVER).fetchall()
    settings = {
        name: _Setting(value, source)
        for name, value, source in connection.execute(_SETTINGS)
    }
    confirming = None
    if row["sees_replicas"]:
        ((confirming,),) = connection.execute(_CONFIRMING).fetchall()
    address = f"{row['host']}:{row['port']}" if row["port"] else row["host"]
    return _Server(
        role=row["role"],
        database=row["database"],
        address=address,
        is_replica=bool(row["is_replica"]),
        settings=settings,
        confirming=confirming,
    )


def _replica(server: _Server) -> Finding:
    return server.finding(
        IS_REPLICA,
        "this server is a replica, which accepts no writes",
        "list all servers in [database] url, with target_session_attrs=read-write",
    )


def _crash(server: _Server) -> Iterator[Finding]:
    """Yield what makes a crash of the operating system damage the database."""
    for name in ("fsync", "full_page_writes"):
        if server.value(name) == "off":
            yield server.finding(
                name,
                f"{name} is off: a power loss damages the database",
                f"set {name} = on in the server's configuration and reload it",
            )


def _commit(server: _Server, *, quorum: bool) -> Iterator[Finding]:
    """Yield what confirms a commit before it is durable."""
    found = server.settings.get("synchronous_commit")
    if found is None or found.value in _WAITS_FOR_REPLICA:
        return
    if found.value == "off":
        problem = "a commit is confirmed before it is on any disk"
    elif quorum:
        problem = "a commit is confirmed before a replica has it on disk"
    else:
        return
    yield server.finding(
        "synchronous_commit",
        f"synchronous_commit is {found.value}: {problem}",
        _how_to_reset(server, found.source),
    )


def _how_to_reset(server: _Server, source: str) -> str:
    """Return how to remove a value of synchronous_commit, by where it comes from."""
    role, database = f'"{server.role}"', f'"{server.database}"'
    by_source = {
        "user": f"run: ALTER ROLE {role} RESET synchronous_commit",
        "database": f"run: ALTER DATABASE {database} RESET synchronous_commit",
        "database user": (
            f"run: ALTER ROLE {role} IN DATABASE {database} RESET synchronous_commit"
        ),
        "global": "run: ALTER ROLE ALL RESET synchronous_commit",
        "client": "remove it from the options of [database] url, and from PGOPTIONS",
        "session": (
            "another program behind the same pooler has set it: give Backhaul a pool"
            " of its own"
        ),
    }
    default = "set synchronous_commit = on in the server's configuration and reload it"
    return by_source.get(source, default)


def _replicas(server: _Server) -> Iterator[Finding]:
    """Yield what keeps a replica from confirming each commit."""
    names = server.value("synchronous_standby_names") or ""
    if not names.strip():
        yield server.finding(
            "synchronous_standby_names",
            "no replica has to confirm a commit, so a failover loses confirmed rows",
            "set it to ANY 1 (NAME, NAME), in Patroni by synchronous_mode and"
            " synchronous_mode_strict, in CloudNativePG by spec.postgresql.synchronous;"
            " if the provider copies the disk synchronously instead, as RDS Multi-AZ"
            ' does, set [cluster] durability = "single"',
        )
    elif server.confirming is None:
        yield server.finding(
            REPLICAS,
            f"the role {server.role} may not see whether a replica is connected",
            f'run: GRANT pg_read_all_stats TO "{server.role}"',
        )
    elif server.confirming < (needed := _needed(names)):
        yield server.finding(
            REPLICAS,
            f"{server.confirming} of the {needed} replicas that must confirm a commit"
            f" are connected ({names}); until all are, every commit waits",
            "start the replicas; SELECT * FROM pg_stat_replication shows those that"
            " are connected",
        )


def _needed(names: str) -> int:
    """Return how many replicas must confirm a commit."""
    found = _NUMBER.match(names)
    return int(found[1]) if found else 1


_ARCHIVER = """
    SELECT current_setting('archive_mode') != 'off' AS is_on,
           extract(epoch from clock_timestamp() - last_archived_time)::float8 AS age,
           failed_count,
           coalesce(last_failed_time > last_archived_time,
                    last_failed_time IS NOT NULL) AS is_failing,
           last_failed_wal
    FROM pg_stat_archiver
"""
# A slot that nobody reads holds WAL until the disk of the server is full.
_SLOTS = """
    SELECT slot_name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint
    FROM pg_replication_slots
    WHERE NOT active AND restart_lsn IS NOT NULL ORDER BY 2 DESC
"""
_MAY_COUNT = "SELECT pg_has_role(current_user, 'pg_monitor', 'USAGE')"
_WAITING = """
    SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'
"""
OLD_ARCHIVE_SECONDS = 3_600.0
"""From this age on the last archived WAL is worth a warning."""
HELD_BYTES = 1 << 30
"""So much WAL may an idle replication slot hold without a warning."""


def archiving(connection: Connection) -> tuple[list[str], list[Finding]]:
    """Return what is well with the archive of the WAL, and what is not.

    Without the archive the server's tools cannot restore what was written since the
    last base backup. They may also read the WAL over a connection, which is not seen
    here. Raises psycopg.Error.
    """
    server = _seen(connection)
    if server.is_replica:
        return [], []
    (found,) = connection.execute(_ARCHIVER).fetchall()
    well: list[str] = []
    wrong = [*_slots(connection, server)]
    if not found["is_on"]:
        wrong.append(
            server.finding(
                "archive_mode",
                "the server archives no WAL, as far as Backhaul can see",
                "set up pgBackRest, WAL-G or the backups of the provider; if they read"
                " the WAL over a connection, or copy the disk, this is as it should be",
            )
        )
        return well, wrong
    if found["is_failing"]:
        wrong.append(
            server.finding(
                "archive_command",
                f"the server cannot archive {found['last_failed_wal']}"
                f" ({found['failed_count']:,} failed attempts), and keeps all WAL since"
                " then on its disk",
                "read the server's log, and correct archive_command or its target",
            )
        )
    elif found["age"] is None or found["age"] > OLD_ARCHIVE_SECONDS:
        age = "never" if found["age"] is None else f"{found['age'] / 3_600:.0f} h ago"
        wrong.append(
            server.finding(
                "archive_timeout",
                f"WAL was last archived {age}; a restore loses what came later",
                "set archive_timeout = 5min",
            )
        )
    else:
        well.append(f"WAL was last archived {found['age'] / 60:.0f} min ago")
    well += _waiting(connection, server)
    return well, wrong


def _slots(connection: Connection, server: _Server) -> Iterator[Finding]:
    for name, held in connection.execute(_SLOTS).fetchall():
        if held > HELD_BYTES:
            yield server.finding(
                "pg_replication_slots",
                f"nobody reads the replication slot {name}, which holds"
                f" {held >> 20:,} MB of WAL on the server's disk",
                f"start its reader, or: SELECT pg_drop_replication_slot('{name}')",
            )


def _waiting(connection: Connection, server: _Server) -> Iterator[str]:
    if connection.execute(_MAY_COUNT).fetchall() != [(1,)]:
        yield (
            f"the role {server.role} may not see how much WAL waits for the archive;"
            f' GRANT pg_monitor TO "{server.role}" lets it'
        )
        return
    ((waiting,),) = connection.execute(_WAITING).fetchall()
    yield f"{waiting:,} WAL files wait for the archive"
