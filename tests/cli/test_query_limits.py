"""`backhaul query` only reads, and limits the size of its answer."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError
from backhaul.store import database_at
from backhaul.store.export_and_query import FILE, TABLE, QueryLimits
from scenes.daemon import in_process
from scenes.mirror_files import fill, lone_office, orders
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backhaul.store.export_and_query import SqlConsole
    from scenes.daemon import Office

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


def numbered(shown: str, end: str = "") -> str:
    """Return a query with a row for each number."""
    return " ".join((NUMBERS, "SELECT", shown, "FROM n", end))


def listed(shown: str, times: int) -> str:
    """Return a query with many columns."""
    columns = ", ".join(f"{shown} AS c{number}" for number in range(times))
    return f"SELECT {columns}"


@pytest.fixture(scope="module")
def office() -> Iterator[Office]:
    with lone_office() as found:
        asyncio.run(fill(found, *orders(5)))
        yield found


@pytest.fixture
def asker(office: Office) -> Iterator[SqlConsole]:
    with database_at(office.database).console(SystemClock()) as opened:
        yield opened


REFUSED = [
    "ALTER TABLE orders ADD COLUMN mine",
    "ALTER TABLE orders RENAME TO mine",
    "ANALYZE",
    "ANALYZE orders",
    "ATTACH '{folder}/new.db' AS other",
    "ATTACH ':memory:' AS other",
    "attach database '{folder}/new.db' as other",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "BEGIN EXCLUSIVE TRANSACTION",
    "COMMIT",
    "END TRANSACTION",
    "CREATE TABLE mine (a)",
    "CREATE TABLE mine AS SELECT * FROM orders",
    "CREATE TEMP TABLE mine (a)",
    "CREATE TEMPORARY TABLE mine AS SELECT secret FROM users",
    "CREATE INDEX mine ON orders (name)",
    "CREATE UNIQUE INDEX IF NOT EXISTS mine ON orders (name)",
    "CREATE VIEW mine AS SELECT * FROM users",
    "CREATE TEMP VIEW mine AS SELECT * FROM users",
    "CREATE TRIGGER mine AFTER INSERT ON orders BEGIN SELECT 1; END",
    "CREATE TEMP TRIGGER mine AFTER INSERT ON orders BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE mine USING fts5(a)",
    "CREATE VIRTUAL TABLE temp.mine USING fts5(a)",
    "DELETE FROM orders",
    "DELETE FROM orders RETURNING id",
    "WITH x AS (SELECT 1) DELETE FROM orders",
    "DETACH main",
    "DROP TABLE orders",
    "DROP INDEX orders_name",
    "DROP VIEW open_orders",
    "DROP TRIGGER IF EXISTS none",
    "INSERT INTO kv VALUES ('a', 'b')",
    "INSERT OR REPLACE INTO kv VALUES ('a', 'b') RETURNING *",
    "WITH x AS (SELECT 'a' AS a) INSERT INTO kv SELECT a, a FROM x",
    "REPLACE INTO kv VALUES ('a', 'b')",
    "UPDATE users SET role = 'admin'",
    "UPDATE users SET role = 'admin' RETURNING secret",
    "WITH x AS (SELECT 1) UPDATE users SET role = 'admin'",
    "INSERT INTO search_documents_fts(search_documents_fts) VALUES ('optimize')",
    "PRAGMA user_version = 7",
    "PRAGMA main.user_version(7)",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA journal_mode(MEMORY)",
    "PRAGMA writable_schema = ON",
    "PRAGMA query_only = OFF",
    "PRAGMA wal_checkpoint",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA optimize",
    "PRAGMA incremental_vacuum",
    "PRAGMA hard_heap_limit = 1",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA trusted_schema = ON",
    "PRAGMA integrity_check",
    "REINDEX",
    "REINDEX orders",
    "RELEASE SAVEPOINT mine",
    "ROLLBACK",
    "ROLLBACK TO mine",
    "SAVEPOINT mine",
    "VACUUM",
    "VACUUM INTO '{folder}/new.db'",
    "VACUUM main INTO '{folder}/new.db'",
    "/* a */ -- b\n vacuum into '{folder}/new.db'",
    "\ufeff VACUUM INTO '{folder}/new.db'",
    "EXPLAIN VACUUM INTO '{folder}/new.db'",
    "EXPLAIN ATTACH '{folder}/new.db' AS other",
    "EXPLAIN DELETE FROM orders",
    "EXPLAIN QUERY PLAN DELETE FROM orders",
    "EXPLAIN QUERY PLAN UPDATE users SET role = ''",
    "EXPLAIN PRAGMA user_version = 7",
    "SELECT load_extension('{folder}/x.so')",
    "SELECT load_extension('{folder}/x.so', 'init')",
    "SELECT 1 WHERE load_extension('x') IS NULL",
    "SELECT fts3_tokenizer('simple')",
    "SELECT * FROM dbstat",
    "SELECT * FROM pragma_wal_checkpoint",
    "SELECT * FROM pragma_integrity_check",
    "SELECT * FROM pragma_cache_size",
    "",
    ";",
    " -- only a comment",
    "/* open",
    "WITH x AS (SELECT 1) UPDATE sqlite_master SET sql = ''",
    "; DELETE FROM orders",
    "(SELECT 1)",
    "hello",
]


WORDS = (
    "there is no SQL; ",
    "'",
    *("`backhaul query` only reads, so it refuses", "no such table: pragma_"),
    "SQLite says: table sqlite_master may not be modified",
)
BESIDE = {"backhaul.db-wal", "backhaul.db-shm"}
"""The files that each reader creates; empty while nothing is written."""


@pytest.mark.parametrize("sql", REFUSED)
def test_a_statement_that_writes_is_refused_before_it_runs(
    sql: str, office: Office, tmp_path: Path
) -> None:
    before = _state(office)
    said = in_process("query", sql.format(folder=tmp_path), config=office.config)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(WORDS)
    assert said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    assert _state(office) == before


def _state(office: Office) -> tuple[object, ...]:
    """Return what a write would change: the database, and the files beside it."""
    names = {path.name for path in office.database.parent.iterdir()}
    log = office.database.with_name("backhaul.db-wal")
    size = log.stat().st_size if log.exists() else 0
    return (names - BESIDE, size, office.database.read_bytes())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; DELETE FROM orders",
        "SELECT 1; VACUUM INTO '{folder}/new.db'",
        "SELECT 1; ATTACH '{folder}/new.db' AS other",
        "SELECT 1;;SELECT 2",
        "SELECT '\udcff'",
        "SELECT ?",
        "SELECT 'a\0b'",
        'SELECT "',
    ],
)
def test_text_that_is_no_single_statement_is_refused(
    sql: str, asker: SqlConsole, tmp_path: Path
) -> None:
    with pytest.raises(BackhaulError):
        asker.query(sql.format(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert asker.query("SELECT 1").rows == [(1,)]


READS = [
    "SELECT count(*) FROM orders",
    "select name from orders order by placed_at limit 2",
    "  -- what is open\n/* all */ SELECT * FROM open_orders;",
    "SELECT 1; -- the end",
    "VALUES (1, 2), (3, 4)",
    "WITH x AS (SELECT 1 AS a) SELECT * FROM x",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n WHERE i < 9)"
    " SELECT count(*) FROM n",
    "SELECT json_extract(document, '$.id'), j.key FROM orders, json_each(document) j",
    "SELECT * FROM json_tree('[1, [2]]')",
    "SELECT row_number() OVER (ORDER BY id), id FROM orders",
    "SELECT * FROM orders JOIN order_items USING (store)",
    "SELECT * FROM orders o NATURAL JOIN shipments",
    "SELECT * FROM orders EXCEPT SELECT * FROM orders",
    "SELECT title FROM search_documents WHERE id IN (SELECT rowid"
    " FROM search_documents_fts WHERE search_documents_fts MATCH 'order')",
    "SELECT name, sql FROM sqlite_schema",
    "SELECT name FROM sqlite_master",
    "SELECT * FROM pragma_table_info('orders')",
    "SELECT m.name, i.name FROM sqlite_schema m, pragma_index_list(m.name) i",
    "PRAGMA table_info(orders)",
    "PRAGMA main.table_xinfo(orders)",
    "PRAGMA index_list('orders')",
    "PRAGMA user_version",
    "PRAGMA compile_options",
    "EXPLAIN SELECT * FROM orders",
    "EXPLAIN QUERY PLAN SELECT * FROM orders WHERE name = ''",
    "SELECT datetime('now'), random(), hex(randomblob(4)), printf('%d', 3)",
    "SELECT name, role FROM users",
    "SELECT count(*) FROM users u JOIN audit a ON a.who = u.name",
]


@pytest.mark.parametrize("sql", READS)
def test_a_statement_that_reads_is_answered(sql: str, asker: SqlConsole) -> None:
    assert asker.query(sql).columns


BIG = [
    ("SELECT zeroblob(300000000)", "larger than 16 MB"),
    ("SELECT randomblob(300000000)", "larger than 16 MB"),
    ("SELECT hex(zeroblob(9000000))", "larger than 16 MB"),
    ("SELECT replace(hex(zeroblob(1000000)), '0', 'a long text')", "larger than 16 MB"),
    ("SELECT quote(zeroblob(9000000))", "larger than 16 MB"),
    (numbered("group_concat(hex(i))"), "larger than 16 MB|stopped after"),
    # a fast machine uses all memory before the timeout
    (numbered("json_group_array(i)"), "256 MB of memory|stopped after"),
    (numbered("zeroblob(1000000)"), "more than 64 MB|stopped after"),
    (numbered("i AS " + "a" * 50_000), "more than 64 MB|stopped after"),
    (numbered("''"), "more than 100,000 rows|stopped after"),
    (listed("randomblob(16000000)", 40), "more than 256 MB of memory"),
    (listed("1", 501), "too many columns"),
    (f"SELECT 1 {' ' * 100_000}", "SQLite says"),
    (f"SELECT 'a' LIKE '{'%a' * 600}'", "pattern too complex"),
]


@pytest.mark.parametrize(("sql", "why"), BIG, ids=[sql[:50] for sql, _ in BIG])
def test_an_answer_has_bounds(sql: str, why: str, asker: SqlConsole) -> None:
    with pytest.raises(BackhaulError, match=why):
        asker.query(sql)
    assert asker.query("SELECT 1").rows == [(1,)]


def test_a_value_that_sqlite_cannot_format_is_empty(
    asker: SqlConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "backhaul.store.sqlite.sql_console.LONGEST_SECONDS", HANG_SECONDS
    )
    sql = "SELECT printf('%.*c', 30000000, 'x'), format('%30000000d', 1)"
    assert asker.query(sql).rows == [(None, None)]


@pytest.mark.parametrize(
    ("sql", "bounds", "fits"),
    [
        ("VALUES (1), (2)", QueryLimits(2, 1_000), True),
        ("VALUES (1), (2)", QueryLimits(1, 1_000), False),
        ("SELECT 'abcd' AS a", QueryLimits(9, 5), True),
        ("SELECT 'abcde' AS a", QueryLimits(9, 5), False),
        ("SELECT 'abcde' AS ab", QueryLimits(9, 6), False),
        ("SELECT x'0102'", QueryLimits(9, 9), True),
        ("SELECT 1 AS a, NULL AS b", QueryLimits(9, 17), False),
        ("SELECT 1 AS a, NULL AS b", QueryLimits(9, 18), True),
    ],
)
def test_a_bound_is_exact(
    sql: str, bounds: QueryLimits, fits: bool, asker: SqlConsole
) -> None:
    if fits:
        assert asker.query(sql, bounds).rows
    else:
        with pytest.raises(BackhaulError, match="add a LIMIT"):
            asker.query(sql, bounds)


def test_a_table_has_narrower_bounds_and_names_the_other_forms(office: Office) -> None:
    sql = numbered("hex(zeroblob(50000))", "LIMIT 60")
    assert TABLE.bytes < 60 * 100_000 < FILE.bytes
    said = in_process("query", sql, config=office.config)
    assert (said.code, said.out) == (1, "")
    assert "more than 4 MB; add a LIMIT, select fewer columns, or use --csv" in said.err
    assert in_process("query", sql, "--jsonl", config=office.config).code == 0


@pytest.mark.programs
@pytest.mark.parametrize("form", ["--json", "--csv", "--jsonl"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT zeroblob(300000000)",
        listed("randomblob(16000000)", 40),
        numbered("zeroblob(900000) AS z"),
    ],
    ids=["one value", "many values", "many rows"],
)
def test_the_program_stays_small(sql: str, form: str, office: Office) -> None:
    """The query once used 4 GB; the process is limited to 1 GB of address space."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    command = [sys.executable, "-m", "backhaul", "query", sql, form]
    done = subprocess.run(
        [*command, "--config", str(office.config)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=bound,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "MB" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.programs
def test_a_call_that_never_ends_stops_the_program(office: Office) -> None:
    """SQLite cannot interrupt instr() of two long values, which takes minutes."""
    long, longer = "zeroblob(8000000)", "zeroblob(16000000)"
    sql = f"SELECT instr({longer}, CAST({long} || x'01' AS BLOB))"
    program = (
        "from backhaul.cli import query as asking; asking.PATIENCE_SECONDS = 1;"
        " from backhaul.__main__ import main; main()"
    )
    command = [sys.executable, "-c", program, "query", sql]
    done = subprocess.run(
        [*command, "--config", str(office.config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "stopped after 1 s: one function call took too long" in done.stderr
