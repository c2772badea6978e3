"""Clients that send slowly are cut off, and block no other client."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
import uvloop

from backhaul.app.public_http import GRACE_SECONDS, RequestLimits
from backhaul.store.inbox import FoldReport
from scenes.databases import count
from scenes.payloads import envelope, order, signed
from scenes.receiver import raw_request, served
from scenes.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Store
    from backhaul.store.inbox import Arrival, FoldOne
    from scenes.receiver import Served

BODY = envelope("orders/create", order())
HEAD = raw_request(BODY, signed(BODY).items())[: -len(BODY)]
BEGUN = {
    "nothing": b"",
    "a word": b"POST",
    "half the headers": HEAD[:40],
    "the headers": HEAD,
    "half the body": HEAD + BODY[:50],
}
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class LateInbox:
    """An inbox that stores deliveries when a test lets it."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self.kept: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def append(self, arrival: Arrival) -> asyncio.Future[int]:
        self.came.set()
        return self.kept

    async def newest(self) -> int:
        return 0

    async def fold(self, fold_one: FoldOne, slice_seconds: float) -> FoldReport:
        return FoldReport(0, more=False)


@pytest.fixture
def time() -> Time:
    return Time()


@contextlib.asynccontextmanager
async def slow_ones(
    receiver: Served, number: int, begun: bytes
) -> AsyncIterator[list[Pair]]:
    """Begin requests one after the other; the server accepts each before the next."""
    pairs: list[Pair] = []
    for _ in range(number):
        reader, writer = await receiver.connect()
        writer.write(begun)
        pairs.append((reader, writer))
        await until(lambda: len(receiver.arrivals.open) == len(pairs), "it came")
    await until(lambda: begun_all(receiver, begun), "all bytes came")
    try:
        yield pairs
    finally:
        for _, writer in pairs:
            writer.close()


def begun_all(receiver: Served, begun: bytes) -> bool:
    """Return True if the server processes the requests whose headers are complete."""
    serving = {connection.serving for connection in receiver.arrivals.open.values()}
    return serving == {b"\r\n\r\n" in begun}


async def end_of(reader: asyncio.StreamReader, seconds: float = HANG_SECONDS) -> bytes:
    """Return all bytes until the server closes; raise TimeoutError if it does not."""
    async with asyncio.timeout(seconds):
        with contextlib.suppress(ConnectionResetError):
            return await reader.read()
    return b""


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN.keys())
async def test_a_byte_now_and_then_buys_no_time(begun: bytes, store: Store) -> None:
    async with (
        served(store.inbox, request_seconds=0.5) as receiver,
        slow_ones(receiver, 1, begun) as [(reader, writer)],
    ):
        ended = asyncio.ensure_future(end_of(reader))
        for byte in (HEAD + BODY)[len(begun) :]:
            done, _ = await asyncio.wait([ended], timeout=0.05)
            if done:
                break
            writer.write(bytes([byte]))
        else:
            pytest.fail("it was never closed")
        assert ended.result() == b"" or ended.result().startswith(b"HTTP/1.1 408")
        assert (await receiver.post(BODY)).status == 200
    assert count(store.place, "inbox") == 1


async def test_each_request_of_a_connection_has_its_own_time(
    store: Store, time: Time
) -> None:
    whole = raw_request(BODY, signed(BODY).items())
    whole = whole.replace(b"Connection: close\r\n", b"")
    async with served(store.inbox, now=time) as receiver:
        reader, writer = await receiver.connect()
        for _ in range(3):
            writer.write(whole)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200")
            time.seconds += 60  # an idle connection has no timeout
            receiver.arrivals.check()
        writer.write(whole[:30])
        (connection,) = receiver.arrivals.open.values()
        await until(lambda: connection.began is not None, "the fourth began")
        time.seconds += 9.9
        receiver.arrivals.check()
        assert (await end_of(reader)).startswith(b"HTTP/1.1 408")
        writer.close()


