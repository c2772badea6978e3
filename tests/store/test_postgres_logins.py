"""Members of a cluster share the dashboard's sessions, failed logins and users."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from backhaul.admin.accounts import FREE_PAIR, Sessions, Throttle
from backhaul.core.clock import SystemClock
from backhaul.errors import BackhaulError
from backhaul.store.operators import MAX_SESSIONS, OpenSession, Role
from backhaul.store.ownership import Member
from backhaul.store.postgres.database import PostgresStore, open_store
from scenes.databases import rows, writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from backhaul.store.operators import User
    from scenes.postgres_databases import PostgresDatabases

pytestmark = pytest.mark.programs


@pytest.fixture
def url(postgres_server: PostgresDatabases) -> Iterator[str]:
    with postgres_server.lent() as lent:
        yield lent


@asynccontextmanager
async def joined(url: str, name: str) -> AsyncIterator[PostgresStore]:
    """Open the database as a member; it has no owner."""
    member = Member(name, f"host of {name}", "0.1.0")
    store = open_store(url, SystemClock(), member)
    store.start()
    try:
        yield store
    finally:
        await store.stop()


@pytest.fixture
async def pair(url: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    async with joined(url, "a") as first, joined(url, "b") as second:
        yield first, second


async def user(store: PostgresStore, name: str = "ada") -> User:
    await store.users.add(name, Role.ADMIN, "hash", "the test")
    found = await store.users.find(name)
    assert found is not None
    return found


def change(url: str, statement: str) -> None:
    with writer(url) as connection:
        connection.execute(statement)


async def test_a_session_holds_on_every_member_until_it_ends(
    pair: tuple[PostgresStore, PostgresStore], url: str
) -> None:
    here, there = (Sessions(each.logins) for each in pair)
    ada = await user(pair[0])
    token = await here.begin(ada)
    opened, same = await here.find(token), await there.find(token)
    assert opened is not None
    assert same is not None
    assert same.belongs_to(ada)
    assert same.csrf == opened.csrf
    assert await there.find(f"{token}x") is None
    stored = str(rows(url, "SELECT * FROM dashboard_sessions"))
    assert token not in stored
    assert same.csrf not in stored
    await there.end(token)
    assert await here.find(token) is None


async def test_a_notice_is_shown_by_the_member_that_gets_the_next_request(
    pair: tuple[PostgresStore, PostgresStore],
) -> None:
    here, there = (Sessions(each.logins) for each in pair)
    token = await here.begin(await user(pair[0]))
    session = await here.find(token)
    assert session is not None
    session.add_notice("good", "It is done.")
    await here.save(session)
    shown = await there.find(token)
    assert shown is not None
    assert shown.notices == [("good", "It is done.")]
    shown.notices = []
    await there.save(shown)
    again = await here.find(token)
    assert again is not None
    assert again.notices == []


@pytest.mark.parametrize(
    ("moved", "is_open"),
    [
        ("last_at = last_at - interval '29 minutes'", True),
        ("last_at = last_at - interval '31 minutes'", False),
        ("began_at = began_at - interval '11 hours'", True),
        ("began_at = began_at - interval '13 hours'", False),
    ],
)
async def test_a_session_expires_by_the_clock_of_the_database(
    pair: tuple[PostgresStore, PostgresStore], url: str, moved: str, is_open: bool
) -> None:
    sessions = Sessions(pair[0].logins)
    token = await sessions.begin(await user(pair[0]))
    change(url, f"UPDATE dashboard_sessions SET {moved}")  # noqa: S608 - a test's own
    assert (await sessions.find(token) is not None) is is_open
    await sessions.begin(await user(pair[0], "bob"))
    assert len(rows(url, "SELECT * FROM dashboard_sessions")) == 1 + is_open


async def test_only_activity_keeps_a_session_open(
    pair: tuple[PostgresStore, PostgresStore], url: str
) -> None:
    sessions = Sessions(pair[0].logins)
    token = await sessions.begin(await user(pair[0]))
    for touch, count in ((False, 0), (True, 1)):
        change(
            url,
            "UPDATE dashboard_sessions SET last_at = clock_timestamp()"
            " - interval '20 minutes'",
        )
        assert await sessions.find(token, touch=touch) is not None
        found = rows(
            url,
            "SELECT 1 FROM dashboard_sessions"
            " WHERE last_at > clock_timestamp() - interval '10 minutes'",
        )
        assert len(found) == count


async def test_the_oldest_session_ends_above_the_limit(
    pair: tuple[PostgresStore, PostgresStore], url: str
) -> None:
    assert MAX_SESSIONS == 1_000
    logins = pair[0].logins
    await logins.begin("first", OpenSession("ada", "", 1))
    change(
        url,
        "INSERT INTO dashboard_sessions (key, user_name, created_at, epoch)"
        " SELECT n, 'ada', '', 1 FROM generate_series(1, 999) n",
    )
    assert await logins.find("first", touch=False) is not None
    await logins.begin("last", OpenSession("ada", "", 1))
    assert await logins.find("first", touch=False) is None
    assert await logins.find("last", touch=False) is not None


async def test_guesses_at_several_members_count_together(
    pair: tuple[PostgresStore, PostgresStore], url: str
) -> None:
    here, there = (Throttle(each.logins) for each in pair)
    waits = await asyncio.gather(
        *(one.attempt("ada", "192.0.2.1") for one in (here, there) * FREE_PAIR)
    )
    assert (
        sorted(wait > 0 for wait in waits) == [False] * FREE_PAIR + [True] * FREE_PAIR
    )
    stored = str(rows(url, "SELECT * FROM login_failures"))
    assert "ada" not in stored
    assert "192.0.2.1" not in stored
    change(url, "UPDATE login_failures SET last_at = last_at - interval '2 seconds'")
    assert await there.attempt("ada", "192.0.2.1") == 0
    await there.succeeded("ada", "192.0.2.1")
    assert await here.attempt("ada", "192.0.2.1") == 0


async def test_failures_are_deleted_once_they_no_longer_count(
    pair: tuple[PostgresStore, PostgresStore], url: str
) -> None:
    throttle = Throttle(pair[0].logins)
    await throttle.attempt("ada", "192.0.2.1")
    change(url, "UPDATE login_failures SET last_at = last_at - interval '2 hours'")
    await throttle.attempt("", "192.0.2.2")
    assert len(rows(url, "SELECT * FROM login_failures")) == 1


async def test_two_members_cannot_remove_the_last_two_administrators(
    pair: tuple[PostgresStore, PostgresStore],
) -> None:
    await user(pair[0], "ada")
    await user(pair[1], "bob")
    removed = await asyncio.gather(
        pair[0].users.remove("ada", "bob"),
        pair[1].users.remove("bob", "ada"),
        return_exceptions=True,
    )
    (refused,) = (each for each in removed if each is not None)
    assert isinstance(refused, BackhaulError)
    assert "is the last administrator" in str(refused)
    assert len(await pair[0].users.list()) == 1
