"""Who is allowed to write to a PostgreSQL database, and what an owner folds."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from backhaul.core.clock import SystemClock
from backhaul.errors import Busy, CommitsLost, Superseded, WriterFailed
from backhaul.store.commands import restored_mark
from backhaul.store.ownership import Member, Shift
from backhaul.store.postgres import fence
from backhaul.store.postgres.connection import CommitUnknown, Connection
from backhaul.store.postgres.database import open_store
from backhaul.store.postgres.fence import Witness
from backhaul.store.testing.command_scenes import plan, state_of
from backhaul.store.testing.event_scenes import webhook
from scenes.cluster_members import (
    LONG_AGO,
    in_contact,
    joined,
    member,
    owners,
    owning,
    run,
    share,
)
from scenes.postgres import postgres
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.programs


async def test_a_daemon_that_has_not_joined_writes_nothing(url: str) -> None:
    store = open_store(url, SystemClock(), member("a"))
    store.start()
    with pytest.raises(Busy, match="not joined"):
        await store.kv.put("written by", "a")
    await store.stop()


async def test_a_store_has_one_owner(url: str) -> None:
    async with joined(url, "a") as first, joined(url, "b") as second:
        assert await share(first, second) == [("*", "main"), ()]
        assert first.ownership.owns("main")
        assert not second.ownership.owns("main")
        ((database, main),) = [await second.ownership.owners()]
        assert (database.store, database.member) == ("*", "a")
        assert (main.store, main.member, main.epoch) == ("main", "a", 1)


async def test_members_share_the_stores_evenly(url: str) -> None:
    names = [f"s{number}" for number in range(7)]
    async with (
        joined(url, "a", names) as first,
        joined(url, "b", names) as second,
        joined(url, "c", names) as third,
    ):
        taken = await share(first, second, third)
        assert sorted(map(len, taken)) == [2, 2, 4]  # and the duties of the database
        assert sorted(sum(taken, ())) == ["*", *names]


async def test_a_member_that_joins_gets_its_share(url: str) -> None:
    names = ["one", "three", "two"]
    async with joined(url, "a", names) as first:
        assert await share(first) == [("*", *names)]
        async with joined(url, "b", names) as second:
            (surplus,) = (await first.ownership.balance()).surplus
            assert await share(second) == [()]
            await first.ownership.give_up(surplus)
            assert not first.ownership.owns(surplus)
            assert await share(second) == [(surplus,)]
            assert (await first.ownership.balance()).surplus == ()
        # stores that a member leaves are taken at once
        assert await share(first) == [(surplus,)]


async def test_a_store_left_to_another_member_is_claimed_when_that_member_leaves(
    url: str,
) -> None:
    """The number of stores without an owner does not change."""
    names = ["one", "two"]
    async with joined(url, "a", names) as first:
        async with joined(url, "b", names) as second:
            assert await share(first, second) == [("*", "one"), ("two",)]
            assert await share(first) == [()]
        assert await share(first) == [("two",)]


async def test_a_pinned_store_is_owned_on_its_host_only(url: str) -> None:
    pins = {"two": "host of b"}
    async with joined(url, "a", ["one", "two"], pins) as first:
        assert await share(first) == [("*", "one")]
        async with joined(url, "b", ["one", "two"], pins) as second:
            assert await share(second) == [("two",)]
            assert (await first.ownership.balance()).surplus == ()


async def test_members_with_other_stores_share_nothing(url: str) -> None:
    async with joined(url, "a", ["one", "two"]) as first:
        await share(first)
        async with joined(url, "b", ["one", "two", "three"]) as second:
            assert (await first.ownership.balance()).surplus == ()
            assert await share(second) == [("three",)]


async def test_a_member_that_only_receives_claims_no_store(url: str) -> None:
    async with joined(url, "a", roles=("receiver",)) as receiver:
        assert await share(receiver) == [()]


async def test_a_fenced_member_can_no_longer_write(url: str) -> None:
    async with joined(url, "a") as first, joined(url, "b") as second:
        await share(first)
        await first.kv.put("written by", "a")
        run(url, LONG_AGO)
        await in_contact(second)
        assert await share(second) == [("*", "main")]
        await second.kv.put("written by", "b")
        with pytest.raises(Busy):
            await first.kv.put("written by", "a again")
        with pytest.raises(Superseded, match="another daemon took over"):
            await first.watch()
        assert await second.kv.get("written by") == "b"


async def test_a_member_knows_when_another_one_will_be_silent(url: str) -> None:
    hour = 3_600
    async with joined(url, "a") as first, joined(url, "b") as second:
        await owning(first)
        await in_contact(second)
        later = f"interval '{hour} s'"
        run(url, f"UPDATE members SET beat_at = beat_at + {later} WHERE id = 'a'")  # noqa: S608 - a constant
        left = (await second.ownership.balance()).silent_seconds
        assert hour - HANG_SECONDS < left < hour + HANG_SECONDS
        run(url, LONG_AGO.replace("1 hour", "2 hours"))
        assert (await second.ownership.balance()).taken == ("*", "main")


async def test_a_member_that_has_just_joined_fences_no_other(url: str) -> None:
    """All members may start together after an outage of the server."""
    async with joined(url, "a") as first, joined(url, "b") as second:
        await share(first)
        run(url, LONG_AGO)
        assert await share(second) == [()]
        await first.kv.put("written by", "a")


CUT_ALL = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid != pg_backend_pid()
"""
CUT_SELF = "SELECT pg_terminate_backend(pg_backend_pid())"


