"""`backhaul query` never shows a password hash."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError
from backhaul.store import database_at
from backhaul.store.customer_erasure import CustomerTrace
from backhaul.store.operators import Role
from backhaul.store.sqlite.sql_console import WITHHELD
from scenes.daemon import in_process
from scenes.databases import started_store
from scenes.mirror_files import fill, lone_office, orders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store.export_and_query import SqlConsole
    from scenes.daemon import Office

HASH = "scrypt-of-a-password"
DIGEST = "hash-of-an-erased-address"
SECRETS = (HASH, DIGEST)


@pytest.fixture(scope="module")
def office() -> Iterator[Office]:
    with lone_office() as found:
        asyncio.run(fill(found, *orders(5)))
        asyncio.run(_add_secrets(found))
        yield found


async def _add_secrets(office: Office) -> None:
    """Add a user with a password, and the hash of an erased customer's e-mail."""
    async with started_store(office.database) as store:
        await store.users.add("ann", Role.ADMIN, HASH, "the test")
        erased = CustomerTrace("cus_1", (), ())
        await store.erasure.register("main", erased, [DIGEST.encode()])


@pytest.fixture
def asker(office: Office) -> Iterator[SqlConsole]:
    with database_at(office.database).console(SystemClock()) as opened:
        yield opened


LEAKS = [
    "SELECT * FROM users",
    "SELECT secret FROM users",
    "SELECT u.secret || '' FROM main.users AS u",
    'SELECT "secret" FROM "users"',
    "SELECT [SECRET] FROM [Users]",
    "SELECT max(secret), group_concat(secret), json_group_array(secret) FROM users",
    "SELECT (SELECT secret FROM users)",
    "WITH u AS (SELECT * FROM users) SELECT * FROM u",
    "SELECT * FROM (SELECT * FROM users UNION ALL SELECT * FROM users)",
    "SELECT hex(secret), substr(secret, 1, 1), length(secret) FROM users",
    "SELECT secret AS name FROM users ORDER BY secret",
    "SELECT secret, count(*) FROM users GROUP BY secret",
    "SELECT first_value(secret) OVER () FROM users",
    "SELECT json_object('a', secret) FROM users",
    "SELECT a.secret, b.secret FROM users a LEFT JOIN users b ON a.secret = b.secret",
    "SELECT coalesce(secret, 'none') FROM users",
    "SELECT CASE WHEN secret > 'a' THEN secret END FROM users",
    "SELECT value FROM users, json_each(json_array(secret))",
    "SELECT * FROM erased_emails",
    "SELECT digest FROM erased_emails WHERE digest > ''",
    "WITH g(secret) AS (SELECT 1) SELECT secret FROM users FULL JOIN g USING (secret)",
    "WITH g(secret) AS (SELECT 1) SELECT secret FROM g FULL JOIN users using(secret)",
    "SELECT * FROM users NATURAL FULL JOIN (SELECT 'q' AS secret)",
    "SELECT * FROM (SELECT 'q' AS digest)natural/**/FULL JOIN erased_emails",
    'WITH g(secret) AS (SELECT 1) SELECT secret FROM g FULL JOIN "Users"UsInG(secret)',
    "SELECT data FROM sqlite_dbpage",
    "WITH g(data) AS (SELECT 1) SELECT data FROM g FULL JOIN sqlite_dbpage USING(data)",
    "SELECT * FROM sqlite_stat4",
]


@pytest.mark.parametrize("form", ["--json", "--csv", ""])
@pytest.mark.parametrize("sql", LEAKS)
def test_no_secret_is_shown(sql: str, form: str, office: Office) -> None:
    arguments = ("query", sql, form) if form else ("query", sql)
    said = in_process(*arguments, config=office.config)
    shown = (said.out + said.err).lower()
    assert not [secret for secret in SECRETS if secret[:8] in shown]
    assert not [1 for secret in SECRETS if secret.encode().hex()[:16] in shown]
    assert said.code == 0 or "query" in said.err or "no such" in said.err


