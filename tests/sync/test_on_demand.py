"""A sync that an operator requested ends, also if the platform is unreachable."""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from backhaul.app.control_socket import SOCKET_NAME
from backhaul.sync.on_demand import PATIENCE_SECONDS, SyncEndpoint
from backhaul.sync.resource_types import SyncRequest
from scenes import payloads
from scenes.daemon import backhaul
from scenes.scripted_platform import document, message
from sync.conftest import reconciling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scenes.scripted_platform import Connection, Request
    from sync.conftest import Place

AWAY = message(503)


async def ask(place: Place, *kinds: str) -> tuple[list[dict[str, Any]], float]:
    """Request a full sync; return its results and its seconds."""
    lines: list[dict[str, Any]] = []
    began = place.clock.monotonic()
    async with reconciling(place) as reconciler:
        endpoint = SyncEndpoint({"main": reconciler})
        async with asyncio.timeout(60):
            await endpoint.work(SyncRequest("full", ("main",), kinds), lines.append)
    ends = [line for line in lines if "job" in line or "trouble" in line]
    return ends, place.clock.monotonic() - began


async def test_an_unreachable_list_is_abandoned_and_the_others_are_read(
    place: Place,
) -> None:
    place.platform.respond("/orders", AWAY)
    ends, seconds = await ask(place, "orders", "customers")
    lines = {line["kind"]: line.get("trouble", "") for line in ends}
    assert lines.keys() == {"orders", "customers"}
    assert lines["customers"] == ""
    assert "503" in lines["orders"]
    assert PATIENCE_SECONDS <= seconds < 2 * PATIENCE_SECONDS


async def test_an_abandoned_pass_proves_nothing_until_it_has_ended(
    place: Place,
) -> None:
    away = [True]

    async def orders(request: Request, connection: Connection) -> None:
        (number,) = parse_qs(request.query)["page"]
        shown = [payloads.order(f"ord_{number}", customer=None)]
        more = {"total": 5, "hasMore": number != "5"}
        page = document({"data": shown, "meta": more})
        late = away and int(number) > 3
        await connection.send(AWAY if late else page)

    place.platform.respond("/orders", orders)
    ((line,), _) = await ask(place, "orders")
    assert "503" in line["trouble"]
    assert await place.store.mirror.last_passes("main") == []
    away.clear()
    ((line,), _) = await ask(place, "orders")
    assert (line["id"], line["note"], line["unrepaired"]) == (1, "", 0)


@asynccontextmanager
async def listening(endpoint: SyncEndpoint) -> AsyncIterator[Path]:
    """Serve the endpoint as the daemon does; yield a configuration for it."""
    with tempfile.TemporaryDirectory(prefix="endpoint") as name:
        folder = Path(name)
        app = web.Application()
        app.router.add_routes(endpoint.routes())
        runner = web.AppRunner(app)
        await runner.setup()
        await web.UnixSite(runner, str(folder / SOCKET_NAME)).start()
        config = folder / "backhaul.toml"
        config.write_text(
            f'state_dir = "{folder}"\n[stores.main]\n'
            'base_url = "http://127.0.0.1:1"\n'
            f'api_key = "svc_live_{"0" * 40}"\nwebhook_secrets = ["whsec_mine"]\n'
        )
        try:
            yield config
        finally:
            await runner.cleanup()


@pytest.mark.programs
async def test_the_command_reports_an_abandoned_list_and_exits_with_69(
    place: Place,
) -> None:
    place.platform.respond("/orders", AWAY)
    async with (
        reconciling(place) as reconciler,
        listening(SyncEndpoint({"main": reconciler})) as config,
    ):
        said = await asyncio.to_thread(backhaul, "reconcile", "--json", config=config)
    assert said.code == 69, said.err
    assert {w["kind"] for w in json.loads(said.out)} == {
        *("products", "levels", "customers"),
    }
    assert "main: orders: " in said.err
    assert "Backhaul keeps the rows that it has read" in said.err
