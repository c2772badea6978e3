"""Who may write to a PostgreSQL database, and which events its owner folds."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING

import msgspec
import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import Busy, CommitsLost, Superseded
from backhaul.store.commands import restored_mark
from backhaul.store.ownership import Member
from backhaul.store.postgres import ownership
from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.database import PostgresStore, open_store
from backhaul.store.testing.command_scenes import plan, state_of
from backhaul.store.testing.event_scenes import fold_to_body, webhook, without_decoding
from scenes.postgres import postgres
from scenes.postgres_databases import PostgresDatabases, postgres_databases
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from backhaul.store.inbox import Folded, MirrorWriter, StoredEvent

pytestmark = pytest.mark.programs
LONG_AGO = "UPDATE owners SET beat_at = beat_at - interval '1 hour'"


@pytest.fixture(scope="module")
def databases() -> Iterator[PostgresDatabases]:
    with postgres_databases() as made:
        yield made


@pytest.fixture
def url(databases: PostgresDatabases) -> Iterator[str]:
    with databases.lent() as lent:
        yield lent


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with closing(Connection(url)) as connection:
        result = connection.execute(statement)
        return [tuple(row) for row in result] if result.description else []


def member(name: str) -> Member:
    return Member(name, f"host of {name}", "0.1.0")


@asynccontextmanager
async def joined(url: str, name: str) -> AsyncIterator[PostgresStore]:
    """Open the database as a member that does not own it yet."""
    store = open_store(url, SystemClock(), member(name))
    store.start()
    try:
        yield store
    finally:
        await store.stop()


async def test_only_the_owner_writes(url: str) -> None:
    async with joined(url, "a") as first, joined(url, "b") as second:
        assert await first.ownership.take(["main"])
        assert not await second.ownership.take(["main"])
        await first.kv.put("written by", "a")
        with pytest.raises(Busy, match="another daemon writes to this database"):
            await second.kv.put("written by", "b")
        assert run(url, "SELECT value FROM kv") == [("a",)]


async def test_an_owner_that_was_replaced_writes_no_more(url: str) -> None:
    async with joined(url, "a") as first, joined(url, "b") as second:
        await first.ownership.take(["main"])
        await first.kv.put("written by", "a")
        run(url, LONG_AGO)
        assert await second.ownership.take(["main"])
        await second.kv.put("written by", "b")
        with pytest.raises(Busy):
            await first.kv.put("written by", "a again")
        with pytest.raises(Superseded, match="another daemon took over"):
            await first.watch()
        assert await second.kv.get("written by") == "b"


async def test_an_owner_in_the_middle_of_a_transaction_is_not_replaced(
    url: str,
) -> None:
    async with joined(url, "a") as first, joined(url, "b") as second:
        await first.ownership.take(["main"])
        run(url, LONG_AGO)
        with closing(Connection(url)) as locked:
            locked.execute("BEGIN")
            locked.execute("UPDATE owners SET rounds = rounds")
            assert not await second.ownership.take(["main"])
            locked.execute("ROLLBACK")
        assert await second.ownership.take(["main"])


async def test_an_owner_that_ends_is_replaced_at_once(url: str) -> None:
    async with joined(url, "b") as second:
        async with joined(url, "a") as first:
            await first.ownership.take(["main"])
            assert not await second.ownership.take(["main"])
        assert await second.ownership.take(["main"])


async def test_the_right_to_send_ends_before_another_can_take_over(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(ownership, "boot_seconds", lambda: now)
    async with joined(url, "a") as store:
        lease = store.ownership.lease
        assert not lease.allows(lease.now())
        await store.ownership.take(["main"])
        assert lease.allows(lease.now())
        now += 2.4
        assert lease.allows(lease.now())
        now += 0.2
        assert not lease.allows(lease.now())
        await store.kv.put("a sign", "of life")
        assert lease.allows(lease.now())


async def test_what_was_claimed_long_ago_is_not_sent(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(ownership, "boot_seconds", lambda: now)
    async with joined(url, "a") as store:
        await store.ownership.take(["main"])
        lease = store.ownership.lease
        claimed_at = lease.now()
        now += 4.9
        await store.kv.put("a sign", "of life")
        assert lease.allows(claimed_at)
        now += 0.2
        assert lease.allows(lease.now())
        assert not lease.allows(claimed_at)


async def test_lost_commits_are_noticed_and_nothing_is_sent_after_them(
    url: str,
) -> None:
    async with joined(url, "a") as store:
        await store.ownership.take(["main"])
        await plan(store, "ord_1")
        ((command,),) = run(url, "SELECT id FROM commands")
        run(url, "UPDATE owners SET rounds = rounds - 1")
        with pytest.raises(Busy):
            await store.kv.put("written", "after the loss")
        with pytest.raises(CommitsLost, match="lacks transactions"):
            await store.watch()
    async with joined(url, "b") as later:
        await later.ownership.take(["main"])
        assert await state_of(later, str(command)) == "uncertain"
        assert await later.kv.get(restored_mark("main")) is not None
        assert await later.kv.get("written") is None


async def test_an_event_that_becomes_visible_late_is_folded(url: str) -> None:
    """Another member's event has a lower id, and is committed after a higher one."""
    fold = without_decoding(fold_to_body)
    async with joined(url, "a") as store:
        await store.ownership.take(["main"])
        with closing(Connection(url)) as other:
            other.execute("BEGIN")
            other.execute("INSERT INTO streams (member) VALUES ('b')")
            other.execute(
                "INSERT INTO inbox (stream, store, kind, topic, received_at, headers,"
                " body, digest) SELECT max(id), 'main', 'webhook', 'orders/create',"
                " '2026-03-01T12:00:00.000Z', '', 'late', 'd' FROM streams"
            )
            first = await store.inbox.append(webhook("early"))
            report = await store.inbox.fold(fold, 1.0)
            assert (report.folded, report.folded_to) == (1, first)
            other.execute("COMMIT")
        ((late,),) = run(url, "SELECT min(id) FROM inbox")
        assert isinstance(late, int)
        assert late < first
        report = await store.inbox.fold(fold, 1.0)
        assert (report.folded, report.folded_to) == (1, first)
        ((folded,),) = run(url, "SELECT count(*) FROM event_outcomes")
        assert folded == 2


