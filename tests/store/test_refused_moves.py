"""What a database move requires: each refusal says what is wrong and what to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import AlreadyRunning, BackhaulError, DatabaseUnavailable
from backhaul.store import database_at
from backhaul.store.ownership import new_member
from backhaul.store.postgres import moving
from backhaul.store.postgres import moving as in_server
from backhaul.store.postgres.connection import place_of, without_password
from backhaul.store.postgres.database import open_store as open_server
from backhaul.store.sqlite import file_replacement
from backhaul.store.sqlite import moving as in_file
from backhaul.store.sqlite.movable_rows import tables
from scenes.damaged_rows import delete_rows, insert, overwrite
from scenes.database_lock import LockOfAnotherProcess
from scenes.databases import make_database
from scenes.later_steps import later_version, make_older
from scenes.payloads import arrival, envelope, order
from scenes.postgres import PASSWORD, USER, postgres
from scenes.waiting import HANG_SECONDS, until
from store.move_places import contents, fill, is_usable, move, some_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backhaul.store import Place
    from backhaul.store.moving import Table
    from scenes.postgres import Postgres

pytestmark = pytest.mark.programs

READ_ONLY = "%20-cdefault_transaction_read_only%3Don"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_database(tmp_path / "backhaul.db")
    return tmp_path / "backhaul.db"


def refusal(source: Place, target: Place) -> str:
    """Return why a move is refused; the message must not contain a password."""
    with pytest.raises(BackhaulError) as refused:
        move(source, target)
    text = str(refused.value)
    assert PASSWORD not in text
    return " ".join(text.split())


def test_a_server_that_does_not_answer(server: Postgres, path: Path) -> None:
    url = server.empty().replace(f":{server.port}/", ":9/")
    with pytest.raises(DatabaseUnavailable):
        move(path, url)
    said = refusal(path, url)
    assert said.startswith("postgresql://127.0.0.1:9/postgres?options=")
    assert "Check that the server accepts connections" in said


def test_a_wrong_password(server: Postgres, path: Path) -> None:
    url = server.empty().replace(PASSWORD, "another-password-0123")
    said = refusal(path, url)
    assert "password authentication failed" in said
    assert "another-password" not in said


@pytest.mark.parametrize(
    "url",
    [
        "mysql://h/db",
        "postgresql://u:sec@ret@h/db",
        "postgresql://u:12/secret@h/db",
        "postgresql://u:12?secret@h/db",
        "postgresql://u:secret/x@h/db",
        "postgresql://[u:secret@h/db",
    ],
)
def test_a_url_that_libpq_would_misunderstand(url: str, path: Path) -> None:
    said = refusal(path, url)
    assert "the URL of the database cannot be understood" in said
    assert "sec" not in said


def test_an_old_server(
    server: Postgres, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "OLDEST", 99)
    assert "this is PostgreSQL 18, and Backhaul needs 99 or newer" in refusal(
        path, server.empty()
    )


def test_another_encoding(server: Postgres, path: Path) -> None:
    server.run("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{server.port}/ascii"
    assert "the encoding of this database is SQL_ASCII; create one" in refusal(
        path, url
    )


def test_a_database_that_can_only_be_read(server: Postgres, path: Path) -> None:
    assert "can only be read; name the primary server" in refusal(
        path, server.empty() + READ_ONLY
    )


def test_a_schema_that_is_not_there(server: Postgres, path: Path) -> None:
    url = server.empty().replace("search_path%3Dtest", "search_path%3Dno_test")
    assert f"the user {USER} has no schema there; create one" in refusal(path, url)


def test_a_user_without_rights(server: Postgres, path: Path) -> None:
    server.run(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    url = server.empty().replace(f"{USER}:", "reader:")
    server.run(f"GRANT USAGE ON SCHEMA {url.rpartition('%3D')[2]} TO reader")
    said = refusal(path, url)
    assert "the user reader is not allowed to create tables; as the owner" in said
    assert "GRANT USAGE, CREATE ON SCHEMA test_" in said


def test_a_server_that_is_not_empty(server: Postgres, path: Path) -> None:
    url = server.empty()
    schema = url.rpartition("%3D")[2]
    server.run("CREATE TABLE theirs (a int)", schema=schema)
    said = refusal(path, url)
    assert "this database is not empty: it has theirs; a move needs an empty" in said
    assert is_usable(path)


def test_a_server_that_is_in_use(server: Postgres, path: Path, tmp_path: Path) -> None:
    url, other = server.empty(), tmp_path / "other" / "backhaul.db"
    move(path, url)
    make_database(other)
    said = refusal(other, url)
    assert (
        "is not empty: it has adopted_effects, alert_notifications, alerts and" in said
    )
    assert (is_usable(other), is_usable(url)) == (True, True)


def test_the_copy_of_another_source(
    server: Postgres,
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The copy may be the only one, so only a move of its own source replaces it."""
    url, other = server.empty(), tmp_path / "other" / "backhaul.db"
    with monkeypatch.context() as patched:
        patched.setattr(in_file.SqliteSource, "put_mark", _fail)
        with pytest.raises(BackhaulError, match="the power is gone"):
            move(path, url)
    make_database(other)
    assert "this database is not empty" in refusal(other, url)
    move(path, url)
    assert is_usable(url)