@pytest.mark.parametrize("is_within", [True, False])
async def test_no_member_is_fenced_after_the_server_was_away(
    url: str, is_within: bool
) -> None:
    """A member that lost its own connection gives the others time to return.

    Its idle writer connects again without an error.
    """
    async with joined(url, "a") as first, joined(url, "b") as second:
        await share(first)
        await in_contact(second)
        if is_within:
            with pytest.raises(Busy):
                await second.engine.write(lambda c: c.execute(CUT_SELF))
        else:
            run(url, CUT_ALL)
        await second.engine.writer.heartbeat()
        run(url, LONG_AGO)
        assert await share(second) == [()]
        await first.kv.put("written by", "a")


async def test_a_member_in_the_middle_of_a_transaction_is_not_fenced(
    url: str,
) -> None:
    async with joined(url, "a") as first, joined(url, "b") as second:
        await share(first)
        run(url, LONG_AGO)
        await in_contact(second)
        with closing(Connection(url)) as locked:
            locked.execute("BEGIN")
            locked.execute("UPDATE members SET rounds = rounds WHERE id = 'a'")
            assert await share(second) == [()]
            locked.execute("ROLLBACK")
        run(url, LONG_AGO)
        assert await share(second) == [("*", "main")]


async def test_pending_writes_finish_before_a_store_is_released(
    url: str,
) -> None:
    async with joined(url, "a") as store:
        await share(store)
        owner_at_write: list[object] = []
        query = "SELECT member FROM owners WHERE store = 'main'"

        def unit(connection: Any) -> None:
            owner_at_write.append(connection.execute(query).fetchone()[0])

        urgent = [store.engine.writer.urgent(unit) for _ in range(3)]
        later = [store.engine.writer.background(unit) for _ in range(3)]
        await store.ownership.give_up("main")
        await asyncio.gather(*urgent, *later)
        assert owner_at_write == ["a"] * 6


