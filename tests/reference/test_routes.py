"""Every route of the reference server, and who is allowed to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp

from backhaul_reference import server
from backhaul_reference.data_folder import Folder, StoreRegistry
from reference import route_table
from reference_dashboard.conftest import Browser
from scenes.routes import without_row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from aiohttp import web

    from scenes.reference_shop import Shop

Callers = dict[str, dict[str, str]]
Table = dict[str, dict[str, int]]


def read(text: str) -> Table:
    """Read a table: its first line names the callers, the others are routes."""
    head, *lines = text.strip().splitlines()
    who = head.split()
    table: Table = {}
    for line in lines:
        method, path, *statuses = line.split()
        table[f"{method} {path}"] = dict(zip(who, map(int, statuses), strict=True))
    return table


PUBLIC, CONTROL = read(route_table.PUBLIC), read(route_table.CONTROL)


def applications(shop: Shop, data: Path) -> tuple[web.Application, web.Application]:
    """Build what both listeners serve once more, for its routes."""
    running = shop.running
    roll = StoreRegistry(Folder(data), running.access)
    return (
        server.public_app(running.platform),
        server._control_app(running.platform, roll, "empty"),
    )


async def test_every_route_has_its_row(shop: Shop, tmp_path: Path) -> None:
    offered, controlled = applications(shop, tmp_path)
    assert without_row(offered, PUBLIC) == []
    assert without_row(controlled, CONTROL) == []


async def answers(
    url: str, table: Table, callers: Callers, session: aiohttp.ClientSession
) -> Table:
    """Ask each route as each caller, and return what was answered."""
    found: Table = {row: {} for row in table}
    for who, shown in callers.items():
        for row in table:
            method, path = row.split()
            found[row][who] = await status(session, method, url + path, shown)
    return found


async def status(
    session: aiohttp.ClientSession, method: str, url: str, shown: Mapping[str, str]
) -> int:
    """Send nothing in particular: what is let in is 404, 422 or done at most."""
    sent: dict[str, Any] = {} if method in ("GET", "OPTIONS") else {"data": b"{}"}
    headers = {"Content-Type": "application/json", **shown}
    async with session.request(
        method, url, headers=headers, allow_redirects=False, **sent
    ) as answer:
        await answer.read()
        return answer.status


def wrong(found: Table, table: Table) -> list[str]:
    return [
        f"{row} as {who}: {status}, not {table[row][who]}"
        for row, statuses in found.items()
        for who, status in statuses.items()
        if status != table[row][who]
    ]


async def test_the_public_listener_gives_each_caller_his_own(shop: Shop) -> None:
    access = shop.running.access
    made = await shop.control("POST", "/stores/demo/keys", {"scopes": []})
    callers = {
        "nobody": {},
        "shopper": {"x-subdomain": "demo"},
        "staff": {"Authorization": f"Bearer {access.control_token}"},
        "scopeless": {"Authorization": f"Bearer {made.data['key']}"},
        "keyed": {"Authorization": f"Bearer {access.api_key}"},
    }
    found = await answers(access.public_url, PUBLIC, callers, shop.session)
    assert wrong(found, PUBLIC) == []


async def test_the_control_listener_gives_each_caller_his_own(shop: Shop) -> None:
    access = shop.running.access
    callers = {
        "nobody": {},
        "keyed": {"Authorization": f"Bearer {access.api_key}"},
        "staff": {"Authorization": f"Bearer {access.control_token}"},
    }
    found = await answers(access.control_url, CONTROL, callers, shop.session)
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        browser = Browser(shop, session)
        assert (await browser.log_in()).status == 303
        own = await answers(access.control_url, CONTROL, {"merchant": {}}, session)
    assert wrong(found, CONTROL) + wrong(own, CONTROL) == []
