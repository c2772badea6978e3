"""The scanner's route on a real local HTTP server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from backhaul_sdk import HttpRequest, Route
from connectors.scanning import TOKEN, Dock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def served(route: Route) -> web.RouteDef:
    """Serve a route as the host does."""

    async def handle(request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        answer = await route.handler(
            HttpRequest(request.method, route.path, headers, body)
        )
        return web.json_response(
            dict(answer.body), status=answer.status, headers=answer.headers
        )

    return web.route(route.method, f"/connect/dock{route.path}", handle)


@pytest.fixture
def dock() -> Dock:
    return Dock()


@pytest.fixture
async def url(dock: Dock) -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes(map(served, await dock.scanner().listen(dock.host.emit)))
    async with TestServer(app) as server:
        yield str(server.make_url("/connect/dock/scan"))


async def test_a_device_posts_a_scan_and_reads_the_answer(dock: Dock, url: str) -> None:
    scan = {"mode": "pack", "code": "1001", "sequence": 1, "device": "dock"}
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with ClientSession(headers=headers) as session:
        for _ in range(2):
            async with session.post(url, json=scan) as answer:
                assert answer.status == 200
                assert (await answer.json())["accepted"] is True
    assert len(dock.records()) == 1


async def test_a_request_without_a_valid_token_is_refused(dock: Dock, url: str) -> None:
    headers = {"Authorization": "Bearer \N{SNOWMAN}", "Content-Type": "text/plain"}
    async with (
        ClientSession(headers=headers) as session,
        session.post(url, data=json.dumps({"mode": "pack", "code": "1"})) as answer,
    ):
        assert answer.status == 401
        assert (await answer.json())["accepted"] is False
    assert dock.records() == []
