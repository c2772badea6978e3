"""The shop-floor page in a real browser, and the scanner that serves it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import expect

from backhaul.connect import http_routes
from connectors.scanning import TOKEN, Dock
from scenes.browser import open_visit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page

    from scenes.browser import Visit

PATH = "/connect/dock/"


@dataclass(slots=True)
class Hall:
    """The page and its server."""

    dock: Dock
    visit: Visit
    url: str

    @property
    def page(self) -> Page:
        return self.visit.page

    async def open(self, token: str = TOKEN) -> None:
        """Open the page with a token, and wait until a scanner can type into it."""
        await self.page.goto(f"{self.url}#token={token}")
        await self.is_ready()

    async def reload(self) -> None:
        await self.page.reload()
        await self.is_ready()

    async def is_ready(self) -> None:
        await expect(self.page.locator("#code")).to_be_focused()

    async def scan(self, code: str) -> None:
        await self.page.keyboard.type(code)
        await self.page.keyboard.press("Enter")

    async def shows(self, kind: str, what: str) -> None:
        await expect(self.page.locator("#result")).to_have_class(kind)
        await expect(self.page.locator("#what")).to_contain_text(what)

    async def comes_back(self) -> None:
        """End what a test put between the page and its server."""
        self.visit.watch.complaints.clear()
        await self.page.unroute_all(behavior="wait")
        await self.page.evaluate("dispatchEvent(new Event('online'))")

    async def choose(self, mode: str) -> None:
        await self.page.get_by_text(mode, exact=True).click()


@asynccontextmanager
async def open_hall(folder: Path) -> AsyncIterator[Hall]:
    """Serve the page with all its modes, and open a browser."""
    dock = Dock({"folder": folder / "floor"})
    scanner = await dock.open()
    app = web.Application()
    app.add_routes(http_routes.routes("dock", await scanner.listen(dock.host.emit)))
    async with TestServer(app) as server:
        origin = str(server.make_url("/")).rstrip("/")
        async with open_visit(origin) as visit:
            visit.watch.refusals |= {401, 422}
            yield Hall(dock, visit, origin + PATH)
    await dock.close()
