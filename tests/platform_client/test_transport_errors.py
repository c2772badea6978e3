"""Every error of the HTTP library has a class, and none reveals the API key."""

from __future__ import annotations

import traceback

import httpx
import pytest

from backhaul.platform.responses import Response
from backhaul.platform.transport import (
    Limits,
    NotSent,
    OutcomeUnknown,
    Transport,
)
from scenes.clock import RunningClock
from scenes.scripted_platform import message, saying, serving, unused_url

KEY = "svc_live_never_shown_0123456789"
LIMITS = Limits(connect_seconds=1, read_seconds=1, max_response_bytes=1_000)

# Reliability, Classification, its first two rows.
NEVER_SENT = {
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
}
IN_DOUBT = {
    httpx.WriteError,
    httpx.WriteTimeout,
    httpx.ReadError,
    httpx.ReadTimeout,
    httpx.CloseError,
    httpx.RemoteProtocolError,
    httpx.DecodingError,
    httpx.TooManyRedirects,
}


def leaves(error: type[httpx.RequestError]) -> set[type[httpx.RequestError]]:
    below = error.__subclasses__()
    return set().union(*map(leaves, below)) if below else {error}


def test_every_error_of_the_library_is_in_one_of_the_rows() -> None:
    assert leaves(httpx.RequestError) == NEVER_SENT | IN_DOUBT


class Failing(httpx.AsyncBaseTransport):
    """Fails each request in one way, and counts them."""

    def __init__(self, error: type[httpx.RequestError]) -> None:
        self.error = error
        self.tries = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.tries += 1
        raise self.error("it failed", request=request)


def failing(error: type[httpx.RequestError]) -> tuple[Transport, Failing]:
    http = Failing(error)
    url = "https://shop.example"
    return Transport(url, KEY, LIMITS, RunningClock(), http), http


def by_name(error: object) -> str:
    return getattr(error, "__name__", "")


@pytest.mark.parametrize("error", sorted(NEVER_SENT, key=by_name), ids=by_name)
async def test_never_sent_is_tried_again(error: type[httpx.RequestError]) -> None:
    transport, http = failing(error)
    with pytest.raises(NotSent):
        await transport.send("/orders/ord_1/cancel", b"{}", "key")
    assert http.tries == 3
    await transport.close()


@pytest.mark.parametrize("error", sorted(IN_DOUBT, key=by_name), ids=by_name)
async def test_an_uncertain_request_is_not_tried_again(
    error: type[httpx.RequestError],
) -> None:
    transport, http = failing(error)
    with pytest.raises(OutcomeUnknown, match=error.__name__):
        await transport.send("/orders/ord_1/cancel", b"{}", "key")
    assert http.tries == 1
    await transport.close()


@pytest.mark.parametrize("error", [httpx.ReadTimeout, httpx.ConnectError], ids=by_name)
async def test_read_is_tried_again_either_way(error: type[httpx.RequestError]) -> None:
    transport, http = failing(error)
    with pytest.raises((NotSent, OutcomeUnknown)):
        await transport.get("/orders", {})
    assert http.tries == 3
    await transport.close()


async def told(url: str, key: str) -> str:
    """Return everything that a failed send says, trace and all."""
    transport = Transport(url, key, LIMITS, RunningClock())
    try:
        await transport.send("/orders/ord_1/cancel", b"{}", "key")
    except (NotSent, OutcomeUnknown) as error:
        return "".join(traceback.format_exception(error)) + repr(error)
    finally:
        await transport.close()
    raise AssertionError("nothing failed")


async def test_key_is_in_no_exception() -> None:
    assert KEY not in await told(unused_url(), KEY)


async def test_key_that_no_header_can_hold_is_in_no_exception() -> None:
    """The HTTP library quotes the header that it refuses."""
    async with serving(saying(message(200))) as server:
        said = await told(server.url, f"{KEY}\nmore")
    assert KEY not in said
    assert "LocalProtocolError" in said


def test_key_is_in_no_representation() -> None:
    transport = Transport("https://shop.example", KEY, LIMITS, RunningClock())
    assert KEY not in repr(transport)
    assert KEY not in repr(transport._commands.headers)


WAITS = [
    ("7", 7.0),
    ("0", 0.0),
    ("86400", 86_400.0),
    ("9" * 400, 60.0),
    ("99999999999999", 60.0),
    ("1.5", 1.5),
    ("-1", None),
    ("", None),
    ("soon", None),
    ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ("\u0661", None),
]


@pytest.mark.parametrize(("text", "seconds"), WAITS, ids=str)
def test_retry_after(text: str, seconds: float | None) -> None:
    assert Response(429, {"retry-after": text}, b"").retry_after_seconds() == seconds


SAID_AT = "Wed, 21 Oct 2026 07:28:00 GMT"
DATES = [
    ("Wed, 21 Oct 2026 07:33:00 GMT", SAID_AT, 300.0),
    ("Wed, 21 Oct 2026 07:28:00 GMT", SAID_AT, 0.0),
    ("Wed, 21 Oct 2020 07:28:00 GMT", SAID_AT, 0.0),
    ("Fri, 31 Dec 9999 23:59:59 GMT", SAID_AT, 60.0),
    ("Wed, 21 Oct 2026 07:33:00 -0000", SAID_AT, 300.0),
    ("Wed, 21 Oct 2015 07:33:00 GMT", "today", 0.0),
    ("Wed, 99 Oct 2026 07:33:00 GMT", SAID_AT, None),
    ("Wed, 21 Oct 99999999999 07:33:00 GMT", SAID_AT, None),
]


@pytest.mark.parametrize(("text", "date", "seconds"), DATES, ids=str)
def test_retry_after_a_date(text: str, date: str, seconds: float | None) -> None:
    """By the platform's own clock, which may show any other year than ours."""
    answer = Response(429, {"retry-after": text, "date": date}, b"")
    assert answer.retry_after_seconds() == seconds


def test_no_retry_after() -> None:
    assert Response(429, {}, b"").retry_after_seconds() is None


SAID = [
    (b'{"code":"x","detail":"y"}', "422 X: y"),
    (b'{"error":"text"}', "422 text"),
    (b"<html>", "422"),
    (b"[]", "422"),
    (b"", "422"),
]


@pytest.mark.parametrize(("body", "words"), SAID, ids=str)
def test_words_of_a_refusal(body: bytes, words: str) -> None:
    assert Response(422, {}, body).said() == words
