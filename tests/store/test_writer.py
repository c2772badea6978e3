"""One thread writes: in order, each unit separately, with one commit for a round."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from typing import TYPE_CHECKING

import pytest

from backhaul.errors import Busy
from backhaul.store.sql.round_writer import MOST_UNITS
from backhaul.store.sqlite.connections import open_writer
from backhaul.store.sqlite.database import append_batch
from backhaul.store.sqlite.engine import Writer
from scenes.databases import count, locked, rows, started_store
from scenes.payloads import arrival
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    async with started_store(tmp_path / "backhaul.db") as store:
        return store.path


@pytest.fixture
async def writer(path: Path) -> AsyncIterator[Writer]:
    started = Writer(path, append_batch)
    started.start()
    yield started
    await started.stop()


def mark(name: str) -> Callable[[sqlite3.Connection], str]:
    def unit(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO kv (name, value) VALUES (?, '')", (name,))
        return name

    return unit


def break_after(name: str, error: Exception) -> Callable[[sqlite3.Connection], str]:
    def unit(connection: sqlite3.Connection) -> str:
        mark(name)(connection)
        raise error

    return unit


def row(number: int) -> tuple[object, ...]:
    one = arrival(b"%d" % number)
    columns = (one.store, one.kind, one.topic, one.received_at, one.headers, one.body)
    return (*columns, one.traceparent, one.digest)


MARKS = "SELECT name FROM kv ORDER BY rowid"


async def test_units_run_in_the_order_they_are_submitted(
    writer: Writer, path: Path
) -> None:
    names = [f"m{n}" for n in range(50)]
    done: list[str] = []
    futures = [writer.urgent(mark(name)) for name in names]
    for future in futures:
        future.add_done_callback(lambda future: done.append(future.result()))
    await asyncio.gather(*futures)
    assert done == names
    assert [name for (name,) in rows(path, MARKS)] == names


async def test_thousands_of_units_are_no_transaction_of_their_own(
    writer: Writer,
) -> None:
    """It would take seconds, and everything that comes later would wait for it."""
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    go_on = threading.Event()
    transactions: list[str] = []

    def watch(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(transactions.append)
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(HANG_SECONDS)

    first = writer.urgent(watch)
    await begun.wait()
    futures = [writer.urgent(mark(f"m{n}")) for n in range(3 * MOST_UNITS + 1)]
    go_on.set()
    await asyncio.gather(first, *futures)
    assert sum(text.startswith("BEGIN") for text in transactions) == 4


@pytest.mark.parametrize(
    "error", [ValueError("no"), sqlite3.IntegrityError("no"), KeyError("x")]
)
async def test_a_unit_that_fails_fails_alone(
    error: Exception, writer: Writer, path: Path
) -> None:
    with locked(path):
        units = [mark("a"), break_after("half", error), mark("b")]
        futures = [writer.urgent(unit) for unit in units]
        appended = writer.append(row(1))
        await asyncio.sleep(0)
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert results == ["a", error, "b"]
    assert await appended == 1
    assert rows(path, MARKS) == [("a",), ("b",)]


async def test_a_unit_that_fails_in_a_round_of_its_own_leaves_nothing(
    writer: Writer, path: Path
) -> None:
    with pytest.raises(ValueError, match="broken"):
        await writer.urgent(break_after("half", ValueError("broken")))
    assert await writer.urgent(mark("a")) == "a"
    assert rows(path, MARKS) == [("a",)]


async def test_a_broken_statement_fails_alone(writer: Writer, path: Path) -> None:
    def unit(connection: sqlite3.Connection) -> None:
        mark("half")(connection)
        connection.execute("INSERT INTO nowhere VALUES (1)")

    failing, working = writer.urgent(unit), writer.urgent(mark("a"))
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        await failing
    assert await working == "a"
    assert rows(path, MARKS) == [("a",)]


@pytest.mark.parametrize("bad", ["\ud800", [1], 2**70], ids=repr)
async def test_a_row_that_cannot_be_written_fails_alone(
    bad: object, writer: Writer, path: Path
) -> None:
    broken: tuple[object, ...] = ("main", "delivery", bad, "", b"", b"", None, None)
    with locked(path):  # so that all writes are in one round
        given = [writer.append(row) for row in (row(1), broken, row(2))]
        marked = writer.urgent(mark("a"))
        await asyncio.sleep(0)
    first, failed, second = await asyncio.gather(*given, return_exceptions=True)
    assert (first, second) == (1, 2)
    assert isinstance(failed, Exception)
    assert not isinstance(failed, Busy)
    assert await marked == "a"
    assert rows(path, "SELECT id, body FROM inbox") == [(1, b"1"), (2, b"2")]


async def test_an_acknowledged_write_is_in_the_file(writer: Writer, path: Path) -> None:
    for number in range(20):
        id_ = await writer.append(row(number))
        found = rows(path, "SELECT body FROM inbox WHERE id = ?", id_)
        assert found == [(b"%d" % number,)]


async def test_many_appends_at_once_get_their_own_ids(
    writer: Writer, path: Path
) -> None:
    ids = await asyncio.gather(*(writer.append(row(n)) for n in range(2_000)))
    kept: dict[int, bytes] = dict(rows(path, "SELECT id, body FROM inbox"))
    assert [kept[id_] for id_ in ids] == [b"%d" % n for n in range(2_000)]


async def test_urgent_work_does_not_wait_for_the_background(
    writer: Writer, path: Path
) -> None:
    done: list[str] = []

    def note(name: str) -> Callable[[sqlite3.Connection], None]:
        return lambda connection: done.append(name)

    with locked(path):
        futures = [writer.background(note("later")) for _ in range(100)]
        futures.append(writer.urgent(note("now")))
    await asyncio.gather(*futures)
    assert done.count("later") == 100
    assert done.index("now") <= 2


async def test_only_one_thread_touches_the_connection(writer: Writer) -> None:
    def unit(connection: sqlite3.Connection) -> int:
        connection.execute("SELECT 1")
        return threading.get_ident()

    futures = [writer.urgent(unit) for _ in range(5)]
    futures += [writer.background(unit) for _ in range(5)]
    threads = set(await asyncio.gather(*futures))
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


async def test_stop_finishes_submitted_units(path: Path) -> None:
    writer = Writer(path, append_batch)
    writer.start()
    with locked(path):
        futures = [writer.append(row(n)) for n in range(100)]
        futures_of_units = [writer.urgent(mark(f"m{n}")) for n in range(10)]
        await asyncio.sleep(0)
    await writer.stop()
    await asyncio.gather(*futures, *futures_of_units)
    assert (count(path, "inbox"), count(path, "kv")) == (100, 10)


async def test_stop_finishes_the_background_too(path: Path) -> None:
    writer = Writer(path, append_batch)
    writer.start()
    futures = [writer.background(mark(f"m{n}")) for n in range(20)]
    await writer.stop()
    async with asyncio.timeout(HANG_SECONDS):
        results = await asyncio.gather(*futures, return_exceptions=True)
    assert len(results) == 20
    done = [result for result in results if isinstance(result, str)]
    assert count(path, "kv") == len(done)


async def test_after_stop_everything_is_busy(path: Path) -> None:
    writer = Writer(path, append_batch)
    writer.start()
    await writer.stop()
    await writer.stop()
    for hand_in in (writer.urgent, writer.background):
        with pytest.raises(Busy, match="closed"):
            hand_in(mark("x"))
    with pytest.raises(Busy, match="closed"):
        writer.append(row(1))


async def test_a_writer_can_be_started_again(path: Path) -> None:
    writer = Writer(path, append_batch)
    for number in (1, 2):
        writer.start()
        assert await writer.append(row(number)) == number
        await writer.stop()


async def test_a_second_start_opens_no_second_connection(path: Path) -> None:
    opened: list[Path] = []

    def connect(path: Path) -> sqlite3.Connection:
        opened.append(path)
        return open_writer(path)

    writer = Writer(path, append_batch, connect)
    for number in (1, 2):
        writer.start()
        assert await writer.append(row(number)) == number
    assert opened == [path]
    await writer.stop()


async def test_a_cancelled_caller_disturbs_no_other(writer: Writer, path: Path) -> None:
    with locked(path):
        gone = writer.append(row(1))
        stays = writer.append(row(2))
        gone.cancel()
        await asyncio.sleep(0)
    assert await stays == 2
    assert count(path, "inbox") == 2