def test_withheld_values_are_named(office: Office) -> None:
    said = in_process("query", "SELECT * FROM users", "--json", config=office.config)
    assert '"name":"ann"' in said.out
    assert '"secret":null' in said.out
    assert "withheld, and shown as NULL: " in said.err
    assert "users.secret" in said.err
    other = in_process("query", "SELECT name FROM users", config=office.config)
    assert "withheld" not in other.err


@pytest.mark.parametrize("table", WITHHELD)
def test_a_condition_on_a_secret_reveals_nothing(table: str, asker: SqlConsole) -> None:
    for column in WITHHELD[table]:
        for condition in (">= ''", "LIKE '%a%'", "GLOB '*'", "IS NOT NULL"):
            sql = " ".join(("SELECT 1 FROM", table, "WHERE", column, condition))
            assert asker.query(sql).rows == []


WRAPPED = "SELECT * FROM ({})"
SOURCES = st.sampled_from(
    ["users", "main.users", '"users"', "erased_emails", "(SELECT * FROM users)"]
)
OTHERS = st.sampled_from(
    [
        "(SELECT 1 AS secret, 2 AS digest, 'ann' AS name)",
        "(VALUES (1))",
        "users",
        "g",
        "erased_customers",
    ]
)
JOINS = st.sampled_from(["", "LEFT", "RIGHT", "FULL", "CROSS", "INNER", "FULL OUTER"])
HOW = st.sampled_from(
    [
        ("", ""),
        ("NATURAL", ""),
        ("", "USING (secret)"),
        ("", "USING (digest)"),
        ("", "USING (name)"),
        ("", "ON 1"),
    ]
)
SHOWN = st.sampled_from(
    ["*", "secret", "digest", "a.secret", "b.secret", "a.*", "b.*", "hex(secret)"]
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SOURCES, OTHERS, JOINS, HOW, SHOWN, st.booleans(), st.booleans())
def test_no_join_shows_a_secret(
    asker: SqlConsole,
    source: str,
    other: str,
    join: str,
    how: tuple[str, str],
    shown: str,
    turned: bool,
    wrapped: bool,
) -> None:
    left, right = (other, source) if turned else (source, other)
    words = ("SELECT", shown, "FROM", left, "a", how[0], join, "JOIN", right, "b")
    sql = " ".join((*words, how[1]))
    sql = WRAPPED.format(sql) if wrapped else sql
    try:
        found = asker.query("WITH g(secret, digest) AS (VALUES (1, 2)) " + sql)
    except BackhaulError:
        return
    text = repr(found.rows)
    assert not [s for s in SECRETS if s in text or s.encode().hex().upper() in text]


def test_the_bare_connection_would_show_it(office: Office) -> None:
    """This proves that the secrets are in the database at all."""
    joined = (
        "WITH g(secret) AS (VALUES ('z'))"
        " SELECT secret FROM g FULL JOIN users USING (secret)"
    )
    with closing(sqlite3.connect(office.database)) as connection:
        shown = {row[0] for row in connection.execute(joined)}
        digests = connection.execute("SELECT digest FROM erased_emails").fetchall()
    assert shown == {HASH, "z"}
    assert digests == [(DIGEST.encode(),)]


def test_no_other_column_is_named_like_a_secret(asker: SqlConsole) -> None:
    """A new column must be hidden too, or be listed here."""
    known = {"webhook_secrets.fingerprint", "commands.key_fingerprint"}
    query = (
        "SELECT m.name || '.' || c.name"
        " FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'"
    )
    words = ("secret", "password", "token", "hash", "salt", "key_", "private", "cookie")
    found = {
        name
        for (name,) in asker.query(query).rows
        if any(word in name.partition(".")[2] for word in words)
    }
    withheld = {
        f"{table}.{name}" for table, names in WITHHELD.items() for name in names
    }
    assert found - known <= withheld
