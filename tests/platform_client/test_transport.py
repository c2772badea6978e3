"""Sends and reads with servers that refuse, reset, delay, cut and lie."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import httpx
import pytest
from tenacity import AsyncRetrying

from backhaul.core.rate_limit import Priority
from backhaul.platform.transport import (
    NotSent,
    OutcomeUnknown,
    ResponseTooLong,
    SendingEnded,
    Transport,
)
from platform_client.conftest import API_KEY, SHORT_SECONDS
from scenes.scripted_platform import (
    Connection,
    Request,
    message,
    saying,
    serving,
    unused_url,
)

if TYPE_CHECKING:
    from scenes.clock import RunningClock
    from scenes.scripted_platform import Behave

Connect: TypeAlias = Callable[..., Transport]

PATH = "/inventory/adjust"
BODY = b'{"productId":"prod_1","adjustment":-2}'
GOOD = message(200, b'{"data":{}}')
EXCHANGE = (httpx.Request, httpx.Response, AsyncRetrying)


async def reset(_: Request, connection: Connection) -> None:
    connection.reset()


async def hang_up(_: Request, connection: Connection) -> None:
    connection.writer.close()


async def never_answer(_: Request, connection: Connection) -> None:
    await connection.reader.read()


def saying_then_closing(data: bytes) -> Behave:
    async def behave(_: Request, connection: Connection) -> None:
        await connection.send(data)
        connection.writer.close()

    return behave


async def talk_for_ever(_: Request, connection: Connection) -> None:
    await connection.send(message(200, Transfer_Encoding="chunked"))
    while True:
        await connection.send(b"1000\r\n" + b"x" * 4096 + b"\r\n")


async def dawdle(_: Request, connection: Connection) -> None:
    await connection.send(message(200, b'{"da', Content_Length="100"))
    await connection.reader.read()


IN_DOUBT: dict[str, Behave] = {
    "reset-after-the-request": reset,
    "closed-without-answer": hang_up,
    "no-answer-in-time": never_answer,
    "stops-in-the-body": dawdle,
    "cut-body": saying_then_closing(message(200, b'{"data":', Content_Length="100")),
    "cut-head": saying_then_closing(b"HTTP/1.1 200 OK\r\nContent-Ty"),
    "cut-chunks": saying_then_closing(
        message(200, b"5\r\n{}", Transfer_Encoding="chunked")
    ),
    "bad-chunks": saying_then_closing(
        message(200, b"zz\r\n{}", Transfer_Encoding="chunked")
    ),
    "oversized": saying(message(200, b"x" * 100_001)),
    "oversized-chunks": talk_for_ever,
    "garbage": saying_then_closing(b"\x00\xff\r\n\r\n\r\n\r\n"),
    "other-protocol": saying_then_closing(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "no-status": saying_then_closing(b"HTTP/1.1 abc\r\n\r\n"),
    "negative-length": saying(message(200, b"{}", Content_Length="-1")),
    "two-lengths": saying(message(200, b"{}", Content_Length="2, 3")),
    "bad-compression": saying(message(200, b"{}", Content_Encoding="gzip")),
}


@pytest.mark.parametrize("name", IN_DOUBT)
async def test_an_uncertain_command_is_never_sent_twice(
    name: str, connect: Connect
) -> None:
    async with serving(IN_DOUBT[name]) as server:
        with pytest.raises(OutcomeUnknown):
            await connect(server.url, SHORT_SECONDS).send(PATH, BODY, "key-1")
        assert [request.body for request in server.requests] == [BODY]
        assert server.connections == 1


TOO_LONG = {"oversized", "oversized-chunks"}


@pytest.mark.parametrize("name", sorted(IN_DOUBT.keys() - TOO_LONG))
async def test_an_uncertain_read_is_tried_three_times(
    name: str, connect: Connect, clock: RunningClock
) -> None:
    async with serving(IN_DOUBT[name]) as server:
        with pytest.raises(OutcomeUnknown):
            await connect(server.url, SHORT_SECONDS).get("/orders", {})
        assert len(server.requests) == 3
        assert len(clock.slept) == 2


@pytest.mark.parametrize("name", sorted(TOO_LONG))
async def test_an_answer_that_is_too_long_is_not_read_again(
    name: str, connect: Connect
) -> None:
    async with serving(IN_DOUBT[name]) as server:
        with pytest.raises(ResponseTooLong):
            await connect(server.url, SHORT_SECONDS).get("/orders", {})
        assert len(server.requests) == 1


async def test_a_reset_before_the_request_was_read_is_uncertain(
    connect: Connect,
) -> None:
    async def greet(connection: Connection) -> bool:
        connection.reset()
        return False

    async with serving(saying(GOOD), greet) as server:
        with pytest.raises(OutcomeUnknown):
            await connect(server.url, SHORT_SECONDS).send(PATH, BODY, "key-1")
        assert server.connections == 1


async def test_a_reset_in_the_middle_of_the_request_is_uncertain(
    connect: Connect,
) -> None:
    async def greet(connection: Connection) -> bool:
        await connection.reader.readuntil(b"\r\n\r\n")
        connection.reset()
        return False

    async with serving(saying(GOOD), greet) as server:
        with pytest.raises(OutcomeUnknown):
            await connect(server.url, SHORT_SECONDS).send(PATH, BODY * 50_000, "key-1")
        assert server.connections == 1


async def test_a_request_to_a_server_that_never_reads_is_uncertain(
    connect: Connect,
) -> None:
    done = asyncio.Event()

    async def greet(connection: Connection) -> bool:
        transport = connection.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        await done.wait()
        return False

    async with serving(saying(GOOD), greet) as server:
        with pytest.raises(OutcomeUnknown):
            await connect(server.url, SHORT_SECONDS).send(PATH, BODY * 500_000, "key-1")
        done.set()
        assert (server.connections, server.requests) == (1, [])


async def test_refused_connection_is_proved_not_sent_and_tried_again(
    connect: Connect, clock: RunningClock
) -> None:
    with pytest.raises(NotSent, match="ConnectError"):
        await connect(unused_url()).send(PATH, BODY, "key-1")
    assert len(clock.slept) == 2


async def test_failed_tls_handshake_is_proved_not_sent(connect: Connect) -> None:
    async def greet(connection: Connection) -> bool:
        await connection.reader.read(1)
        return False

    async with serving(saying(GOOD), greet) as server:
        url = server.url.replace("http:", "https:")
        with pytest.raises(NotSent):
            await connect(url).send(PATH, BODY, "key-1")
        assert server.requests == []


async def test_cancelled_send_has_gone_out_once(connect: Connect) -> None:
    async with serving(never_answer) as server:
        sending = asyncio.ensure_future(connect(server.url).send(PATH, BODY, "key-1"))
        await server.arrived.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert len(server.requests) == 1


async def test_command_goes_out_byte_for_byte(connect: Connect) -> None:
    async with serving(saying(GOOD)) as server:
        body = b'{"b": 1.10,\n "a":"\xc3\xbc"}'
        answer = await connect(server.url).send(PATH, body, "key-1")
        (request,) = server.requests
    assert (answer.status, answer.json()) == (200, {"data": {}})
    assert (request.method, request.path, request.body) == ("POST", PATH, body)
    assert request.headers["idempotency-key"] == "key-1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["authorization"] == "Bearer svc_live_transport0123456789"
    assert request.headers["accept-encoding"] == "identity"


async def test_commands_never_share_a_connection_and_reads_do(connect: Connect) -> None:
    async with serving(saying(GOOD)) as server:
        transport = connect(server.url)
        for number in range(3):
            await transport.send(PATH, BODY, f"key-{number}")
        assert server.connections == 3
        for _ in range(3):
            await transport.get("/orders", {})
        assert server.connections == 4


async def test_an_exchange_is_freed_without_a_garbage_collection(
    connect: Connect,
) -> None:
    """Looks are rare: what waits for one is held for an hour."""
    gc.collect()
    # What a test that failed before has left is no garbage: its traceback holds it.
    before = exchanges()
    gc.disable()
    try:
        async with serving(saying(GOOD)) as server:
            transport = connect(server.url)
            await transport.get("/orders", {})
            await transport.send(PATH, BODY, "key-1")
            left = [e for e in exchanges() if all(e is not one for one in before)]
    finally:
        gc.enable()
    assert left == []


def exchanges() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, EXCHANGE)]


REDIRECTS = [301, 302, 303, 307, 308]


@pytest.mark.parametrize("status", REDIRECTS)
async def test_redirect_is_an_answer_and_not_followed(
    status: int, connect: Connect
) -> None:
    async with serving(saying(message(status, Location="/elsewhere"))) as server:
        transport = connect(server.url)
        assert (await transport.send(PATH, BODY, "key-1")).status == status
        assert (await transport.get("/orders", {})).status == status
        assert [request.path for request in server.requests] == [PATH, "/orders"]


# The library cannot read where to: it would say that nothing had been sent, or worse.
ODD_PLACES = ["about:blank", "http:login", "http://xn--/", "http://[::1", "\x01"]


@pytest.mark.parametrize("place", ODD_PLACES)
async def test_redirect_to_no_place_is_an_answer_too(
    place: str, connect: Connect
) -> None:
    async with serving(saying(message(302, Location=place))) as server:
        transport = connect(server.url)
        assert (await transport.send(PATH, BODY, "key-1")).status == 302
        assert (await transport.get("/orders", {})).status == 302
        assert (await transport.probe("/orders", {})).status == 302
        assert len(server.requests) == 3


@pytest.mark.parametrize("cookie", ["sid=1; Path=/", "name=J\u00fcrgen; Path=/"])
async def test_no_cookie_is_kept(cookie: str, connect: Connect) -> None:
    """One that no header can hold would end all requests until the next start."""
    async with serving(saying(message(200, b"{}", Set_Cookie=cookie))) as server:
        transport = connect(server.url)
        for number in range(2):
            await transport.send(PATH, BODY, f"key-{number}")
            await transport.get("/orders", {})
        assert not any("cookie" in request.headers for request in server.requests)
        assert len(server.requests) == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 429, 500, 502, 503])
async def test_refused_command_is_answered_once(status: int, connect: Connect) -> None:
    async with serving(saying(message(status, b"{}"))) as server:
        answer = await connect(server.url).send(PATH, BODY, "key-1")
        assert (answer.status, answer.ok, len(server.requests)) == (status, False, 1)


async def repeat_the_headers(request: Request, connection: Connection) -> None:
    told = {"code": "NOT_YOU", "detail": " ".join(request.headers.values())}
    await connection.send(message(403, json.dumps(told).encode()))


async def test_a_refusal_that_repeats_our_key_is_stored_without_it(
    connect: Connect,
) -> None:
    async with serving(repeat_the_headers) as server:
        transport = connect(server.url)
        read = await transport.get(PATH, {})
        sent = await transport.send(PATH, BODY, "key-1")
    for answer in (read, sent):
        assert "Bearer [redacted]" in answer.said()
        assert API_KEY.encode() not in answer.body


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_read_is_repeated_while_the_answer_may_change(
    status: int, connect: Connect
) -> None:
    async with serving(saying(message(status), message(status), GOOD)) as server:
        assert (await connect(server.url).get("/orders", {})).ok
        assert len(server.requests) == 3


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_read_gives_the_last_answer_in_the_end(
    status: int, connect: Connect
) -> None:
    async with serving(saying(message(status))) as server:
        assert (await connect(server.url).get("/orders", {})).status == status
        assert len(server.requests) == 3


async def test_throttled_read_is_no_failed_try(
    connect: Connect, clock: RunningClock
) -> None:
    throttled = message(429, Retry_After="7")
    answers = [*[throttled] * 9, message(503), *[throttled] * 9, message(503), GOOD]
    async with serving(saying(*answers)) as server:
        assert (await connect(server.url).get("/orders", {})).ok
        assert len(server.requests) == 21
    assert clock.monotonic() >= 18 * 7


async def test_read_that_is_throttled_for_minutes_says_so(
    connect: Connect, clock: RunningClock
) -> None:
    async with serving(saying(message(429, Retry_After="60"))) as server:
        assert (await connect(server.url).get("/orders", {})).status == 429
        assert len(server.requests) <= 6
    assert 300 <= clock.monotonic() < 400


async def test_read_waits_for_room_and_a_command_does_not(
    connect: Connect, clock: RunningClock
) -> None:
    room = {"RateLimit_Policy": '"key";q=240;w=60', "RateLimit": '"key";r=4;t=9'}
    async with serving(saying(message(200, b"{}", **room))) as server:
        transport = connect(server.url)
        await transport.get("/orders", {})
        assert clock.slept == []
        await transport.send(PATH, BODY, "key-1")
        assert clock.slept == []
        await transport.get("/orders", {}, Priority.SWEEP)
        assert clock.slept == [pytest.approx((40 * 0.35 + 1 - 4) / 4)]


@pytest.mark.parametrize("error", [NotSent("it is another store"), TimeoutError()])
async def test_a_command_that_may_not_be_sent_releases_its_room(
    error: Exception, connect: Connect
) -> None:
    async def refuse() -> None:
        raise error

    room = {"RateLimit_Policy": '"key";q=240;w=60', "RateLimit": '"key";r=1;t=9'}
    async with serving(saying(message(200, b"{}", **room))) as server:
        transport = connect(server.url)
        await transport.get("/orders", {})
        transport = transport.guarded(refuse)
        for _ in range(3):
            assert transport.budget.take(9, 0.0) == 1
            with pytest.raises(type(error)):
                await transport.send(PATH, BODY, "key-1", room_taken=True)


async def test_a_command_that_cannot_be_built_releases_its_room(
    connect: Connect,
) -> None:
    room = {"RateLimit_Policy": '"key";q=240;w=60', "RateLimit": '"key";r=1;t=9'}
    async with serving(saying(message(200, b"{}", **room))) as server:
        transport = connect(server.url)
        await transport.get("/orders", {})
        for _ in range(3):
            assert transport.budget.take(9, 0.0) == 1
            with pytest.raises(httpx.InvalidURL):
                await transport.send("x" * 70_000, BODY, "key-1", room_taken=True)
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [200, 301, 401, 403, 404, 500])
async def test_read_is_not_repeated_where_that_cannot_help(
    status: int, connect: Connect
) -> None:
    async with serving(saying(message(status, b"{}"))) as server:
        assert (await connect(server.url).get("/orders", {})).status == status
        assert len(server.requests) == 1


async def test_read_that_reset_once_is_answered(connect: Connect) -> None:
    behaviours = [reset, hang_up, saying(GOOD)]

    async def behave(request: Request, connection: Connection) -> None:
        await behaviours.pop(0)(request, connection)

    async with serving(behave) as server:
        assert (await connect(server.url).get("/orders", {"page": 1})).ok
        assert [request.query for request in server.requests] == ["page=1"] * 3


async def test_body_of_just_the_limit_is_read(connect: Connect) -> None:
    async with serving(saying(message(200, b"x" * 100_000))) as server:
        answer = await connect(server.url).send(PATH, BODY, "key-1")
    assert len(answer.body) == 100_000


async def test_length_that_is_too_short_cuts_the_document(connect: Connect) -> None:
    behave = saying_then_closing(message(200, b'{"data":{}}', Content_Length="4"))
    async with serving(behave) as server:
        answer = await connect(server.url).send(PATH, BODY, "key-1")
    assert answer.body == b'{"da'
    assert answer.problem() is None


async def test_nothing_leaves_if_the_right_to_send_ends_while_it_connects(
    connect: Connect,
) -> None:
    """The right is checked again just before the first byte."""
    asked = 0

    def may_send() -> bool:
        nonlocal asked
        asked += 1
        return asked == 1

    async with serving(saying(GOOD)) as server:
        with pytest.raises(SendingEnded):
            await connect(server.url).send(PATH, BODY, "key-1", may_send=may_send)
        assert server.requests == []
