"""Single sign-on and the second factor in a real browser, with a real provider."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from backhaul.admin.second_factor import STEP_SECONDS, code_at
from dashboard_browser.test_browsing import SERIOUS, arrives, go, log_in
from scenes.browser import Visit, open_visit
from scenes.clock import VirtualClock
from scenes.dashboard import PASSWORD, open_office
from scenes.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page

    from scenes.dashboard import Office

pytestmark = pytest.mark.programs


CLAIMS = {"sub": "u1", "preferred_username": "ann", "groups": ["warehouse"]}
RUNNING = re.compile(rb"running on (http://127\.0\.0\.1:\d+)")


@asynccontextmanager
async def provider() -> AsyncIterator[str]:
    """Run the program of a provider; return its issuer."""
    user = ("--user-claims", json.dumps(CLAIMS))
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "oidc_provider_mock", "--port", "0", *user),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert program.stderr is not None
        while not (found := RUNNING.search(await program.stderr.readline())):
            assert not program.stderr.at_eof()
        yield found[1].decode()
    finally:
        program.terminate()
        await program.communicate()


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """A dashboard with a provider, on a clock that shows the time of the provider."""
    port = free_port()
    async with provider() as issuer:
        oidc: dict[str, Any] = {
            "issuer": issuer,
            "client_id": "backhaul",
            "client_secret": "secret",
            "operators": ["warehouse"],
        }
        clock = VirtualClock(datetime.now(UTC))
        async with open_office(
            tmp_path, clock=clock, port=port, url=f"http://127.0.0.1:{port}", oidc=oidc
        ) as opened:
            await opened.add_users()
            yield opened


@pytest.fixture
async def visit(office: Office) -> AsyncIterator[Visit]:
    issuer = office.settings.admin.oidc.issuer or ""
    async with open_visit(office.settings.admin.url or "") as opened:
        opened.watch.others.add(issuer)
        yield opened


async def fits(page: Page) -> None:
    """Fail at a serious fault of a page for people who cannot see or use a mouse."""
    found = await Axe().run(page)
    faults = {each["id"]: each["impact"] for each in found.response["violations"]}
    assert {name for name, impact in faults.items() if impact in SERIOUS} == set()


async def test_a_login_and_a_logout_with_single_sign_on(
    office: Office, visit: Visit
) -> None:
    page = visit.page
    await go(office, page, "/commands")
    await fits(page)
    await page.get_by_role("link", name="Log in with single sign-on").click()
    await page.get_by_role("button", name="u1").click()
    await arrives(page, "Commands")
    await go(office, page, "/account")
    await expect(page.get_by_text("Your role is operator.")).to_be_visible()
    await fits(page)
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_role("heading", name="End Session")).to_be_visible()
    await page.get_by_role("button", name="End session").click()
    await arrives(page, "Log in")
    await go(office, page, "/")
    await arrives(page, "Log in")


async def test_the_second_factor_is_turned_on_and_required(
    office: Office, visit: Visit
) -> None:
    page = visit.page
    await log_in(office, page, "vera")
    await go(office, page, "/account")
    await fits(page)
    await page.get_by_role("link", name="Set up").click()
    await page.get_by_label("Current password").fill(PASSWORD)
    await page.get_by_role("button", name="Show the QR code").click()
    await expect(page.get_by_role("img", name="QR code of the key")).to_be_visible()
    await fits(page)
    secret = (await page.locator("pre").inner_text()).strip()
    await page.get_by_label("Code that the app shows").fill(code(office, secret))
    await page.get_by_role("button", name="Turn on").click()
    await arrives(page, "Recovery codes")
    await fits(page)
    recovery = (await page.locator("pre").inner_text()).split()
    assert len(recovery) == 10
    await page.get_by_role("button", name="Log out").click()
    await page.get_by_label("Name").fill("vera")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await arrives(page, "One-time code")
    await fits(page)
    await office.clock.advance(STEP_SECONDS)
    await page.get_by_label("Code").fill(code(office, secret))
    await page.get_by_role("button", name="Log in").click()
    await arrives(page, "Overview")


def code(office: Office, secret: str) -> str:
    return code_at(secret, int(office.clock.now().timestamp()) // STEP_SECONDS)