@pytest.mark.parametrize("asked", [b"GET /nothing", b"GET /webhooks/main"])
async def test_an_unserved_request_is_over_when_it_is_answered(
    asked: bytes, store: Store, time: Time
) -> None:
    async with served(store.inbox, now=time) as receiver:
        reader, writer = await receiver.connect()
        writer.write(asked + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 40")
        (connection,) = receiver.arrivals.open.values()
        assert (connection.began, connection.serving) == (None, False)
        writer.close()


async def test_a_client_that_leaves_before_the_answer_leaves_no_state(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inbox = LateInbox()
    async with served(inbox) as receiver:
        _, writer = await receiver.connect()
        writer.write(raw_request(BODY, signed(BODY).items()))
        await inbox.came.wait()
        writer.transport.abort()
        await until(lambda: not receiver.arrivals.open, "it left")
        inbox.kept.set_result(1)
        await until(lambda: receiver.woken == 1, "the delivery was kept")
        assert (await receiver.post(BODY)).status == 200
    assert [one.message for one in caplog.records if one.name == "aiohttp.server"] == []


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN.keys())
async def test_time_in_which_the_process_stood_still_does_not_count(
    begun: bytes, store: Store, time: Time
) -> None:
    """After a suspended machine wakes up, what clients sent is still to be read."""
    async with (
        served(store.inbox, now=time) as receiver,
        slow_ones(receiver, 2, begun) as [(reader, writer), (late, _)],
    ):
        time.seconds += 3_600
        receiver.arrivals._check_due()
        writer.write((HEAD + BODY)[len(begun) :])
        assert (await end_of(reader)).startswith(b"HTTP/1.1 200")
        for _ in range(12):
            time.seconds += 1.0
            receiver.arrivals._check_due()
        if b"\r\n\r\n" not in begun:  # a handler has a timeout of its own
            assert (await end_of(late)).startswith(b"HTTP/1.1 408")
    assert count(store.place, "inbox") == 1


async def test_a_body_has_the_time_of_a_pause_too(store: Store) -> None:
    async with (
        served(store.inbox, request_seconds=HANG_SECONDS) as receiver,
        slow_ones(receiver, 1, BEGUN["half the body"]),
    ):
        (connection,) = receiver.arrivals.open.values()
        await until(lambda: connection.deadline is not None, "it reads the body")
        assert connection.deadline is not None
        due, began = connection.deadline.when(), connection.began
        connection.extend(7.0, receiver.arrivals.now())
        assert (due, began) != (None, None)
        assert connection.deadline.when() == (due or 0) + 7.0
        assert began is not None
        assert began < (connection.began or 0) <= receiver.arrivals.now()


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN.keys())
async def test_one_address_holds_few_slow_requests(
    begun: bytes, store: Store, time: Time
) -> None:
    async with (
        served(store.inbox, slow_per_address=5, now=time) as receiver,
        slow_ones(receiver, 20, begun) as pairs,
    ):
        receiver.arrivals.check()
        assert len(receiver.arrivals.open) == 20
        time.seconds += GRACE_SECONDS
        receiver.arrivals.check()
        for reader, _ in pairs[5:]:
            assert await end_of(reader) == b""
        assert len(receiver.arrivals.open) == 5


async def test_a_trusted_proxy_speaks_for_many(store: Store, time: Time) -> None:
    trusted = ("10.0.0.0/8", "127.0.0.0/8")
    async with (
        served(store.inbox, slow_per_address=1, trusted=trusted, now=time) as receiver,
        slow_ones(receiver, 5, HEAD[:40]),
    ):
        time.seconds += GRACE_SECONDS
        receiver.arrivals.check()
        assert (await receiver.post(BODY)).status == 200
        assert len(receiver.arrivals.open) == 6


@pytest.mark.parametrize(
    ("address", "trusted"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("::ffff:11.1.2.3", False),
        ("fd00::1", True),
        ("fd01::1", False),
        ("", False),
    ],
)
def test_an_address_is_known_in_either_form(address: str, trusted: bool) -> None:
    arrivals = RequestLimits(1.0, 1, 1, ("10.0.0.0/8", "fd00::/16"))
    assert arrivals._trusts(address) is trusted


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN.keys())
async def test_a_good_delivery_gets_the_place_of_a_slow_one(
    begun: bytes, store: Store, time: Time
) -> None:
    async with (
        served(store.inbox, max_connections=8, now=time) as receiver,
        slow_ones(receiver, 8, begun) as pairs,
    ):
        assert (await receiver.post(BODY)).status == 503
        time.seconds += GRACE_SECONDS
        assert (await receiver.post(BODY)).status == 200
        assert await end_of(pairs[0][0]) == b""
    assert count(store.place, "inbox") == 1


async def closed_and_refused(store: Store) -> tuple[bytes, bytes]:
    """Return the responses to a slow client and to one connection too many."""
    async with served(store.inbox, request_seconds=0.5, max_connections=1) as receiver:
        reader, writer = await receiver.connect()
        writer.write(HEAD[:40])
        await until(lambda: receiver.arrivals.open, "it came")
        refused = await receiver.raw(HEAD + BODY)
        response = await end_of(reader)
        writer.close()
        return response, refused


async def test_the_guards_hold_on_the_daemons_own_loop(store: Store) -> None:
    """The daemon runs on uvloop, whose transports differ from those of asyncio."""
    response, refused = await asyncio.to_thread(uvloop.run, closed_and_refused(store))
    assert response.startswith(b"HTTP/1.1 408")
    assert refused.startswith(b"HTTP/1.1 503")
