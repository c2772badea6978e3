"""A database moves to PostgreSQL and back without a change to any row."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from backhaul.core.clock import SystemClock
from backhaul.core.lifecycle import Cause, State
from backhaul.store import database_at
from backhaul.store.commands import Sendable, Transition
from backhaul.store.postgres.database import open_store as open_server
from backhaul.store.sqlite.opening import open_store
from scenes import payloads
from scenes.commands import plan
from scenes.databases import append_and_fold, fold_all, rows, started_store
from scenes.postgres import postgres
from store.move_places import contents, fill, is_usable, move, random_rows, some_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backhaul.store import Place
    from backhaul.store.matching import Command, MatchReader
    from backhaul.store.moving import Row
    from scenes.postgres import Postgres

pytestmark = pytest.mark.programs

EXAMPLES = settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a move takes a second
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_OBJECTS = """
    SELECT type, name, sql FROM sqlite_master
    WHERE name NOT LIKE 'sqlite%' ORDER BY name
"""


_SERVER_OBJECTS = (
    """
    SELECT table_name, column_name, data_type, is_nullable, column_default,
           is_identity, generation_expression
    FROM information_schema.columns WHERE table_schema = current_schema()
    ORDER BY table_name, ordinal_position
    """,
    """
    SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()
    ORDER BY indexname
    """,
    """
    SELECT t.tgname, t.tgenabled, pg_get_triggerdef(t.oid)
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal
    ORDER BY t.tgname
    """,
)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


def objects(path: Path) -> list[Any]:
    """Return the objects of a file's schema."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(_OBJECTS).fetchall()


@given(rows=random_rows())
@EXAMPLES
def test_any_rows_are_the_same_there_and_back(
    server: Postgres, tmp_path: Path, rows: dict[str, list[Row]]
) -> None:
    path, url = tmp_path / "backhaul.db", server.empty()
    for left in tmp_path.iterdir():
        left.unlink()
    fill(path, rows)
    before, made_of = contents(path), objects(path)
    there = move(path, url)
    assert contents(url) == before
    assert (is_usable(path), is_usable(url)) == (False, True)
    back = move(url, path)
    assert contents(path) == before
    assert objects(path) == made_of
    assert (is_usable(path), is_usable(url)) == (True, False)
    assert back.tables == there.tables


def test_the_schema_there_is_that_of_a_new_database(
    server: Postgres, tmp_path: Path
) -> None:
    path = tmp_path / "backhaul.db"
    fill(path, some_rows())
    moved_to, new = server.empty(), server.empty()
    move(path, moved_to)
    open_server(new, SystemClock())
    found, expected = server_objects(moved_to), server_objects(new)
    assert len(found) > 100
    assert found == expected


def server_objects(url: str) -> list[tuple[Any, ...]]:
    """Return columns, indexes and triggers, without the name of the schema."""
    schema = url.rpartition("%3D")[2]
    return [
        tuple(str(value).replace(f"{schema}.", "") for value in row)
        for query in _SERVER_OBJECTS
        for row in rows(url, query)
    ]


async def test_new_ids_follow_those_that_were_moved(
    server: Postgres, tmp_path: Path
) -> None:
    path, url = tmp_path / "backhaul.db", server.empty()
    body = payloads.envelope("orders/create", payloads.order("ord_1"))
    async with started_store(path) as store:
        await append_and_fold(store, body, body, body)
    move(path, url)
    there = open_server(url, SystemClock())
    there.start()
    assert await there.inbox.append(payloads.arrival(body)) == 4
    await there.stop()
    move(url, path)
    async with started_store(path) as store:
        assert await store.inbox.append(payloads.arrival(body)) == 5


async def test_an_event_is_folded_once_wherever_it_waits(
    server: Postgres, tmp_path: Path
) -> None:
    path, url = tmp_path / "backhaul.db", server.empty()
    bodies = [
        payloads.envelope("orders/create", payloads.order(f"ord_{number}"))
        for number in range(4)
    ]
    async with started_store(path) as store:
        await append_and_fold(store, *bodies[:2])
        await store.inbox.append(payloads.arrival(bodies[2]))
    move(path, url)
    there = open_server(url, SystemClock())
    there.start()
    assert await fold_all(there) == []
    assert len(contents(url)["event_outcomes"]) == 3
    await there.inbox.append(payloads.arrival(bodies[3]))
    await there.stop()
    move(url, path)
    async with started_store(path) as store:
        assert await fold_all(store) == []
    assert [row[0] for row in contents(path)["event_outcomes"]] == [1, 2, 3, 4]
    assert len(contents(path)["changes"]) == 4


async def test_search_finds_moved_objects(server: Postgres, tmp_path: Path) -> None:
    path, url = tmp_path / "backhaul.db", server.empty()
    fill(path, {"search_documents": [(7, "order", "main", "ord_1", "#1001", "Émile")]})
    move(path, url)
    for place in (url, path):
        with database_at(place).reader() as reader:
            assert [hit.id for hit in reader.search("emile", None, 9)] == ["ord_1"]
        if place == url:
            move(url, path)


def prepare(command: Command, _: MatchReader) -> Sendable:
    return Sendable(command.id.encode(), "mark")


async def test_a_command_that_was_being_sent_is_not_sent_again(
    server: Postgres, tmp_path: Path
) -> None:
    path, url = tmp_path / "backhaul.db", server.empty()
    async with started_store(path) as store:
        await plan(store, "cancel", "ord_1")
        windows = {"cancel": "9999", "fulfill": "9999", "adjust": "9999"}
        ((command, _),) = await store.commands.claim("main", windows, 9, prepare)
    move(path, url)
    there = open_server(url, SystemClock())
    there.start()
    stopped = Transition((Cause.UNKNOWN,), "stopped", due_at="2026")
    assert await there.commands.mark_interrupted_uncertain(stopped) == [command.id]
    assert await there.commands.claim("main", windows, 9, prepare) == []
    found = await there.read(lambda reader: reader.command(command.id))
    await there.stop()
    assert found is not None
    assert found.state == State.UNCERTAIN


def raw_of(place: Place) -> list[str | bytes]:
    return [row[4] for row in contents(place)["quarantine"]]


def test_text_in_the_quarantine_is_text_again(server: Postgres, tmp_path: Path) -> None:
    """PostgreSQL stores it as bytes, like the body of an event."""
    path, url = tmp_path / "backhaul.db", server.empty()
    rest = ("", "here", "open", "2026", 0, "value", "A")
    record = (1, "record", "books", "1", "Zeile ä", *rest)
    event = (2, "event", "main", "2", b"\xff", *rest)
    fill(path, {"quarantine": [record, event]})
    move(path, url)
    assert raw_of(url) == ["Zeile ä".encode(), b"\xff"]
    move(url, path)
    assert raw_of(path) == ["Zeile ä", b"\xff"]


def test_a_file_is_closed_to_others_and_leaves_no_log(
    server: Postgres, tmp_path: Path
) -> None:
    path, url = tmp_path / "backhaul.db", server.empty()
    fill(path, some_rows())
    open_store(path, SystemClock())
    assert move(path, url).aside == tmp_path / "backhaul.db.moved"
    assert [each.name for each in tmp_path.iterdir()] == ["backhaul.db.moved"]
    move(url, path)
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "backhaul.db",
        "backhaul.db.moved",
    ]
    assert path.stat().st_mode & 0o777 == 0o600
