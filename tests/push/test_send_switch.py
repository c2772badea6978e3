"""The send switch: a store that refuses everything is stopped, probed and reopened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.push.send_switch import PROBE_SECONDS
from backhaul.settings import Push
from scenes.pushing import Scene, scene, working
from scenes.scripted_platform import document, message, problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Place

LISTS = ("/orders", "/products", "/inventory")
REFUSED = problem(401, "API_KEY_INVALID")
OPEN = document({"data": []})


@pytest.fixture
async def single(database: Place) -> AsyncIterator[Scene]:
    """One command at a time, so that each refusal can be counted."""
    async with scene(database, Push(concurrency=1)) as stage:
        yield stage


def stopped(stage: Scene) -> Any:
    return stage.dispatcher.state()["stopped"]


def shut(stage: Scene, answer: bytes) -> None:
    for path in (*LISTS, "/orders/ord_0/fulfill", "/inventory/adjust"):
        stage.platform.respond(path, answer)


CLOSING = {
    "401": REFUSED,
    "401-html": message(401, b"<html>", "text/html"),
    "403-inactive": problem(403, "STORE_INACTIVE"),
    "403-html": message(403, b"<html>", "text/html"),
    "301": message(301, Location="/login"),
    "302-html": message(302, b"<html>", "text/html", Location="/login"),
    "404-html": message(404, b"<html>", "text/html"),
    "405-html": message(405, b"<html>", "text/html"),
    "400-empty": message(400),
    "422-text": message(422, b"no"),
    "409-html": message(409, b"<html>", "text/html"),
}


@pytest.mark.parametrize("name", CLOSING)
async def test_whole_store_stops_within_one_request(name: str, single: Scene) -> None:
    shut(single, CLOSING[name])
    planned = [await single.plan("fulfill", f"ord_{number}") for number in range(4)]
    planned += [await single.plan("adjust", "prod_1")]
    async with working(single):
        await single.await_commands(1)
        for _ in range(3):
            await single.clock.await_sleeper(PROBE_SECONDS)
            await single.pass_time(PROBE_SECONDS)
            await single.run_pending()
        assert "everything" in stopped(single)
    assert {single.state(command) for command in planned} == {"planned"}
    assert len(single.server.commands) == 1
    assert single.column("failures", planned[0]) == 0
    assert len(single.logged("push.stopped")) == 1


async def test_read_that_works_opens_the_store_again(single: Scene) -> None:
    shut(single, REFUSED)
    planned = [await single.plan("fulfill", f"ord_{number}") for number in range(3)]
    async with working(single):
        await single.await_commands(1)
        single.platform.responses.clear()
        await single.clock.await_sleeper(PROBE_SECONDS)
        await single.pass_time(PROBE_SECONDS - 1)
        await single.await_commands(1)
        await single.pass_time(1)
        for command in planned:
            await single.await_state(command, "applied")
        assert stopped(single) == {}
    assert len(single.server.commands) == 4
    assert len(single.logged("push.stopped")) == 1
    assert len(single.logged("push.resumed")) == 1


async def test_probe_is_a_read_and_never_a_command(single: Scene) -> None:
    shut(single, REFUSED)
    await single.plan("fulfill", "ord_0")
    async with working(single):
        await single.await_commands(1)
        await single.clock.await_sleeper(PROBE_SECONDS)
        await single.pass_time(PROBE_SECONDS)
        await single.clock.await_sleeper(PROBE_SECONDS)
    reads = [(request.method, request.path) for request in single.server.requests[1:]]
    assert reads == [("GET", path) for path in LISTS]


async def test_reads_may_work_while_the_write_does_not(single: Scene) -> None:
    """One request for every probe, one alert for the whole outage."""
    single.platform.respond("/orders/ord_0/fulfill", REFUSED)
    command = await single.plan("fulfill", "ord_0")
    async with working(single):
        for requests in range(1, 5):
            await single.await_commands(requests)
            await single.clock.await_sleeper(PROBE_SECONDS)
            if requests == 4:
                single.platform.responses.clear()
            await single.pass_time(PROBE_SECONDS)
        await single.await_state(command, "applied")
    assert len(single.server.commands) == 5
    assert len(single.logged("push.stopped")) == 1
    assert len(single.logged("push.resumed")) == 1


async def test_missing_scope_stops_its_kind_alone(single: Scene) -> None:
    single.platform.respond("/inventory/adjust", problem(403, "INSUFFICIENT_SCOPE"))
    stuck = [await single.plan("adjust", f"prod_{number}") for number in range(3)]
    async with working(single):
        await single.await_commands(1)
        assert list(stopped(single)) == ["adjust"]
        others = [await single.plan("fulfill", "ord_1")]
        others += [await single.plan("cancel", "ord_2")]
        single.dispatcher.wake()
        for command in others:
            await single.await_state(command, "applied")
        assert len(single.server.of("POST", "/inventory/adjust")) == 1
        assert list(stopped(single)) == ["adjust"]
    assert {single.state(command) for command in stuck} == {"planned"}


async def test_commands_under_way_when_it_closes_are_still_recorded(
    database: Place,
) -> None:
    async with scene(database, Push(concurrency=8)) as stage:
        refused = await stage.plan("fulfill", "ord_0")
        others = [await stage.plan("fulfill", f"ord_{n}") for n in range(1, 8)]
        stage.platform.respond("/orders/ord_0/fulfill", REFUSED)
        async with working(stage):
            for command in others:
                await stage.await_state(command, "applied")
            await stage.run_pending()
        assert stage.state(refused) == "planned"
        assert len(stage.server.commands) == 8


THROTTLED = message(429, b'{"code":"RATE_LIMITED"}', Retry_After="7")


async def test_a_throttled_store_waits_as_long_as_the_platform_says(
    single: Scene,
) -> None:
    single.platform.respond("/orders/ord_0/fulfill", THROTTLED)
    planned = [await single.plan("fulfill", f"ord_{number}") for number in range(3)]
    async with working(single):
        await single.await_commands(1)
        single.platform.responses.clear()
        await single.clock.await_sleeper(7.0)
        await single.pass_time(6.9)
        await single.await_commands(1)
        for command in planned:
            while single.state(command) != "applied":
                await single.pass_time(0.25)
                await single.run_pending()
    assert single.column("failures", planned[0]) == 0
    assert single.attempts(planned[0])[0] == (1, "throttled", 429, 1)
    assert single.logged("push.stopped") == []


async def test_a_throttled_store_waits_until_the_date_the_platform_says(
    single: Scene,
) -> None:
    times = {"Date": "Mon, 01 Jan 2001 00:00:00 GMT"}
    times["Retry_After"] = "Mon, 01 Jan 2001 00:05:00 GMT"
    single.platform.respond("/orders/ord_0/fulfill", message(429, b"{}", **times))
    command = await single.plan("fulfill", "ord_0")
    async with working(single):
        await single.await_commands(1)
        await single.pass_time(299)
        await single.await_commands(1)
        single.platform.responses.clear()
        await single.pass_time(1.25)
        await single.await_state(command, "applied")


@pytest.mark.parametrize("wait", ["", "soon", "0"])
async def test_throttled_without_a_usable_wait_rests_a_second(
    wait: str, single: Scene
) -> None:
    single.platform.respond("/orders/ord_0/fulfill", message(429, Retry_After=wait))
    command = await single.plan("fulfill", "ord_0")
    async with working(single):
        await single.await_commands(1)
        single.platform.responses.clear()
        await single.pass_time(0.9)
        await single.await_commands(1)
        await single.pass_time(0.35)
        await single.await_state(command, "applied")


@pytest.mark.parametrize("wait", ["9" * 400, "99999999999999"], ids=["400", "14"])
async def test_absurd_wait_is_a_minute_and_no_error(wait: str, single: Scene) -> None:
    single.platform.respond("/orders/ord_0/fulfill", message(429, Retry_After=wait))
    command = await single.plan("fulfill", "ord_0")
    async with working(single):
        await single.await_commands(1)
        single.platform.responses.clear()
        await single.clock.await_sleeper(60.0)
        await single.pass_time(61)
        await single.await_state(command, "applied")
