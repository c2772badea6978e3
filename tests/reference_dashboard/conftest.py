"""A browser of the tests: it keeps cookies, finds form tokens, follows nothing."""

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scenes.reference_shop import Shop, open_shop

TOKEN = re.compile(r'name="csrf" value="([^"]+)"')
STORE = "/dashboard/stores/demo"


@dataclass(frozen=True, slots=True)
class Page:
    """An answer, read."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(slots=True)
class Browser:
    """One visitor; `csrf` is the token of the session, once logged in."""

    shop: Shop
    http: aiohttp.ClientSession
    csrf: str = ""

    async def ask(self, method: str, path: str, **sent: Any) -> Page:
        url = self.shop.running.access.control_url + path
        async with self.http.request(
            method, url, allow_redirects=False, **sent
        ) as reply:
            return Page(reply.status, reply.headers, await reply.text())

    async def get(self, path: str) -> Page:
        return await self.ask("GET", path)

    async def post(self, path: str, **fields: Any) -> Page:
        """Send a form of a store's page."""
        pairs = [("csrf", self.csrf)]
        for name, value in fields.items():
            several = value if isinstance(value, list) else [value]
            pairs += [(name, str(one)) for one in several]
        return await self.ask("POST", STORE + path, data=pairs)

    async def log_in(self, token: str = "") -> Page:
        found = TOKEN.search((await self.get("/dashboard/login")).text)
        assert found is not None
        token = token or self.shop.running.access.control_token
        form = {"csrf": found[1], "token": token}
        page = await self.ask("POST", "/dashboard/login", data=form)
        if page.status == 303:
            found = TOKEN.search((await self.get(STORE + "/orders")).text)
            assert found is not None
            self.csrf = found[1]
        return page


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
async def visitor(shop: Shop) -> AsyncIterator[Browser]:
    """Somebody who has not logged in."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as http:
        yield Browser(shop, http)


@pytest.fixture
async def browser(visitor: Browser) -> Browser:
    """A merchant who has logged in."""
    assert (await visitor.log_in()).status == 303
    return visitor