async def test_an_event_that_becomes_visible_during_a_fold_hides_no_later_one(
    url: str,
) -> None:
    """Whoever waits until all is folded would wait for ever otherwise."""
    async with joined(url, "a") as store:
        await store.ownership.take(["main"])
        with closing(Connection(url)) as other:
            other.execute("BEGIN")
            other.execute("INSERT INTO streams (member) VALUES ('b')")
            other.execute(
                "INSERT INTO inbox (stream, store, kind, topic, received_at, headers,"
                " body, digest) SELECT max(id), 'main', 'webhook', 'orders/create',"
                " '2026-03-01T12:00:00.000Z', '', 'late', 'd' FROM streams"
            )
            first = await store.inbox.append(webhook("early"))

            def commit_meanwhile(event: StoredEvent, mirror: MirrorWriter) -> Folded:
                if event.id == first:
                    other.execute("COMMIT")
                return fold_to_body(event, mirror)

            fold = without_decoding(commit_meanwhile)
            report = await store.inbox.fold(fold, 1.0)
            assert (report.folded, report.folded_to) == (1, first - 2)
        report = await store.inbox.fold(fold, 1.0)
        assert (report.folded, report.folded_to) == (1, first)


async def test_an_idle_owner_gives_signs_of_life(url: str) -> None:
    async with joined(url, "a") as store:
        await store.ownership.take(["main"])
        run(url, LONG_AGO)
        keeping = asyncio.ensure_future(store.ownership.keep())
        fresh = "SELECT beat_at > clock_timestamp() - interval '30 min' FROM owners"
        await until(lambda: run(url, fresh) == [(1,)], "a sign of life")
        keeping.cancel()


async def test_the_row_of_the_owner_survives_a_crash_of_the_server(url: str) -> None:
    kinds = run(url, "SELECT relpersistence FROM pg_class WHERE relname = 'owners'")
    assert kinds == [("p",)]


async def test_members_are_listed_with_their_addresses(url: str) -> None:
    async with joined(url, "a") as first, joined(url, "b") as second:
        for store in (second, first):
            await store.engine.receiver.urgent(store.ownership.beat)  # type: ignore[attr-defined]
        await first.ownership.take(["main"])
        known = await second.ownership.members()
        shown = [(each.host, each.is_owner) for each in known]
        assert shown == [("host of a", True), ("host of b", False)]


async def test_events_wait_while_the_server_is_away() -> None:
    with postgres() as server:
        url = server.new_database()
        held = msgspec.structs.replace(member("a"), hold_seconds=HANG_SECONDS)
        store = open_store(url, SystemClock(), held)
        store.start()
        await store.inbox.append(webhook("before"))
        await asyncio.to_thread(server.kill)
        waiting = asyncio.ensure_future(store.inbox.append(webhook("meanwhile")))
        await until(lambda: store.engine.receiver.is_waiting, "the event waits")
        assert not waiting.done()
        await asyncio.to_thread(server.start)
        await waiting
        bodies = run(url, "SELECT convert_from(body, 'UTF8') FROM inbox ORDER BY id")
        assert len(bodies) == 2
        await store.stop()


async def test_events_are_refused_once_the_server_was_away_for_too_long() -> None:
    with postgres() as server:
        url = server.new_database()
        held = msgspec.structs.replace(member("a"), hold_seconds=0.2)
        store = open_store(url, SystemClock(), held)
        store.start()
        await asyncio.to_thread(server.kill)
        with pytest.raises(Busy):
            await store.inbox.append(webhook("too late"))
        await store.stop()
