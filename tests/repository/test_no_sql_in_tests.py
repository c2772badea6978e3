"""Only tests of the store use its tables; other tests use its protocols.

Tests of the reference server are exempt, because it has its own database.

`scenes.stored` reads, `scenes.damaged_rows` writes rows that no method leaves. Thus the
tables can change, and a second engine can be added, without a change to other tests.
"""

from __future__ import annotations

import pytest

from repository.sql_in_tests import raw_access, sql_literals
from repository.tree import python_files, read

ERP = "the SQL of the merchant's own ERP"
FILE = "the file of SQLite itself: damage, locks, versions"
SCHEMA = "compares the schema of SQLite with that of PostgreSQL"
REFERENCE = "the reference server's own database"
BASELINE = "the same rows written without the daemon, to compare"
PEER = "the database of a program that the daemon is compared with"
OPERATOR = "the SQL of an operator, typed as a command"
QUERY = "the SQL that a user gives to `backhaul query`"
DAEMON_BUG = "plants a bug in the daemon's own SQL, to see it found"

ALLOWED = {
    "tests/bench/folding.py": BASELINE,
    "tests/bench/idle_stores.py": "the statistics of the server, and many stores",
    "tests/bench/large.py": "a mirror with more orders than a benchmark can fold",
    "tests/bench/large_postgres.py": "the same on PostgreSQL",
    "tests/bench/peer_programs.py": PEER,
    "tests/bench/shop.py": REFERENCE,
    "tests/bench/sql_pull.py": ERP,
    "tests/bench/sustained.py": "how far a fold is, read many times a second",
    "tests/bench/webhook_peers.py": PEER,
    "tests/connectors/test_same_quantities.py": ERP,
    "tests/scenes/cluster_members.py": "who owns a store, and who stands still",
    "tests/scenes/later_steps.py": "the migrations of a later version",
    "tests/scenes/stored.py": "the view commands_and_targets, which is not exported",
    "tests/app/test_sql_erp.py": ERP,
    "tests/app/test_tryton_erp.py": ERP,
    "tests/connectors/erp_benches.py": ERP,
    "tests/connectors/late_rows.py": ERP,
    "tests/connectors/sql_benches.py": ERP,
    "tests/connectors/tables.py": ERP,
    "tests/connectors/test_full_list_end.py": ERP,
    "tests/connectors/test_sql.py": ERP,
    "tests/connectors/test_sql_clock_changes.py": ERP,
    "tests/connectors/test_sql_late_commits.py": ERP,
    "tests/connectors/test_sql_mariadb.py": ERP,
    "tests/connectors/test_sql_invalid_times.py": ERP,
    "tests/connectors/test_sql_postgres.py": ERP,
    "tests/connectors/test_sql_reasons.py": ERP,
    "tests/connectors/test_sql_same_sku.py": ERP,
    "tests/connectors/test_tryton.py": ERP,
    "tests/cli/test_query.py": QUERY,
    "tests/cli/test_events_and_quarantine.py": QUERY,
    "tests/cli/test_query_limits.py": QUERY,
    "tests/cli/test_query_secrets.py": QUERY,
    "tests/cli/test_untrusted_text.py": QUERY,
    "tests/cli/test_tokens.py": QUERY,
    "tests/service/test_service.py": QUERY,
    "tests/testing/test_plugin.py": "the SQL that a user gives to `Mirror.rows`",
    "tests/connectors/test_scanner_old_sessions.py": "the file of version 0.1.0",
    "tests/faults/offices.py": ERP,
    "tests/faults/power.py": FILE,
    "tests/faults/test_upgrades.py": FILE,
    "tests/repository/sql_in_tests.py": "the pattern of SQL itself",
    "tests/repository/test_no_sql_in_tests.py": "examples of SQL to be found",
    "tests/repository/test_static_checks.py": "a planted weakness that ruff finds",
    "tests/scenes/damaged_rows.py": "writes rows for tests that may not",
    "tests/scenes/database_lock.py": FILE,
    "tests/scenes/databases.py": "reads and writes for tests of the store",
    "tests/scenes/postgres_nodes.py": "the replication of the servers themselves",
    "tests/scenes/postgres_text.py": SCHEMA,
    "tests/scenes/sql_erp.py": ERP,
    "tests/scenes/large_store.py": "a mirror with more orders than a test can fold",
    "tests/scenes/reference_shop.py": REFERENCE,
    "tests/scenes/tracking_tokens.py": REFERENCE,
    "tests/scenes/tryton.py": ERP,
    "tests/scenes/broken_installations.py": FILE,
    "tests/scenes/restore_places.py": FILE,
    "tests/scenes/wal_archive.py": "the clock, the WAL and the recovery of a server",
    "tests/simulation/bugs.py": DAEMON_BUG,
    "tests/faults/postgres_bugs.py": DAEMON_BUG,
    "tests/simulation/platform.py": REFERENCE,
    "tests/simulation/program.py": FILE,
    "tests/simulation/writing.py": FILE,
    "tests/zz_secrets/test_canary_secrets.py": OPERATOR,
    "tests/zz_secrets/test_tracking_tokens.py": REFERENCE,
}
"""Files whose SQL is not of Backhaul's tables, or is there for other tests."""


def may_hold_sql(folder: str) -> bool:
    """Return whether a folder's tests are about an engine: ours, or the reference's."""
    return folder == "store" or folder.startswith("reference")


def sql_of(source: str) -> list[tuple[int, str]]:
    return [*sql_literals(source), *raw_access(source)]


def test_only_tests_of_the_store_hold_sql() -> None:
    found = {
        str(path): [f"{path}:{line}: {sql[:80]}" for line, sql in hits]
        for path in python_files("tests")
        if not may_hold_sql(path.parts[1]) and (hits := sql_of(read(path)))
    }
    assert [hits for path, hits in found.items() if path not in ALLOWED] == []
    assert sorted(ALLOWED.keys() - found.keys()) == [], "these hold no SQL any more"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('rows(path, "SELECT id FROM commands")', "SELECT id FROM commands"),
        ('rows("SELECT id"\n    " FROM commands")', "SELECT id FROM commands"),
        ('f"SELECT {names}\\nFROM {table}"', "SELECT X FROM X"),
        ("write(f\"UPDATE kv SET value = '{value}'\")", "UPDATE kv SET"),
        ('write("INSERT OR REPLACE INTO kv VALUES (1)")', "INSERT OR REPLACE INTO"),
        ('write("DELETE FROM records")', "DELETE FROM records"),
        ('run("PRAGMA user_version")', "PRAGMA user_version"),
        ('run("CREATE TABLE t (id)")', "CREATE TABLE t"),
        ('run("ALTER TABLE t RENAME TO u")', "ALTER TABLE t"),
        ('run(f"SELECT {query}")', "SELECT X"),
        ('run(f"UPDATE {change}")', "UPDATE X"),
    ],
)
def test_sql_is_found_however_it_is_written(source: str, found: str) -> None:
    ((_, text),) = sql_literals(source)
    assert found in text


def test_an_import_of_sql_is_found() -> None:
    source = "from scenes.databases import rows, started_store"
    assert list(raw_access(source)) == [(1, "rows")]


@pytest.mark.parametrize(
    "source",
    ['"select one from the list"', '"Selected from it"', "# SELECT id FROM t\nx = 1"],
)
def test_other_text_is_no_sql(source: str) -> None:
    assert list(sql_literals(source)) == []
