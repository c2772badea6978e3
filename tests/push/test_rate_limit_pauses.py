"""A pause that a rate limit requests is bounded, shown, and ended by a probe."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scenes.clock import START
from scenes.pushing import working
from scenes.scripted_platform import document, message
from scenes.waiting import until

if TYPE_CHECKING:
    from scenes.pushing import Scene

CASE = Path(__file__).parent / "cases/03-answer-429-epoch.http"
EPOCH = int(START.timestamp())
ODD = [
    *("1764090000", f"{EPOCH - 1}", f"{EPOCH * 1000}", "259200", "9" * 20, "-5"),
    *("0", "0.5", "", "soon", "5, 10", "Wed, 25 Nov 2015 17:00:00 GMT", "60"),
]
LONG = ["3600", "300", "86400", f"{EPOCH + 3_600}", "Sun, 01 Mar 2026 15:00:00 GMT"]
LONGEST_SECONDS = 300.0


def case() -> bytes:
    head, _, body = CASE.read_bytes().replace(b"\r\n", b"\n").partition(b"\n\n")
    lines = [*head.split(b"\n"), b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def throttled(value: str) -> bytes:
    body = b'{"code":"RATE_LIMITED","detail":"slow"}'
    return message(429, body, Retry_After=value)


async def planned(stage: Scene, first: bytes) -> tuple[str, str]:
    """Plan two fulfillments; the first request gets this response."""
    stage.platform.respond("/orders/ord_1/fulfill", first)
    return await stage.plan("fulfill", "ord_1"), await stage.plan("fulfill", "ord_2")


async def test_epoch_seconds_are_no_delay(stage: Scene) -> None:
    command, _ = await planned(stage, case())
    async with working(stage):
        await stage.await_state(command, "planned")
        await stage.await_commands(2)
        stage.platform.responses.clear()
        await stage.pass_time(60)
        await stage.await_state(command, "applied")


@pytest.mark.parametrize("value", ODD)
async def test_an_odd_value_stops_nothing_for_more_than_a_minute(
    stage: Scene, value: str
) -> None:
    command, other = await planned(stage, throttled(value))
    async with working(stage):
        await stage.await_commands(2)
        stage.platform.responses.clear()
        await stage.pass_time(60.5)
        await stage.await_state(command, "applied")
        await stage.await_state(other, "applied")
    assert stage.dispatcher.state()["paused"] is None


@pytest.mark.parametrize("value", LONG)
async def test_a_long_pause_is_shown_and_ends_with_one_request(
    stage: Scene, value: str
) -> None:
    stage.platform.respond("/orders/ord_1/fulfill", throttled(value))
    command = await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_commands(1)
        later = await stage.plan("fulfill", "ord_2")
        await stage.pass_time(LONGEST_SECONDS - 1)
        await stage.await_commands(1)
        pause = stage.dispatcher.state()["paused"]
        assert isinstance(pause, dict)
        assert pause["until"].startswith("2026-03-01T12:05:00.")
        assert f"429 RATE_LIMITED: slow (Retry-After: {value})" in pause["reason"]
        assert "POST /orders/ord_1/fulfill" in pause["reason"]
        (said,) = stage.logged("push.paused")
        assert pause["until"] in said
        stage.platform.responses.clear()
        await stage.pass_time(2)
        await stage.await_state(command, "applied")
        await stage.pass_time(1)
        await stage.await_state(later, "applied")
    assert stage.dispatcher.state()["paused"] is None


async def test_a_platform_that_keeps_asking_is_probed_and_logged_once(
    stage: Scene,
) -> None:
    stage.platform.respond("/orders/ord_1/fulfill", throttled("3600"))
    async with working(stage):
        await stage.plan("fulfill", "ord_1")
        await stage.await_commands(1)
        for number in (2, 3, 4):
            await stage.pass_time(LONGEST_SECONDS + 11)
            await stage.await_commands(number)
    assert len(stage.logged("push.paused")) == 1


async def test_a_rate_limit_header_stops_nothing_for_longer_either(
    stage: Scene,
) -> None:
    used_up = {
        "RateLimit_Policy": '"key";q=1;w=86400',
        "RateLimit": '"key";r=0;t=86400',
    }
    stage.platform.respond("/orders/ord_1/fulfill", document({}, 429, **used_up))
    await stage.plan("fulfill", "ord_1")
    async with working(stage):
        await stage.await_commands(1)
        pause = stage.dispatcher.state()["paused"]
        assert isinstance(pause, dict)
        assert 'RateLimit: "key";r=0;t=86400' in pause["reason"]
        stage.platform.responses.clear()
        await stage.pass_time(LONGEST_SECONDS + 2)
        await stage.await_commands(2)


async def test_reads_go_on_when_the_pause_is_over(stage: Scene) -> None:
    stage.platform.respond("/orders", throttled("86400"), document({"data": []}))
    task = asyncio.ensure_future(stage.resolver._resend.client.opens())
    await until(lambda: stage.dispatcher.state()["paused"], "the pause has begun")
    for _ in range(round(LONGEST_SECONDS / 10) + 1):
        await stage.pass_time(10)
    await until(task.done, "the list was read after the pause")
    assert task.result()


async def test_a_pause_met_by_the_check_of_the_store_is_shown_too(stage: Scene) -> None:
    """This check uses its own transport, without the guard of the store identity."""

    async def let_through() -> None:
        pass

    transport = stage.resolver._resend.client.transport.guarded(let_through)
    stage.platform.respond("/store", throttled("3600"))
    reading = asyncio.ensure_future(transport.get("/store", {}))
    await until(lambda: stage.logged("push.paused"), "the pause has begun")
    pause = stage.dispatcher.state()["paused"]
    assert isinstance(pause, dict)
    assert "GET /store" in pause["reason"]
    (said,) = stage.logged("push.paused")
    assert pause["until"] in said
    reading.cancel()