def _fail(*_: object) -> None:
    raise BackhaulError("the power is gone")


def test_a_file_that_is_there_already(
    server: Postgres, path: Path, tmp_path: Path
) -> None:
    url, taken = server.empty(), tmp_path / "taken.db"
    move(path, url)
    taken.write_bytes(b"somebody's")
    assert f"{taken}: this file exists already, and a move needs a new file" in refusal(
        url, taken
    )
    assert taken.read_bytes() == b"somebody's"
    assert is_usable(url)


def test_no_database_to_move(server: Postgres, tmp_path: Path) -> None:
    said = refusal(tmp_path / "none.db", server.empty())
    assert f"{tmp_path / 'none.db'}: there is no database to move" in said
    said = refusal(server.empty(), tmp_path / "none.db")
    assert "there is no Backhaul database to move; check the name" in said
    assert list(tmp_path.iterdir()) == []


def test_two_files_and_two_servers(server: Postgres, path: Path) -> None:
    assert "from a SQLite file to PostgreSQL, or" in refusal(
        path, path.with_name("b.db")
    )
    assert "from a SQLite file to PostgreSQL, or" in refusal(
        server.empty(), server.empty()
    )


def test_a_schema_that_is_behind(server: Postgres, tmp_path: Path) -> None:
    with later_version():
        make_older(tmp_path / "backhaul.db")
        said = refusal(tmp_path / "backhaul.db", server.empty())
    assert (
        "4 steps behind this version of Backhaul. To upgrade the schema, run:"
        " backhaul migrate" in said
    )


def test_a_restore_that_was_interrupted(server: Postgres, path: Path) -> None:
    file_replacement.intent_path(path).write_text("{}")
    assert "was interrupted. Run the restore again" in refusal(path, server.empty())


def test_the_file_of_an_earlier_move(server: Postgres, path: Path) -> None:
    path.with_name("backhaul.db.moved").touch()
    said = refusal(path, server.empty())
    assert "backhaul.db.moved: this file is left from an earlier move" in said


def test_a_program_that_has_the_file_open(server: Postgres, path: Path) -> None:
    with (
        LockOfAnotherProcess(path),
        pytest.raises(AlreadyRunning, match="has the database open; stop it"),
    ):
        move(path, server.empty())


