"""A connector that hangs while it opens does not delay the others."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from backhaul.app import public_http
from backhaul.app.public_http import RequestLimits
from backhaul.connect.host import listen_all
from backhaul_sdk import HttpRequest, HttpResponse, Route
from scenes.back_office import ScriptedConnector, host_of
from scenes.clock import VirtualClock
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store
    from backhaul_sdk import Emit

SHORT_SECONDS = 0.05
LONG_SECONDS = 60.0


class HangingConnector(ScriptedConnector):
    """Does not open until a test releases it; counts the attempts."""

    def __init__(self, instance: str = "desk") -> None:
        super().__init__(instance)
        self.answers = asyncio.Event()
        self.tries = 0

    async def open(self) -> None:
        self.tries += 1
        await self.answers.wait()

    async def listen(self, emit: Emit) -> Sequence[Route]:
        return [Route("POST", "/scan", took)]


class UninterruptibleConnector(ScriptedConnector):
    """Waits for a thread even when it is cancelled, as with a lost network share."""

    def __init__(self) -> None:
        super().__init__()
        self.mounted = threading.Event()
        self.tries = 0

    async def open(self) -> None:
        self.tries += 1
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(None, self.mounted.wait)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise


async def took(_: HttpRequest) -> HttpResponse:
    return HttpResponse(200)


async def test_a_connector_that_hangs_keeps_no_other_waiting(store: Store) -> None:
    hanging, fine = (
        [HangingConnector(f"h{number}") for number in range(3)],
        ScriptedConnector("fine"),
    )
    fine.routes = [Route("POST", "/scan", took)]
    hosts = [host_of(each, store) for each in (*hanging, fine)]
    routes = await listen_all(hosts, SHORT_SECONDS)
    paths = [route.path for route in routes]
    assert paths == [f"/connect/{name}/scan" for name in ("h0", "h1", "h2", "fine")]
    reasons = [host.state()["reason"] for host in hosts]
    assert reasons == ["the connector took longer than 0.05 s to open"] * 3 + [None]


async def test_all_are_opened_at_the_same_time(store: Store) -> None:
    one, other = HangingConnector("one"), HangingConnector("other")

    async def open_the_other() -> None:
        await until(lambda: one.tries and other.tries, "both are tried")
        one.answers.set()
        other.answers.set()

    hosts = [host_of(each, store) for each in (one, other)]
    await asyncio.gather(listen_all(hosts, LONG_SECONDS), open_the_other())
    assert all(host.state()["up"] for host in hosts)


async def test_a_connector_is_retried_until_it_opens(store: Store) -> None:
    connector, clock = HangingConnector(), VirtualClock()
    host = host_of(connector, store, clock=clock)
    await host.listen(SHORT_SECONDS)
    task = asyncio.create_task(host.run())
    await clock.await_sleeper()
    connector.answers.set()
    await clock.advance(1)
    await until(lambda: host.state()["up"], "it works")
    task.cancel()
    assert connector.tries == 2


async def test_a_hanging_attempt_to_open_is_not_repeated_meanwhile(
    store: Store,
) -> None:
    connector = UninterruptibleConnector()
    host = host_of(connector, store)
    try:
        await host.listen(SHORT_SECONDS)
        await host.listen(SHORT_SECONDS)
        assert connector.tries == 1, "another thread waits for the same share"
        assert host.state()["reason"] == "the connector took longer than 0.05 s to open"
    finally:
        connector.mounted.set()
    await host.open()
    assert connector.tries == 2
    await host.close()


async def test_a_connector_that_hangs_in_listen_is_unreachable(
    store: Store,
) -> None:
    class Slow(ScriptedConnector):
        async def listen(self, emit: Emit) -> Sequence[Route]:
            await asyncio.Event().wait()
            return ()

    host = host_of(Slow(), store)
    assert await host.listen(SHORT_SECONDS) == ()
    assert "the connector took longer than 0.05 s to listen" in str(
        host.state()["reason"]
    )


async def test_closing_ends_a_try_first(store: Store) -> None:
    ended = []

    class Opening(HangingConnector):
        async def open(self) -> None:
            try:
                await super().open()
            finally:
                await asyncio.sleep(0)
                ended.append("open")

        async def close(self) -> None:
            ended.append("close")

    connector = Opening()
    host = host_of(connector, store)
    opening = asyncio.create_task(host.open())
    await until(lambda: connector.tries, "it is under way")
    opening.cancel()
    await host.close()
    assert ended == ["open", "close"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ([Route("POST", "scan", took)], "the path must begin with a slash"),
        ([Route("POST", "/scan/{", took)], "Invalid path"),
        ([Route("POST", "/{a}/{a}", took)], "Bad pattern"),
        ([Route("POST", "/scan?x=1", took)], "the path must not contain"),
        ([Route("POST", "/../other/scan", took)], "the path must not contain"),
        ([Route("PO ST", "/scan", took)], "is not allowed HTTP method"),
        ([Route("POST", "/scan", took)] * 2, "already registered"),
    ],
)
async def test_a_route_that_cannot_be_served_keeps_its_connector_away(
    wanted: list[Route], reason: str, store: Store
) -> None:
    odd, fine = ScriptedConnector("odd"), ScriptedConnector("fine")
    odd.routes, fine.routes = wanted, [Route("POST", "/scan", took)]
    hosts = [host_of(each, store) for each in (odd, fine)]
    routes = await listen_all(hosts, LONG_SECONDS)
    assert [route.path for route in routes] == ["/connect/fine/scan"]
    reason_shown = str(hosts[0].state()["reason"])
    assert (
        f"the route {wanted[0].method} {wanted[0].path} cannot be served"
        in reason_shown
    )
    assert reason in reason_shown
    public_http.build(routes, 1_000, RequestLimits(10, 32, 1 << 20))


async def test_a_pattern_of_paths_can_be_served(store: Store) -> None:
    connector = ScriptedConnector()
    connector.routes = [
        Route("POST", "/{device}/scan", took),
        Route("GET", "/{device}/scan", took),
    ]
    routes = await listen_all([host_of(connector, store)], LONG_SECONDS)
    assert len(routes) == 2
