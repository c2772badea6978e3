"""Two members on one database: which member folds, indexes and decides for a store."""

from __future__ import annotations

import asyncio
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from backhaul.core.lifecycle import Cause
from backhaul.errors import Busy, CommitsLost, Superseded
from backhaul.maintenance.search_indexer import describe
from backhaul.push.response_classifier import interrupted
from backhaul.store.commands import restored_mark
from backhaul.store.deliveries import Subscriber
from backhaul.store.matching import NewCommand
from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.fence import session_name
from backhaul.store.sql.commands import planning
from backhaul.store.testing.command_scenes import claimed, plan, resolve, state_of
from backhaul.store.testing.event_scenes import (
    append,
    fold_to_body,
    fold_with,
    webhook,
    without_decoding,
)
from scenes.cluster_members import (
    LONG_AGO,
    in_contact,
    joined,
    member,
    owning,
    run,
    share,
)
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.store.inbox import Folded, MirrorWriter, StoredEvent
    from backhaul.store.postgres.database import PostgresStore

pytestmark = pytest.mark.programs
FOLDED = """
    SELECT i.store, o.state FROM inbox i JOIN event_outcomes o ON o.id = i.id
    ORDER BY i.id
"""
BOTH = ("one", "two")
NOW = "2026-03-01T12:00:00.000Z"
CHANGE = """
    INSERT INTO changes (store, kind, object_id, change, at, event)
    VALUES ('{store}', 'order', 'ord_1', 'updated', '2026-03-01T12:00:00.000Z', 0)
"""


async def share_stores(first: PostgresStore, second: PostgresStore) -> None:
    """Let the first member own store `one`, and the second `two`."""
    await owning(first)
    while surplus := (await first.ownership.balance()).surplus:
        await first.ownership.give_up(surplus[0])
    await owning(second)
    assert first.ownership.owns("one")
    assert second.ownership.owns("two")


def append_late(other: Connection) -> None:
    """Append an event to the stream of another member, and do not commit yet."""
    other.execute("BEGIN")
    other.execute("INSERT INTO streams (member) VALUES ('b')")
    other.execute(
        "INSERT INTO inbox (stream, store, kind, topic, received_at, headers,"
        " body, digest) SELECT max(id), 'main', 'webhook', 'orders/create',"
        " '2026-03-01T12:00:00.000Z', '', 'late', 'd' FROM streams"
    )


async def test_an_event_that_becomes_visible_late_is_folded(url: str) -> None:
    """Another member's event has a lower id, and is committed after a higher one."""
    fold = without_decoding(fold_to_body)
    async with joined(url, "a") as store:
        await owning(store)
        with closing(Connection(url)) as other:
            append_late(other)
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
    """Otherwise a wait for the end of folding would never end."""
    async with joined(url, "a") as store:
        await owning(store)
        with closing(Connection(url)) as other:
            append_late(other)
            first = await store.inbox.append(webhook("early"))

            def commit_meanwhile(event: StoredEvent, mirror: MirrorWriter) -> Folded:
                if event.id == first:
                    other.execute("COMMIT")
                return fold_to_body(event, mirror)

            fold = without_decoding(commit_meanwhile)
            assert (await store.inbox.fold(fold, 1.0)).folded_to == first
        newest = await store.inbox.newest()
        assert newest > first, "the last report is outdated"
        report = await store.inbox.fold(fold, 1.0)
        assert (report.folded, report.folded_to) == (1, newest)


async def test_a_store_is_folded_by_its_owner_only(url: str) -> None:
    async with joined(url, "a", BOTH) as first, joined(url, "b", BOTH) as second:
        await share_stores(first, second)
        for name in (*BOTH, *BOTH):
            await append(second, f"by {name}", name=name)
        assert (await fold_with(first, fold_to_body)).folded == 2
        assert run(url, FOLDED) == [("one", "by one")] * 2
        assert (await fold_with(second, fold_to_body)).folded == 2
        assert run(url, FOLDED) == [("one", "by one"), ("two", "by two")] * 2


async def test_a_store_is_folded_on_where_its_last_owner_stopped(url: str) -> None:
    async with joined(url, "b", ["one"]) as second:
        async with joined(url, "a", ["one"]) as first:
            await owning(first)
            await append(second, "before", "before", name="one")
            assert (await fold_with(first, fold_to_body)).folded == 2
            await append(second, "after", name="one")
        await owning(second)
        assert (await fold_with(second, fold_to_body)).folded == 1
        states = [state for _, state in run(url, FOLDED)]
        assert states == ["before", "before", "after"]


async def test_waiting_events_of_a_store_are_folded_though_its_stream_has_grown(
    url: str,
) -> None:
    """The new owner read the stream before, for another store."""
    async with joined(url, "b", ["two"]) as second:
        await owning(second)
        await append(second, "seen by b", name="one")
        await append(second, "of b", name="two")
        assert (await fold_with(second, fold_to_body)).folded == 1
        await second.ownership.join(BOTH)
        await owning(second)
        await append(second, "after b has taken it", name="one")
        assert (await fold_with(second, fold_to_body)).folded == 2


