"""A connector's failures affect no other connector, and its records are stored once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from backhaul.connect.host import REPORTED_AT_ONCE
from backhaul.connect.own_documents import MOST_WORKS
from backhaul.core.clock import to_text
from backhaul.errors import Busy
from backhaul.store.testing.scenes import TestClock
from backhaul.store.testing.target_scenes import hold
from backhaul_sdk import (
    Bad,
    Batch,
    CheckFailed,
    HttpRequest,
    HttpResponse,
    Route,
)
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of
from scenes.clock import RunningClock, VirtualClock
from scenes.databases import locked, started_store
from scenes.stored import count, rows_of, values_of
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from backhaul.connect.host import Host
    from backhaul.store import Place, Store
    from backhaul_sdk import Documents, Emit, Record, Rejection


def about_connectors(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines if line.startswith("connector.")]


@asynccontextmanager
async def running(*hosts: Host) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(host.run()) for host in hosts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_record_becomes_a_command_once(store: Store) -> None:
    connector, planned = ScriptedConnector(), list[str]()
    connector.waiting += [
        Batch(records=[fulfillment_record(), fulfillment_record()], cursor="1")
    ] * 2
    async with running(host_of(connector, store, planned=planned)):
        await until(lambda: len(connector.cursors) > 1, "a second round")
    assert rows_of(store.place, "records", "key", "state") == [("k1", "accepted")]
    assert rows_of(store.place, "commands", "kind", "target", "state") == [
        ("fulfill", "ord_1", "planned")
    ]
    assert planned
    assert connector.cursors[:2] == [None, "1"]


async def test_the_matcher_is_notified_of_a_record_that_waits(store: Store) -> None:
    connector, planned = ScriptedConnector(), list[str]()
    connector.waiting += [Batch(records=[fulfillment_record(order="9999")], cursor="1")]
    async with running(host_of(connector, store, planned=planned)):
        await until(lambda: len(connector.cursors) > 1, "a second round")
    assert rows_of(store.place, "records", "key", "state") == [("k1", "waiting")]
    assert planned


async def test_a_crashing_connector_is_logged_once_and_comes_back(
    store: Store, lines: list[str]
) -> None:
    bad, good = ScriptedConnector("bad"), ScriptedConnector("good")
    bad.waiting += [OSError("broken pipe")] * 4
    bad.waiting.append(Batch(records=[fulfillment_record("late")], cursor=None))
    good.waiting.append(
        Batch(records=[fulfillment_record("fine", "1002")], cursor=None)
    )
    hosts = [
        host_of(connector, store, clock=RunningClock()) for connector in (bad, good)
    ]
    async with running(*hosts):
        await until(lambda: count(store.place, "commands") == 2, "both commands")
        await until(lambda: len(about_connectors(lines)) == 2, "it is up again")
    assert about_connectors(lines) == ["connector.down", "connector.up"]
    assert any("bad: OSError: broken pipe" in line for line in lines)


@pytest.mark.parametrize(
    "raised",
    [asyncio.CancelledError(), SystemExit(2), BaseExceptionGroup("g", [OSError()])],
)
async def test_whatever_a_pull_raises_ends_its_round_only(
    store: Store, raised: BaseException
) -> None:
    class Wild(ScriptedConnector):
        async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
            self.cursors.append(cursor)
            if len(self.cursors) == 1:
                raise raised
            yield Batch(records=[fulfillment_record()], cursor=None)

    host = host_of(Wild(), store)
    async with running(host):
        await until(lambda: count(store.place, "commands") == 1, "the command")
        # another reader sees the commit before the writer's round ends
        await until(lambda: host.state()["up"], "the round's end")


@pytest.mark.parametrize(
    "failure", [OSError("the port is taken"), Busy("the disk is full"), None]
)
async def test_a_connector_that_cannot_listen_stops_nothing(
    store: Store, lines: list[str], failure: Exception | None
) -> None:
    class Deaf(ScriptedConnector):
        listened = 0

        async def listen(self, emit: Emit) -> list[Route]:
            self.listened += 1
            if failure is not None:
                raise failure
            return None  # type: ignore[return-value]  # as somebody may forget

    deaf = Deaf()
    deaf.waiting.append(Batch(records=[fulfillment_record()], cursor=None))
    host = host_of(deaf, store)
    assert await host.listen(60) == ()
    async with running(host):
        await until(lambda: host.state()["worked_at"], "a round that worked")
        await until(lambda: len(deaf.cursors) > 2, "more rounds")
    assert count(store.place, "commands") == 1
    assert deaf.listened == 1
    assert about_connectors(lines) == ["connector.listen_failed"]
    assert not host.state()["up"]
    assert "until the daemon is restarted" in str(host.state()["reason"])


async def test_a_connector_that_failed_to_open_is_left_alone_first(
    store: Store,
) -> None:
    class Unmounted(ScriptedConnector):
        tries = 0

        async def open(self) -> None:
            self.tries += 1
            raise CheckFailed("/mnt/share is not there: mount it")

    connector, clock = Unmounted(), VirtualClock()
    host = host_of(connector, store, clock=clock)
    await host.listen(60)
    async with running(host):
        await clock.await_sleeper()
        assert connector.tries == 1, "it is tried again without a rest"
        await clock.advance(1)
        await until(lambda: connector.tries > 1, "it is tried again")


async def test_a_connector_that_cannot_be_opened_is_down_until_it_can(
    store: Store, lines: list[str]
) -> None:
    class Unmounted(ScriptedConnector):
        mounted = False

        async def open(self) -> None:
            if not self.mounted:
                raise CheckFailed("/mnt/share is not there: mount it")

        async def listen(self, emit: Emit) -> list[Route]:
            return [Route("POST", "/scan", answer)]

    async def answer(_: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {})

    connector, clock = Unmounted(), VirtualClock()
    connector.waiting.append(Batch(records=[fulfillment_record()], cursor=None))
    host = host_of(connector, store, clock=clock)
    (route,) = await host.listen(60)
    asked = HttpRequest("POST", "/scan", {}, b"")
    with pytest.raises(Busy, match="/mnt/share is not there"):
        await route.handler(asked)
    async with running(host):
        await clock.await_sleeper()
        connector.mounted = True
        await clock.advance(10)
        await until(lambda: host.state()["up"], "it is up")
        await clock.await_sleeper()
        await clock.advance(10)
        await until(lambda: len(about_connectors(lines)) == 2, "that is said")
    assert (await route.handler(asked)).status == 200
    assert about_connectors(lines) == ["connector.down", "connector.up"]
    assert count(store.place, "commands") == 1


async def test_the_state_says_why_a_connector_is_down(store: Store) -> None:
    connector = ScriptedConnector()
    connector.waiting.append(ValueError("no such share"))
    host = host_of(connector, store, clock=VirtualClock())
    async with running(host):
        await until(lambda: not host.state()["up"], "it is down")
    assert host.state() == {
        "up": False,
        "reason": "ValueError: no such share",
        "worked_at": None,
        "notices": [],
    }


async def test_the_state_says_when_a_connector_last_worked(store: Store) -> None:
    clock = VirtualClock()
    host, began = host_of(ScriptedConnector(), store, clock=clock), to_text(clock.now())
    async with running(host):
        await until(lambda: host.state()["worked_at"] == began, "it has worked")


async def test_a_batch_is_acknowledged_after_its_commit_only(
    store: Store,
) -> None:
    class Hindered(ScriptedConnector):
        async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
            self.cursors.append(cursor)
            if len(self.cursors) > 1:
                yield batch
                return
            with locked(store.place):
                yield batch

    async def ack() -> None:
        seen.append(count(store.place, "records"))

    seen: list[int] = []
    batch = Batch(records=[fulfillment_record()], cursor="1", ack=ack)
    clock, connector = VirtualClock(), Hindered()
    host = host_of(connector, store, clock=clock)
    async with running(host):
        await until(lambda: not host.state()["up"], "the commit failed")
        assert seen == []
        await clock.await_sleeper()
        await clock.advance(10)
        await until(lambda: seen, "the acknowledgement")
    # it may be called again before this check
    assert set(seen) == {1}
    assert connector.cursors[:2] == [None, None]
    assert {*connector.cursors[2:]} <= {"1"}


async def test_a_kill_between_commit_and_ack_loses_and_doubles_nothing(
    store: Store,
) -> None:
    class Killed(BaseException):
        """Raised as if the process was killed."""

    async def die() -> None:
        raise Killed

    first = ScriptedConnector()
    first.waiting.append(Batch(records=[fulfillment_record()], cursor="7", ack=die))
    with pytest.raises(Killed):
        await host_of(first, store).run()
    acknowledged = list[str]()

    async def ack() -> None:
        acknowledged.append("yes")

    again = ScriptedConnector()
    again.waiting.append(
        Batch(
            records=[fulfillment_record(), fulfillment_record("k2", "1002")],
            cursor="8",
            ack=ack,
        )
    )
    async with running(host_of(again, store)):
        await until(lambda: acknowledged, "the acknowledgement")
    assert again.cursors[0] == "7"
    assert rows_of(store.place, "records", "key", "state") == [
        ("k1", "accepted"),
        ("k2", "accepted"),
    ]
    assert count(store.place, "commands") == 2


async def test_bad_rows_are_shown_to_their_connector_once(store: Store) -> None:
    connector, other = ScriptedConnector("courier"), ScriptedConnector("other")
    bad = Bad(key="k9", raw="x;y", reason="no order number", locator="a.csv:3")
    connector.waiting.append(Batch(records=[bad, fulfillment_record()], cursor=None))
    async with running(host_of(connector, store), host_of(other, store)):
        await until(lambda: connector.reported, "the report")
        rounds = len(connector.cursors)
        await until(lambda: len(connector.cursors) > rounds + 1, "another round")
    (rejection,) = connector.reported
    assert (rejection.key, rejection.raw, rejection.reason, rejection.locator) == (
        *("k9", "x;y", "no order number", "a.csv:3"),
    )
    assert other.reported == []
    assert count(store.place, "commands") == 1


async def test_a_report_that_failed_is_made_again(database: Place) -> None:
    bad = Bad(key="k9", raw="x;y", reason="no order number")
    path = database
    async with started_store(path) as store:
        connector = ScriptedConnector()
        connector.report_fails = OSError("disk full")
        connector.waiting.append(Batch(records=[bad], cursor=None))
        host = host_of(connector, store, clock=VirtualClock())
        async with running(host):
            await until(lambda: not host.state()["up"], "it is down")
    async with started_store(path) as store:
        connector = ScriptedConnector()
        async with running(host_of(connector, store)):
            await until(lambda: connector.reported, "the report")
            await until(
                lambda: values_of(path, "quarantine", "reported") == [1],
                "it is remembered",
            )
    assert [rejection.key for rejection in connector.reported] == ["k9"]


async def test_many_bad_rows_are_reported_some_at_a_time(store: Store) -> None:
    pages: list[list[str]] = []

    class Counting(ScriptedConnector):
        async def report(self, rejections: Sequence[Rejection]) -> None:
            pages.append([rejection.key for rejection in rejections])

    keys = [f"{number:05}" for number in range(2 * REPORTED_AT_ONCE)]
    many = [Bad(key=key, raw="x;y", reason="no order number") for key in keys]
    connector = Counting()
    connector.waiting.append(Batch(records=many, cursor=None))
    await host_of(connector, store).once()
    assert pages == [keys[:REPORTED_AT_ONCE], keys[REPORTED_AT_ONCE:]]


async def test_a_receipt_is_given_after_the_commit(store: Store) -> None:
    connector = ScriptedConnector()
    host = host_of(connector, store)
    await host.listen(60)
    assert connector.emit is not None
    cases: list[tuple[Record | Bad, str, str]] = [
        (fulfillment_record(), "accepted", "on its way to the store"),
        (fulfillment_record(), "duplicate", "known already"),
        (
            fulfillment_record("k2", "9999"),
            "waiting",
            "order '9999' is not known. The record is stored, and Backhaul will try"
            " again",
        ),
        (Bad(key="k3", raw="", reason="no order"), "quarantined", "no order"),
    ]
    for number, (record, state, what) in enumerate(cases):
        receipt = await connector.emit(record)
        assert (receipt.state, receipt.what) == (state, what)
        assert count(store.place, "records") == max(1, number)


async def test_no_receipt_is_given_for_a_record_that_is_not_stored(
    store: Store,
) -> None:
    host = host_of(ScriptedConnector(), store)
    with locked(store.place), pytest.raises(Busy):
        await host.emit(fulfillment_record())
    assert count(store.place, "records") == 0


async def test_an_error_in_close_is_not_ours(store: Store, lines: list[str]) -> None:
    class Stuck(ScriptedConnector):
        async def close(self) -> None:
            raise RuntimeError("stuck")

    await host_of(Stuck(), store).close()
    assert lines == ["connector.close_failed RuntimeError: stuck\n"]


async def test_characters_that_are_no_text_set_only_their_record_aside(
    store: Store,
) -> None:
    host = host_of(ScriptedConnector(), store)
    odd = fulfillment_record("k\ud800", "\udfff")
    assert (await host.emit(odd)).state == "quarantined"
    bad = Bad(key="k2", raw="\udcff", reason="?", locator="caf\udce9.csv:3")
    assert (await host.emit(bad)).state == "quarantined"
    assert (await host.emit(fulfillment_record())).state == "accepted"


async def test_after_a_restore_a_connector_reads_its_stock_counts_again(
    database: Place,
) -> None:
    class Lists(ScriptedConnector):
        def restart_stock(self, cursor: str | None) -> str | None:
            asked.append(cursor)
            return f"stock from the beginning, else {cursor}"

    asked: list[str | None] = []
    clock, connector = TestClock(), Lists("erp")
    async with started_store(database, clock) as store:
        host = host_of(connector, store)
        connector.waiting.append(Batch(records=[], cursor="7"))
        await host.once()
        await host.once()
        await hold(store, clock.advance)
        for _ in range(2):
            await host.once()
    again = "stock from the beginning, else 7"
    assert connector.cursors == [None, "7", again, again]
    assert asked == ["7"]


def put_name(documents: Documents, *, name: str) -> None:
    documents.put("name", name.encode())


async def test_a_connection_keeps_documents_of_its_own(store: Store) -> None:
    first, second = ScriptedConnector("first"), ScriptedConnector("second")
    for connector in (first, second):
        host_of(connector, store)
        await connector.documents.transact(partial(put_name, name=connector.instance))
    again = ScriptedConnector("first")
    host_of(again, store)
    kept = await again.documents.transact(lambda each: each.list(""))
    assert kept == [("name", b"first")]


@pytest.mark.parametrize("held", [False, True])
async def test_a_work_finds_names_only_in_a_complete_mirror(
    store: Store, held: bool
) -> None:
    connector = ScriptedConnector()
    host_of(connector, store, held=held)
    found = await connector.documents.transact(
        lambda each: each.find_in_store(["1001"])
    )
    assert found == await connector.find_in_store(["1001"])
    assert (found is None) == held


async def test_a_flood_of_works_delays_no_other_write(store: Store) -> None:
    flooding, other, ran = (
        ScriptedConnector("flooding"),
        ScriptedConnector("other"),
        list[int](),
    )
    for connector in (flooding, other):
        host_of(connector, store)

    def work(_: Documents, *, number: int) -> None:
        ran.append(number)

    works = [
        flooding.documents.transact(partial(work, number=number))
        for number in range(10 * MOST_WORKS)
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await other.documents.transact(lambda _: len(ran)) <= 2 * MOST_WORKS
    await asyncio.gather(*works)
    assert ran == [*range(10 * MOST_WORKS)]