async def test_the_right_to_send_ends_before_another_can_take_over(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(fence, "boot_seconds", lambda: now)
    async with joined(url, "a") as store:
        lease = store.ownership.lease
        assert not lease.allows(lease.now())
        await owning(store)
        assert lease.allows(lease.now())
        now += 2.4
        assert lease.allows(lease.now())
        now += 0.2
        assert not lease.allows(lease.now())
        await store.kv.put("a sign", "of life")
        assert lease.allows(lease.now())


async def test_a_command_that_was_claimed_long_ago_is_not_sent(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(fence, "boot_seconds", lambda: now)
    async with joined(url, "a") as store:
        await owning(store)
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
        await owning(store)
        await plan(store, "ord_1")
        ((command,),) = run(url, "SELECT id FROM commands")
        run(url, "UPDATE members SET rounds = rounds - 1")
        with pytest.raises(Busy):
            await store.kv.put("written", "after the loss")
        with pytest.raises(CommitsLost, match="lacks transactions"):
            await store.watch()
    async with joined(url, "b") as later:
        await owning(later)
        assert await state_of(later, str(command)) == "uncertain"
        assert await later.kv.get(restored_mark("main")) is not None
        assert await later.kv.get("written") is None


async def test_a_member_that_owns_nothing_is_a_witness_of_lost_commits(
    url: str,
) -> None:
    """The owner may have ended together with the failed server."""
    async with joined(url, "a") as owner, joined(url, "b") as witness:
        await owning(owner)
        assert witness.ownership.owned() == frozenset()
        await witness.engine.writer.heartbeat()
        run(url, "UPDATE members SET rounds = rounds - 1 WHERE id = 'b'")
        with pytest.raises(Busy):
            await witness.engine.writer.heartbeat()
        with pytest.raises(CommitsLost):
            await witness.watch()
        assert (restored_mark("main"),) in run(url, "SELECT name FROM kv")
        with pytest.raises(Busy):
            await owner.kv.put("written", "by the owner")
        with pytest.raises(Superseded):
            await owner.watch()


async def test_commits_that_were_lost_before_a_takeover_are_noticed(url: str) -> None:
    """On a replica that is behind, the owner seems silent, so others take over."""
    async with joined(url, "a") as first, joined(url, "b") as second:
        await owning(first)
        run(url, "UPDATE members SET rounds = rounds - 1 WHERE id = 'a'")
        run(url, LONG_AGO)
        await in_contact(second)
        await owning(second)
        assert second.ownership.owns("main")
        with pytest.raises(Busy):
            await first.kv.put("written by", "a")
        with pytest.raises(CommitsLost):
            await first.watch()
        assert (restored_mark("main"),) in run(url, "SELECT name FROM kv")
        with pytest.raises(Busy):
            await second.kv.put("written by", "b")


def unknown(*_: object) -> None:
    raise CommitUnknown("the connection was lost during a commit")


async def test_only_repeatable_writes_may_have_an_unknown_commit(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each failover would end every daemon, and no webhook is received."""
    async with joined(url, "a") as store:
        await owning(store)
        writer = store.engine.writer
        with monkeypatch.context() as patched:
            patched.setattr(type(writer), "_end", unknown)
            with pytest.raises(Busy, match="lost during a commit"):
                await writer.heartbeat()
            with pytest.raises(Busy, match="lost during a commit"):
                await store.kv.put("written", "or not")
        await store.kv.put("written", "after it")
        with monkeypatch.context() as patched:
            patched.setattr(type(writer), "_end", unknown)
            with pytest.raises(Busy):
                await plan(store, "ord_1")
        with pytest.raises(WriterFailed):
            await store.watch()


@pytest.mark.parametrize("is_committed", [True, False])
async def test_stores_of_an_unanswered_claim_are_owned_after_all(
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    is_committed: bool,
) -> None:
    def lost(_: object, connection: Connection) -> None:
        connection.execute("COMMIT" if is_committed else "ROLLBACK")
        unknown()

    async with joined(url, "a") as store:
        await store.engine.writer.heartbeat()
        with monkeypatch.context() as patched:
            patched.setattr(type(store.engine.writer), "_end", lost)
            with pytest.raises(Busy, match="lost during a commit"):
                await store.ownership.balance()
        assert owners(url) == ({"a"} if is_committed else {None})
        assert not store.ownership.owns("main")
        assert (await store.ownership.balance()).taken == ("*", "main")
        assert store.ownership.owns("main")
        assert await store.ownership.balance() == Shift()


async def killed(url: str, witness: Path) -> None:
    """Let a member own a store, write for it, and end without a goodbye."""
    store = open_store(url, SystemClock(), Member("a", "a", "0.1.0", witness=witness))
    store.start()
    await store.ownership.join(("main",))
    await owning(store)
    await store.kv.put("written", "by a")
    await store.engine.receiver.stop()
    await store.engine.writer.stop()
    store.engine.close()


@pytest.mark.parametrize(
    ("loss", "is_held"),
    [
        ("UPDATE members SET rounds = rounds - 1", True),
        ("UPDATE owners SET member = NULL; DELETE FROM members", True),
        ("SELECT 1", False),
    ],
)
async def test_a_member_that_was_killed_notices_lost_commits_at_its_next_start(
    url: str,
    tmp_path: Path,
    loss: str,
    is_held: bool,
) -> None:
    """No other member may know that the commits are missing."""
    witness = tmp_path / "rounds"
    await killed(url, witness)
    for statement in loss.split(";"):
        run(url, statement)
    later = Member("b", "b", "0.1.0", witness=witness)
    store = open_store(url, SystemClock(), later)
    store.start()
    await store.ownership.join(("main",))
    assert bool(run(url, "SELECT 1 FROM kv WHERE name LIKE 'restored%'")) is is_held
    assert " b " in witness.read_text()
    await store.stop()
    assert not witness.exists()


async def test_a_member_that_leaves_notices_lost_commits(
    url: str, tmp_path: Path
) -> None:
    """It leaves because its process ends after a commit without an answer."""
    witness = tmp_path / "rounds"
    store = open_store(url, SystemClock(), Member("a", "a", "0.1.0", witness=witness))
    store.start()
    await store.ownership.join(("main",))
    await owning(store)
    run(url, "UPDATE members SET rounds = rounds - 1")
    await store.stop()
    assert (restored_mark("main"),) in run(url, "SELECT name FROM kv")
    assert owners(url) == {None}


def test_the_rounds_of_another_database_are_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "rounds"
    one, other = Witness(path, "localhost/one"), Witness(path, "localhost/other")
    one.begin("a")
    one.keep(7)
    found = one.earlier()
    assert found is not None
    assert found[:2] == ("a", 7)
    assert other.earlier() is None


async def test_an_idle_owner_sends_heartbeats(url: str) -> None:
    async with joined(url, "a") as store:
        await owning(store)
        run(url, LONG_AGO)
        keeping = asyncio.ensure_future(store.ownership.keep())
        fresh = "SELECT beat_at > clock_timestamp() - interval '30 min' FROM members"
        await until(lambda: run(url, fresh) == [(1,)], "a sign of life")
        keeping.cancel()


async def test_the_rows_of_the_members_survive_a_crash_of_the_server(url: str) -> None:
    kinds = run(
        url,
        "SELECT relpersistence FROM pg_class WHERE relname IN ('members', 'owners')",
    )
    assert kinds == [("p",), ("p",)]


async def test_members_are_listed_with_their_addresses(url: str) -> None:
    async with joined(url, "a") as first, joined(url, "b") as second:
        await owning(first)
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
