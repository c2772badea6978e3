"""A database move while daemons receive webhooks."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError, ConfigurationError
from backhaul.store import database_at, move_database, prepare_live_move
from backhaul.store.inbox import Folded, Selection
from backhaul.store.ownership import new_member
from backhaul.store.postgres import moving as in_server
from backhaul.store.postgres.database import open_store
from backhaul.store.sql.operations import move_marks
from backhaul.store.sqlite import moving as in_file
from backhaul.store.testing.event_scenes import folded_bodies, reprocess_with, webhook
from scenes import stored
from scenes.cluster_members import became_owner
from scenes.databases import write
from scenes.postgres import postgres
from store.move_places import contents, fill, is_usable, move, some_rows
from store.test_interrupted_moves import (
    POINTS,
    UNTOUCHED,
    in_a_process,
    move_killed_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backhaul.store import Place
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.moving import Row
    from scenes.postgres import Postgres

pytestmark = pytest.mark.programs
CLOCK = SystemClock()


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


@pytest.fixture
def url(server: Postgres) -> str:
    return server.empty()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "backhaul.db"
    fill(made, some_rows())
    return made


def receive(url: str, *bodies: str) -> None:
    """Accept webhooks as a standby, and never become the owner."""

    async def run() -> None:
        store = open_store(url, CLOCK, new_member())
        store.start()
        try:
            assert not await became_owner(store)
            for body in bodies:
                await store.inbox.append(webhook(body))
        finally:
            await store.stop()

    asyncio.run(run())


def own(url: str) -> list[str]:
    """Take over as the new owner, and fold; return the folded bodies."""

    async def run() -> list[str]:
        store = open_store(url, CLOCK, new_member())
        store.start()
        try:
            assert await became_owner(store)
            return await folded_bodies(store)
        finally:
            await store.stop()

    return asyncio.run(run())


def move_live(source: Place, target: Place) -> None:
    assert isinstance(source, Path)
    assert isinstance(target, str)
    prepare_live_move(source, target, CLOCK)
    move_database(source, target, CLOCK, lambda _: None, live=True)


def check_complete(url: str, rows: dict[str, list[Row]], *received: str) -> None:
    """Check that the rows of the file and all received events are there and folded."""
    found = contents(url)
    bodies = [body.encode() for body in received]
    more = [row for row in found["inbox"] if row not in rows["inbox"]]
    assert sorted(body for row in more for body in row if body in bodies) == bodies
    assert len(more) == len(received)
    assert min(row[0] for row in more) > max(row[0] for row in rows["inbox"])
    found["inbox"] = [row for row in found["inbox"] if row in rows["inbox"]]
    assert found == rows
    assert is_usable(url)
    assert own(url) == list(received)


def test_webhooks_are_received_before_the_file_is_moved(path: Path, url: str) -> None:
    rows = contents(path)
    assert prepare_live_move(path, url, CLOCK)
    assert contents(path) == rows
    receive(url, "1", "2")
    assert prepare_live_move(path, url, CLOCK)
    receive(url, "3")
    move_live(path, url)
    assert not path.exists()
    check_complete(url, rows, "1", "2", "3")


def test_no_program_counts_through_the_gap_between_the_ids(
    path: Path, url: str
) -> None:
    prepare_live_move(path, url, CLOCK)
    receive(url, "1")
    move_live(path, url)
    assert own(url) == ["1"]

    async def reprocess() -> list[str]:
        store = open_store(url, CLOCK, new_member())
        store.start()
        bodies: list[str] = []

        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            bodies.append(event.body.decode(errors="replace"))
            return Folded("folded", event.topic)

        try:
            assert await became_owner(store)
            report = await reprocess_with(store, fold, Selection())
            assert report.last is None
            return bodies
        finally:
            await store.stop()

    assert asyncio.run(reprocess())[-1] == "1"
    assert stored.bodies(url)[-1] == b"1"


def test_a_daemon_goes_on_with_the_file_meanwhile(path: Path, url: str) -> None:
    prepare_live_move(path, url, CLOCK)
    receive(url, "1")
    write(path, "INSERT INTO kv (name, value) VALUES ('later', '1')")
    rows = contents(path)
    move_live(path, url)
    check_complete(url, rows, "1")


def test_a_webhook_is_accepted_at_each_step(
    path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = contents(path)
    accepted: list[str] = []

    def accepting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            accepted.append(f"{len(accepted):03}")
            receive(url, accepted[-1])
            return real(*given)

        return call

    prepare_live_move(path, url, CLOCK)
    for kind, steps in (
        (in_file.SqliteSource, ("count", "put_mark")),
        (in_server.LiveTarget, ("begin", "complete", "commit")),
        (in_server.PostgresTarget, ("complete", "commit", "finish")),
    ):
        for step in steps:
            monkeypatch.setattr(kind, step, accepting(vars(kind)[step]))
    move_live(path, url)
    assert len(accepted) > len(rows)
    check_complete(url, rows, *accepted)


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_live_move_is_run_again(
    point: str, path: Path, url: str, server: Postgres
) -> None:
    rows = contents(path)
    prepare_live_move(path, url, CLOCK)
    receive(url, "1")
    work = partial(move_killed_at, point, path, url, move_live)
    assert in_a_process(server, work)
    received = ["1"]
    if point in UNTOUCHED:
        assert is_usable(path)
        assert contents(path) == rows
        assert not is_usable(url)
        receive(url, "2")
        received.append("2")
    else:
        assert not is_usable(path)
    if path.exists():
        move_live(path, url)
    check_complete(url, rows, *received)


def test_a_killed_preparation_is_run_again(
    path: Path, url: str, server: Postgres
) -> None:
    rows = contents(path)

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def prepare() -> None:
        cast("Any", move_marks).put_moving = die
        prepare_live_move(path, url, CLOCK)

    assert in_a_process(server, prepare)
    assert contents(path) == rows
    prepare_live_move(path, url, CLOCK)
    receive(url, "1")
    move_live(path, url)
    check_complete(url, rows, "1")


def test_a_revoked_secret_is_known_before_the_move(path: Path, url: str) -> None:
    prepare_live_move(path, url, CLOCK)
    assert contents(url)["webhook_secrets"] == contents(path)["webhook_secrets"]


def test_only_a_daemon_that_receives_may_use_the_database(path: Path, url: str) -> None:
    prepare_live_move(path, url, CLOCK)
    with pytest.raises(ConfigurationError, match="is not complete"):
        open_store(url, CLOCK)


def test_a_plain_move_keeps_received_events(path: Path, url: str) -> None:
    prepare_live_move(path, url, CLOCK)
    receive(url, "1")
    with pytest.raises(BackhaulError, match="add --live to complete that move"):
        move(path, url)
    assert is_usable(path)


def test_another_file_is_not_moved_on_top(path: Path, url: str, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    fill(other, some_rows(2))
    prepare_live_move(path, url, CLOCK)
    with pytest.raises(BackhaulError, match="a live move into this database has begun"):
        prepare_live_move(other, url, CLOCK)
    with pytest.raises(BackhaulError, match="no live move of this file"):
        move_database(other, url, CLOCK, lambda _: None, live=True)


def test_a_database_in_use_is_not_prepared(path: Path, url: str) -> None:
    open_store(url, CLOCK)
    with pytest.raises(BackhaulError, match="is not empty"):
        prepare_live_move(path, url, CLOCK)


def test_ids_that_meet_are_refused(
    path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_server, "ROOM", 0)
    prepare_live_move(path, url, CLOCK)
    receive(url, "1")
    (last,) = max(row[:1] for row in contents(path)["inbox"])
    with database_at(path).connection() as connection:
        names = [each[1] for each in connection.execute("PRAGMA table_info(inbox)")]
    others = ", ".join(names[1:])
    write(
        path,
        f"INSERT INTO inbox (id, {others}) SELECT {last} + 9, {others} FROM inbox"  # noqa: S608 - names of our columns
        f" WHERE id = {last}",
    )
    with pytest.raises(BackhaulError, match="this needs a move without --live"):
        move_database(path, url, CLOCK, lambda _: None, live=True)
    assert is_usable(path)
