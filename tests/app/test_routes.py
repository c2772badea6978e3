"""Every route of every listener of a running daemon, and who is allowed to use it."""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from backhaul.app.control_socket import SOCKET_NAME
from dashboard.test_roles import EXPECTED, NO_TOKEN, OF_PROGRAMS
from scenes import leftovers
from scenes.daemon import connected
from scenes.dashboard import PASSWORD
from scenes.payloads import envelope, order, signed
from scenes.reference_shop import open_shop
from scenes.requirements import require_root
from scenes.routes import without_row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from aiohttp import web

    from backhaul.app.daemon import Daemon
    from scenes.daemon import Office

BODY = envelope("orders/create", order())
COURIER = "courier-secret-" + secrets.token_hex(12)
PARCELS = f"""
[connectors.parcels]
type = "courier"
vendor = "generic"
secrets = ["{COURIER}"]
"""
WHO = ("nobody", "forger", "device", "platform", "courier")
# authorized callers get a 422 for an invalid message, or a 200 and a quarantine row
NO_SCAN = 422
PUBLIC: dict[str, tuple[int, int, int, int, int]] = {
    "POST /webhooks/main": (401, 401, 401, 200, 401),
    "POST /webhooks/nowhere": (401, 401, 401, 401, 401),
    "POST /webhooks/main/orders/create": (401, 401, 401, 200, 401),
    "POST /webhooks/nowhere/orders/create": (401, 401, 401, 401, 401),
    "POST /connect/bench/scan": (401, 401, NO_SCAN, 401, 401),
    "GET /connect/bench/": (200, 200, 200, 200, 200),
    "GET /connect/bench/page.css": (200, 200, 200, 200, 200),
    "GET /connect/bench/page.js": (200, 200, 200, 200, 200),
    "POST /connect/parcels/events": (401, 401, 401, 401, 200),
    "GET /webhooks/main": (405, 405, 405, 405, 405),
    "GET /": (404, 404, 404, 404, 404),
    "GET /metrics": (404, 404, 404, 404, 404),
    "GET /api/status": (404, 404, 404, 404, 404),
    "POST /api/changes/jobs/pause": (404, 404, 404, 404, 404),
    "POST /login": (404, 404, 404, 404, 404),
}
CONTROL: dict[str, int] = {
    "GET /healthz": 200,
    "GET /readyz": 200,
    "GET /api/status": 200,
    "GET /api/problems": 200,
    "GET /metrics": 200,
    "POST /api/changes/jobs/pause": 200,
    "POST /api/changes/nothing/known": 404,
    "POST /api/reconcile": 422,
}
"""Routes of the unix socket, which only its owner may open."""
ONLY_THERE = {
    "GET /api/problems": 404,
    "POST /api/changes/jobs/pause": 404,
    "POST /api/reconcile": 404,
}
PAUSE: dict[str, Any] = {"name": "prune", "store": None, "who": "the test"}


@dataclass(frozen=True, slots=True)
class Place:
    """A running daemon with a connector for each kind of route."""

    office: Office
    daemon: Daemon

    def app(self, name: str) -> web.Application:
        return self.daemon.served[name]

    def callers(self) -> dict[str, dict[str, str]]:
        """Return the credentials of each kind of caller, all with the same body."""
        right = signed(BODY, self.office.webhook_secret.encode())
        courier = hmac.digest(COURIER.encode(), BODY, "sha256").hex()
        wrong = {name: "x" * len(value) for name, value in right.items()}
        return {
            "nobody": {},
            "forger": wrong | {"x-signature": "0" * 64, "Authorization": "Bearer x"},
            "device": {"Authorization": f"Bearer {self.office.device_token}"},
            "platform": right,
            "courier": {"x-signature": courier},
        }


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    leftovers.issued(COURIER)
    async with (
        open_shop(tmp_path / "shop") as shop,
        connected(shop, PARCELS) as (office, daemon),
    ):
        yield Place(office, daemon)


async def statuses(
    url: str, rows: Mapping[str, object], headers: Mapping[str, str], body: bytes = BODY
) -> dict[str, int]:
    """Send a request for each row; return the statuses."""
    found = {}
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
        for row in rows:
            method, path = row.split()
            sent = body if method == "POST" else None
            given = {"Content-Type": "application/json", **headers}
            answer = await client.request(method, path, content=sent, headers=given)
            found[row] = answer.status_code
    return found


async def test_the_public_listener_gives_each_caller_his_own(place: Place) -> None:
    assert without_row(place.app("public"), PUBLIC) == []
    shown = place.callers()
    for who, expected in zip(WHO, zip(*PUBLIC.values(), strict=True), strict=True):
        found = await statuses(place.daemon.public_url, PUBLIC, shown[who])
        assert found == dict(zip(PUBLIC, expected, strict=True)), who


async def test_keys_of_other_listeners_open_no_route_of_the_admin_listener(
    place: Place,
) -> None:
    """All other keys together give no more access than no key."""
    assert without_row(place.app("admin"), [*EXPECTED, *OF_PROGRAMS]) == []
    user = {"name": "ada", "role": "admin", "password": PASSWORD, "who": "the test"}
    async with _owner(place) as owner:
        added = await owner.post("/api/changes/users/add", json=user)
    assert added.status_code == 200, added.text
    shown = {"Sec-Fetch-Site": "same-origin", "Cookie": "backhaul_session=" + "x" * 43}
    for each in place.callers().values():
        shown |= each
    shown["Content-Type"] = "application/x-www-form-urlencoded"
    expected = {row: statuses[0] for row, statuses in EXPECTED.items()} | ONLY_THERE
    assert await statuses(place.daemon.admin_url, expected, shown, b"") == expected
    found = await statuses(place.daemon.admin_url, OF_PROGRAMS, shown, b"")
    refused = {row: status for row, status in found.items() if row not in NO_TOKEN}
    # after some wrong tokens the client's address must wait
    assert set(refused.values()) == {401, 429}


async def test_the_socket_accepts_changes_and_belongs_to_its_owner(
    place: Place,
) -> None:
    app = place.app("control")
    assert without_row(app, CONTROL) == []
    found = {}
    async with _owner(place) as owner:
        for row in CONTROL:
            method, path = row.split()
            answer = await owner.request(method, path, json=PAUSE)
            found[row] = answer.status_code
    assert found == CONTROL


async def test_another_user_of_the_machine_cannot_open_the_socket(place: Place) -> None:
    path = place.office.folder / "state" / SOCKET_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    require_root("to become another user")
    for folder in (path.parent, place.office.folder):
        folder.chmod(0o711)
    asked = await asyncio.create_subprocess_exec(
        *("curl", "--silent", "--show-error", "--unix-socket", str(path)),
        "http://backhaul/healthz",
        stderr=asyncio.subprocess.PIPE,
        user=65_534,
        env={"PATH": os.environ["PATH"]},
    )
    _, said = await asked.communicate()
    assert asked.returncode == 7, said


def _owner(place: Place) -> httpx.AsyncClient:
    path = place.office.folder / "state" / SOCKET_NAME
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    return httpx.AsyncClient(
        transport=transport, base_url="http://backhaul", timeout=30
    )
