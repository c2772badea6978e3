"""Captured webhooks are sent again to one store's receiver, with their headers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from backhaul.core import webhook
from backhaul.core.clock import SystemClock
from backhaul.errors import Unusable
from backhaul.store.inbox import Arrival
from backhaul.traffic.capture_files import ReplayTarget, deliveries_to, replay_to
from scenes.clock import VirtualClock, run_ready_tasks
from scenes.scripted_platform import unused_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AT = "2026-03-01T12:00:00.000Z"
RECEIVER = "https://office.example/webhooks/"
Headers = list[tuple[str, str]]


def delivery(store: str = "main", headers: bytes = b"{}") -> Arrival:
    return Arrival(store, "delivery", "orders/create", AT, headers, b"{}")


@asynccontextmanager
async def receiver() -> AsyncIterator[tuple[str, list[Headers]]]:
    """Take everything; keep the headers of each request as they stood on the wire."""
    came: list[Headers] = []

    async def take(request: web.BaseRequest) -> web.Response:
        came.append([(k.decode(), text.decode()) for k, text in request.raw_headers])
        return web.Response()

    async with RawTestServer(take) as server:
        yield str(server.make_url("/")), came


@pytest.mark.parametrize("name", ["x-service-topic", "X-Service-Topic"])
async def test_a_header_is_sent_once_however_it_is_written(name: str) -> None:
    headers = f'{{"{name}":"orders/updated","{webhook.HEADER.lower()}":"old"}}'
    async with receiver() as (url, came):
        run = [delivery(headers=headers.encode())]
        answers = await replay_to(ReplayTarget(url, b"key"), run, SystemClock())
    assert answers == {200: 1}
    sent = [(k.lower(), text) for k, text in came[0]]
    topics = [text for k, text in sent if k == "x-service-topic"]
    signatures = [text for k, text in sent if k == webhook.HEADER.lower()]
    assert topics == ["orders/updated"]
    assert signatures == [webhook.sign(b"{}", b"key").decode()]


async def test_a_replay_adds_missing_headers() -> None:
    async with receiver() as (url, came):
        await replay_to(ReplayTarget(url, b"key"), [delivery()], SystemClock())
    sent = {k.lower(): text for k, text in came[0]}
    assert sent["x-service-topic"] == "orders/create"
    assert sent["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("speed", "pauses"), [(1.0, [30.0, 60.0]), (60.0, [0.5, 1.0]), (None, [])]
)
async def test_pauses_are_kept_as_far_as_requested(
    speed: float | None, pauses: list[float]
) -> None:
    moments = ("12:00:00.000", "12:00:30.000", "12:01:30.000")
    run = [
        delivery()._replace(received_at=f"2026-03-01T{moment}Z") for moment in moments
    ]
    clock = VirtualClock()
    async with receiver() as (url, _):
        playing = asyncio.ensure_future(
            replay_to(ReplayTarget(url, b"key"), run, clock, speed)
        )
        while not playing.done():
            await run_ready_tasks()
            await clock.advance(60.0)
        assert await playing == {200: 3}
    assert clock.slept == pytest.approx(pauses)


async def test_no_proxy_of_the_environment_gets_the_deliveries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", unused_url())
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with receiver() as (url, _):
        answers = await replay_to(
            ReplayTarget(url, b"key"), [delivery()], SystemClock()
        )
    assert answers == {200: 1}


def test_of_several_stores_the_one_of_the_address_is_sent() -> None:
    read = Arrival("third", "read", "orders/read", AT, b"{}", b"{}")
    run = [delivery("main"), delivery("other"), read]
    assert deliveries_to(f"{RECEIVER}other/orders/create", run) == [run[1]]
    for address in (f"{RECEIVER}third", "https://office.example/hook"):
        with pytest.raises(
            Unusable, match=r"of one store, .*: main, other. End the URL"
        ):
            deliveries_to(address, run)


def test_deliveries_of_a_single_store_go_to_any_address() -> None:
    run = [delivery("main")]
    for address in (f"{RECEIVER}other", "https://office.example/hook"):
        assert deliveries_to(address, run) == run
