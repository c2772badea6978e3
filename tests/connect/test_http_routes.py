"""Connectors' routes on the public listener answer every request, also on errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aiohttp
import pytest

from backhaul.app import public_http, sockets
from backhaul.app.public_http import RequestLimits
from backhaul.connect import http_routes
from backhaul.errors import Busy
from backhaul_sdk import HttpRequest, HttpResponse, Route
from scenes.back_office import ScriptedConnector, fulfillment_record, host_of
from scenes.databases import locked
from scenes.stored import count

if TYPE_CHECKING:
    from backhaul.store import Store


class Intake:
    """Serves routes that a test adds before the first request."""

    def __init__(self) -> None:
        self.wanted: list[Route] = []
        self.url = ""

    async def post(
        self, path: str, body: bytes = b"{}", **headers: str
    ) -> tuple[int, dict[str, object], dict[str, str]]:
        sock = sockets.bind_tcp("127.0.0.1", 0, "public")
        arrivals = RequestLimits(10, 32, 1 << 20)
        app = public_http.build(
            http_routes.routes("desk", self.wanted), 1_000, arrivals
        )
        listener = sockets.Listener(app, guard=arrivals)
        await listener.start(sock)
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.post(
                    f"{sockets.url_of(sock)}{path}", data=body, headers=headers
                ) as answer,
            ):
                found = await answer.read()
                is_json = answer.content_type == "application/json"
                shown = json.loads(found) if is_json else {}
                return answer.status, shown, dict(answer.headers)
        finally:
            await listener.stop()


@pytest.fixture
def served() -> Intake:
    return Intake()


async def test_the_handler_gets_the_request_as_it_came(served: Intake) -> None:
    seen: list[HttpRequest] = []

    async def take(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return HttpResponse(202, {"accepted": True}, {"X-Told": "yes"})

    served.wanted.append(Route("POST", "/scan", take))
    status, body, headers = await served.post(
        "/connect/desk/scan", b"\x00\xff", **{"X-Device": "A7"}
    )
    assert (status, body, headers["X-Told"]) == (202, {"accepted": True}, "yes")
    (request,) = seen
    assert (request.method, request.body) == ("POST", b"\x00\xff")
    assert request.headers["x-device"] == "A7"
    assert request.path == "/connect/desk/scan"


@pytest.mark.parametrize(
    ("error", "status", "what"),
    [
        (ValueError("canary"), 500, "the connector failed; the log says why"),
        (Busy("locked", 3), 503, "not stored; send it again"),
    ],
)
async def test_an_error_of_a_handler_is_an_answer_in_json(
    error: Exception, status: int, what: str, served: Intake
) -> None:
    async def fail(_: HttpRequest) -> HttpResponse:
        raise error

    served.wanted.append(Route("POST", "/scan", fail))
    found, body, headers = await served.post("/connect/desk/scan")
    assert (found, body) == (status, {"accepted": False, "what": what})
    assert headers.get("Retry-After") == ("3" if status == 503 else None)


async def test_a_body_too_large_is_413(served: Intake) -> None:
    async def take(_: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {})

    served.wanted.append(Route("POST", "/scan", take))
    status, _, _ = await served.post("/connect/desk/scan", b"x" * 1_001)
    assert status == 413


async def test_a_scan_that_cannot_be_stored_is_answered_503(
    served: Intake, store: Store
) -> None:
    host = host_of(ScriptedConnector(), store)

    async def take(_: HttpRequest) -> HttpResponse:
        receipt = await host.emit(fulfillment_record())
        return HttpResponse(200, {"accepted": True, "what": receipt.what})

    served.wanted.append(Route("POST", "/scan", take))
    with locked(store.place):
        status, body, _ = await served.post("/connect/desk/scan")
    assert (status, body["accepted"]) == (503, False)
    assert count(store.place, "records") == 0
    status, body, _ = await served.post("/connect/desk/scan")
    assert (status, body["what"]) == (200, "on its way to the store")