def test_a_program_that_writes_during_the_move(
    server: Postgres, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is not in the copy, so the copy does not become the database."""
    url, commit = server.empty(), in_server.PostgresTarget.commit

    def committed(*given: object) -> None:
        insert(path, "kv", name="late", value="1")
        commit(*given)  # type: ignore[arg-type]  # handed on

    with monkeypatch.context() as patched:
        patched.setattr(in_server.PostgresTarget, "commit", committed)
        with pytest.raises(AlreadyRunning, match="has changed the database since"):
            move(path, url)
    assert (is_usable(path), is_usable(url)) == (True, False)
    move(path, url)
    assert ("late", "1") in contents(url)["kv"]


def test_a_daemon_elsewhere_that_writes_to_the_server(
    server: Postgres,
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the move Backhaul waits for the daemon; after it the write is refused."""
    url, back = server.empty(), tmp_path / "back.db"
    move(path, url)
    schema = url.rpartition("%3D")[2]
    write = "INSERT INTO kv VALUES ('late', '1')"
    monkeypatch.setattr(in_server, "LOCK_SECONDS", 1)
    with server.connect(schema) as elsewhere:
        elsewhere.execute("BEGIN")
        elsewhere.execute(write)
        with pytest.raises(AlreadyRunning, match="stop every Backhaul daemon"):
            move(url, back)
        elsewhere.execute("ROLLBACK")
    move(url, back)
    with (
        server.connect(schema) as elsewhere,
        pytest.raises(Exception, match=f"was moved to sqlite:///{back}"),
    ):
        elsewhere.execute(write)
    assert ("late", "1") not in contents(back)["kv"]


async def test_a_daemon_elsewhere_that_runs(
    server: Postgres, path: Path, tmp_path: Path
) -> None:
    """The daemon is the owner, or a standby that receives webhooks."""
    url, member = server.empty(), new_member(ttl_seconds=HANG_SECONDS)
    move(path, url)
    store = open_server(url, SystemClock(), member)
    store.start()
    await store.ownership.join(("main",))
    keeping = asyncio.create_task(store.ownership.keep())
    await until(lambda: has_member(url), "it gave a sign of life")
    with pytest.raises(AlreadyRunning) as refused:
        move(url, tmp_path / "back.db")
    assert f"a daemon on {member.host} uses this database; stop" in str(refused.value)
    keeping.cancel()
    await store.stop()
    move(url, tmp_path / "back.db")


def has_member(url: str) -> bool:
    return bool(database_at(url).members())


async def test_events_that_wait_out_of_order(
    server: Postgres, path: Path, tmp_path: Path
) -> None:
    """One daemon received them, and another daemon folded later ones."""
    url = server.empty()
    move(path, url)
    store = open_server(url, SystemClock())
    store.start()
    for _ in range(3):
        await store.inbox.append(arrival(envelope("orders/create", order("ord_1"))))
    await store.stop()
    schema = url.rpartition("%3D")[2]
    late = "INSERT INTO event_outcomes VALUES (3, 'folded', '', '', '', '', '', '')"
    server.run(late, schema=schema)
    said = refusal(url, tmp_path / "back.db")
    assert "2 events wait behind others that are folded already" in said
    server.run("DELETE FROM event_outcomes", schema=schema)
    move(url, tmp_path / "back.db")


def test_a_server_does_not_end_a_long_move(
    server: Postgres, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction is idle while the other side builds indexes."""
    url, found = server.empty(), []
    receive = in_server.PostgresTarget.receive
    count = in_server.PostgresSource.count

    def limits(side: Any) -> None:
        for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
            found.extend(side._connection.execute(f"SHOW {name}").fetchall())

    def received(target: Any, table: Table, rows: Any) -> None:
        limits(target)
        receive(target, table, rows)

    def counted(source: Any, table: Table) -> int:
        limits(source)
        return count(source, table)

    limited = url.replace("options=", "options=-cstatement_timeout%3D60000%20")
    monkeypatch.setattr(in_server.PostgresTarget, "receive", received)
    monkeypatch.setattr(in_server.PostgresSource, "count", counted)
    move(path, limited)
    move(limited, tmp_path / "back.db")
    assert len(found) == 4 * len(tables())
    assert set(found) == {("0",)}


def test_a_damaged_row_leaves_nothing_behind(server: Postgres, tmp_path: Path) -> None:
    path, url = tmp_path / "backhaul.db", server.empty()
    fill(path, some_rows())
    overwrite(path, "stock_targets", {"quantity": "seven"})
    before = path.read_bytes()
    assert "the column quantity has text instead of a whole number" in refusal(
        path, url
    )
    assert path.read_bytes() == before
    assert is_usable(path)
    with server.connect(url.rpartition("%3D")[2]) as connection:
        assert not moving._RELATIONS.isspace()
        assert connection.execute(moving._RELATIONS.encode()).fetchall() == []


def test_rows_that_break_a_rule_are_named_by_the_server(
    server: Postgres, tmp_path: Path
) -> None:
    path = tmp_path / "backhaul.db"
    fill(path, some_rows())
    delete_rows(path, "inbox")
    said = refusal(path, server.empty())
    assert (
        "PostgreSQL cannot store the rows of event_outcomes: insert or update" in said
    )
    assert 'is not present in table "inbox"' in said
    assert "nothing was moved" in said


def test_a_text_too_long_for_an_index_is_refused(
    server: Postgres, tmp_path: Path
) -> None:
    path = tmp_path / "backhaul.db"
    fill(path, some_rows())
    overwrite(path, "orders", {"name": "".join(map(chr, range(0x4E00, 0x5200)))})
    said = refusal(path, server.empty())
    assert "PostgreSQL cannot store the values of an index: index row size" in said
    assert '"orders_name"' in said


def test_a_copy_that_differs_is_not_used(
    server: Postgres, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row is lost during the copy, or one value changes (faulty memory)."""
    insert(path, "kv", name="a", value="1")
    url, receive = server.empty(), in_server.PostgresTarget.receive

    for change in ([], [("a", "2")], [("a", b"1"[:1].decode()), ("b", "1")]):

        def received(target: object, table: object, rows: object) -> None:
            found = list(rows)  # type: ignore[call-overload]  # rows
            is_kv = table.name == "kv"  # type: ignore[attr-defined]  # a table
            receive(target, table, change if is_kv else found)  # type: ignore[arg-type]  # noqa: B023 - used within the round

        with monkeypatch.context() as patched:
            patched.setattr(in_server.PostgresTarget, "receive", received)
            assert "the copy of the table kv differs from its source" in refusal(
                path, url
            )
        assert (is_usable(path), is_usable(url)) == (True, False)


@pytest.mark.parametrize(
    ("url", "place", "configured"),
    [
        (
            "postgres://ann:s3cret@db:5433/backhaul?sslmode=require&password=x",
            "postgresql://db:5433/backhaul",
            "postgresql://ann@db:5433/backhaul?sslmode=require",
        ),
        (
            "postgresql:///backhaul?host=/run/pg&user=ann&sslpassword=x",
            "postgresql:///backhaul?host=/run/pg",
            "postgresql:///backhaul?host=/run/pg&user=ann",
        ),
        (
            "postgresql://ann:p%40ss@a:1,b:2/b?target_session_attrs=read-write",
            "postgresql://a:1,b:2/b",
            "postgresql://ann@a:1,b:2/b?target_session_attrs=read-write",
        ),
        (
            "postgresql://db/b?options=-ca%3D1%20-cb%3D2&p%61ssword=x",
            "postgresql://db/b?options=-ca%3D1%20-cb%3D2",
            "postgresql://db/b?options=-ca%3D1%20-cb%3D2",
        ),
    ],
)
def test_a_place_is_shown_without_credentials(
    url: str, place: str, configured: str
) -> None:
    assert (place_of(url), without_password(url)) == (place, configured)