async def test_a_store_that_is_claimed_again_is_not_folded_before_it_is_ready(
    url: str,
) -> None:
    async with joined(url, "a", ["one"]) as store:
        await owning(store)
        await append(store, "first", name="one")
        assert (await fold_with(store, fold_to_body)).folded == 1
        await store.ownership.give_up("one")
        await append(store, "second", name="one")
        assert (await store.ownership.balance()).taken == ("one",)
        assert (await fold_with(store, fold_to_body)).folded == 0
        store.ownership.begin_folding("one")
        assert (await fold_with(store, fold_to_body)).folded == 1


async def test_no_event_is_lost_when_a_slice_is_not_committed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with joined(url, "a", ["one"]) as store:
        await owning(store)
        await append(store, "first", "second", name="one")
        writer, ends = store.engine.writer, iter([True])
        end = writer._end

        def fail_once(connection: Any) -> None:
            if next(ends, False):
                raise psycopg.OperationalError("the server went away")
            end(connection)

        monkeypatch.setattr(writer, "_end", fail_once)
        with pytest.raises(Busy):
            await fold_with(store, fold_to_body)
        assert (await fold_with(store, fold_to_body)).folded == 2


async def test_a_poll_of_an_idle_database_costs_the_same_for_any_number_of_stores(
    url: str,
) -> None:
    names = [f"s{number}" for number in range(50)]
    async with joined(url, "a", names) as store:
        await owning(store)
        for name in names:
            await append(store, "event", name=name)
        while (await fold_with(store, fold_to_body)).more:
            pass
        asked: list[str] = []

        class Counting(Connection):
            def execute(self, sql: str, values: Any = (), /) -> Any:
                asked.append(sql)
                return super().execute(sql, values)

        with closing(Counting(url)) as connection:
            inbox: Any = store.inbox
            assert not inbox._places.has_news(connection)
        assert len(asked) == 1


async def test_a_change_of_another_store_hides_no_change_from_the_index(
    url: str,
) -> None:
    """Over all stores, ids of changes become visible out of order."""
    async with joined(url, "a", BOTH) as first, joined(url, "b", BOTH) as second:
        await share_stores(first, second)
        with closing(Connection(url)) as writer_of_second:
            writer_of_second.execute("BEGIN")
            writer_of_second.execute(CHANGE.format(store="two"))
            run(url, CHANGE.format(store="one"))
            assert (await first.search.follow(describe, 1.0)).indexed == 1
            writer_of_second.execute("COMMIT")
        assert (await second.search.follow(describe, 1.0)).indexed == 1
        assert (await first.search.follow(describe, 1.0)).indexed == 0


async def test_a_change_of_another_store_hides_no_change_from_a_connection(
    url: str,
) -> None:
    topics = frozenset({"order.updated"})
    desk = Subscriber(instance="desk", store="one", topics=topics, begin="all")
    till = Subscriber(instance="till", store="two", topics=topics, begin="all")
    async with joined(url, "a", BOTH) as first, joined(url, "b", BOTH) as second:
        await share_stores(first, second)
        await first.deliveries.subscribe(desk)
        await second.deliveries.subscribe(till)
        with closing(Connection(url)) as writer_of_second:
            writer_of_second.execute("BEGIN")
            writer_of_second.execute(CHANGE.format(store="two"))
            run(url, CHANGE.format(store="one"))
            await first.deliveries.fan_out(desk, 1.0)
            writer_of_second.execute("COMMIT")
        await second.deliveries.fan_out(till, 1.0)
        moved = 'SELECT store, "cursor" FROM change_subscribers ORDER BY store'
        assert run(url, moved) == run(
            url, "SELECT store, id FROM changes ORDER BY store"
        )


async def test_a_decision_of_the_last_owner_changes_nothing(url: str) -> None:
    async with joined(url, "a") as first, joined(url, "b") as second:
        await owning(first)
        await plan(first)
        (command,) = await claimed(first)
        run(url, LONG_AGO)
        await in_contact(second)
        assert await share(second) == [("*", "main")]
        later = "2099-01-01T00:00:00.000Z"
        marked = await second.commands.mark_interrupted_uncertain(
            interrupted(later), "main"
        )
        assert marked == [command.id]
        with pytest.raises(Busy):
            await resolve(first, command, Cause.CONFIRMED, outcome="applied")
        assert await state_of(second, command.id) == "uncertain"
        due = run(url, "SELECT due_at FROM commands")
        assert due == [(later,)], "its request may still be on its way"


async def test_only_the_commands_of_the_claimed_store_are_uncertain(
    url: str,
) -> None:
    async with joined(url, "a", BOTH) as store:
        await owning(store)
        for name in BOTH:
            await plan(store, name=name)
            await claimed(store, name=name)
        marked = await store.commands.mark_interrupted_uncertain(interrupted(), "two")
        states = run(url, "SELECT store, state FROM commands ORDER BY store")
        assert (len(marked), states) == (1, [("one", "sending"), ("two", "uncertain")])


async def test_lost_commits_end_the_owner_of_before_as_well(url: str) -> None:
    """The new primary lacks the takeover, so it names the previous owner."""
    async with joined(url, "a") as first, joined(url, "b") as second:
        await owning(second)
        run(url, "UPDATE owners SET member = 'a'")
        run(url, "UPDATE members SET rounds = rounds - 2 WHERE id = 'b'")
        with pytest.raises(Busy):
            await second.kv.put("written", "after the loss")
        with pytest.raises(Busy):
            await first.kv.put("written", "by the previous owner")
        with pytest.raises(Superseded):
            await first.watch()


async def test_owners_that_plan_at_once_number_their_commands_apart(url: str) -> None:
    stores = ("one", "two")
    planned = Event()

    def unit(connection: Any) -> None:
        command = NewCommand("1" * 32, "fulfill", "ord_1", "order:ord_1", {})
        planning.plan(connection, "one", "courier", command, "", NOW)
        assert planned.wait(HANG_SECONDS)

    async with joined(url, "a", stores) as first, joined(url, "b", stores) as second:
        await owning(first)
        await owning(second)
        planning_one = asyncio.ensure_future(first.engine.writer.urgent(unit))
        try:
            await plan(second, name="two")
        finally:
            planned.set()
            await planning_one
        numbers = run(url, "SELECT seq FROM commands")
        assert len({*numbers}) == 2


async def test_a_member_whose_row_is_gone_has_lost_commits(url: str) -> None:
    async with joined(url, "a") as store:
        await owning(store)
        run(url, "UPDATE owners SET member = NULL")
        run(url, "DELETE FROM members")
        with pytest.raises(Busy):
            await store.kv.put("written", "after the loss")
        with pytest.raises(CommitsLost):
            await store.watch()
        assert (restored_mark("main"),) in run(url, "SELECT name FROM kv")


def _reading_slowly(link: psycopg.Connection[Any]) -> None:
    """Ask for more than the buffers of both sides hold, and do not read it."""
    link.pgconn.send_query(b"SELECT repeat('x', 1000000) FROM generate_series(1, 99)")


def _amid_a_batch(link: psycopg.Connection[Any]) -> None:
    """Send a part of a batch, and nothing that ends it."""
    link.pgconn.enter_pipeline_mode()
    link.pgconn.send_query_params(b"SELECT 1", None)
    link.pgconn.send_flush_request()


def _between_statements(link: psycopg.Connection[Any]) -> None:
    """Send nothing more; the server has no limit for that by default."""
    del link


@pytest.mark.parametrize("begin", [_reading_slowly, _amid_a_batch, _between_statements])
async def test_a_member_that_stands_still_amid_a_transaction_is_replaced(
    begin: Callable[[psycopg.Connection[Any]], None], url: str
) -> None:
    """The server waits for it, and keeps its row locked."""
    async with joined(url, "a") as first, joined(url, "b") as second:
        await owning(first)
        await in_contact(second)
        run(url, LONG_AGO)
        name = session_name(member("a").id)
        with closing(psycopg.connect(url, application_name=name)) as link:
            link.execute("SELECT 1 FROM members WHERE id = 'a' FOR UPDATE")
            begin(link)
            link.pgconn.flush()
            assert (await second.ownership.balance()).taken == ()
            taken: tuple[str, ...] = ()
            async with asyncio.timeout(HANG_SECONDS):
                while not taken:
                    taken = (await second.ownership.balance()).taken
        assert taken == ("*", "main")


async def test_lost_commits_fence_also_a_member_that_just_takes_its_first_store(
    url: str,
) -> None:
    """Nobody sees yet what it takes: its commit waits for a replica."""
    async with joined(url, "a") as store, joined(url, "b"):
        await owning(store)
        run(url, "UPDATE owners SET member = NULL")
        run(url, "DELETE FROM members WHERE id = 'a'")
        with pytest.raises(Busy):
            await store.kv.put("written", "after the loss")
        fenced = "SELECT id FROM members WHERE fenced_at IS NOT NULL"
        assert run(url, fenced) == [("b",)]


async def test_a_long_transaction_ends_with_a_sign_of_life(url: str) -> None:
    """Otherwise others could take the stores before the next transaction begins."""
    async with joined(url, "a") as store:

        def work(connection: Any) -> str:
            connection.execute("SELECT pg_sleep(1)")
            (at,) = connection.execute("SELECT clock_timestamp()::text").fetchone()
            return str(at)

        worked_at = await store.engine.write(work)
        later = f"SELECT beat_at > '{worked_at}' FROM members WHERE id = 'a'"  # noqa: S608 - a time
        assert run(url, later) == [(True,)]
